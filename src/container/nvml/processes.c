/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The processes of the slice in place of the GPU's: those of the arbiter's list, with the container's PIDs and
 * the charged bytes. All of them are listed as compute processes. Under MPS too, where the driver would list
 * them as MPS clients; so no process is in two lists.
 *
 * A hook calls the driver first, without space for an answer, so that the driver's errors stay errors.
 */
#include "container/nvml/hooks.h"
#include "container/nvml/slice.h"

#include <stdlib.h>

/* Instance of the processes on a MIG device; elsewhere: no instance. */
struct mig_instance {
	unsigned int gi, ci;
};

typedef void put_own_process_fn(void *array, unsigned int i, const struct own_process *p,
	const struct mig_instance *instance);

static void write_slice_process_v1(void *array, unsigned int i, const struct own_process *p,
	const struct mig_instance *instance)
{
	(void)instance;
	((nvmlProcessInfo_v1_t *)array)[i] =
		(nvmlProcessInfo_v1_t){ .pid = p->pid, .usedGpuMemory = p->used };
}

static void write_slice_process_v2(void *array, unsigned int i, const struct own_process *p,
	const struct mig_instance *instance)
{
	((nvmlProcessInfo_t *)array)[i] = (nvmlProcessInfo_t){ .pid = p->pid,
		.usedGpuMemory = p->used,
		.gpuInstanceId = instance->gi,
		.computeInstanceId = instance->ci };
}

static void write_slice_process_detail(void *array, unsigned int i, const struct own_process *p,
	const struct mig_instance *instance)
{
	((nvmlProcessDetail_v1_t *)array)[i] = (nvmlProcessDetail_v1_t){ .pid = p->pid,
		.usedGpuMemory = p->used,
		.gpuInstanceId = instance->gi,
		.computeInstanceId = instance->ci };
}

/* With too little space: NVML_ERROR_INSUFFICIENT_SIZE (7) and the number needed. With nothing to list: 0
 * entries, also without an array. */
static nvmlReturn_t list_own(nvmlDevice_t device, int gpu, unsigned int *n, void *array,
	put_own_process_fn *put)
{
	struct mig_instance instance = { NVML_NO_INSTANCE, NVML_NO_INSTANCE };
	struct own_process *own;
	unsigned int room = *n, have = 0;
	int count;

	count = nvml_slice_processes(gpu, &own);
	if (count < 0)
		return NVML_ERROR_UNKNOWN;
	for (int i = 0; i < count; i++)
		have += own[i].used > 0;
	*n = have;
	if (have > room) {
		free(own);
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	if (REAL(nvmlDeviceGetGpuInstanceId)(device, &instance.gi) ||
		REAL(nvmlDeviceGetComputeInstanceId)(device, &instance.ci))
		instance = (struct mig_instance){ NVML_NO_INSTANCE, NVML_NO_INSTANCE };
	have = 0;
	for (int i = 0; i < count; i++)
		if (own[i].used > 0)
			put(array, have++, &own[i], &instance);
	free(own);
	return NVML_SUCCESS;
}

/* Follows the driver's answer @r: the slice's list, or an empty one if @none (slices list no process
 * of this kind). */
static nvmlReturn_t list_slice_processes(nvmlReturn_t r, nvmlDevice_t device, bool none,
	unsigned int *n, void *array, put_own_process_fn *put)
{
	int gpu;

	if (r != NVML_SUCCESS && r != NVML_ERROR_INSUFFICIENT_SIZE)
		return r;
	if (!array && *n > 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	gpu = nvml_slice_gpu(device);
	if (gpu == NVML_SLICE_GPU_UNKNOWN)
		return NVML_ERROR_UNKNOWN;
	if (gpu >= 0 && !none)
		return list_own(device, gpu, n, array, put);
	*n = 0; /* no process of the slice uses a GPU outside it */
	return NVML_SUCCESS;
}

#define LIST(name, type, none, put)                                                           \
	HOOK nvmlReturn_t name(nvmlDevice_t device, unsigned int *n, type *infos)             \
	{                                                                                     \
		unsigned int zero = 0;                                                        \
                                                                                              \
		if (!nvml_slice_is_active() || !n)                                            \
			return REAL(name)(device, n, infos);                                  \
		return list_slice_processes(REAL(name)(device, &zero, NULL), device, none, n, \
			infos, put);                                                          \
	}

LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, false, write_slice_process_v1)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_t, false, write_slice_process_v2)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, false, write_slice_process_v2)
LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, true, write_slice_process_v1)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_t, true, write_slice_process_v2)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, true, write_slice_process_v2)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, true,
	write_slice_process_v1)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_t, true,
	write_slice_process_v2)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t, true,
	write_slice_process_v2)

#define MODE_COMPUTE 0
#define MODE_ALL     3

HOOK nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
	nvmlProcessDetailList_v1_t *detail)
{
	nvmlProcessDetailList_v1_t real;

	if (!nvml_slice_is_active() || !detail)
		return REAL(nvmlDeviceGetRunningProcessDetailList)(device, detail);
	if (detail->version != NVML_STRUCT_VERSION(real, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	real = (nvmlProcessDetailList_v1_t){ .version = detail->version, .mode = detail->mode };
	return list_slice_processes(REAL(nvmlDeviceGetRunningProcessDetailList)(device, &real),
		device, detail->mode != MODE_COMPUTE && detail->mode != MODE_ALL,
		&detail->numProcArrayEntries, detail->procArray, write_slice_process_detail);
}
