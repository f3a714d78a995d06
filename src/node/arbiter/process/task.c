/* SPDX-License-Identifier: Apache-2.0 */

/* A process with memory: its end, and whether it runs under MPS. */
#include "node/arbiter/internal.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

/* ---- its end ---------------------------------------------------------------------------------- */

/* The memory of a process is free from its end on, unless a child of it lives. So the arbiter asks for NVML's
 * figures then, if a subscriber reads them. */

/* The watch of a process with memory; in its task's .user. */
struct task_death {
	struct arbiter *arbiter;
	struct grants_task *task;
	struct fd_watch *watch;
};

static void on_death(void *arg)
{
	struct task_death *d = arg;
	struct arbiter *a = d->arbiter;

	log_debug("process is gone", LOG_UINT("pid", d->task->pid));
	d->watch = fd_watch_stop(d->watch);
	if (readings_possible(a))
		grants_task_abandon(d->task);
	else
		grants_task_remove(&a->grants, d->task);
	/* Memory that other processes have open by IPC stays. NVML counts it for them from now on. */
	readings_request_soon(a);
}

void task_on_ended(void *arbiter, struct grants_task *t)
{
	struct task_death *d = t->user;

	(void)arbiter;
	if (!d)
		return;
	d->watch = fd_watch_stop(d->watch);
	free(d);
}

int task_watch(struct arbiter *a, struct grants_task *t, int *pidfd, struct error *err)
{
	struct task_death *d;

	if (t->user)
		return 0;
	d = calloc(1, sizeof(*d));
	if (!d)
		return error_nomem(err);
	d->arbiter = a;
	d->task = t;
	if (fd_watch_start(&d->watch, a->loop, *pidfd, on_death, d, err) < 0) {
		free(d);
		return -1;
	}
	(void)steal_fd(pidfd);
	t->user = d;
	return 0;
}

/* ---- MPS -------------------------------------------------------------------------------------- */

/*
 * Processes that should run under MPS and do not. If the MPS pipe directory is not reachable, the driver runs a
 * program without MPS and reports nothing. No limit of MPS applies to such a process, and the hardware rotates
 * between it and the processes under MPS. Each process reports in its page what the driver does with it
 * (abi/slice-page.h). The arbiter only logs it and shows it in status.
 */

/* The process writes this word: values other than these two mean nothing. */
static uint32_t get_registration_state(const struct grants_member *m)
{
	uint32_t all = SLICE_MPS_NOT_SAID;

	for (unsigned int i = 0; m->page && i < m->slice->n_gpus; i++) {
		uint32_t mps =
			atomic_load_explicit(&m->page->gpus[i].mps, memory_order_relaxed);

		if (mps == SLICE_MPS_OUTSIDE)
			return mps;
		if (mps == SLICE_MPS_INSIDE)
			all = mps;
	}
	return all;
}

uint32_t mps_get_member_state(const struct grants_member *m)
{
	uint32_t all = SLICE_MPS_NOT_SAID;

	for (const struct grants_member *o = m->task->members; o; o = o->next_of_task) {
		uint32_t mps = o->slice == m->slice && !o->abandoned ? get_registration_state(o)
								     : SLICE_MPS_NOT_SAID;

		if (mps == SLICE_MPS_OUTSIDE)
			return mps;
		if (mps == SLICE_MPS_INSIDE)
			all = mps;
	}
	return all;
}

static bool was_mps_state_logged(const struct grants_member *m)
{
	for (const struct grants_member *o = m->task->members; o; o = o->next_of_task) {
		const struct member_state *side = o->user;

		if (o->slice == m->slice && !o->abandoned && side && side->mps_outside_logged)
			return true;
	}
	return false;
}

void mps_check_member(struct arbiter_slice *s, struct grants_member *m)
{
	struct member_state *side = m->user;

	if (!s->def.mps || !side || m->abandoned || m->task->dead ||
		get_registration_state(m) != SLICE_MPS_OUTSIDE || was_mps_state_logged(m) ||
		!log_limit_pass(&s->log_limit, time_mono_ns(), NS_PER_SEC * 10, 5))
		return;
	side->mps_outside_logged = true;
	log_warn("process runs outside MPS, where none of its limits hold",
		LOG_STR("slice", s->id), LOG_UINT("pid", m->task->pid),
		LOG_STR("name", m->rec->name));
}

void mps_check_process(const struct arbiter_conn *c)
{
	struct grants_task *t = grants_task_find(&c->arbiter->grants, c->pid, c->start);

	for (struct grants_member *m = t ? t->members : NULL; m; m = m->next_of_task) {
		if (m->slice == c->slice->grants)
			mps_check_member(c->slice, m);
	}
}
