/* SPDX-License-Identifier: Apache-2.0 */

/* GPU instances and compute instances: create, query, destroy. The rules are in testbed/sim/mig.h. */
#include <stdio.h>
#include <string.h>

#include "testbed/sim/mig.h"
#include "testbed/sim/nvml/lib.h"

#define ON_GPU (1U << HANDLE_GPU)
#define ON_GI  (1U << HANDLE_GI)
#define ON_CI  (1U << HANDLE_CI)

static void *instance_handle(const struct target *of, enum handle_kind kind,
	const struct sim_gi *gi, const struct sim_ci *ci)
{
	return handle_encode((struct handle){ .slot = of->handle.slot,
		.epoch = of->handle.epoch,
		.kind = kind,
		.gi = gi->id,
		.ci = ci ? ci->id : 0,
		.serial = ci ? ci->serial : gi->serial });
}

static nvmlDevice_t gpu_handle(const struct target *of)
{
	return handle_encode(
		(struct handle){ .slot = of->handle.slot, .epoch = of->handle.epoch });
}

/*
 * Begins a change: enters the call, checks permission and that MIG is on. *g is then the GPU inside a transaction.
 */
static nvmlReturn_t change_begin(const void *handle, unsigned kinds, bool args_ok,
	struct target *t, struct sim_txn *txn, struct sim_gpu **g)
{
	const struct sim_state *s;
	struct sim_gpu before;
	nvmlReturn_t r = any_enter(handle, kinds, SIM_GROUP_MIG, args_ok, &before, t);

	if (r)
		return r;
	if (!sim_mig_table(&before.keys) || !before.mig.enabled)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!lib_may_config())
		return NVML_ERROR_NO_PERMISSION;
	r = lib_again(&s);
	if (r)
		return r;
	sim_count(s, SIM_COUNT_CHANGES);
	return lib_change(t, txn, g);
}

/* Ends a change with the result @r. */
static nvmlReturn_t change_end(nvmlReturn_t r, const struct target *t, struct sim_txn *txn,
	struct sim_gpu *g)
{
	if (r)
		return r;
	sim_gpu_sum_processes(g);
	return lib_change_mig(t, txn);
}

/* --- GPU instances --- */

static nvmlReturn_t create_nvml_gi(nvmlDevice_t d, unsigned int id, uint32_t start,
	uint32_t size, nvmlGpuInstance_t *gi)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct target t;
	struct sim_gpu *g;
	uint32_t made;
	nvmlGpuInstance_t handle = NULL;
	nvmlReturn_t r = change_begin(d, ON_GPU, gi != NULL, &t, &txn, &g);

	if (r)
		return r;
	r = sim_gi_create(g, id, start, size, &made);
	if (r == NVML_SUCCESS)
		handle = instance_handle(&t, HANDLE_GI, sim_gi_find(g, made), NULL);
	r = change_end(r, &t, &txn, g);
	if (r == NVML_SUCCESS)
		*gi = handle;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t d, unsigned int profile_id,
	nvmlGpuInstance_t *gi)
{
	return create_nvml_gi(d, profile_id, SIM_MIG_ANY, 0, gi);
}

EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t d,
	unsigned int profile_id, const nvmlGpuInstancePlacement_t *placement,
	nvmlGpuInstance_t *gi)
{
	/* A start beyond all slots is refused like any that is not in the list. */
	if (!placement || placement->start == SIM_MIG_ANY)
		return create_nvml_gi(d, profile_id, SIM_MIG_SLOTS_MAX, 0,
			placement ? gi : NULL);
	return create_nvml_gi(d, profile_id, placement->start, placement->size, gi);
}

EXPORT nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t gi)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct target t;
	struct sim_gpu *g;
	nvmlReturn_t r = change_begin(gi, ON_GI, true, &t, &txn, &g);

	return r ? r : change_end(sim_gi_destroy(g, t.handle.gi), &t, &txn, g);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t d, unsigned int profile_id,
	nvmlGpuInstance_t *gis, unsigned int *n)
{
	const struct sim_mig_table *table;
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = any_enter(d, ON_GPU, SIM_GROUP_MIG, gis && n, &g, &t);

	if (r)
		return r;
	table = sim_mig_table(&g.keys);
	if (!table)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!sim_mig_by_id(table, profile_id))
		return NVML_ERROR_INVALID_ARGUMENT;
	*n = 0;
	for (uint32_t i = 0; i < g.mig.gi_count; i++)
		if (sim_gi_profile(&g, &g.mig.gis[i])->id == profile_id &&
			lib_is_instance_visible(&g.keys, g.mig.gis[i].id, SIM_NO_INSTANCE))
			gis[(*n)++] = instance_handle(&t, HANDLE_GI, &g.mig.gis[i], NULL);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t d, unsigned int id,
	nvmlGpuInstance_t *gi)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = any_enter(d, ON_GPU, SIM_GROUP_MIG, gi != NULL, &g, &t);
	const struct sim_gi *in;

	if (r)
		return r;
	if (!sim_mig_table(&g.keys))
		return NVML_ERROR_NOT_SUPPORTED;
	in = sim_gi_find(&g, id);
	if (!in || !lib_is_instance_visible(&g.keys, id, SIM_NO_INSTANCE))
		return NVML_ERROR_NOT_FOUND;
	*gi = instance_handle(&t, HANDLE_GI, in, NULL);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t gi, nvmlGpuInstanceInfo_t *info)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = any_enter(gi, ON_GI, SIM_GROUP_MIG, info != NULL, &g, &t);
	const struct sim_mig_profile *p;

	if (r)
		return r;
	p = sim_gi_profile(&g, t.gi);
	*info = (nvmlGpuInstanceInfo_t){ .device = gpu_handle(&t),
		.id = t.gi->id,
		.profileId = p->id,
		.placement = { t.gi->start, p->size } };
	return NVML_SUCCESS;
}

/* --- profiles of compute instances --- */

/* The shape of a profile in this GI; @missing if the GI does not offer the profile. */
static nvmlReturn_t shape_enter(nvmlGpuInstance_t gi, unsigned int number, bool args_ok,
	nvmlReturn_t missing, struct sim_gpu *g, struct target *t, struct sim_ci_shape *shape)
{
	nvmlReturn_t r = any_enter(gi, ON_GI, SIM_GROUP_MIG, args_ok, g, t);
	const struct sim_mig_table *table;

	if (r)
		return r;
	table = sim_mig_table(&g->keys);
	if (!table)
		return NVML_ERROR_NOT_SUPPORTED;
	*shape = sim_ci_shape(table, sim_gi_profile(g, t->gi), number);
	return shape->slices ? NVML_SUCCESS : missing;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t gi,
	unsigned int number, unsigned int engine, nvmlComputeInstanceProfileInfo_t *info)
{
	struct sim_ci_shape shape;
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = shape_enter(gi, number,
		info && number < SIM_MIG_CI_NUMBERS &&
			engine == NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED,
		NVML_ERROR_NOT_SUPPORTED, &g, &t, &shape);
	const struct sim_mig_profile *p;

	if (r)
		return r;
	p = sim_gi_profile(&g, t.gi);
	*info = (nvmlComputeInstanceProfileInfo_t){ .id = number,
		.sliceCount = shape.slices,
		.instanceCount = shape.max,
		.multiprocessorCount = shape.sms,
		.sharedCopyEngineCount = p->engines[SIM_ENGINE_COPY],
		.sharedDecoderCount = p->engines[SIM_ENGINE_DECODE],
		.sharedEncoderCount = p->engines[SIM_ENGINE_ENCODE],
		.sharedJpegCount = p->engines[SIM_ENGINE_JPEG],
		.sharedOfaCount = p->engines[SIM_ENGINE_OFA] };
	return NVML_SUCCESS;
}

/* Version 3 is version 2 with capabilities after the name. */
EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t gi,
	unsigned int number, unsigned int engine, nvmlComputeInstanceProfileInfo_v2_t *info)
{
	nvmlComputeInstanceProfileInfo_v3_t *v3 = (void *)info;
	bool is_v2 = info && info->version == NVML_STRUCT_VERSION(*info, 2);
	bool is_v3 = info && info->version == NVML_STRUCT_VERSION(*v3, 3);
	nvmlComputeInstanceProfileInfo_t plain;
	nvmlReturn_t r = nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, number, engine,
		is_v2 || is_v3 ? &plain : NULL);
	const struct sim_mig_profile *p;
	struct sim_gpu g;
	struct target t;
	char name[SIM_NAME_MAX];

	if (r)
		return r;
	r = any_again(gi, ON_GI, SIM_GROUP_MIG, &g, &t);
	if (r)
		return r;
	p = sim_gi_profile(&g, t.gi);
	sim_mig_name(p, plain.sliceCount, name);
	*info = (nvmlComputeInstanceProfileInfo_v2_t){ .id = plain.id,
		.sliceCount = plain.sliceCount,
		.instanceCount = plain.instanceCount,
		.multiprocessorCount = plain.multiprocessorCount,
		.sharedCopyEngineCount = plain.sharedCopyEngineCount,
		.sharedDecoderCount = plain.sharedDecoderCount,
		.sharedEncoderCount = plain.sharedEncoderCount,
		.sharedJpegCount = plain.sharedJpegCount,
		.sharedOfaCount = plain.sharedOfaCount };
	(void)snprintf(info->name, sizeof(info->name), "MIG %s", name);
	if (is_v3)
		v3->capabilities = p->gfx ? NVML_COMPUTE_INSTANCE_PROFILE_CAPS_GFX : 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t gi,
	unsigned int profile_id, unsigned int *n)
{
	struct sim_ci_shape shape;
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = shape_enter(gi, profile_id, n != NULL, NVML_ERROR_INVALID_ARGUMENT, &g,
		&t, &shape);

	if (r == NVML_SUCCESS)
		*n = sim_ci_count_free(&g, t.gi, profile_id);
	return r;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t gi,
	unsigned int profile_id, nvmlComputeInstancePlacement_t *placements, unsigned int *n)
{
	struct sim_ci_shape shape;
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = shape_enter(gi, profile_id, n != NULL, NVML_ERROR_INVALID_ARGUMENT, &g,
		&t, &shape);

	if (r)
		return r;
	*n = 0;
	for (uint32_t start = 0; start < 8; start++) {
		if (!(shape.starts >> start & 1))
			continue;
		if (placements)
			placements[*n] =
				(nvmlComputeInstancePlacement_t){ start, shape.slices };
		++*n;
	}
	return NVML_SUCCESS;
}

/* --- compute instances --- */

static nvmlReturn_t create_nvml_ci(nvmlGpuInstance_t gi, unsigned int id, uint32_t start,
	uint32_t size, nvmlComputeInstance_t *ci)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct target t;
	struct sim_gpu *g;
	uint32_t made;
	nvmlComputeInstance_t handle = NULL;
	nvmlReturn_t r = change_begin(gi, ON_GI, ci != NULL, &t, &txn, &g);

	if (r)
		return r;
	r = sim_ci_create(g, t.handle.gi, id, start, size, &made);
	if (r == NVML_SUCCESS) {
		struct sim_gi *in = sim_gi_find(g, t.handle.gi);

		handle = instance_handle(&t, HANDLE_CI, in, sim_ci_find(in, made));
	}
	r = change_end(r, &t, &txn, g);
	if (r == NVML_SUCCESS)
		*ci = handle;
	return r;
}

EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t gi,
	unsigned int profile_id, nvmlComputeInstance_t *ci)
{
	return create_nvml_ci(gi, profile_id, SIM_MIG_ANY, 0, ci);
}

EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t gi,
	unsigned int profile_id, const nvmlComputeInstancePlacement_t *placement,
	nvmlComputeInstance_t *ci)
{
	if (!placement || placement->start == SIM_MIG_ANY)
		return create_nvml_ci(gi, profile_id, SIM_MIG_SLOTS_MAX, 0,
			placement ? ci : NULL);
	return create_nvml_ci(gi, profile_id, placement->start, placement->size, ci);
}

EXPORT nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t ci)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct target t;
	struct sim_gpu *g;
	nvmlReturn_t r = change_begin(ci, ON_CI, true, &t, &txn, &g);

	return r ? r : change_end(sim_ci_destroy(g, t.handle.gi, t.handle.ci), &t, &txn, g);
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t gi,
	unsigned int profile_id, nvmlComputeInstance_t *cis, unsigned int *n)
{
	struct sim_ci_shape shape;
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = shape_enter(gi, profile_id, cis && n, NVML_ERROR_INVALID_ARGUMENT, &g,
		&t, &shape);

	if (r)
		return r;
	*n = 0;
	for (uint32_t i = 0; i < t.gi->ci_count; i++)
		if (t.gi->cis[i].number == profile_id &&
			lib_is_instance_visible(&g.keys, t.gi->id, t.gi->cis[i].id))
			cis[(*n)++] = instance_handle(&t, HANDLE_CI, t.gi, &t.gi->cis[i]);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t gi, unsigned int id,
	nvmlComputeInstance_t *ci)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = any_enter(gi, ON_GI, SIM_GROUP_MIG, ci != NULL, &g, &t);
	const struct sim_ci *in;

	if (r)
		return r;
	in = sim_ci_find(t.gi, id);
	if (!in || !lib_is_instance_visible(&g.keys, t.gi->id, id))
		return NVML_ERROR_NOT_FOUND;
	*ci = instance_handle(&t, HANDLE_CI, t.gi, in);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t ci,
	nvmlComputeInstanceInfo_t *info)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = any_enter(ci, ON_CI, SIM_GROUP_MIG, info != NULL, &g, &t);

	if (r)
		return r;
	*info = (nvmlComputeInstanceInfo_t){ .device = gpu_handle(&t),
		.gpuInstance = instance_handle(&t, HANDLE_GI, t.gi, NULL),
		.id = t.ci->id,
		.profileId = t.ci->number,
		.placement = { t.ci->start, t.ci->size } };
	return NVML_SUCCESS;
}

/* The struct of version 1 ends before the placement. */
EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t ci,
	nvmlComputeInstanceInfo_t *info)
{
	nvmlComputeInstanceInfo_t whole;
	nvmlReturn_t r = nvmlComputeInstanceGetInfo_v2(ci, info ? &whole : NULL);

	if (r == NVML_SUCCESS)
		memcpy(info, &whole, offsetof(nvmlComputeInstanceInfo_t, placement));
	return r;
}
