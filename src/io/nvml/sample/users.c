/* SPDX-License-Identifier: Apache-2.0 */

/* The processes on the device, and for how long each computed. Under MIG NVML gives no times. */
#include "io/nvml/sample/reading.h"

#include <stdlib.h>

#include "lib/base/time.h"

static int compare_sample_pids(const void *a, const void *b)
{
	const struct sample_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* The list of a GPU in MIG mode has the processes of all instances. */
static void list_users(struct sample_reading *r, const struct probe_processes *list)
{
	const struct sample_state *s = r->state;

	for (uint32_t i = 0; i < list->n; i++) {
		const struct gpu_process *p = &list->v[i];
		bool other = s->gi != GPU_NO_INSTANCE &&
			     (p->gi != s->gi || (p->ci != GPU_NO_INSTANCE && p->ci != s->ci));

		if (!other)
			r->users[r->n_users++] =
				(struct sample_process){ .pid = p->pid, .bytes = p->bytes };
	}
}

static void count_times(struct sample_reading *r, nvmlProcessUtilizationSample_t *room,
	uint32_t n_room)
{
	struct sample_state *s = r->state;
	uint64_t from_us = s->queried_wall_us, now_us = time_wall_ns() / 1000;
	unsigned int n = n_room;
	nvmlReturn_t code;

	s->queried_wall_us = 0;
	if (!sample_may_query(r, SAMPLE_QUERY_SHARES))
		return;
	code = PROBE_CALL(r->query.p, r->query.gpu, nvmlDeviceGetProcessUtilization,
		r->query.device, room, &n, from_us ? from_us : now_us);
	if (code == NVML_ERROR_NOT_FOUND) { /* no sample since: no process computed */
		n = 0;
		code = NVML_SUCCESS;
	}
	if (!sample_answered(r, SAMPLE_QUERY_SHARES, code))
		return;
	s->queried_wall_us = now_us;
	share_count(room, n < n_room ? n : n_room, from_us, now_us, r->users, &r->n_users,
		ARRAY_LEN(r->users));
}

/* The driver has no samples of MPS clients: the samples of their server include them (driver 580, H100). */
static void forget_clients(struct sample_reading *r, const struct probe_processes *list)
{
	for (uint32_t i = 0; i < list->n; i++)
		for (uint32_t k = 0; list->v[i].mps && k < r->n_users; k++)
			if (r->users[k].pid == list->v[i].pid && r->users[k].busy_ns == 0)
				r->users[k].busy_known = false;
}

static bool any_known(const struct sample_reading *r)
{
	for (uint32_t i = 0; i < r->n_users; i++)
		if (r->users[i].busy_known)
			return true;
	return false;
}

/*
 * Without GPM the GPU's busy time is a guess from its last sampling period (sample.c). The processes' times are of
 * the whole interval, so the GPU's cannot be less. Where no process has a known time, there are no samples to wait
 * for.
 */
static void fit_times(struct sample_reading *r)
{
	struct worker_device *device = r->device;
	struct share_state *s = &r->state->shares;
	bool busy_known = (device->known & WORKER_DEVICE_BUSY) != 0, gpm = r->gpm_busy >= 0;
	struct share_time t = { .interval_ns = device->interval_ns,
		.busy_ns = busy_known ? device->busy_ns : device->interval_ns,
		.reserve_ns = busy_known && gpm && any_known(r) ? SHARE_RESERVE_NS : 0 };
	uint64_t sum = share_wanted(s, r->users, r->n_users), busy;

	if (busy_known && !gpm && sum > t.busy_ns)
		t.busy_ns = sum < device->interval_ns ? sum : device->interval_ns;
	busy = share_settle(s, r->users, &r->n_users, ARRAY_LEN(r->users), &t);
	if (busy_known)
		device->busy_ns = busy;
}

void sample_users(struct sample_reading *r, const struct probe_processes *list,
	nvmlProcessUtilizationSample_t *room, uint32_t n_room)
{
	if (!sample_answered(r, SAMPLE_QUERY_PROCESSES, (nvmlReturn_t)list->code))
		return;
	r->device->known |= WORKER_DEVICE_PROCESSES;
	list_users(r, list);
	if (r->of == FIELD_OF_GPU)
		count_times(r, room, n_room);
	forget_clients(r, list);
	fit_times(r);
	qsort(r->users, r->n_users, sizeof r->users[0], compare_sample_pids);
}
