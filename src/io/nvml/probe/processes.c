/* SPDX-License-Identifier: Apache-2.0 */
#include "io/nvml/probe/processes.h"

static void add_probed_process(struct probe_processes *list, const nvmlProcessInfo_t *from,
	bool mps)
{
	struct gpu_process own = { .pid = from->pid,
		.gi = from->gpuInstanceId,
		.ci = from->computeInstanceId,
		.mps = mps,
		.bytes = from->usedGpuMemory == NVML_VALUE_NOT_AVAILABLE
				 ? GPU_BYTES_UNKNOWN
				 : from->usedGpuMemory };

	for (uint32_t i = 0; i < list->n; i++) {
		struct gpu_process *p = &list->v[i];

		if (p->pid != own.pid || p->gi != own.gi || p->ci != own.ci)
			continue;
		if (p->bytes == GPU_BYTES_UNKNOWN ||
			(own.bytes != GPU_BYTES_UNKNOWN && own.bytes > p->bytes))
			p->bytes = own.bytes;
		p->mps |= own.mps;
		return;
	}
	if (list->n < PROBE_PROCESSES_MAX)
		list->v[list->n++] = own;
}

/*
 * Adds the result of one call; entries beyond the room in .v are left out. A GPU need not have the lists of
 * graphics and MPS. Without the list of compute the processes on the GPU are unknown.
 */
static void add_call_processes(struct probe_processes *list, enum nvml_call call,
	nvmlReturn_t r, unsigned n)
{
	if ((r == NVML_ERROR_NOT_SUPPORTED || r == NVML_ERROR_FUNCTION_NOT_FOUND) &&
		call != NVML_CALL_nvmlDeviceGetComputeRunningProcesses_v3)
		return;
	if (r != NVML_SUCCESS) {
		if (list->code == 0) {
			list->code = (int32_t)r;
			list->call = (uint32_t)call;
		}
		return;
	}
	for (unsigned i = 0; i < n && i < PROBE_PROCESSES_MAX; i++)
		add_probed_process(list, &list->raw[i],
			call == NVML_CALL_nvmlDeviceGetMPSComputeRunningProcesses_v3);
}

void probe_processes(struct probe *p, uint32_t gpu, nvmlDevice_t device,
	struct probe_processes *ret)
{
	unsigned int n = PROBE_PROCESSES_MAX;
	nvmlReturn_t r;

	ret->n = 0;
	ret->code = 0;
	ret->call = 0;
	/*
	 * Under MPS the list of compute processes has each client, by its own PID and with its own bytes, and the
	 * server with its own. The list of MPS has the clients once more (driver 580, H100). A driver may have the
	 * clients in the list of MPS alone, so that list is read, too.
	 */
	r = PROBE_CALL(p, gpu, nvmlDeviceGetComputeRunningProcesses_v3, device, &n, ret->raw);
	add_call_processes(ret, NVML_CALL_nvmlDeviceGetComputeRunningProcesses_v3, r, n);
	n = PROBE_PROCESSES_MAX;
	r = PROBE_CALL(p, gpu, nvmlDeviceGetGraphicsRunningProcesses_v3, device, &n, ret->raw);
	add_call_processes(ret, NVML_CALL_nvmlDeviceGetGraphicsRunningProcesses_v3, r, n);
	n = PROBE_PROCESSES_MAX;
	r = PROBE_CALL(p, gpu, nvmlDeviceGetMPSComputeRunningProcesses_v3, device, &n,
		ret->raw);
	add_call_processes(ret, NVML_CALL_nvmlDeviceGetMPSComputeRunningProcesses_v3, r, n);
	if (ret->code != 0)
		ret->n = 0;
}
