/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Processes that should run under MPS and do not. If the MPS pipe directory is not reachable, the driver runs a
 * program without MPS and reports nothing. No limit of MPS applies to such a process, and the hardware rotates
 * between it and the processes under MPS. Each process reports in its page what the driver does with it
 * (abi/slice-page.h). The arbiter only logs it and shows it in status.
 */
#include "node/arbiter/process/mps.h"

#include "node/arbiter/clients/conn.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/slices/slice.h"
#include "lib/base/time.h"

/* The process writes this word: values other than these two mean nothing. */
static uint32_t get_registration_state(const struct grants_member *m)
{
	uint32_t all = SLICE_MPS_UNKNOWN;

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

uint32_t arbiter_mps_get_member_state(const struct grants_member *m)
{
	uint32_t all = SLICE_MPS_UNKNOWN;

	for (const struct grants_member *o = m->task->members; o; o = o->next_of_task) {
		uint32_t mps = o->slice == m->slice && !o->abandoned ? get_registration_state(o)
								     : SLICE_MPS_UNKNOWN;

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

void arbiter_mps_check_member(struct arbiter_slice *s, struct grants_member *m)
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

void arbiter_mps_check_process(const struct arbiter_conn *c)
{
	struct grants_task *t = grants_task_find(&c->arbiter->grants, c->pid, c->start);

	for (struct grants_member *m = t ? t->members : NULL; m; m = m->next_of_task) {
		if (m->slice == c->slice->grants)
			arbiter_mps_check_member(c->slice, m);
	}
}
