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
 * Takes the result of one call. A list that is longer than there is room is filled as far as it goes. Graphics and MPS
 * are further lists that a GPU need not have; without the one of compute it is not known who uses the GPU.
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
	/* Under MPS each client is in the list of compute processes by its own PID, with its own bytes, and the server
	 * with its own; the list of MPS has the clients once more (driver 580, H100). Where a driver has them
	 * in that list alone, they are wanted as well. */
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
