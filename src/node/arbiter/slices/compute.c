/* SPDX-License-Identifier: Apache-2.0 */

/* What slice.json says of a slice's compute, passed on to the scheduler's thread (turns/turn.h) and to processes. */
#include "node/arbiter/internal.h"

#include "node/arbiter/turns/turn.h"

#include <string.h>

/* ---- for processes, in their pages ------------------------------------------------------------- */

void compute_tell(const struct book_member *m)
{
	const struct slice *s = m->slice->user;

	if (m->page && s)
		atomic_store(&m->page->turns, s->compute.on);
}

static void tell_all(struct slice *s, uint32_t on)
{
	s->compute.on = on;
	for (const struct book_member *m = s->book ? s->book->members : NULL; m; m = m->next)
		compute_tell(m);
}

/* ---- what is in force ------------------------------------------------------------------------- */

static bool same_gpus(const struct slice_compute *c, const struct slice_def *d)
{
	if (c->n_gpus != d->n_gpus)
		return false;
	for (unsigned int i = 0; i < d->n_gpus; i++) {
		if (memcmp(c->uuids[i], d->gpus[i].uuid, SLICE_UUID_BYTES) != 0)
			return false;
	}
	return true;
}

static void note_gpus(struct slice_compute *c, const struct slice_def *d)
{
	c->n_gpus = d->n_gpus;
	for (unsigned int i = 0; i < d->n_gpus; i++)
		memcpy(c->uuids[i], d->gpus[i].uuid, SLICE_UUID_BYTES);
}

static void stop(struct slice *s)
{
	struct turn *t = s->arbiter->turn;

	log_info("slice takes no turns any more", LOG_STR("slice", s->id));
	/* In this order: (1) who sees its connection end looks why; (2) who waits at a gate goes on, whether or not it
	 * looks at its connection; (3) connections end; (4) the share. */
	tell_all(s, SLICE_TURNS_NONE);
	turn_slice_release(t, s->compute.turn);
	s->arbiter->slices_ops->stop_turns(s);
	turn_slice_stop(t, s->compute.turn);
}

void compute_apply(struct slice *s)
{
	struct slice_compute *c = &s->compute;
	uint32_t on = SLICE_TURNS_NONE;
	char said[sizeof(c->error.msg)];

	memcpy(said, c->error.msg, sizeof(said));
	error_clear(&c->error);
	if (c->on != SLICE_TURNS_NONE && (!s->def.turns || !same_gpus(c, &s->def)))
		stop(s);
	if (s->def.turns)
		on = turn_slice_share(s->arbiter->turn, &c->turn, &s->def, &c->error);
	if (on != SLICE_TURNS_NONE)
		note_gpus(c, &s->def);
	/* Said once for each reason. */
	if (c->error.code != ERR_NONE && strcmp(said, c->error.msg) != 0)
		log_error("slice goes without turns", LOG_STR("slice", s->id),
			LOG_STR("reason", c->error.msg));
	tell_all(s, on);
}

void compute_retry(struct arbiter *a)
{
	for (struct slice *s = a->slices; s; s = s->next) {
		if (s->def.turns && s->compute.error.code != ERR_NONE)
			compute_apply(s);
	}
}
