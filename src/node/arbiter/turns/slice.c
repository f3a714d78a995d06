/* SPDX-License-Identifier: Apache-2.0 */

/* A slice's share of its GPUs, put in force: from turns to MPS and back as well. */
#include "node/arbiter/turns/internal.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* ---- begin ------------------------------------------------------------------------------------ */

static struct turns_share wanted(const struct slice_def *d, unsigned int gpu)
{
	return (struct turns_share){ .weight = d->gpus[gpu].weight,
		.cap = d->gpus[gpu].cap,
		.latency = d->latency,
		.mps = d->mps };
}

static struct turn_slice *slice_new(struct turn *t, const char *id)
{
	struct turn_slice *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	memcpy(s->id, id, strlen(id) + 1);
	s->epoll = -1;
	s->source = (struct turn_source){ .kind = TURN_SLICE, .of = s };
	s->next = t->slices;
	if (t->slices)
		t->slices->prev = s;
	t->slices = s;
	return s;
}

/* One GPU of a slice that begins to take turns. */
static int start_gpu(struct turn *t, struct turn_slice *s, const struct slice_def *d,
	unsigned int gpu, uint64_t now, struct error *err)
{
	struct turn_share *g = &s->gpus[gpu];
	int number;

	*g = (struct turn_share){ .share = wanted(d, gpu) };
	memcpy(g->uuid, d->gpus[gpu].uuid, SLICE_UUID_BYTES);
	memcpy(g->text, d->gpus[gpu].text, SLICE_UUID_TEXT);
	g->account = tally_account(&t->tally, s->id, g->uuid);
	if (!g->account)
		return error_set(err, ERR_LIMIT, "compute: no room for the slice's account");
	g->charged_ns = tally_get(&g->account->charged_ns);
	g->queue_ns = tally_get(&g->account->queue_ns);
	g->turns = tally_get(&g->account->turns);
	g->revocations = tally_get(&g->account->revocations);
	number = turn_gpu_get(t, g->uuid, g->text, err);
	if (number < 0)
		return -1;
	g->number = (unsigned int)number;
	if (turns_slice_share(t->turns, s->turns, g->number, &g->share, now) < 0) {
		turn_gpu_put(t, g->number);
		return error_nomem(err);
	}
	return 0;
}

static int open_events(struct turn *t, struct turn_slice *s, struct error *err)
{
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll < 0 || turn_watch(t->epoll, s->epoll, &s->source) < 0) {
		closep(&s->epoll);
		return error_set(err, ERR_UNAVAILABLE,
			"compute: no descriptor or no memory for the slice's events");
	}
	return 0;
}

static void drop(struct turn *t, struct turn_slice *s)
{
	if (s->turns)
		turns_slice_drop(t->turns, s->turns);
	s->turns = NULL;
	closep(&s->epoll);
}

static int start(struct turn *t, struct turn_slice *s, const struct slice_def *d,
	struct error *err)
{
	uint64_t now = time_mono_ns();

	s->n_gpus = 0;
	if (open_events(t, s, err) < 0)
		return -1;
	s->turns = turns_slice_new(t->turns, s);
	if (!s->turns) {
		drop(t, s);
		return error_nomem(err);
	}
	while (s->n_gpus < d->n_gpus && start_gpu(t, s, d, s->n_gpus, now, err) == 0)
		s->n_gpus++;
	if (s->n_gpus < d->n_gpus) {
		drop(t, s);
		while (s->n_gpus > 0)
			turn_gpu_put(t, s->gpus[--s->n_gpus].number);
		return -1;
	}
	turn_settled(t, now);
	log_info(d->mps ? "slice runs under MPS" : "slice takes turns", LOG_STR("slice", s->id),
		LOG_STR("class", d->latency ? "latency" : "batch"),
		LOG_UINT("weight", d->gpus[0].weight), LOG_UINT("cap", d->gpus[0].cap));
	return 0;
}

/* ---- change ----------------------------------------------------------------------------------- */

static bool same_share(const struct turns_share *a, const struct turns_share *b)
{
	return a->weight == b->weight && a->cap == b->cap && a->latency == b->latency &&
	       a->mps == b->mps;
}

static void change(struct turn *t, struct turn_slice *s, const struct slice_def *d,
	struct error *err)
{
	uint64_t now = time_mono_ns();

	for (unsigned int i = 0; i < s->n_gpus; i++) {
		struct turn_share *g = &s->gpus[i];
		struct turns_share share = wanted(d, i);

		if (same_share(&share, &g->share))
			continue;
		if (turns_slice_share(t->turns, s->turns, g->number, &share, now) < 0) {
			(void)error_nomem(err);
			continue;
		}
		g->share = share;
		turn_tell_cap(s, i);
		log_info("share of a GPU changed", LOG_STR("slice", s->id),
			LOG_STR("gpu", g->text),
			LOG_STR("compute", share.mps ? "mps" : "turns"),
			LOG_STR("class", share.latency ? "latency" : "batch"),
			LOG_UINT("weight", share.weight), LOG_UINT("cap", share.cap));
	}
	turn_settled(t, now);
}

struct share_call {
	struct turn_slice *slice;
	const struct slice_def *def;
	struct error *err;
	uint32_t on;
};

static bool share_step(struct turn *t, void *arg)
{
	struct share_call *c = arg;

	if (!c->slice)
		c->slice = slice_new(t, c->def->id);
	if (!c->slice)
		(void)error_nomem(c->err);
	else if (c->slice->turns)
		change(t, c->slice, c->def, c->err);
	else
		(void)start(t, c->slice, c->def, c->err);
	if (!c->slice || !c->slice->turns)
		c->on = SLICE_TURNS_NONE;
	else
		c->on = c->slice->gpus[0].share.mps ? SLICE_TURNS_MPS : SLICE_TURNS_ON;
	return true;
}

uint32_t turn_slice_share(struct turn *t, struct turn_slice **slice, const struct slice_def *d,
	struct error *err)
{
	struct share_call c = { .slice = *slice, .def = d, .err = err };

	turn_call(t, share_step, &c);
	*slice = c.slice;
	return c.on;
}

/* ---- end -------------------------------------------------------------------------------------- */

/* Out of the scheduler first, which would close its gates again. Who waits goes on, whether or not it looks at its
 * connection. */
static void release_conn(struct turn *t, struct turn_conn *c)
{
	static const struct turns_meter none;

	turn_conn_end(c, turn_now(t));
	for (unsigned int i = 0; i < c->n_gpus; i++)
		turn_set_gate(&c->seats[i], TURNS_OPEN, &none);
}

static bool release_step(struct turn *t, void *arg)
{
	struct turn_slice *s = arg;
	struct turn_conn *c = s->conns;

	for (int n = 0; c && n < TURN_STEP; c = c->next) {
		if (c->ended)
			continue;
		release_conn(t, c);
		n++;
	}
	return s->n_conns == 0;
}

void turn_slice_release(struct turn *t, struct turn_slice *s)
{
	turn_call(t, release_step, s);
}

static bool stop_step(struct turn *t, void *arg)
{
	struct turn_slice *s = arg;
	uint64_t now;

	if (!s->turns)
		return true;
	now = time_mono_ns();
	turns_settle(t->turns, now);
	turn_count_slice(t, s, now);
	drop(t, s);
	for (unsigned int i = 0; i < s->n_gpus; i++)
		turn_gpu_put(t, s->gpus[i].number);
	turn_settled(t, now);
	return true;
}

void turn_slice_stop(struct turn *t, struct turn_slice *s)
{
	turn_call(t, stop_step, s);
}

static bool free_step(struct turn *t, void *arg)
{
	struct turn_slice *s = arg;

	(void)stop_step(t, s);
	turn_count_skip_slice(t, s);
	if (s->prev)
		s->prev->next = s->next;
	else
		t->slices = s->next;
	if (s->next)
		s->next->prev = s->prev;
	return true;
}

struct turn_slice *turn_slice_free(struct turn *t, struct turn_slice *s)
{
	if (s)
		turn_call(t, free_step, s);
	free(s);
	return NULL;
}
