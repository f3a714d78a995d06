/* SPDX-License-Identifier: Apache-2.0 */

/*
 * MIG as a GPU shows it on which MIG is off. The mode machine and instances come later; profile
 * queries, which a real driver answers with MIG off too, say NOT_SUPPORTED until then.
 */
#include "sim/nvml/lib.h"

#define PROFILE_COUNT 17 /* GPU instance profiles that driver 580 knows */

/* A group check for calls that only say so much. */
static nvmlReturn_t mig_enter(nvmlDevice_t d, bool args_ok, nvmlReturn_t answer)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_MIG, args_ok, &g);

	return r ? r : answer;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *current,
	unsigned int *pending)
{
	nvmlReturn_t r = mig_enter(d, current && pending, NVML_SUCCESS);

	if (r == NVML_SUCCESS)
		*current = *pending = NVML_DEVICE_MIG_DISABLE;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t d, unsigned int mode,
	nvmlReturn_t *activation)
{
	return mig_enter(d, mode <= 1 && activation, NVML_ERROR_NOT_SUPPORTED);
}

/* These three answer for GPUs without MIG as well. */
EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned int *count)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_HANDLE, count != NULL, &g);

	if (r == NVML_SUCCESS)
		*count = 0;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t d, unsigned int *is_mig)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_HANDLE, is_mig != NULL, &g);

	if (r == NVML_SUCCESS)
		*is_mig = 0;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned int index,
	nvmlDevice_t *mig)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_HANDLE, mig != NULL, &g);

	(void)index;
	return r ? r : NVML_ERROR_NOT_FOUND;
}

EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig,
	nvmlDevice_t *d)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(mig, SIM_GROUP_HANDLE, d != NULL, &g);

	return r ? r : NVML_ERROR_INVALID_ARGUMENT; /* not a MIG handle (measured) */
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t mig, unsigned int *id)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(mig, SIM_GROUP_HANDLE, id != NULL, &g);

	return r ? r : NVML_ERROR_INVALID_ARGUMENT;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t mig, unsigned int *id)
{
	return nvmlDeviceGetGpuInstanceId(mig, id);
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t mig,
	nvmlDeviceAttributes_t *attributes)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(mig, SIM_GROUP_HANDLE, attributes != NULL, &g);

	return r ? r : NVML_ERROR_NOT_SUPPORTED; /* a whole GPU (measured) */
}

EXPORT nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t mig,
	nvmlDeviceAttributes_t *attributes)
{
	return nvmlDeviceGetAttributes_v2(mig, attributes);
}

static nvmlReturn_t profile(nvmlDevice_t d, unsigned int number, bool args_ok)
{
	return mig_enter(d, args_ok && number < PROFILE_COUNT, NVML_ERROR_NOT_SUPPORTED);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t d, unsigned int number,
	nvmlGpuInstanceProfileInfo_t *info)
{
	return profile(d, number, info != NULL);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t d, unsigned int number,
	nvmlGpuInstanceProfileInfo_v2_t *info)
{
	return profile(d, number, info != NULL);
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t d, unsigned int profile_id,
	nvmlGpuInstance_t *gis, unsigned int *n)
{
	nvmlReturn_t r = mig_enter(d, gis && n, NVML_SUCCESS);

	(void)profile_id;
	if (r == NVML_SUCCESS)
		*n = 0;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t d, unsigned int id,
	nvmlGpuInstance_t *gi)
{
	(void)id;
	return mig_enter(d, gi != NULL, NVML_ERROR_NOT_FOUND);
}
