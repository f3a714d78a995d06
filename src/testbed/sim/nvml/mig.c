/* SPDX-License-Identifier: Apache-2.0 */

/* MIG of a GPU as a whole: its mode, its possible partitions, and its MIG devices. */
#include <stdio.h>
#include <string.h>

#include "testbed/sim/mig.h"
#include "testbed/sim/nvml/lib.h"

#define NAME_PREFIX "MIG "

/* --- mode --- */

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *current,
	unsigned int *pending)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_MIG, current && pending, &g);

	if (r)
		return r;
	if (!sim_mig_table(&g.keys))
		return NVML_ERROR_NOT_SUPPORTED;
	*current = g.mig.enabled;
	*pending = g.mig.pending;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t d, unsigned int mode,
	nvmlReturn_t *activation)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	const struct sim_state *s;
	struct sim_gpu g, *now;
	struct target t;
	nvmlReturn_t r =
		any_enter(d, 1U << HANDLE_GPU, SIM_GROUP_MIG, mode <= 1 && activation, &g, &t);

	if (r)
		return r;
	if (!sim_mig_table(&g.keys))
		return NVML_ERROR_NOT_SUPPORTED;
	if (!lib_may_config())
		return NVML_ERROR_NO_PERMISSION;
	r = lib_again(&s);
	if (r == NVML_SUCCESS)
		r = lib_change(&t, &txn, &now);
	if (r)
		return r;
	sim_count(s, SIM_COUNT_CHANGES);
	r = sim_mig_set_mode(now, mode, activation);
	if (r)
		return r;
	return lib_change_mig(&t, &txn);
}

/* --- MIG devices --- */

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned int *count)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_HANDLE, count != NULL, &g);
	const struct sim_mig_table *t;

	if (r)
		return r;
	t = sim_mig_table(&g.keys);
	*count = t && g.mig.enabled ? t->layout->slices : 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t d, unsigned int *is_mig)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_HANDLE, is_mig != NULL, &g, &t);

	if (r == NVML_SUCCESS)
		*is_mig = t.kind == HANDLE_MIG;
	return r;
}

bool mig_device_by_index(const struct sim_gpu *g, uint32_t index, uint32_t *gi, uint32_t *ci)
{
	for (uint32_t i = 0; i < g->mig.gi_count; i++) {
		const struct sim_gi *in = &g->mig.gis[i];

		for (uint32_t k = 0; k < in->ci_count; k++)
			if (lib_is_instance_visible(&g->keys, in->id, in->cis[k].id) &&
				index-- == 0) {
				*gi = i;
				*ci = k;
				return true;
			}
	}
	return false;
}

nvmlDevice_t mig_device_handle(const struct sim_gpu *g, uint32_t slot, uint32_t epoch,
	uint32_t gi, uint32_t ci)
{
	const struct sim_gi *in = &g->mig.gis[gi];

	return handle_encode((struct handle){ .slot = slot,
		.epoch = epoch,
		.kind = HANDLE_MIG,
		.gi = in->id,
		.ci = in->cis[ci].id,
		.serial = in->cis[ci].serial });
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned int index,
	nvmlDevice_t *mig)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = any_enter(d, 1U << HANDLE_GPU, SIM_GROUP_HANDLE, mig != NULL, &g, &t);
	const struct sim_mig_table *table;
	uint32_t gi, ci;

	if (r)
		return r;
	table = sim_mig_table(&g.keys);
	if (!table || !g.mig.enabled)
		return NVML_ERROR_NOT_FOUND;
	if (index >= table->layout->slices)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!mig_device_by_index(&g, index, &gi, &ci))
		return NVML_ERROR_NOT_FOUND;
	*mig = mig_device_handle(&g, t.handle.slot, t.handle.epoch, gi, ci);
	return NVML_SUCCESS;
}

/* Only for MIG devices: a whole GPU is an invalid argument (measured). */
static nvmlReturn_t enter_mig_device(nvmlDevice_t d, bool args_ok, struct sim_gpu *g,
	struct target *t)
{
	return any_enter(d, 1U << HANDLE_MIG, SIM_GROUP_HANDLE, args_ok, g, t);
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig,
	nvmlDevice_t *d)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = enter_mig_device(mig, d != NULL, &g, &t);

	if (r == NVML_SUCCESS)
		*d = handle_encode(
			(struct handle){ .slot = t.handle.slot, .epoch = t.handle.epoch });
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t mig, unsigned int *id)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = enter_mig_device(mig, id != NULL, &g, &t);

	if (r == NVML_SUCCESS)
		*id = t.gi->id;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t mig, unsigned int *id)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = enter_mig_device(mig, id != NULL, &g, &t);

	if (r == NVML_SUCCESS)
		*id = t.ci->id;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t mig,
	nvmlDeviceAttributes_t *attributes)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = device_enter(mig, SIM_GROUP_HANDLE, attributes != NULL, &g, &t);
	const struct sim_mig_profile *p;
	struct sim_ci_shape shape;

	if (r)
		return r;
	if (t.kind == HANDLE_GPU || !sim_mig_table(&g.keys))
		return NVML_ERROR_NOT_SUPPORTED; /* a whole GPU (measured) */
	p = sim_gi_profile(&g, t.gi);
	shape = sim_ci_shape(sim_mig_table(&g.keys), p, t.ci->number);
	*attributes = (nvmlDeviceAttributes_t){ .multiprocessorCount = shape.sms,
		.sharedCopyEngineCount = p->engines[SIM_ENGINE_COPY],
		.sharedDecoderCount = p->engines[SIM_ENGINE_DECODE],
		.sharedEncoderCount = p->engines[SIM_ENGINE_ENCODE],
		.sharedJpegCount = p->engines[SIM_ENGINE_JPEG],
		.sharedOfaCount = p->engines[SIM_ENGINE_OFA],
		.gpuInstanceSliceCount = p->slices,
		.computeInstanceSliceCount = shape.slices,
		.memorySizeMB = p->memory_mib };
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t mig,
	nvmlDeviceAttributes_t *attributes)
{
	return nvmlDeviceGetAttributes_v2(mig, attributes);
}

/* --- profiles of GPU instances --- */

/* Enters a query about profiles; with MIG off, old drivers refuse it. */
static nvmlReturn_t profiles_enter(nvmlDevice_t d, bool args_ok, struct sim_gpu *g,
	const struct sim_mig_table **table)
{
	struct target t;
	nvmlReturn_t r = any_enter(d, 1U << HANDLE_GPU, SIM_GROUP_MIG, args_ok, g, &t);

	if (r)
		return r;
	*table = sim_mig_table(&g->keys);
	return *table && (g->mig.enabled || !g->keys.mig_query_needs_mode)
		       ? NVML_SUCCESS
		       : NVML_ERROR_NOT_SUPPORTED;
}

/* Finds a profile by its number (the enumerator) on this product. */
static nvmlReturn_t number_enter(nvmlDevice_t d, unsigned int number, bool args_ok,
	struct sim_gpu *g, const struct sim_mig_profile **ret)
{
	const struct sim_mig_table *t;
	nvmlReturn_t r = profiles_enter(d, args_ok && number < SIM_MIG_GI_NUMBERS, g, &t);

	if (r)
		return r;
	*ret = sim_mig_by_number(t, number);
	return *ret ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/* Finds a profile by its id (the number with which a caller creates instances). */
static nvmlReturn_t id_enter(nvmlDevice_t d, unsigned int id, bool args_ok, struct sim_gpu *g,
	const struct sim_mig_profile **ret)
{
	const struct sim_mig_table *t;
	nvmlReturn_t r = profiles_enter(d, args_ok, g, &t);

	if (r)
		return r;
	*ret = sim_mig_by_id(t, id);
	return *ret ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t d, unsigned int number,
	nvmlGpuInstanceProfileInfo_t *info)
{
	const struct sim_mig_profile *p;
	struct sim_gpu g;
	nvmlReturn_t r = number_enter(d, number, info != NULL, &g, &p);

	if (r)
		return r;
	*info = (nvmlGpuInstanceProfileInfo_t){ .id = p->id,
		.sliceCount = p->slices,
		.instanceCount = p->max,
		.multiprocessorCount = p->sms,
		.copyEngineCount = p->engines[SIM_ENGINE_COPY],
		.decoderCount = p->engines[SIM_ENGINE_DECODE],
		.encoderCount = p->engines[SIM_ENGINE_ENCODE],
		.jpegCount = p->engines[SIM_ENGINE_JPEG],
		.ofaCount = p->engines[SIM_ENGINE_OFA],
		.memorySizeMB = p->memory_mib };
	return NVML_SUCCESS;
}

static bool known_version(unsigned int version)
{
	return version == NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2) ||
	       version == NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v3_t, 3);
}

/*
 * The version word is an input only: it becomes 0 (measured). In version 3 the name is 8 bytes earlier; driver 580
 * itself writes it to the wrong place, the simulator does not.
 */
static void fill_versioned(const struct sim_mig_profile *p,
	nvmlGpuInstanceProfileInfo_v2_t *info)
{
	nvmlGpuInstanceProfileInfo_v3_t *v3 = (void *)info;

	if (info->version == NVML_STRUCT_VERSION(*v3, 3)) {
		*v3 = (nvmlGpuInstanceProfileInfo_v3_t){ .id = p->id,
			.sliceCount = p->slices,
			.instanceCount = p->max,
			.multiprocessorCount = p->sms,
			.copyEngineCount = p->engines[SIM_ENGINE_COPY],
			.decoderCount = p->engines[SIM_ENGINE_DECODE],
			.encoderCount = p->engines[SIM_ENGINE_ENCODE],
			.jpegCount = p->engines[SIM_ENGINE_JPEG],
			.ofaCount = p->engines[SIM_ENGINE_OFA],
			.memorySizeMB = p->memory_mib,
			.capabilities = p->gfx ? NVML_GPU_INSTANCE_PROFILE_CAPS_GFX : 0 };
		(void)snprintf(v3->name, sizeof(v3->name), NAME_PREFIX "%s", p->name);
		return;
	}
	*info = (nvmlGpuInstanceProfileInfo_v2_t){ .id = p->id,
		.sliceCount = p->slices,
		.instanceCount = p->max,
		.multiprocessorCount = p->sms,
		.copyEngineCount = p->engines[SIM_ENGINE_COPY],
		.decoderCount = p->engines[SIM_ENGINE_DECODE],
		.encoderCount = p->engines[SIM_ENGINE_ENCODE],
		.jpegCount = p->engines[SIM_ENGINE_JPEG],
		.ofaCount = p->engines[SIM_ENGINE_OFA],
		.memorySizeMB = p->memory_mib };
	(void)snprintf(info->name, sizeof(info->name), NAME_PREFIX "%s", p->name);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t d, unsigned int number,
	nvmlGpuInstanceProfileInfo_v2_t *info)
{
	const struct sim_mig_profile *p;
	struct sim_gpu g;
	nvmlReturn_t r = number_enter(d, number, info && known_version(info->version), &g, &p);

	if (r)
		return r;
	fill_versioned(p, info);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t d, unsigned int id,
	nvmlGpuInstanceProfileInfo_v2_t *info)
{
	const struct sim_mig_profile *p;
	struct sim_gpu g;
	nvmlReturn_t r = id_enter(d, id, info && known_version(info->version), &g, &p);

	if (r)
		return r;
	fill_versioned(p, info);
	return NVML_SUCCESS;
}

/* Without an array only the number; with an array the driver fills it and ignores *n (measured). */
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t d,
	unsigned int id, nvmlGpuInstancePlacement_t *placements, unsigned int *n)
{
	const struct sim_mig_profile *p;
	struct sim_gpu g;
	nvmlReturn_t r = id_enter(d, id, n != NULL, &g, &p);

	if (r)
		return r;
	*n = 0;
	for (uint32_t start = 0; start < SIM_MIG_SLOTS_MAX; start++) {
		if (!(p->starts >> start & 1))
			continue;
		if (placements)
			placements[*n] = (nvmlGpuInstancePlacement_t){ start, p->size };
		++*n;
	}
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t d, unsigned int id,
	nvmlGpuInstancePlacement_t *placements, unsigned int *n)
{
	return nvmlDeviceGetGpuInstancePossiblePlacements_v2(d, id, placements, n);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t d, unsigned int id,
	unsigned int *n)
{
	const struct sim_mig_profile *p;
	struct sim_gpu g;
	nvmlReturn_t r = id_enter(d, id, n != NULL, &g, &p);

	if (r)
		return r;
	*n = sim_gi_count_free(&g, p);
	return NVML_SUCCESS;
}
