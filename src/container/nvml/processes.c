/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The processes of the slice in place of the GPU's.
 *
 * Lists. Those of the arbiter's list, with the container's PIDs and the charged bytes. All of them are listed as
 * compute processes. Under MPS too, where the driver would list them as MPS clients; so no process is in two lists.
 * A hook calls the driver first, without space for an answer, so that the driver's errors stay errors.
 *
 * Usage. How much each process used the GPU: the driver's samples of the slice's processes only, with the
 * container's PIDs. Figures of the GPU as a whole (nvmlDeviceGetUtilizationRates and its samples) stay unchanged.
 * They show the true state of the GPU, including the work of other tenants.
 */
#include "container/nvml/hooks.h"
#include "container/nvml/slice.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* --- lists --- */

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

/* --- usage --- */

/*
 * Finds the process that the driver calls @pid. Drivers differ in the PID namespace that they use, and a list
 * has only PIDs of one namespace. @host: it is the node's; else the container's. NULL: no process of the slice.
 */
static const struct own_process *figures_own(const struct own_process *own, unsigned int n,
	unsigned int pid, bool host)
{
	for (unsigned int i = 0; i < n; i++)
		if ((host ? own[i].host_pid : own[i].pid) == pid)
			return &own[i];
	return NULL;
}

/*
 * Whether a list of the driver's has the node's PIDs. The list has @n PIDs that are @stride bytes apart. True:
 * one of them is the node's PID of a process of the slice. False: the list has the container's PIDs, or no
 * process of the slice.
 */
static bool figures_host_pids(const struct own_process *own, unsigned int own_count,
	const void *pids, unsigned int n, size_t stride)
{
	const char *at = pids;

	for (unsigned int i = 0; i < n; i++, at += stride) {
		unsigned int pid;

		memcpy(&pid, at, sizeof(pid));
		if (figures_own(own, own_count, pid, true))
			return true;
	}
	return false;
}

struct own_list {
	struct own_process *processes;
	unsigned int count;
};

/* NVML_SUCCESS also without processes, as on a GPU that is not the slice's. The caller frees own->processes. */
static nvmlReturn_t read_own_processes(nvmlDevice_t device, struct own_list *own)
{
	int gpu = nvml_slice_gpu(device), n = 0;

	*own = (struct own_list){ .count = 0 };
	if (gpu == NVML_SLICE_GPU_UNKNOWN)
		return NVML_ERROR_UNKNOWN;
	if (gpu >= 0)
		n = nvml_slice_processes(gpu, &own->processes);
	if (n < 0)
		return NVML_ERROR_UNKNOWN;
	own->count = (unsigned int)n;
	return NVML_SUCCESS;
}

/*
 * Moves the entries of the slice's processes to the front, gives them the container's PIDs, and clears the rest.
 * An entry has @size bytes, with a PID at offset @pid_at. Returns the number of entries that are left.
 */
static unsigned int filter_own_entries(const struct own_list *own, void *array, unsigned int n,
	size_t size, size_t pid_at)
{
	char *entries = array;
	bool host = figures_host_pids(own->processes, own->count, entries + pid_at, n, size);
	unsigned int kept = 0;

	for (unsigned int i = 0; i < n; i++) {
		const struct own_process *p;
		unsigned int pid;

		memcpy(&pid, entries + i * size + pid_at, sizeof(pid));
		p = figures_own(own->processes, own->count, pid, host);
		if (!p)
			continue;
		memmove(entries + kept * size, entries + i * size, size);
		memcpy(entries + kept * size + pid_at, &p->pid, sizeof(p->pid));
		kept++;
	}
	memset(entries + kept * size, 0, (n - kept) * size);
	return kept;
}

/* Filters a driver's answer of *n entries. @none: the result if no entry is left. */
static nvmlReturn_t filter_usage_entries(nvmlDevice_t device, void *array, unsigned int *n,
	size_t size, size_t pid_at, nvmlReturn_t none)
{
	struct own_list own;
	unsigned int got = *n;
	nvmlReturn_t r = read_own_processes(device, &own);

	if (r) {
		memset(array, 0, got * size);
		*n = 0;
		return r;
	}
	*n = filter_own_entries(&own, array, got, size, pid_at);
	free(own.processes);
	return *n || !got ? NVML_SUCCESS : none;
}

HOOK nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
	nvmlProcessUtilizationSample_t *samples, unsigned int *n,
	unsigned long long last_seen_us)
{
	nvmlReturn_t r =
		REAL(nvmlDeviceGetProcessUtilization)(device, samples, n, last_seen_us);

	if (r || !samples || !nvml_slice_is_active())
		return r;
	return filter_usage_entries(device, samples, n, sizeof(*samples),
		offsetof(nvmlProcessUtilizationSample_t, pid), NVML_ERROR_NOT_FOUND);
}

HOOK nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
	nvmlProcessesUtilizationInfo_v1_t *info)
{
	nvmlReturn_t r;

	if (!nvml_slice_is_active() || !info)
		return REAL(nvmlDeviceGetProcessesUtilizationInfo)(device, info);
	if (info->version != NVML_STRUCT_VERSION(*info, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	r = REAL(nvmlDeviceGetProcessesUtilizationInfo)(device, info);
	if (r || !info->procUtilArray)
		return r;
	return filter_usage_entries(device, info->procUtilArray, &info->processSamplesCount,
		sizeof(*info->procUtilArray), offsetof(nvmlProcessUtilizationInfo_v1_t, pid),
		NVML_ERROR_NOT_FOUND);
}

HOOK nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *n,
	unsigned int *pids)
{
	nvmlReturn_t r = REAL(nvmlDeviceGetAccountingPids)(device, n, pids);

	if (r || !pids || !nvml_slice_is_active())
		return r;
	return filter_usage_entries(device, pids, n, sizeof(*pids), 0, NVML_SUCCESS);
}

/* The driver knows a process by the node's PID. A PID that is not, or no longer, of the slice is not found: on
 * the node it may belong to another tenant's process. */
HOOK nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned int pid,
	void *stats)
{
	const struct own_process *p;
	struct own_list own;
	nvmlReturn_t r;

	if (!nvml_slice_is_active() || !stats)
		return REAL(nvmlDeviceGetAccountingStats)(device, pid, stats);
	r = read_own_processes(device, &own);
	if (r)
		return r;
	p = figures_own(own.processes, own.count, pid, false);
	r = NVML_ERROR_NOT_FOUND;
	if (p)
		r = REAL(nvmlDeviceGetAccountingStats)(device, p->host_pid, stats);
	free(own.processes);
	return r;
}
