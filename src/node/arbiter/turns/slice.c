/* SPDX-License-Identifier: Apache-2.0 */

/* What slice.json says of a slice's share of its GPUs, put in force: from turns to MPS and back as well. */
#include "node/arbiter/turns/turn.h"

#include "lib/base/time.h"

#include <string.h>

bool turn_slice_on(const struct slice *s)
{
	return s->turn && s->turn->turns;
}

uint32_t turn_slice_compute(const struct slice *s)
{
	if (!turn_slice_on(s))
		return SLICE_TURNS_NONE;
	return s->turn->gpus[0].share.mps ? SLICE_TURNS_MPS : SLICE_TURNS_ON;
}

/* ---- what processes are told ------------------------------------------------------------------ */

void turn_tell(const struct book_member *m)
{
	const struct slice *s = m->slice->user;

	if (m->page && s)
		atomic_store(&m->page->turns, turn_slice_compute(s));
}

static void tell_all(const struct slice *s, uint32_t compute)
{
	for (const struct book_member *m = s->book ? s->book->members : NULL; m; m = m->next) {
		if (m->page)
			atomic_store(&m->page->turns, compute);
	}
}

void turn_tell_cap(struct turn_slice *ts, unsigned int gpu)
{
	const struct turns_share *share = &ts->gpus[gpu].share;
	uint32_t cap = share->mps ? 0 : share->cap;

	if (cap && ts->n_conns)
		cap = cap > ts->n_conns ? cap / ts->n_conns : 1;
	for (struct turn_conn *c = ts->conns; c; c = c->next)
		atomic_store_explicit(&c->page->gpus[gpu].cap, cap, memory_order_relaxed);
}

/* ---- begin, change, end ----------------------------------------------------------------------- */

static bool same_gpus(const struct turn_slice *ts, const struct slice_def *d)
{
	if (ts->n_gpus != d->n_gpus)
		return false;
	for (unsigned int i = 0; i < d->n_gpus; i++) {
		if (memcmp(ts->gpus[i].uuid, d->gpus[i].uuid, SLICE_UUID_BYTES) != 0)
			return false;
	}
	return true;
}

static struct turns_share wanted(const struct slice_def *d, unsigned int gpu)
{
	return (struct turns_share){ .weight = d->gpus[gpu].weight,
		.cap = d->gpus[gpu].cap,
		.latency = d->latency,
		.mps = d->mps };
}

/* @release: its processes are to go on without turns. Else their gates stay as they are. */
static void stop(struct turn *t, struct turn_slice *ts, bool release)
{
	static const struct turns_meter none;
	uint64_t now;

	if (!ts->turns)
		return;
	/* Who waits goes on, whether or not it looks at its connection. */
	for (struct turn_conn *c = release ? ts->conns : NULL; c; c = c->next) {
		for (unsigned int i = 0; i < c->n_gpus; i++)
			turn_set_gate(&c->seats[i], TURNS_OPEN, &none);
	}
	turn_conns_close(ts, true);
	now = time_mono_ns();
	turns_settle(t->turns, now);
	turn_count_slice(t, ts, now);
	turns_slice_drop(t->turns, ts->turns);
	ts->turns = NULL;
	for (unsigned int i = 0; i < ts->n_gpus; i++)
		turn_gpu_put(t, ts->gpus[i].number);
}

/* One GPU of a slice that begins to take turns. */
static int start_gpu(struct turn *t, struct turn_slice *ts, const struct slice_def *d,
	unsigned int gpu, uint64_t now, struct error *err)
{
	struct turn_share *g = &ts->gpus[gpu];
	int number;

	*g = (struct turn_share){ .share = wanted(d, gpu) };
	memcpy(g->uuid, d->gpus[gpu].uuid, SLICE_UUID_BYTES);
	g->account = tally_account(&t->tally, ts->slice->id, g->uuid);
	if (!g->account)
		return error_set(err, ERR_LIMIT, "compute: no room for the slice's account");
	g->charged_ns = tally_get(&g->account->charged_ns);
	g->queue_ns = tally_get(&g->account->queue_ns);
	g->turns = tally_get(&g->account->turns);
	g->revocations = tally_get(&g->account->revocations);
	number = turn_gpu_get(t, g->uuid, d->gpus[gpu].text, err);
	if (number < 0)
		return -1;
	g->number = (unsigned int)number;
	if (turns_slice_share(t->turns, ts->turns, g->number, &g->share, now) < 0) {
		turn_gpu_put(t, g->number);
		return error_nomem(err);
	}
	return 0;
}

static int start(struct turn *t, struct turn_slice *ts, const struct slice_def *d,
	struct error *err)
{
	uint64_t now = time_mono_ns();

	ts->n_gpus = 0;
	ts->turns = turns_slice_new(t->turns, ts);
	if (!ts->turns)
		return error_nomem(err);
	while (ts->n_gpus < d->n_gpus && start_gpu(t, ts, d, ts->n_gpus, now, err) == 0)
		ts->n_gpus++;
	if (ts->n_gpus < d->n_gpus) {
		turns_slice_drop(t->turns, ts->turns);
		ts->turns = NULL;
		while (ts->n_gpus > 0)
			turn_gpu_put(t, ts->gpus[--ts->n_gpus].number);
		return -1;
	}
	turn_settled(t, now);
	log_info(d->mps ? "slice runs under MPS" : "slice takes turns",
		LOG_STR("slice", ts->slice->id),
		LOG_STR("class", d->latency ? "latency" : "batch"),
		LOG_UINT("weight", d->gpus[0].weight), LOG_UINT("cap", d->gpus[0].cap));
	return 0;
}

static void change(struct turn *t, struct turn_slice *ts, const struct slice_def *d)
{
	uint64_t now = time_mono_ns();

	for (unsigned int i = 0; i < ts->n_gpus; i++) {
		struct turn_share *g = &ts->gpus[i];
		struct turns_share share = wanted(d, i);

		if (share.weight == g->share.weight && share.cap == g->share.cap &&
			share.latency == g->share.latency && share.mps == g->share.mps)
			continue;
		if (turns_slice_share(t->turns, ts->turns, g->number, &share, now) < 0) {
			(void)error_nomem(&ts->error);
			continue;
		}
		g->share = share;
		turn_tell_cap(ts, i);
		log_info("share of a GPU changed", LOG_STR("slice", ts->slice->id),
			LOG_STR("gpu", d->gpus[i].text),
			LOG_STR("compute", share.mps ? "mps" : "turns"),
			LOG_STR("class", share.latency ? "latency" : "batch"),
			LOG_UINT("weight", share.weight), LOG_UINT("cap", share.cap));
	}
	turn_settled(t, now);
}

static void apply(struct slice *s)
{
	struct turn *t = s->arbiter->turn;
	struct turn_slice *ts = s->turn;
	char said[sizeof(ts->error.msg)];

	memcpy(said, ts->error.msg, sizeof(said));
	error_clear(&ts->error);
	if (!s->def.turns || !same_gpus(ts, &s->def)) {
		if (ts->turns)
			log_info("slice takes no turns any more", LOG_STR("slice", s->id));
		/* First, as who sees its connection end looks why. */
		tell_all(s, SLICE_TURNS_NONE);
		stop(t, ts, true);
	}
	if (ts->turns)
		change(t, ts, &s->def);
	else if (s->def.turns)
		(void)start(t, ts, &s->def, &ts->error);
	/* Said once for each reason. */
	if (ts->error.code != ERR_NONE && strcmp(said, ts->error.msg) != 0)
		log_error("slice goes without turns", LOG_STR("slice", s->id),
			LOG_STR("reason", ts->error.msg));
}

void turn_slice_apply(struct slice *s)
{
	if (!s->turn && s->def.turns) {
		s->turn = calloc(1, sizeof(*s->turn));
		if (!s->turn) {
			log_error("slice goes without turns", LOG_STR("slice", s->id),
				LOG_STR("reason", "out of memory"));
			return;
		}
		s->turn->slice = s;
	}
	if (s->turn)
		apply(s);
	tell_all(s, turn_slice_compute(s));
}

void turn_slices_retry(struct arbiter *a)
{
	for (struct slice *s = a->slices; s; s = s->next) {
		bool wants = s->def.turns && (!s->turn || s->turn->error.code != ERR_NONE);

		if (wants)
			turn_slice_apply(s);
	}
}

void turn_slice_free(struct slice *s)
{
	if (!s->turn)
		return;
	/* This may be the arbiter's end, and another one follows. */
	stop(s->arbiter->turn, s->turn, false);
	free(s->turn);
	s->turn = NULL;
}
