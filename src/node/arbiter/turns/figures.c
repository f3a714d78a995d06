/* SPDX-License-Identifier: Apache-2.0 */

/* What status shows of turns: copied out by the thread, some at a time. */
#include "node/arbiter/turns/internal.h"

#include "lib/base/time.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(TURN_GPUS_MAX == TURNS_GPUS_MAX, "room for all figures");

/* ---- one moment ------------------------------------------------------------------------------- */

/* In one step, and one walk over the accounts: as tally_busy_ns(), for all GPUs. */
static void note_charges(struct turn *t)
{
	for (struct turn_slice *s = t->slices; s; s = s->next) {
		for (unsigned int i = 0; i < s->n_gpus; i++)
			s->gpus[i].told_ns = tally_get(&s->gpus[i].account->charged_ns);
	}
	for (unsigned int i = 0; i < TURNS_GPUS_MAX; i++) {
		if (t->gpus[i].users)
			t->gpus[i].told_ns = tally_get(&t->gpus[i].record->ns);
	}
	for (uint32_t i = 0; i < tally_accounts_touched(&t->tally); i++) {
		const struct tally_account *a = &t->tally.accounts[i];
		struct turn_gpu *g =
			atomic_load(&a->state) == TALLY_USED ? turn_gpu_find(t, a->uuid) : NULL;

		if (g)
			g->told_ns = tally_add(g->told_ns, tally_get(&a->charged_ns));
	}
}

/* Nobody leaves within a call, so that nothing that .count is at goes. */
struct begin_call {
	struct turn_count count;
	bool begun;
};

static bool begin_step(struct turn *t, void *arg)
{
	struct begin_call *c = arg;

	if (!c->begun)
		turn_count_begin(t, &c->count);
	c->begun = true;
	if (c->count.slice)
		turn_count_step(t, &c->count);
	if (c->count.slice)
		return false;
	note_charges(t);
	t->shown = true;
	return true;
}

void turn_figures_begin(struct turn *t)
{
	struct begin_call c = { .begun = false };

	turn_call(t, begin_step, &c);
}

static bool end_step(struct turn *t, void *arg)
{
	(void)arg;
	t->shown = false;
	return true;
}

void turn_figures_end(struct turn *t)
{
	turn_call(t, end_step, NULL);
}

/* ---- a slice ---------------------------------------------------------------------------------- */

static void fill_share(struct turn *t, const struct turn_slice *s, const struct turn_share *g,
	struct turn_share_figures *ret)
{
	struct turns_account now = { .turn = false };

	if (s->turns)
		turns_account(t->turns, s->turns, g->number, turn_now(t), &now);
	memcpy(ret->uuid, g->uuid, sizeof(ret->uuid));
	ret->charged_ns = g->told_ns;
	tally_total(&t->tally, g->account, ret->counters);
	ret->turns = tally_get(&g->account->turns);
	ret->revocations = tally_get(&g->account->revocations);
	ret->queue_ns = tally_get(&g->account->queue_ns);
	ret->weight = g->share.weight;
	ret->cap = g->share.cap;
	ret->latency = g->share.latency;
	ret->turn = now.turn;
	ret->demoted = now.demoted;
	ret->stuck = now.stuck_ns >= TURN_STUCK_NS || g->n_stuck;
}

struct slice_call {
	const struct turn_slice *slice;
	struct turn_slice_figures *ret;
	unsigned int n; /* GPUs done */
};

/* One GPU, as its account may have many records. */
static bool slice_step(struct turn *t, void *arg)
{
	struct slice_call *c = arg;
	const struct turn_slice *s = c->slice;

	if (c->n < s->n_gpus) {
		fill_share(t, s, &s->gpus[c->n], &c->ret->gpus[c->n]);
		c->n++;
	}
	c->ret->crowded =
		s->turns && s->crowded_ns && time_mono_ns() - s->crowded_ns < TURN_CROWDED_NS;
	c->ret->n_gpus = c->n;
	return c->n == s->n_gpus;
}

void turn_figures_slice(struct turn *t, struct turn_slice *s, struct turn_slice_figures *ret)
{
	struct slice_call c = { .slice = s, .ret = ret };

	turn_call(t, slice_step, &c);
}

/* ---- its processes ---------------------------------------------------------------------------- */

struct processes_call {
	const struct turn_slice *slice;
	const struct turn_conn
		*at; /* the next one; NULL before the first. Nobody leaves within a call */
	bool begun;
	struct turn_process_figures *v;
	size_t n, room;
};

static void fill_process(const struct turn_conn *c, struct turn_process_figures *ret)
{
	*ret = (struct turn_process_figures){ .pid = c->pid,
		.ns_pid = c->ns_pid,
		.start = c->start,
		.number = c->number };
	memcpy(ret->name, c->name, sizeof(ret->name));
	for (unsigned int i = 0; i < c->n_gpus; i++) {
		const struct tally_seat *r = c->seats[i].record;

		ret->gpus[i].stuck = c->seats[i].stuck;
		ret->gpus[i].charged_ns = tally_get(&r->charged_ns);
		for (unsigned int k = 0; k < TALLY_COUNTERS; k++)
			ret->gpus[i].counters[k] = tally_get(&r->counted[k]);
	}
}

static bool processes_step(struct turn *t, void *arg)
{
	struct processes_call *p = arg;

	(void)t;
	if (!p->begun)
		p->at = p->slice->conns;
	p->begun = true;
	for (int i = 0; i < TURN_STEP && p->at && p->n < p->room; i++, p->at = p->at->next) {
		if (!p->at->ended)
			fill_process(p->at, &p->v[p->n++]);
	}
	return !p->at || p->n == p->room;
}

static bool room_step(struct turn *t, void *arg)
{
	struct processes_call *p = arg;

	(void)t;
	p->room = p->slice->n_conns;
	return true;
}

int turn_figures_processes(struct turn *t, struct turn_slice *s,
	struct turn_process_figures **ret, size_t *ret_n)
{
	struct processes_call p = { .slice = s };

	*ret = NULL;
	*ret_n = 0;
	turn_call(t, room_step, &p);
	if (!p.room)
		return 0;
	p.v = calloc(p.room, sizeof(*p.v));
	if (!p.v)
		return -1;
	turn_call(t, processes_step, &p);
	*ret = p.v;
	*ret_n = p.n;
	return 0;
}

/* ---- GPUs ------------------------------------------------------------------------------------- */

struct gpus_call {
	struct turn_gpu_figures *v;
	unsigned int n;
};

static bool gpus_step(struct turn *t, void *arg)
{
	struct gpus_call *c = arg;

	for (unsigned int i = 0; i < TURNS_GPUS_MAX; i++) {
		const struct turn_gpu *g = &t->gpus[i];
		struct turn_gpu_figures *one = &c->v[c->n];

		if (!g->users)
			continue;
		memcpy(one->uuid, g->text, sizeof(one->uuid));
		one->busy_ns = g->told_ns;
		one->together = turns_are_together(t->turns, i);
		c->n++;
	}
	return true;
}

unsigned int turn_figures_gpus(struct turn *t, struct turn_gpu_figures *ret)
{
	struct gpus_call c = { .v = ret };

	turn_call(t, gpus_step, &c);
	return c.n;
}
