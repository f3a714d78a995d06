/* SPDX-License-Identifier: Apache-2.0 */

/* Passes the compute settings of slice.json on to the scheduler thread (scheduler/scheduler.h) and to processes. */
#include "node/arbiter/internal.h"

#include "node/arbiter/scheduler/scheduler.h"

#include <string.h>

/* ---- for processes, in their pages ------------------------------------------------------------- */

void compute_publish(const struct grants_member *m)
{
	const struct arbiter_slice *s = m->slice->user;

	if (m->page && s)
		atomic_store(&m->page->turns, s->compute.on);
}

static void publish_slice_compute(struct arbiter_slice *s, uint32_t on)
{
	s->compute.on = on;
	for (const struct grants_member *m = s->grants ? s->grants->members : NULL; m;
		m = m->next)
		compute_publish(m);
}

/* ---- what is in force ------------------------------------------------------------------------- */

static bool has_same_compute_gpus(const struct arbiter_slice_compute *c,
	const struct slice_def *d)
{
	if (c->n_gpus != d->n_gpus)
		return false;
	for (unsigned int i = 0; i < d->n_gpus; i++) {
		if (memcmp(c->uuids[i], d->gpus[i].uuid, SLICE_UUID_BYTES) != 0)
			return false;
	}
	return true;
}

static void record_compute_gpus(struct arbiter_slice_compute *c, const struct slice_def *d)
{
	c->n_gpus = d->n_gpus;
	for (unsigned int i = 0; i < d->n_gpus; i++)
		memcpy(c->uuids[i], d->gpus[i].uuid, SLICE_UUID_BYTES);
}

static void stop_slice_sched(struct arbiter_slice *s)
{
	struct scheduler *t = s->arbiter->sched;

	log_info("slice takes no turns any more", LOG_STR("slice", s->id));
	/*
	 * In this order:
	 *
	 * 1. The arbiter publishes in the pages that there is no compute. A process that sees its connection end
	 *    in step 3 reads there why.
	 * 2. The scheduler thread opens the gates for good. A thread that waits at a gate goes on, even if its
	 *    process does not watch its connection.
	 * 3. The arbiter closes the connections.
	 * 4. The scheduler thread ends the share.
	 */
	publish_slice_compute(s, SLICE_TURNS_NONE);
	scheduler_slice_release(t, s->compute.sched_slice);
	s->arbiter->slices_ops->stop_sched(s);
	scheduler_slice_stop(t, s->compute.sched_slice);
}

void compute_apply(struct arbiter_slice *s)
{
	struct arbiter_slice_compute *c = &s->compute;
	uint32_t on = SLICE_TURNS_NONE;
	char said[sizeof(c->error.msg)];

	memcpy(said, c->error.msg, sizeof(said));
	error_clear(&c->error);
	if (c->on != SLICE_TURNS_NONE &&
		(!s->def.has_compute || !has_same_compute_gpus(c, &s->def)))
		stop_slice_sched(s);
	if (s->def.has_compute)
		on = scheduler_slice_set_share(s->arbiter->sched, &c->sched_slice, &s->def,
			&c->error);
	if (on != SLICE_TURNS_NONE)
		record_compute_gpus(c, &s->def);
	/* Logs each reason once. */
	if (c->error.code != ERR_NONE && strcmp(said, c->error.msg) != 0)
		log_error("slice goes without turns", LOG_STR("slice", s->id),
			LOG_STR("reason", c->error.msg));
	publish_slice_compute(s, on);
}

void compute_retry(struct arbiter *a)
{
	for (struct arbiter_slice *s = a->slices; s; s = s->next) {
		if (s->def.has_compute && s->compute.error.code != ERR_NONE)
			compute_apply(s);
	}
}
