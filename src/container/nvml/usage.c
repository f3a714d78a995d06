/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How much each process used the GPU: the driver's samples of the slice's processes only, with the container's
 * PIDs. Figures of the GPU as a whole (nvmlDeviceGetUtilizationRates and its samples) stay unchanged. They show
 * the true state of the GPU, including the work of other tenants.
 */
#include "container/nvml/hooks.h"
#include "container/nvml/slice.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
