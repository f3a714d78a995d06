/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the MIG state of a node through NVML: identity, layout, instances and clients of each GPU
 * (internal.h).
 */
#include "io/mig-editor/internal.h"

#include "lib/base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- one NVML session --- */

int mig_session_result(const struct mig_session *s, struct error *err, enum nvml_call call,
	nvmlReturn_t r)
{
	return r == NVML_SUCCESS ? 0 : nvml_error(err, &s->nvml, call, r);
}

int mig_session_start(struct mig_session *s, struct error *err)
{
	s->calls++;
	if (nvml_init(&s->nvml, err) < 0)
		return -1;
	s->up = true;
	return 0;
}

void mig_session_stop(struct mig_session *s)
{
	if (!s->up)
		return;
	s->calls++;
	(void)s->nvml.nvmlShutdown();
	s->up = false;
}

/* --- reading --- */

#define INSTANCES_MAX 64 /* of one profile in NVML's list; no GPU has as many */
#define PLACES_MAX    64
#define PROCESSES_MAX 8192

static int check_read_result(const struct mig_session *s, struct error *err,
	enum nvml_call call, nvmlReturn_t r)
{
	return mig_session_result(s, err, call, r);
}

/* --- layout --- */

struct profile_answer {
	nvmlGpuInstanceProfileInfo_v2_t info;
	bool named; /* .info.name is from NVML */
};

/* Does not use the v3 struct: driver 580 writes its name to the wrong offset. */
static nvmlReturn_t query_gi_profile(struct mig_session *s, nvmlDevice_t d, uint32_t number,
	struct profile_answer *ret)
{
	nvmlGpuInstanceProfileInfo_t plain = { .id = 0 };
	nvmlReturn_t r;

	*ret = (struct profile_answer){
		.info.version = NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2),
		.named = s->nvml.has[NVML_CALL_nvmlDeviceGetGpuInstanceProfileInfoV],
	};
	if (ret->named) {
		r = MIG_CALL(s, nvmlDeviceGetGpuInstanceProfileInfoV, d, number, &ret->info);
		ret->info.name[sizeof(ret->info.name) - 1] = '\0';
		if (r != NVML_ERROR_ARGUMENT_VERSION_MISMATCH &&
			r != NVML_ERROR_FUNCTION_NOT_FOUND)
			return r;
	}
	ret->named = false;
	r = MIG_CALL(s, nvmlDeviceGetGpuInstanceProfileInfo, d, number, &plain);
	ret->info = (nvmlGpuInstanceProfileInfo_v2_t){
		.id = plain.id,
		.sliceCount = plain.sliceCount,
		.instanceCount = plain.instanceCount,
		.multiprocessorCount = plain.multiprocessorCount,
		.copyEngineCount = plain.copyEngineCount,
		.decoderCount = plain.decoderCount,
		.encoderCount = plain.encoderCount,
		.jpegCount = plain.jpegCount,
		.ofaCount = plain.ofaCount,
		.memorySizeMB = plain.memorySizeMB,
	};
	return r;
}

/*
 * Computes the name (model/mig/profile.h), as names change with the driver. The attributes follow from
 * the profile's number. For numbers newer than this program they are from NVML's own name.
 */
static bool set_gi_profile_name(struct mig_gi_profile *p, const struct profile_answer *a,
	uint64_t total_mib)
{
	const char *attributes = mig_profile_attributes(p->number), *text = a->info.name;
	struct mig_profile theirs = { .attributes = "" };

	if (!strncmp(text, "MIG ", 4))
		text += 4;
	if (!attributes && a->named && mig_profile_parse(&theirs, text, NULL) == 0)
		attributes = theirs.attributes;
	if (!attributes)
		return false;
	p->name = (struct mig_profile){ .c = p->slices,
		.g = p->slices,
		.gb = mig_profile_gb(p->memory_mib, total_mib) };
	(void)snprintf(p->name.attributes, sizeof(p->name.attributes), "%s", attributes);
	return p->slices > 0 && p->name.gb > 0;
}

static int read_gi_placements(struct mig_session *s, struct mig_layout *l,
	struct mig_gi_profile *p, nvmlDevice_t d, struct error *err)
{
	nvmlGpuInstancePlacement_t placements[PLACES_MAX] = { { .start = 0 } };
	unsigned int n = PLACES_MAX;

	if (MIG_TRY(s, err, nvmlDeviceGetGpuInstancePossiblePlacements_v2, d, p->id, placements,
		    &n) < 0)
		return -1;
	for (unsigned int i = 0; i < n && i < PLACES_MAX; i++) {
		uint32_t start = placements[i].start, size = placements[i].size;

		if (!size || start >= MIG_SLOTS_MAX || size > MIG_SLOTS_MAX - start)
			return error_set(err, ERR_UNSUPPORTED,
				"NVML says that GPU instances of profile %u lie at %u:%u; expected places below %d",
				p->id, start, size, MIG_SLOTS_MAX);
		p->size = size;
		p->starts |= UINT32_C(1) << start;
		if (start + size > l->slots)
			l->slots = start + size;
	}
	return 0;
}

static int add_gi_profile(struct mig_session *s, struct mig_layout *l, nvmlDevice_t d,
	uint32_t number, const struct profile_answer *a, struct error *err)
{
	const nvmlGpuInstanceProfileInfo_v2_t *i = &a->info;
	struct mig_gi_profile p = {
		.number = number,
		.id = i->id,
		.slices = i->sliceCount,
		.max = i->instanceCount,
		.multiprocessors = i->multiprocessorCount,
		.memory_mib = i->memorySizeMB,
		.copy = i->copyEngineCount,
		.decoder = i->decoderCount,
		.encoder = i->encoderCount,
		.jpeg = i->jpegCount,
		.ofa = i->ofaCount,
	};

	if (!set_gi_profile_name(&p, a, l->memory_total_mib))
		return 0; /* newer than this program, without a name: cannot be requested */
	if (l->n == MIG_PROFILES_MAX)
		return error_set(err, ERR_LIMIT, "more than %d GPU instance profiles",
			MIG_PROFILES_MAX);
	if (read_gi_placements(s, l, &p, d, err) < 0)
		return -1;
	if (p.slices > l->slices)
		l->slices = p.slices;
	l->profiles[l->n++] = p;
	return 0;
}

static struct mig_product *product_of(struct mig_session *s, const struct mig_pci *pci)
{
	for (uint32_t i = 0; i < s->n_products; i++) {
		if (s->products[i].pci.device == pci->device &&
			s->products[i].pci.subsystem == pci->subsystem)
			return &s->products[i];
	}
	if (s->n_products == MIG_PRODUCTS_MAX)
		return NULL;
	s->products[s->n_products].pci = *pci;
	return &s->products[s->n_products++];
}

/* Reads the layout, if it is not known yet. Returns 0 also if it stays unknown (.n 0). */
static int mig_read_layout(struct mig_session *s, struct mig_gpu *g, struct error *err)
{
	struct mig_layout l = { .n = 0 };
	nvmlMemory_t memory = { .total = 0 };

	if (!g->product)
		g->product = product_of(s, &g->pub->pci);
	if (!g->product)
		return error_set(err, ERR_LIMIT, "more than %d kinds of GPUs",
			MIG_PRODUCTS_MAX);
	if (!g->product->layout.n) {
		if (MIG_TRY(s, err, nvmlDeviceGetMemoryInfo, g->d, &memory) < 0)
			return -1;
		l.memory_total_mib = memory.total / MIB;
		for (uint32_t number = 0; number < MIG_NUMBERS_MAX; number++) {
			struct profile_answer a;
			nvmlReturn_t r = query_gi_profile(s, g->d, number, &a);

			if (r == NVML_ERROR_INVALID_ARGUMENT)
				break;
			if (r == NVML_ERROR_NOT_SUPPORTED)
				continue;
			if (check_read_result(s, err,
				    NVML_CALL_nvmlDeviceGetGpuInstanceProfileInfo, r) < 0 ||
				add_gi_profile(s, &l, g->d, number, &a, err) < 0)
				return -1;
		}
		g->product->layout = l;
	}
	g->pub->layout = g->product->layout;
	return 0;
}

/* --- compute instances --- */

/* 1: found; 0: the GI has no profile of that number; < 0: error. *@end: no profile of a higher
 * number either. */
static int query_ci_kind(struct mig_session *s, struct mig_ci_kinds *k, nvmlGpuInstance_t gi,
	uint32_t number, bool *end, struct error *err)
{
	nvmlComputeInstanceProfileInfo_t info = { .id = 0 };
	nvmlReturn_t r = MIG_CALL(s, nvmlGpuInstanceGetComputeInstanceProfileInfo, gi, number,
		NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, &info);

	*end = r == NVML_ERROR_INVALID_ARGUMENT;
	if (*end || r == NVML_ERROR_NOT_SUPPORTED)
		return 0;
	if (check_read_result(s, err, NVML_CALL_nvmlGpuInstanceGetComputeInstanceProfileInfo,
		    r) < 0)
		return -1;
	if (k->n == MIG_CI_KINDS_MAX)
		return error_set(err, ERR_LIMIT, "more than %d compute instance profiles",
			MIG_CI_KINDS_MAX);
	k->kinds[k->n++] = (struct mig_ci_kind){ .number = number,
		.id = info.id,
		.slices = info.sliceCount,
		.multiprocessors = info.multiprocessorCount };
	return 1;
}

static int read_ci_kinds(struct mig_session *s, struct mig_ci_kinds *ret, nvmlGpuInstance_t gi,
	struct error *err)
{
	struct mig_ci_kinds k = { .known = true };
	bool end = false;

	for (uint32_t number = 0; number < MIG_NUMBERS_MAX && !end; number++) {
		if (query_ci_kind(s, &k, gi, number, &end, err) < 0)
			return -1;
	}
	*ret = k;
	return 0;
}

/*
 * Of several profiles with @slices slices, the one with the most multiprocessors. The 1g instance with
 * double memory has a larger default CI than its plain one (NVML's "rev1").
 */
static const struct mig_ci_kind *best_kind(const struct mig_ci_kinds *k, uint32_t slices)
{
	const struct mig_ci_kind *best = NULL;

	for (uint32_t i = 0; i < k->n; i++) {
		if (k->kinds[i].slices == slices &&
			(!best || k->kinds[i].multiprocessors > best->multiprocessors))
			best = &k->kinds[i];
	}
	return best;
}

/*
 * Nearly all requests are for the CI over a whole GI. On all products so far its number follows from
 * its slices. If that profile has all multiprocessors of the GI, it is the right one, and the function
 * does not query the others.
 */
static int guess_whole(struct mig_session *s, struct mig_ci_kinds *k,
	const struct mig_gi_profile *p, nvmlGpuInstance_t gi, struct error *err)
{
	static const uint32_t
		numbers[] = { [1] = 0, [2] = 1, [3] = 2, [4] = 3, [6] = 6, [7] = 4, [8] = 5 };
	struct mig_ci_kinds one = { .n = 0 };
	bool end;

	if (k->n || p->slices >= ARRAY_LEN(numbers) || p->slices == 5)
		return 0;
	if (query_ci_kind(s, &one, gi, numbers[p->slices], &end, err) < 0)
		return -1;
	if (one.n && one.kinds[0].slices == p->slices &&
		one.kinds[0].multiprocessors == p->multiprocessors)
		*k = one;
	return 0;
}

const struct mig_ci_kind *mig_read_ci_kind(struct mig_session *s, struct mig_product *product,
	uint32_t profile, nvmlGpuInstance_t gi, uint32_t slices, struct error *err)
{
	const struct mig_gi_profile *p = &product->layout.profiles[profile];
	struct mig_ci_kinds *k = &product->ci[profile];
	const struct mig_ci_kind *found;

	if (!k->known && slices == p->slices && guess_whole(s, k, p, gi, err) < 0)
		return NULL;
	found = best_kind(k, slices);
	if (!k->known && !found) {
		if (read_ci_kinds(s, k, gi, err) < 0)
			return NULL;
		found = best_kind(k, slices);
	}
	if (!found) {
		char name[MIG_PROFILE_NAME_MAX];

		mig_layout_name(&product->layout, profile,
			product->layout.profiles[profile].slices, name);
		(void)error_set(err, ERR_UNSUPPORTED,
			"a GPU instance %s has no compute instances of %u slices", name,
			slices);
	}
	return found;
}

static int add_ci(struct mig_session *s, struct mig_gpu *g, uint32_t at,
	nvmlComputeInstance_t ci, const struct mig_ci_kind *kind, struct error *err)
{
	struct mig_gi *gi = &g->pub->state.gi[at];
	nvmlComputeInstanceInfo_t info = { .id = 0 };
	uint32_t k;

	if (MIG_TRY(s, err, nvmlComputeInstanceGetInfo_v2, ci, &info) < 0)
		return -1;
	if (gi->n_ci == MIG_CIS_MAX)
		return error_set(err, ERR_LIMIT, "more than %d compute instances in one",
			MIG_CIS_MAX);
	for (k = gi->n_ci++; k > 0 && gi->ci[k - 1].id > info.id; k--) {
		gi->ci[k] = gi->ci[k - 1];
		g->ci[at][k] = g->ci[at][k - 1];
	}
	gi->ci[k] = (struct mig_ci){ .id = info.id,
		.number = kind->number,
		.slices = kind->slices };
	g->ci[at][k] = ci;
	return 0;
}

static int read_cis_of(struct mig_session *s, struct mig_gpu *g, uint32_t at,
	const struct mig_ci_kind *kind, uint32_t *slices, struct error *err)
{
	nvmlComputeInstance_t cis[INSTANCES_MAX] = { NULL };
	unsigned int n = INSTANCES_MAX;

	if (MIG_TRY(s, err, nvmlGpuInstanceGetComputeInstances, g->gi[at], kind->id, cis, &n) <
		0)
		return -1;
	for (unsigned int i = 0; i < n && i < INSTANCES_MAX; i++) {
		if (add_ci(s, g, at, cis[i], kind, err) < 0)
			return -1;
		*slices += kind->slices;
	}
	return 0;
}

/* Queries the compute instance over the whole first: nearly all GPU instances have just that one. */
static int read_cis(struct mig_session *s, struct mig_gpu *g, uint32_t at, struct error *err)
{
	uint32_t profile = g->pub->state.gi[at].profile;
	uint32_t whole = g->product->layout.profiles[profile].slices, slices = 0, first;
	struct mig_ci_kinds *k = &g->product->ci[profile];
	const struct mig_ci_kind *kind =
		mig_read_ci_kind(s, g->product, profile, g->gi[at], whole, err);

	if (!kind || read_cis_of(s, g, at, kind, &slices, err) < 0)
		return -1;
	if (slices >= whole)
		return 0;
	first = kind->number;
	if (!k->known && read_ci_kinds(s, k, g->gi[at], err) < 0)
		return -1;
	for (uint32_t i = 0; i < k->n && slices < whole; i++) {
		if (k->kinds[i].number != first &&
			read_cis_of(s, g, at, &k->kinds[i], &slices, err) < 0)
			return -1;
	}
	return 0;
}

/* --- GPU instances --- */

static int add_gi(struct mig_session *s, struct mig_gpu *g, nvmlGpuInstance_t gi,
	uint32_t profile, struct error *err)
{
	struct mig_state *st = &g->pub->state;
	nvmlGpuInstanceInfo_t info = { .id = 0 };
	uint32_t k;

	if (MIG_TRY(s, err, nvmlGpuInstanceGetInfo, gi, &info) < 0)
		return -1;
	if (st->n == MIG_GIS_MAX)
		return error_set(err, ERR_LIMIT, "more than %d GPU instances", MIG_GIS_MAX);
	if (info.placement.start >= MIG_SLOTS_MAX)
		return error_set(err, ERR_UNSUPPORTED, "GPU instance %u lies at slot %u",
			info.id, info.placement.start);
	for (k = st->n++; k > 0 && st->gi[k - 1].id > info.id; k--) {
		st->gi[k] = st->gi[k - 1];
		g->gi[k] = g->gi[k - 1];
	}
	st->gi[k] = (struct mig_gi){ .id = info.id,
		.profile = profile,
		.start = info.placement.start };
	g->gi[k] = gi;
	return 0;
}

static bool fits_between(const struct mig_gi_profile *p, uint32_t used, uint32_t slices)
{
	if (p->slices > slices)
		return false;
	for (uint32_t start = 0; start < MIG_SLOTS_MAX; start++) {
		uint32_t mask = (uint32_t)((UINT64_C(1) << p->size) - 1) << start;

		if (p->starts >> start & 1 && !(used & mask))
			return true;
	}
	return false;
}

static int read_gis(struct mig_session *s, struct mig_gpu *g, struct error *err)
{
	const struct mig_layout *l = &g->product->layout;
	uint32_t used = 0, slices = l->slices;

	for (uint32_t p = 0; p < l->n; p++) {
		const struct mig_gi_profile *profile = &l->profiles[p];
		nvmlGpuInstance_t gis[INSTANCES_MAX] = { NULL };
		unsigned int n = INSTANCES_MAX;
		uint32_t before = g->pub->state.n;

		if (!fits_between(profile, used, slices))
			continue;
		if (MIG_TRY(s, err, nvmlDeviceGetGpuInstances, g->d, profile->id, gis, &n) < 0)
			return -1;
		for (unsigned int i = 0; i < n && i < INSTANCES_MAX; i++) {
			if (add_gi(s, g, gis[i], p, err) < 0)
				return -1;
		}
		used = 0;
		for (uint32_t i = 0; i < g->pub->state.n; i++) {
			const struct mig_gi *gi = &g->pub->state.gi[i];

			used |= (uint32_t)((UINT64_C(1) << l->profiles[gi->profile].size) - 1)
				<< gi->start;
		}
		slices -= (g->pub->state.n - before) * profile->slices;
		if (slices > l->slices)
			slices = 0;
	}
	for (uint32_t i = 0; i < g->pub->state.n; i++) {
		if (read_cis(s, g, i, err) < 0)
			return error_prefix(err, "GPU instance %u", g->pub->state.gi[i].id);
	}
	return 0;
}

int mig_read_state(struct mig_session *s, struct mig_gpu *g, struct error *err)
{
	struct mig_state *st = &g->pub->state;
	unsigned int now = 0, pending = 0;
	nvmlReturn_t r = MIG_CALL(s, nvmlDeviceGetMigMode, g->d, &now, &pending);

	*st = (struct mig_state){ .capable = r == NVML_SUCCESS };
	g->n_clients = 0;
	if (r == NVML_ERROR_NOT_SUPPORTED)
		return 0;
	if (check_read_result(s, err, NVML_CALL_nvmlDeviceGetMigMode, r) < 0)
		return -1;
	st->enabled = now == NVML_DEVICE_MIG_ENABLE;
	st->pending_enabled = pending == NVML_DEVICE_MIG_ENABLE;
	if (!g->pub->layout.n && mig_read_layout(s, g, err) < 0)
		return -1;
	return st->enabled ? read_gis(s, g, err) : 0;
}

/* --- identity --- */

static void copy_gpu_text(char *to, size_t cap, const char *from)
{
	size_t i = 0;

	for (; i + 1 < cap && from[i]; i++)
		to[i] = from[i] > 0x20 && from[i] < 0x7f ? from[i] : '?';
	to[i] = '\0';
}

int mig_read_gpu(struct mig_session *s, struct mig_gpu *g, uint32_t index, struct error *err)
{
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
	nvmlPciInfo_t pci = { .domain = 0 };

	g->pub->index = index;
	if (MIG_TRY(s, err, nvmlDeviceGetHandleByIndex_v2, index, &g->d) < 0 ||
		MIG_TRY(s, err, nvmlDeviceGetUUID, g->d, uuid, sizeof(uuid)) < 0)
		return -1;
	uuid[sizeof(uuid) - 1] = '\0';
	copy_gpu_text(g->pub->uuid, sizeof(g->pub->uuid), uuid);
	if (MIG_TRY(s, err, nvmlDeviceGetPciInfo_v3, g->d, &pci) < 0)
		return -1;
	pci.busId[sizeof(pci.busId) - 1] = '\0';
	copy_gpu_text(g->pub->bus_id, sizeof(g->pub->bus_id), pci.busId);
	g->pub->pci =
		(struct mig_pci){ .device = pci.pciDeviceId, .subsystem = pci.pciSubSystemId };
	return mig_read_state(s, g, err);
}

int mig_read_handle(struct mig_session *s, struct mig_gpu *g, struct error *err)
{
	return MIG_TRY(s, err, nvmlDeviceGetHandleByUUID, g->pub->uuid, &g->d);
}

/* --- clients --- */

typedef nvmlReturn_t list_fn(nvmlDevice_t d, unsigned int *n, nvmlProcessInfo_t *infos);

static void add_client(struct mig_gpu *g, const nvmlProcessInfo_t *p)
{
	struct mig_state *st = &g->pub->state;
	/* with MIG on: the instance is not known */
	bool anywhere = p->gpuInstanceId == NVML_NO_INSTANCE;

	for (uint32_t i = 0; i < g->n_clients && i < MIG_PIDS_MAX; i++) {
		const struct mig_client *c = &g->clients[i];

		if (c->pid == p->pid && c->gi == p->gpuInstanceId &&
			c->ci == p->computeInstanceId)
			return; /* the process is in two lists */
	}
	if (g->n_clients < MIG_PIDS_MAX)
		g->clients[g->n_clients] = (struct mig_client){ .gi = p->gpuInstanceId,
			.ci = p->computeInstanceId,
			.pid = p->pid };
	g->n_clients++;
	for (uint32_t i = 0; i < st->n; i++) {
		if (!anywhere && st->gi[i].id != p->gpuInstanceId)
			continue;
		for (uint32_t k = 0; k < st->gi[i].n_ci; k++) {
			if (anywhere || p->computeInstanceId == NVML_NO_INSTANCE ||
				st->gi[i].ci[k].id == p->computeInstanceId)
				st->gi[i].ci[k].busy = true;
		}
	}
}

static bool is_ignored(const struct mig_session *s, uint32_t pid)
{
	for (uint32_t i = 0; i < s->n_ignored; i++) {
		if (s->ignored[i] == pid)
			return true;
	}
	return false;
}

static int read_client_list(struct mig_session *s, struct mig_gpu *g, enum nvml_call call,
	list_fn *list, struct error *err)
{
	for (unsigned int cap = 64; cap <= PROCESSES_MAX; cap *= 4) {
		nvmlProcessInfo_t *infos = calloc(cap, sizeof(*infos));
		unsigned int n = cap;
		nvmlReturn_t r;

		if (!infos)
			return error_nomem(err);
		s->calls++;
		r = list(g->d, &n, infos);
		for (unsigned int i = 0; r == NVML_SUCCESS && i < n && i < cap; i++) {
			if (!is_ignored(s, infos[i].pid))
				add_client(g, &infos[i]);
		}
		free(infos);
		/* A list that the GPU does not support counts as empty. */
		if (r == NVML_SUCCESS || r == NVML_ERROR_NOT_SUPPORTED)
			return 0;
		if (r != NVML_ERROR_INSUFFICIENT_SIZE)
			return check_read_result(s, err, call, r);
	}
	return error_set(err, ERR_LIMIT, "more than %d processes use the GPU", PROCESSES_MAX);
}

int mig_read_clients(struct mig_session *s, struct mig_gpu *g, struct error *err)
{
	g->n_clients = 0;
	for (uint32_t i = 0; i < g->pub->state.n; i++) {
		for (uint32_t k = 0; k < g->pub->state.gi[i].n_ci; k++)
			g->pub->state.gi[i].ci[k].busy = false;
	}
#define LIST(name) read_client_list(s, g, NVML_CALL_##name, s->nvml.name, err)
	if (LIST(nvmlDeviceGetComputeRunningProcesses_v3) < 0 ||
		LIST(nvmlDeviceGetGraphicsRunningProcesses_v3) < 0 ||
		LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3) < 0)
		return -1;
#undef LIST
	return 0;
}
