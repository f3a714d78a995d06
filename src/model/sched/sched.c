/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

#include <stdlib.h>
#include <string.h>

/*
 * Decides about all dirty GPUs. A decision can start the quantum of a gang, which makes its other GPUs dirty.
 * This terminates:
 * 1. A gang's quantum that begins now has its end later. No other quantum ends it before.
 * 2. It ends now only where a latency share is at work. Then it cannot begin again until that has changed.
 * 3. So each gang begins and ends at most once for each of its GPUs. Everything else makes only its own GPU
 *    dirty.
 * DECISIONS_MAX covers what this proof overlooks.
 */
#define DECISIONS_MAX (64 * SCHED_GPUS_MAX)

static void settle_dirty_gpus(struct sched *t, uint64_t now)
{
	uint64_t changed = t->dirty;

	for (unsigned int n = 0; t->dirty && n < DECISIONS_MAX; n++) {
		struct sched_gpu *g = &t->gpus[__builtin_ctzll(t->dirty)];

		t->dirty &= t->dirty - 1;
		sched_accrue(g, now);
		sched_decide(t, g, now);
		changed |= t->dirty;
	}
	for (; changed; changed &= changed - 1)
		sched_set_gates(t, &t->gpus[__builtin_ctzll(changed)], now);
}

static void mark_slice_dirty(struct sched *t, const struct sched_slice *s)
{
	for (const struct sched_share *p = s->shares; p; p = p->sibling)
		sched_mark_dirty(t, p->gpu);
}

static void reactivate_share(struct sched *t, struct sched_share *p, uint64_t now)
{
	sched_wake_up_share(p, now);
	if (!p->dormant)
		return;
	p->dormant = false;
	sched_regroup_slice(t, p->slice, now);
}

/*
 * The share has been idle since @since, and kept the others from the GPU until it reports so now. This time is
 * charged to no share, but adds to its virtual time, as in a grace period. Otherwise a process could hold a
 * quantum at no cost.
 */
static void charge_idle_holder(struct sched_share *p, uint64_t since, uint64_t now)
{
	if (p->gpu->holder != p && !sched_has_priority(p))
		return;
	sched_accrue(p->gpu, min_u64(now, since + SCHED_GRACE_MIN_NS));
	p->awaited = true;
	sched_accrue(p->gpu, now);
	p->awaited = false;
}

/* ---- events ---- */

void sched_client_set_state(struct sched *t, struct sched_client *client, bool busy, bool wants,
	uint64_t idle_ns, uint64_t now)
{
	struct sched_share *p = client->share;
	uint64_t since = busy ? now : now - min_u64(idle_ns, now);
	bool was_quiet = sched_is_idle(p);

	if (wants && client->gate != SCHED_GATE_CLOSED) {
		wants = false;
		busy = true;
		since = now;
	}
	if (busy == client->busy && wants == client->wants)
		return;
	sched_accrue(p->gpu, since);
	if (!p->n_busy)
		p->busy_since = now;
	p->n_busy = p->n_busy - client->busy + busy;
	p->n_wants = p->n_wants - client->wants + wants;
	client->busy = busy;
	client->wants = wants;
	if (!p->n_busy) {
		sched_learn_overrun(p, since);
		p->closed_since = SCHED_NEVER;
		charge_idle_holder(p, since, now);
	}
	if (was_quiet && !sched_is_idle(p))
		reactivate_share(t, p, now);
	else if (!was_quiet && sched_is_idle(p))
		p->idle_since = p->inactive_since = since;
	mark_slice_dirty(t, p->slice);
	settle_dirty_gpus(t, now);
}

void sched_advance_time(struct sched *t, uint64_t now)
{
	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++) {
		if (t->gpus[i].wake <= now)
			sched_mark_dirty(t, &t->gpus[i]);
	}
	settle_dirty_gpus(t, now);
}

uint64_t sched_next_deadline(const struct sched *t)
{
	uint64_t when = SCHED_NEVER;

	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++)
		when = min_u64(when, t->gpus[i].wake);
	return when;
}

void sched_update_charges(struct sched *t, uint64_t now)
{
	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++)
		sched_accrue(&t->gpus[i], now);
}

/* ---- slices, shares and clients ---- */

struct sched *sched_new(void (*gate)(void *arg, struct sched_client *client),
	uint64_t (*done)(void *arg, const struct sched_client *client), void *arg)
{
	struct sched *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->gate = gate;
	t->done = done;
	t->arg = arg;
	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++) {
		t->gpus[i].index = i;
		t->gpus[i].wake = SCHED_NEVER;
	}
	return t;
}

static void free_clients(struct sched_share *p)
{
	struct sched_client *next;

	for (struct sched_client *client = p->clients; client; client = next) {
		next = client->next;
		free(client);
	}
}

struct sched *sched_free(struct sched *t)
{
	while (t && t->slices) {
		for (struct sched_share *p = t->slices->shares; p; p = p->sibling)
			free_clients(p);
		sched_slice_free(t, t->slices);
	}
	free(t);
	return NULL;
}

struct sched_slice *sched_slice_new(struct sched *t, void *user)
{
	struct sched_slice *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->user = user;
	s->next = t->slices;
	t->slices = s;
	return s;
}

static void unlink_share(struct sched_share *p)
{
	struct sched_share **at = &p->gpu->shares;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (p->gpu->holder == p)
		p->gpu->holder = NULL;
	if (p->gpu->interrupted == p)
		p->gpu->interrupted = NULL;
}

void sched_slice_free(struct sched *t, struct sched_slice *s)
{
	struct sched_slice **at = &t->slices;

	while (s->shares) {
		struct sched_share *p = s->shares;

		s->shares = p->sibling;
		unlink_share(p);
		free(p);
	}
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	free(s);
}

static struct sched_share *find_share(const struct sched_slice *s, unsigned int gpu)
{
	struct sched_share *p = s->shares;

	while (p && p->gpu->index != gpu)
		p = p->sibling;
	return p;
}

/* A share lives as long as its slice, so that charges and debts are not forgotten. */
static struct sched_share *find_or_new_share(struct sched *t, struct sched_slice *s,
	unsigned int gpu, uint64_t now)
{
	struct sched_share *p = find_share(s, gpu);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->slice = s;
	p->gpu = &t->gpus[gpu];
	p->config = (struct sched_share_config){ .weight = 1 };
	p->vtime = p->gpu->vtime;
	p->dormant = true;
	p->idle_since = now;
	p->closed_since = p->reported_end = SCHED_NEVER;
	p->overrun = SCHED_TIME_SLICE_NS;
	p->sibling = s->shares;
	s->shares = p;
	p->next = p->gpu->shares;
	p->gpu->shares = p;
	return p;
}

int sched_slice_set_share(struct sched *t, struct sched_slice *s, unsigned int gpu,
	const struct sched_share_config *share, uint64_t now)
{
	struct sched_share *p = find_or_new_share(t, s, gpu, now);
	bool had;

	if (!p)
		return -1;
	sched_accrue(p->gpu, now);
	had = sched_is_time_shared(p);
	sched_set_share_config(p, share);
	sched_reset_pace(p);
	if (sched_is_time_shared(p) != had)
		sched_regroup_slice(t, s, now);
	mark_slice_dirty(t, s);
	settle_dirty_gpus(t, now);
	return 0;
}

struct sched_client *sched_client_new(struct sched *t, struct sched_slice *s, unsigned int gpu,
	void *user, uint64_t now)
{
	struct sched_client *client = calloc(1, sizeof(*client));
	struct sched_share *p;

	if (!client)
		return NULL;
	p = find_or_new_share(t, s, gpu, now);
	if (!p) {
		free(client);
		return NULL;
	}
	sched_accrue(p->gpu, now);
	client->share = p;
	client->user = user;
	client->last_progress_at = now;
	client->next = p->clients;
	p->clients = client;
	if (p->n_clients++ == 0) {
		sched_reset_pace(p);
		sched_regroup_slice(t, s, now);
	}
	mark_slice_dirty(t, s);
	settle_dirty_gpus(t, now);
	return client;
}

void sched_client_free(struct sched *t, struct sched_client *client, uint64_t now)
{
	struct sched_share *p = client->share;
	struct sched_client **at = &p->clients;

	sched_accrue(p->gpu, now);
	if (!sched_is_idle(p))
		p->idle_since = p->inactive_since = now;
	p->n_busy -= client->busy;
	p->n_wants -= client->wants;
	if (!p->n_busy)
		p->closed_since = SCHED_NEVER;
	while (*at != client)
		at = &(*at)->next;
	*at = client->next;
	free(client);
	if (--p->n_clients == 0) {
		sched_reset_pace(p);
		sched_regroup_slice(t, p->slice, now);
	}
	mark_slice_dirty(t, p->slice);
	settle_dirty_gpus(t, now);
}

/* ---- figures ---- */

void sched_account(const struct sched *t, const struct sched_slice *s, unsigned int gpu,
	uint64_t now, struct sched_account *ret)
{
	const struct sched_share *p = find_share(s, gpu);

	*ret = (struct sched_account){ 0 };
	if (!p)
		return;
	ret->charged_ns = p->charged;
	ret->quanta = p->quanta;
	ret->resumed = p->resumed;
	memcpy(ret->quantum_ends, p->quantum_ends, sizeof(ret->quantum_ends));
	ret->revoked = p->revoked;
	ret->waited_ns = p->waited;
	ret->has_quantum = t->gpus[gpu].holder == p && !t->gpus[gpu].paused;
	ret->demoted = p->demoted;
	ret->stuck_ns = p->closed_since < now ? now - p->closed_since : 0;
}

bool sched_is_concurrent(const struct sched *t, unsigned int gpu)
{
	return t->gpus[gpu].period.concurrent;
}

uint64_t sched_gpu_busy_ns(const struct sched *t, unsigned int gpu)
{
	return t->gpus[gpu].busy_ns;
}
