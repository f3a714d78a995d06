/* SPDX-License-Identifier: Apache-2.0 */

/* Who uses the unit, and for how long each of them computed. Under MIG NVML says no times. */
#include "gpu/worker/sample-unit.h"

static int by_pid(const void *a, const void *b)
{
	const struct sample_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Of a GPU in MIG mode the list has the processes of all instances. */
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
	uint64_t from_us = s->asked_wall_us, now_us = time_wall_ns() / 1000;
	unsigned int n = n_room;
	nvmlReturn_t code;

	s->asked_wall_us = 0;
	if (!sample_may_ask(r, SAMPLE_ASK_SHARES))
		return;
	code = PROBE_CALL(r->ask.p, r->ask.gpu, nvmlDeviceGetProcessUtilization, r->ask.device,
		room, &n, s->shares.last_seen_us);
	if (code == NVML_ERROR_NOT_FOUND) { /* no sample since the last time: nobody computed */
		n = 0;
		code = NVML_SUCCESS;
	}
	if (!sample_answered(r, SAMPLE_ASK_SHARES, code))
		return;
	s->asked_wall_us = now_us;
	share_count(&s->shares, room, n < n_room ? n : n_room, from_us, now_us, r->users,
		&r->n_users, ARRAY_LEN(r->users));
}

/*
 * Without GPM the GPU's own time is a guess from one moment (sample.c), and the processes' times, which are of
 * the whole interval, say that it cannot have been less.
 */
static void fit_times(struct sample_reading *r)
{
	struct worker_unit *u = r->unit;
	uint64_t sum = share_sum(r->users, r->n_users);

	if ((u->known & WORKER_UNIT_BUSY) && r->gpm_busy < 0 && sum > u->busy_ns)
		u->busy_ns = sum < u->interval_ns ? sum : u->interval_ns;
	if (u->known & WORKER_UNIT_BUSY)
		share_fit(r->users, r->n_users, u->busy_ns,
			r->gpm_busy < 0 ? 0 : SHARE_RAISE_NS);
	else
		share_fit(r->users, r->n_users, u->interval_ns, 0);
}

void sample_users(struct sample_reading *r, const struct probe_processes *list,
	nvmlProcessUtilizationSample_t *room, uint32_t n_room)
{
	if (!sample_answered(r, SAMPLE_ASK_PROCESSES, (nvmlReturn_t)list->code))
		return;
	r->unit->known |= WORKER_UNIT_PROCESSES;
	list_users(r, list);
	if (r->of == FIELD_OF_GPU)
		count_times(r, room, n_room);
	fit_times(r);
	qsort(r->users, r->n_users, sizeof r->users[0], by_pid);
}
