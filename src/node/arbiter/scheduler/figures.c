/* SPDX-License-Identifier: Apache-2.0 */

/* What status shows of GPU time: the thread copies it out, some at a time. */
#include "node/arbiter/scheduler/internal.h"

#include "lib/base/time.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(SCHEDULER_GPUS_MAX == SCHED_GPUS_MAX, "room for all figures");

/* --- one moment --- */

/* One step, and one walk over the accounts: the time in which each GPU had work. */
static void snapshot_charges(struct scheduler *scheduler)
{
	for (struct scheduler_slice *s = scheduler->slices; s; s = s->next) {
		for (unsigned int i = 0; i < s->n_gpus; i++)
			s->gpus[i].shown_charged_ns =
				usage_load(&s->gpus[i].account->charged_ns);
	}
	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++) {
		if (scheduler->gpus[i].users)
			scheduler->gpus[i].shown_busy_ns =
				usage_load(&scheduler->gpus[i].record->ns);
	}
	for (uint32_t i = 0; i < usage_accounts_touched(&scheduler->accounts); i++) {
		const struct usage_account *a = &scheduler->accounts.accounts[i];
		struct scheduler_gpu *g = atomic_load(&a->state) == USAGE_RECORD_USED
						  ? scheduler_gpu_find(scheduler, a->uuid)
						  : NULL;

		if (g)
			g->shown_busy_ns =
				usage_add(g->shown_busy_ns, usage_load(&a->charged_ns));
	}
}

/* Only another call can free what .count points to. */
struct begin_call {
	struct scheduler_count count;
	bool started;
};

static bool begin_figures_step(struct scheduler *scheduler, void *arg)
{
	struct begin_call *c = arg;

	if (!c->started)
		scheduler_count_begin(scheduler, &c->count);
	c->started = true;
	if (c->count.slice)
		scheduler_count_step(scheduler, &c->count);
	if (c->count.slice)
		return false;
	snapshot_charges(scheduler);
	scheduler->shown = true;
	return true;
}

void scheduler_figures_begin(struct scheduler *scheduler)
{
	struct begin_call c = { .started = false };

	scheduler_call(scheduler, begin_figures_step, &c);
}

static bool end_step(struct scheduler *scheduler, void *arg)
{
	(void)arg;
	scheduler->shown = false;
	return true;
}

void scheduler_figures_end(struct scheduler *scheduler)
{
	scheduler_call(scheduler, end_step, NULL);
}

/* --- a slice --- */

static void fill_share_figures(struct scheduler *scheduler, const struct scheduler_slice *s,
	const struct scheduler_share *share, struct scheduler_share_figures *ret)
{
	struct sched_account now = { .has_quantum = false };

	if (s->sched)
		sched_account(scheduler->sched, s->sched, share->number,
			scheduler_now(scheduler), &now);
	memcpy(ret->uuid, share->uuid, sizeof(ret->uuid));
	ret->charged_ns = share->shown_charged_ns;
	usage_account_total(&scheduler->accounts, share->account, ret->counters);
	ret->quanta = usage_load(&share->account->quanta);
	ret->revocations = usage_load(&share->account->revocations);
	for (unsigned int i = 0; i < SCHED_ENDS; i++)
		ret->quantum_ends[i] = usage_load(&share->account->quantum_ends[i]);
	ret->queue_ns = usage_load(&share->account->queue_ns);
	ret->weight = share->config.weight;
	ret->cap = share->config.cap;
	ret->latency = share->config.latency;
	ret->has_quantum = now.has_quantum;
	ret->demoted = now.demoted;
	ret->stuck = now.stuck_ns >= SCHEDULER_STUCK_NS || share->n_stuck;
}

struct slice_call {
	const struct scheduler_slice *slice;
	struct scheduler_slice_figures *ret;
	unsigned int n; /* GPUs copied */
};

/* One GPU per step, as an account may have many records. */
static bool slice_step(struct scheduler *scheduler, void *arg)
{
	struct slice_call *c = arg;
	const struct scheduler_slice *s = c->slice;

	if (c->n < s->n_gpus) {
		fill_share_figures(scheduler, s, &s->gpus[c->n], &c->ret->gpus[c->n]);
		c->n++;
	}
	c->ret->crowded = s->sched && s->crowded_ns &&
			  time_mono_ns() - s->crowded_ns < SCHEDULER_CROWDED_NS;
	c->ret->n_gpus = c->n;
	return c->n == s->n_gpus;
}

void scheduler_figures_slice(struct scheduler *scheduler, struct scheduler_slice *s,
	struct scheduler_slice_figures *ret)
{
	struct slice_call c = { .slice = s, .ret = ret };

	scheduler_call(scheduler, slice_step, &c);
}

/* --- its processes --- */

struct processes_call {
	const struct scheduler_slice *slice;
	/* The next registration; NULL before the first. Only another call can free it. */
	const struct scheduler_registration *at;
	bool begun;
	struct scheduler_process_figures *v;
	size_t n, room;
};

static void fill_process(const struct scheduler_registration *reg,
	struct scheduler_process_figures *ret)
{
	*ret = (struct scheduler_process_figures){ .pid = reg->pid,
		.ns_pid = reg->ns_pid,
		.start = reg->start,
		.number = reg->number };
	memcpy(ret->name, reg->name, sizeof(ret->name));
	for (unsigned int i = 0; i < reg->n_gpus; i++) {
		const struct usage_client *client = reg->clients[i].record;

		ret->gpus[i].stuck = reg->clients[i].stuck;
		ret->gpus[i].charged_ns = usage_load(&client->charged_ns);
		for (unsigned int k = 0; k < USAGE_COUNTERS; k++)
			ret->gpus[i].counters[k] = usage_load(&client->counted[k]);
	}
}

static bool processes_step(struct scheduler *scheduler, void *arg)
{
	struct processes_call *p = arg;

	(void)scheduler;
	if (!p->begun)
		p->at = p->slice->registrations;
	p->begun = true;
	for (int i = 0; i < SCHEDULER_STEP && p->at && p->n < p->room;
		i++, p->at = p->at->next) {
		if (!p->at->ended)
			fill_process(p->at, &p->v[p->n++]);
	}
	return !p->at || p->n == p->room;
}

static bool count_processes_step(struct scheduler *scheduler, void *arg)
{
	struct processes_call *p = arg;

	(void)scheduler;
	p->room = p->slice->n_registrations;
	return true;
}

int scheduler_figures_processes(struct scheduler *scheduler, struct scheduler_slice *s,
	struct scheduler_process_figures **ret, size_t *ret_n)
{
	struct processes_call p = { .slice = s };

	*ret = NULL;
	*ret_n = 0;
	scheduler_call(scheduler, count_processes_step, &p);
	if (!p.room)
		return 0;
	p.v = calloc(p.room, sizeof(*p.v));
	if (!p.v)
		return -1;
	scheduler_call(scheduler, processes_step, &p);
	*ret = p.v;
	*ret_n = p.n;
	return 0;
}

/* --- GPUs --- */

struct gpus_call {
	struct scheduler_gpu_figures *v;
	unsigned int n;
};

static bool gpus_step(struct scheduler *scheduler, void *arg)
{
	struct gpus_call *c = arg;

	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++) {
		const struct scheduler_gpu *g = &scheduler->gpus[i];
		struct scheduler_gpu_figures *one = &c->v[c->n];

		if (!g->users)
			continue;
		memcpy(one->uuid, g->text, sizeof(one->uuid));
		one->busy_ns = g->shown_busy_ns;
		one->concurrent = sched_is_concurrent(scheduler->sched, i);
		c->n++;
	}
	return true;
}

unsigned int scheduler_figures_gpus(struct scheduler *scheduler,
	struct scheduler_gpu_figures *ret)
{
	struct gpus_call c = { .v = ret };

	scheduler_call(scheduler, gpus_step, &c);
	return c.n;
}
