/* SPDX-License-Identifier: Apache-2.0 */

/* The processes on a GPU. All generations of the lists have one pattern; only the entry differs. */
#include <string.h>

#include "lib/base/time.h"
#include "testbed/sim/load.h"
#include "testbed/sim/nvml/lib.h"

/* Copies one process into entry @i of the caller's array. */
typedef void put_sim_process_fn(void *array, unsigned int i, const struct sim_process *p);

static void write_process_v1(void *array, unsigned int i, const struct sim_process *p)
{
	((nvmlProcessInfo_v1_t *)array)[i] =
		(nvmlProcessInfo_v1_t){ .pid = p->pid, .usedGpuMemory = p->memory_bytes };
}

static void write_process_v2(void *array, unsigned int i, const struct sim_process *p)
{
	((nvmlProcessInfo_t *)array)[i] = (nvmlProcessInfo_t){ .pid = p->pid,
		.usedGpuMemory = p->memory_bytes,
		.gpuInstanceId = p->gi,
		.computeInstanceId = p->ci };
}

static void write_process_detail(void *array, unsigned int i, const struct sim_process *p)
{
	((nvmlProcessDetail_v1_t *)array)[i] = (nvmlProcessDetail_v1_t){ .pid = p->pid,
		.usedGpuMemory = p->memory_bytes,
		.gpuInstanceId = p->gi,
		.computeInstanceId = p->ci };
}

/* Whether a process belongs to the list; the list of a MIG device has only the processes on it. */
static bool is_process_listed(const struct sim_process *p, enum sim_process_kind kind,
	const struct target *t)
{
	return p->kind == kind && (!t->ci || (p->gi == t->gi->id && p->ci == t->ci->id));
}

/* Array too small: 7 and the number needed; empty list: 0, also without an array. */
static nvmlReturn_t list_target_processes(const struct sim_gpu *g, const struct target *t,
	enum sim_process_kind kind, unsigned int *n, void *array, put_sim_process_fn *put)
{
	unsigned int room = *n, have = 0;

	/* The list of the GPU shows the processes of all instances, so it needs the monitor capability. */
	if (t->kind == HANDLE_GPU && g->mig.enabled && !lib_may_monitor())
		return NVML_ERROR_NO_PERMISSION;
	for (uint32_t i = 0; i < g->process_count; i++)
		have += is_process_listed(&g->processes[i], kind, t);
	*n = have;
	if (have > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	have = 0;
	for (uint32_t i = 0; i < g->process_count; i++)
		if (is_process_listed(&g->processes[i], kind, t))
			put(array, have++, &g->processes[i]);
	return NVML_SUCCESS;
}

static nvmlReturn_t list_nvml_processes(nvmlDevice_t d, enum sim_process_kind kind,
	unsigned int *n, void *array, put_sim_process_fn *put)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_PROCESSES, n && (array || *n == 0), &g, &t);

	return r ? r : list_target_processes(&g, &t, kind, n, array, put);
}

#define LIST(name, kind)                                                                       \
	EXPORT nvmlReturn_t nvmlDeviceGet##name##RunningProcesses(nvmlDevice_t d,              \
		unsigned int *n, nvmlProcessInfo_v1_t *infos)                                  \
	{                                                                                      \
		return list_nvml_processes(d, SIM_PROCESS_##kind, n, infos, write_process_v1); \
	}                                                                                      \
	EXPORT nvmlReturn_t nvmlDeviceGet##name##RunningProcesses_v2(nvmlDevice_t d,           \
		unsigned int *n, nvmlProcessInfo_t *infos)                                     \
	{                                                                                      \
		return list_nvml_processes(d, SIM_PROCESS_##kind, n, infos, write_process_v2); \
	}                                                                                      \
	EXPORT nvmlReturn_t nvmlDeviceGet##name##RunningProcesses_v3(nvmlDevice_t d,           \
		unsigned int *n, nvmlProcessInfo_t *infos)                                     \
	{                                                                                      \
		return list_nvml_processes(d, SIM_PROCESS_##kind, n, infos, write_process_v2); \
	}

LIST(Compute, COMPUTE)
LIST(Graphics, GRAPHICS)
LIST(MPSCompute, MPS)

EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t d,
	nvmlProcessDetailList_v1_t *detail)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_PROCESSES, detail != NULL, &g, &t);

	if (r)
		return r;
	if (detail->version != NVML_STRUCT_VERSION(*detail, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (detail->mode > SIM_PROCESS_MPS ||
		(!detail->procArray && detail->numProcArrayEntries))
		return NVML_ERROR_INVALID_ARGUMENT;
	return list_target_processes(&g, &t, (enum sim_process_kind)detail->mode,
		&detail->numProcArrayEntries, detail->procArray, write_process_detail);
}

struct samples {
	nvmlProcessUtilizationSample_t *to;
	unsigned int n, cap;
	uint64_t after_us;
	bool full;
};

static void add_utilization_sample(struct samples *s, uint32_t pid, uint64_t at_us,
	nvmlProcessUtilizationSample_t sample)
{
	if (at_us <= s->after_us)
		return;
	if (s->n == s->cap) {
		s->full = true;
		return;
	}
	sample.pid = pid;
	sample.timeStamp = at_us;
	s->to[s->n++] = sample;
}

/* Running programs: what the device daemon has measured. */
static void add_measured_samples(struct samples *s, const struct sim_load *load)
{
	struct sim_load_share shares[SIM_LOAD_ROOM];
	uint32_t n = sim_load_shares(load, s->after_us, shares);

	for (uint32_t i = 0; i < n; i++)
		add_utilization_sample(s, shares[i].pid, shares[i].at_us,
			(nvmlProcessUtilizationSample_t){ .smUtil = shares[i].percent,
				.memUtil = shares[i].percent / 2 });
}

static bool has_measured_usage(const struct sim_usage *rows, size_t n, uint32_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (rows[i].pid == pid)
			return true;
	return false;
}

/* Processes that are only declared in the state compute all the time. */
static void add_declared_samples(struct samples *s, const struct sim_gpu *g,
	const struct sim_usage *rows, size_t n)
{
	uint64_t now_us = time_wall_ns() / 1000;

	for (uint32_t i = 0; i < g->process_count; i++) {
		const struct sim_process *p = &g->processes[i];

		if (has_measured_usage(rows, n, p->pid))
			continue;
		add_utilization_sample(s, p->pid, now_us,
			(nvmlProcessUtilizationSample_t){ .smUtil = p->sm_percent,
				.memUtil = p->mem_percent,
				.encUtil = p->enc_percent,
				.decUtil = p->dec_percent });
	}
}

EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d,
	nvmlProcessUtilizationSample_t *samples, unsigned int *n,
	unsigned long long last_seen_us)
{
	struct samples s = { .to = samples, .after_us = last_seen_us };
	struct sim_usage rows[SIM_MAX_PROCESSES];
	const struct sim_state *node;
	struct sim_load load;
	uint64_t total;
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = any_enter(d, 1U << HANDLE_GPU, SIM_GROUP_PROCESS_UTILIZATION,
		n != NULL, &g, &t);

	if (r)
		return r;
	if (g.mig.enabled)
		return NVML_ERROR_NOT_SUPPORTED;
	if (!samples) {
		*n = SIM_LOAD_ROOM;
		return NVML_ERROR_INSUFFICIENT_SIZE;
	}
	r = lib_again(&node);
	if (r)
		return r;
	s.cap = *n;
	sim_load_read(node, t.handle.slot, &load);
	add_measured_samples(&s, &load);
	add_declared_samples(&s, &g, rows, sim_usage_read(node, t.handle.slot, rows, &total));
	if (s.full)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	if (!s.n)
		return NVML_ERROR_NOT_FOUND; /* *n is unchanged (measured) */
	*n = s.n;
	return NVML_SUCCESS;
}

GETTER_U32(nvmlDeviceGetAccountingMode, ACCOUNTING, NVML_FEATURE_DISABLED)

EXPORT nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t d, unsigned int *n,
	unsigned int *pids)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_ACCOUNTING, n != NULL, &g);

	(void)pids;
	if (r == NVML_SUCCESS)
		*n = 0;
	return r;
}
