/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/mig.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* NVML's enumerator of the 1g profile with twice the memory, and of its own CI profile. */
#define GI_DOUBLE_MEMORY 9
#define CI_DOUBLE_MEMORY 7

/* --- tables --- */

const struct sim_mig_table *sim_mig_table(const struct sim_keys *keys)
{
	if (!keys->mig_capable)
		return NULL;
	for (size_t i = 0; i < sim_mig_table_count; i++)
		if (!strncmp(sim_mig_tables[i].product, keys->product, sizeof(keys->product)))
			return &sim_mig_tables[i];
	return NULL;
}

const struct sim_mig_profile *sim_mig_by_number(const struct sim_mig_table *t, uint32_t number)
{
	for (uint32_t i = 0; i < t->profile_count; i++)
		if (t->profiles[i].number == number)
			return &t->profiles[i];
	return NULL;
}

const struct sim_mig_profile *sim_mig_by_id(const struct sim_mig_table *t, uint32_t id)
{
	for (uint32_t i = 0; i < t->profile_count; i++)
		if (t->profiles[i].id == id)
			return &t->profiles[i];
	return NULL;
}

const struct sim_mig_profile *sim_gi_profile(const struct sim_gpu *g, const struct sim_gi *gi)
{
	const struct sim_mig_table *t = sim_mig_table(&g->keys);

	/* An operator may change the product of a GPU that has instances. */
	return t ? &t->profiles[gi->profile % t->profile_count]
		 : &sim_mig_tables[0].profiles[0];
}

struct sim_ci_shape sim_ci_shape(const struct sim_mig_table *t, const struct sim_mig_profile *p,
	uint32_t number)
{
	static const uint8_t slices[SIM_MIG_CI_NUMBERS] = { 1, 2, 3, 4, 7, 8, 6, 1, 0 };
	static const uint8_t align[] = { 0, 1, 2, 4, 4, 8, 8, 8, 8 };
	uint32_t c = number < SIM_MIG_CI_NUMBERS ? slices[number] : 0;
	const struct sim_mig_profile *single = sim_mig_by_number(t, 0);
	struct sim_ci_shape shape = { .slices = c };

	if (!c || c > p->slices || (c < p->slices && 2 * c > p->slices + 1U) ||
		(number == CI_DOUBLE_MEMORY && p->number != GI_DOUBLE_MEMORY))
		return (struct sim_ci_shape){ .slices = 0 };
	shape.sms = c < p->slices && single ? c * single->sms : p->sms;
	for (uint32_t start = 0; start + c <= p->slices; start += align[c]) {
		shape.starts |= UINT32_C(1) << start;
		shape.max++;
	}
	return shape;
}

uint32_t sim_ci_default(const struct sim_mig_table *t, const struct sim_mig_profile *p)
{
	uint32_t number = 0;

	if (p->number == GI_DOUBLE_MEMORY)
		return CI_DOUBLE_MEMORY;
	while (sim_ci_shape(t, p, number).slices != p->slices)
		number++;
	return number;
}

void sim_mig_name(const struct sim_mig_profile *p, uint32_t ci_slices, char *ret)
{
	if (ci_slices && ci_slices != p->slices)
		(void)snprintf(ret, SIM_NAME_MAX, "%uc.%s", ci_slices, p->name);
	else
		(void)snprintf(ret, SIM_NAME_MAX, "%s", p->name);
}

static uint64_t mix_uuid_hash(uint64_t h, uint64_t word)
{
	h = (h ^ word) * UINT64_C(0xD6E8FEB86659FD93);
	return h ^ (h >> 32);
}

/* In the form of a name-based UUID, version 5 with the variant of RFC 4122; the hash is a private one. */
void sim_mig_uuid(const struct sim_keys *keys, uint32_t gi, uint32_t ci, char *ret)
{
	uint64_t a = UINT64_C(0x9E3779B97F4A7C15), b;

	for (size_t i = 0; i < sizeof(keys->uuid) && keys->uuid[i]; i++)
		a = mix_uuid_hash(a, (unsigned char)keys->uuid[i] + 1U);
	a = mix_uuid_hash(a, (uint64_t)gi << 32 | ci);
	b = mix_uuid_hash(mix_uuid_hash(a, 1), 2);
	(void)snprintf(ret, SIM_MIG_UUID_MAX, "MIG-%08" PRIx32 "-%04x-5%03x-%04x-%012" PRIx64,
		(uint32_t)(a >> 32), (unsigned)(a >> 16) & 0xFFFF, (unsigned)a & 0xFFF,
		(unsigned)(0x8000 | ((b >> 48) & 0x3FFF)), b & UINT64_C(0xFFFFFFFFFFFF));
}

/* --- instances --- */

static const struct sim_gi *find_gi_by_id(const struct sim_gpu *g, uint32_t gi)
{
	for (uint32_t i = 0; i < g->mig.gi_count && i < SIM_MAX_GIS; i++)
		if (g->mig.gis[i].id == gi)
			return &g->mig.gis[i];
	return NULL;
}

static const struct sim_ci *find_ci_by_id(const struct sim_gi *gi, uint32_t ci)
{
	for (uint32_t i = 0; i < gi->ci_count && i < SIM_MAX_CIS; i++)
		if (gi->cis[i].id == ci)
			return &gi->cis[i];
	return NULL;
}

struct sim_gi *sim_gi_find(struct sim_gpu *g, uint32_t gi)
{
	const struct sim_gi *at = find_gi_by_id(g, gi);

	return at ? &g->mig.gis[at - g->mig.gis] : NULL;
}

struct sim_ci *sim_ci_find(struct sim_gi *gi, uint32_t ci)
{
	const struct sim_ci *at = find_ci_by_id(gi, ci);

	return at ? &gi->cis[at - gi->cis] : NULL;
}

/* The resources of the GPU that instances occupy. */
struct mig_used {
	uint32_t slots; /* bit s: slot s */
	uint32_t slices;
	uint32_t of_profile; /* instances of the requested profile */
	uint32_t engines[SIM_ENGINE_COUNT];
};

static uint32_t build_mig_slot_mask(uint32_t start, uint32_t size)
{
	return ((UINT32_C(1) << size) - 1) << start;
}

static struct mig_used count_used_resources(const struct sim_gpu *g,
	const struct sim_mig_profile *of)
{
	struct mig_used taken = { .slots = 0 };

	for (uint32_t i = 0; i < g->mig.gi_count; i++) {
		const struct sim_mig_profile *p = sim_gi_profile(g, &g->mig.gis[i]);

		taken.slots |= build_mig_slot_mask(g->mig.gis[i].start, p->size);
		taken.slices += p->slices;
		taken.of_profile += p == of;
		for (int e = 0; e < SIM_ENGINE_COUNT; e++)
			taken.engines[e] += p->engines[e];
	}
	return taken;
}

static uint32_t engines_total(const struct sim_mig_table *t, int engine)
{
	uint32_t max = 0;

	for (uint32_t i = 0; i < t->profile_count; i++)
		if (t->profiles[i].engines[engine] > max)
			max = t->profiles[i].engines[engine];
	return max;
}

static uint32_t get_smaller_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t count_remaining_units(uint32_t all, uint32_t taken, uint32_t of_each)
{
	return taken < all ? (all - taken) / of_each : 0;
}

uint32_t sim_gi_count_free(const struct sim_gpu *g, const struct sim_mig_profile *p)
{
	const struct sim_mig_table *t = sim_mig_table(&g->keys);
	struct mig_used taken = count_used_resources(g, p);
	uint32_t room = 0;

	if (!t)
		return 0;
	/* The starts of a profile do not overlap each other. */
	for (uint32_t i = 0; i < p->order_count; i++)
		room += !(taken.slots & build_mig_slot_mask(p->order[i], p->size));
	room = get_smaller_u32(room,
		count_remaining_units(t->layout->slices, taken.slices, p->slices));
	room = get_smaller_u32(room, count_remaining_units(p->max, taken.of_profile, 1));
	for (int e = 0; e < SIM_ENGINE_COUNT; e++)
		if (p->engines[e])
			room = get_smaller_u32(room, count_remaining_units(engines_total(t, e),
							     taken.engines[e], p->engines[e]));
	return room;
}

static uint32_t get_used_slices(const struct sim_gi *gi)
{
	uint32_t taken = 0;

	for (uint32_t i = 0; i < gi->ci_count; i++)
		taken |= build_mig_slot_mask(gi->cis[i].start, gi->cis[i].size);
	return taken;
}

uint32_t sim_ci_count_free(const struct sim_gpu *g, const struct sim_gi *gi, uint32_t number)
{
	const struct sim_mig_table *t = sim_mig_table(&g->keys);
	struct sim_ci_shape shape = { .slices = 0 };
	uint32_t room = 0, taken = get_used_slices(gi);

	if (t)
		shape = sim_ci_shape(t, sim_gi_profile(g, gi), number);
	for (uint32_t start = 0; start < 8 && shape.slices; start++)
		room += shape.starts >> start & 1 &&
			!(taken & build_mig_slot_mask(start, shape.slices));
	return room;
}

/* --- processes --- */

static bool is_process_on(const struct sim_process *p, uint32_t gi, uint32_t ci)
{
	return p->gi == gi && (ci == SIM_NO_INSTANCE || p->ci == ci);
}

uint64_t sim_mig_process_bytes(const struct sim_gpu *g, uint32_t gi, uint32_t ci)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < g->process_count; i++)
		bytes += is_process_on(&g->processes[i], gi, ci) ? g->processes[i].memory_bytes
								 : 0;
	return bytes;
}

static bool sim_mig_in_use(const struct sim_gpu *g, uint32_t gi, uint32_t ci)
{
	for (uint32_t i = 0; i < g->process_count; i++)
		if (is_process_on(&g->processes[i], gi, ci))
			return true;
	return false;
}

static uint32_t ci_sms(const struct sim_gpu *g, const struct sim_gi *gi,
	const struct sim_ci *ci)
{
	const struct sim_mig_table *t = sim_mig_table(&g->keys);

	return t ? sim_ci_shape(t, sim_gi_profile(g, gi), ci->number).sms : 0;
}

uint32_t sim_mig_load_percent(const struct sim_gpu *g, uint32_t gi)
{
	const struct sim_gi *in = find_gi_by_id(g, gi);
	uint32_t load = 0, sms = in ? sim_gi_profile(g, in)->sms : 0;

	for (uint32_t i = 0; in && sms && i < g->process_count; i++) {
		const struct sim_process *p = &g->processes[i];
		const struct sim_ci *ci = p->gi == gi ? find_ci_by_id(in, p->ci) : NULL;

		load += ci ? (p->sm_percent * ci_sms(g, in, ci) + sms - 1) / sms : 0;
	}
	return get_smaller_u32(load, 100);
}

uint32_t sim_mig_share_percent(const struct sim_gpu *g, uint32_t gi, uint32_t ci)
{
	const struct sim_gi *in = find_gi_by_id(g, gi);
	const struct sim_ci *at = in ? find_ci_by_id(in, ci) : NULL;

	if (!at || !g->keys.sm_count)
		return 100;
	return get_smaller_u32(
		(ci_sms(g, in, at) * 100 + g->keys.sm_count - 1) / g->keys.sm_count, 100);
}

/* --- changes --- */

nvmlReturn_t sim_mig_set_mode(struct sim_gpu *g, uint32_t mode, nvmlReturn_t *activation)
{
	*activation = NVML_SUCCESS;
	if (g->mig.gi_count && !mode) {
		*activation = NVML_ERROR_IN_USE;
		return NVML_ERROR_IN_USE;
	}
	g->mig.pending = mode;
	if (g->mig.enabled == mode)
		return NVML_SUCCESS;
	if (g->keys.mig_reset_required)
		*activation = NVML_ERROR_RESET_REQUIRED;
	else if (g->keys.mig_busy || g->process_count)
		*activation = NVML_ERROR_IN_USE;
	else
		g->mig.enabled = mode;
	return NVML_SUCCESS;
}

static uint32_t next_serial(struct sim_gpu *g)
{
	g->mig.serial = (g->mig.serial + 1) & 0xFFFF;
	return g->mig.serial;
}

/* *start: the requested start, or on return the driver's choice. */
static nvmlReturn_t choose_start(const struct sim_gpu *g, const struct sim_mig_profile *p,
	uint32_t size, uint32_t *start)
{
	uint32_t slots = count_used_resources(g, p).slots;

	if (*start != SIM_MIG_ANY) {
		if (size != p->size || *start >= SIM_MIG_SLOTS_MAX ||
			!(p->starts >> *start & 1))
			return NVML_ERROR_INVALID_ARGUMENT;
		return slots & build_mig_slot_mask(*start, p->size)
			       ? NVML_ERROR_INSUFFICIENT_RESOURCES
			       : NVML_SUCCESS;
	}
	for (uint32_t i = 0; i < p->order_count; i++)
		if (!(slots & build_mig_slot_mask(p->order[i], p->size))) {
			*start = p->order[i];
			return NVML_SUCCESS;
		}
	return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t sim_gi_create(struct sim_gpu *g, uint32_t profile_id, uint32_t start,
	uint32_t size, uint32_t *ret_gi)
{
	const struct sim_mig_table *t = sim_mig_table(&g->keys);
	const struct sim_mig_profile *p = t ? sim_mig_by_id(t, profile_id) : NULL;
	uint32_t at = g->mig.gi_count;
	nvmlReturn_t r;

	if (!t || !g->mig.enabled)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!p)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (g->keys.mig_busy)
		return NVML_ERROR_IN_USE;
	r = choose_start(g, p, size, &start);
	if (r)
		return r;
	if (at >= SIM_MAX_GIS || !sim_gi_count_free(g, p))
		return NVML_ERROR_INSUFFICIENT_RESOURCES;
	*ret_gi = t->layout->ids[p->size][start];
	for (; at > 0 && g->mig.gis[at - 1].id > *ret_gi; at--)
		g->mig.gis[at] = g->mig.gis[at - 1];
	g->mig.gis[at] = (struct sim_gi){ .id = *ret_gi,
		.profile = (uint32_t)(p - t->profiles),
		.start = start,
		.serial = next_serial(g) };
	g->mig.gi_count++;
	return NVML_SUCCESS;
}

nvmlReturn_t sim_gi_destroy(struct sim_gpu *g, uint32_t gi)
{
	struct sim_gi *in = sim_gi_find(g, gi);
	size_t behind;

	if (!in)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (in->ci_count)
		return NVML_ERROR_IN_USE;
	behind = (size_t)(&g->mig.gis[g->mig.gi_count] - in) - 1;
	memmove(in, in + 1, behind * sizeof(*in));
	g->mig.gi_count--;
	memset(&g->mig.gis[g->mig.gi_count], 0, sizeof(*in));
	return NVML_SUCCESS;
}

static nvmlReturn_t choose_slice(const struct sim_gi *gi, const struct sim_ci_shape *shape,
	uint32_t size, uint32_t *start)
{
	uint32_t taken = get_used_slices(gi);

	if (*start != SIM_MIG_ANY) {
		if (size != shape->slices || *start >= 8 || !(shape->starts >> *start & 1))
			return NVML_ERROR_INVALID_ARGUMENT;
		return taken & build_mig_slot_mask(*start, size)
			       ? NVML_ERROR_INSUFFICIENT_RESOURCES
			       : NVML_SUCCESS;
	}
	for (uint32_t s = 8; s-- > 0;)
		if (shape->starts >> s & 1 &&
			!(taken & build_mig_slot_mask(s, shape->slices))) {
			*start = s;
			return NVML_SUCCESS;
		}
	return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t sim_ci_create(struct sim_gpu *g, uint32_t gi, uint32_t number, uint32_t start,
	uint32_t size, uint32_t *ret_ci)
{
	const struct sim_mig_table *t = sim_mig_table(&g->keys);
	struct sim_gi *in = sim_gi_find(g, gi);
	struct sim_ci_shape shape;
	uint32_t at = 0;
	nvmlReturn_t r;

	if (!t || !in)
		return NVML_ERROR_INVALID_ARGUMENT;
	shape = sim_ci_shape(t, sim_gi_profile(g, in), number);
	if (!shape.slices)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = choose_slice(in, &shape, size, &start);
	if (r)
		return r;
	if (in->ci_count >= SIM_MAX_CIS)
		return NVML_ERROR_INSUFFICIENT_RESOURCES;
	while (at < in->ci_count && in->cis[at].id == at)
		at++;
	memmove(&in->cis[at + 1], &in->cis[at], (in->ci_count - at) * sizeof(in->cis[0]));
	in->cis[at] = (struct sim_ci){ .id = at,
		.number = number,
		.start = start,
		.size = shape.slices,
		.serial = next_serial(g) };
	in->ci_count++;
	*ret_ci = at;
	return NVML_SUCCESS;
}

nvmlReturn_t sim_ci_destroy(struct sim_gpu *g, uint32_t gi, uint32_t ci)
{
	struct sim_gi *in = sim_gi_find(g, gi);
	struct sim_ci *at = in ? sim_ci_find(in, ci) : NULL;
	size_t behind;

	if (!at)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (sim_mig_in_use(g, gi, ci))
		return NVML_ERROR_IN_USE;
	behind = (size_t)(&in->cis[in->ci_count] - at) - 1;
	memmove(at, at + 1, behind * sizeof(*at));
	in->ci_count--;
	memset(&in->cis[in->ci_count], 0, sizeof(*at));
	return NVML_SUCCESS;
}

void sim_mig_reset(struct sim_gpu *g)
{
	memset(g->mig.gis, 0, sizeof(g->mig.gis));
	g->mig.gi_count = 0;
	g->mig.enabled = g->mig.pending;
	memset(g->processes, 0, sizeof(g->processes));
	g->process_count = 0;
	sim_gpu_sum_processes(g);
}

void sim_mig_reboot(struct sim_gpu *g)
{
	if (g->keys.architecture >= NVML_DEVICE_ARCH_HOPPER)
		g->mig.pending = NVML_DEVICE_MIG_DISABLE;
	sim_mig_reset(g);
}
