/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

#include <stdlib.h>
#include <string.h>

/*
 * Decides about all dirty GPUs. A decision can start the quantum of a gang, which makes its other GPUs dirty.
 * This terminates:
 * 1. A gang's quantum that begins now has its end later. No other quantum ends it before.
 * 2. It ends now only where a latency share is at work. Then it cannot begin again until that has changed.
 * 3. So each gang begins and ends at most once for each of its GPUs.
 * 4. Concurrent gates of GPUs that gangs tie together end at most once, and begin only some time after a period began.
 * 5. Everything else makes only its own GPU dirty.
 * DECISIONS_MAX covers what this proof overlooks.
 */
#define DECISIONS_MAX (64 * SCHED_GPUS_MAX)

static void settle_dirty_gpus(struct sched *sched, uint64_t now)
{
	uint64_t changed = sched->dirty;

	for (unsigned int n = 0; sched->dirty && n < DECISIONS_MAX; n++) {
		struct sched_gpu *g = &sched->gpus[__builtin_ctzll(sched->dirty)];

		sched->dirty &= sched->dirty - 1;
		sched_accrue(g, now);
		sched_decide(sched, g, now);
		changed |= sched->dirty;
	}
	for (; changed; changed &= changed - 1)
		sched_set_gates(sched, &sched->gpus[__builtin_ctzll(changed)], now);
}

static void mark_slice_dirty(struct sched *sched, const struct sched_slice *s)
{
	for (const struct sched_share *share = s->shares; share; share = share->sibling)
		sched_mark_dirty(sched, share->gpu);
}

static void reactivate_share(struct sched *sched, struct sched_share *share, uint64_t now)
{
	sched_burst_goes_on(share, now);
	sched_wake_up_share(share, now);
	if (!share->dormant)
		return;
	share->dormant = false;
	sched_regroup_slice(sched, share->slice, now);
}

/*
 * The share has been idle since @since, and kept the others from the GPU until it reports so now. This time is
 * charged to no share, but adds to its virtual time, as in a wait for it. Otherwise a process could hold a
 * quantum at no cost.
 */
static void charge_idle_holder(struct sched_share *share, uint64_t since, uint64_t now)
{
	if (share->gpu->holder != share && !sched_has_priority(share))
		return;
	sched_accrue(share->gpu, min_u64(now, since + SCHED_GRACE_MIN_NS));
	share->awaited = true;
	sched_accrue(share->gpu, now);
	share->awaited = false;
}

/* --- events --- */

void sched_client_set_state(struct sched *sched, struct sched_client *client, bool busy,
	bool wants, uint64_t idle_ns, uint64_t now)
{
	struct sched_share *share = client->share;
	uint64_t since = busy ? now : now - min_u64(idle_ns, now);
	bool was_quiet = sched_is_idle(share), had_work = client->busy;

	if (wants && client->gate != SCHED_GATE_CLOSED) {
		wants = false;
		busy = true;
		since = now;
	}
	if (busy == client->busy && wants == client->wants)
		return;
	sched_accrue(share->gpu, since);
	if (!share->n_busy)
		share->busy_since = now;
	share->n_busy = share->n_busy - client->busy + busy;
	share->n_wants = share->n_wants - client->wants + wants;
	client->busy = busy;
	client->wants = wants;
	if (!share->n_busy) {
		sched_learn_overrun(share, since);
		share->closed_since = SCHED_NEVER;
		charge_idle_holder(share, since, now);
		if (had_work)
			sched_burst_gpu_free(share->gpu, since);
	}
	if (wants && busy)
		sched_burst_was_cut(share);
	if (was_quiet && !sched_is_idle(share))
		reactivate_share(sched, share, now);
	else if (!was_quiet && sched_is_idle(share))
		share->idle_since = share->inactive_since = since;
	mark_slice_dirty(sched, share->slice);
	settle_dirty_gpus(sched, now);
}

void sched_advance_time(struct sched *sched, uint64_t now)
{
	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++) {
		if (sched->gpus[i].wake <= now)
			sched_mark_dirty(sched, &sched->gpus[i]);
	}
	settle_dirty_gpus(sched, now);
}

uint64_t sched_next_deadline(const struct sched *sched)
{
	uint64_t when = SCHED_NEVER;

	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++)
		when = min_u64(when, sched->gpus[i].wake);
	return when;
}

void sched_update_charges(struct sched *sched, uint64_t now)
{
	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++)
		sched_accrue(&sched->gpus[i], now);
}

/* --- slices, shares and clients --- */

struct sched *sched_new(void (*gate)(void *arg, struct sched_client *client),
	uint64_t (*done)(void *arg, const struct sched_client *client), void *arg)
{
	struct sched *sched = calloc(1, sizeof(*sched));

	if (!sched)
		return NULL;
	sched->gate = gate;
	sched->done = done;
	sched->arg = arg;
	for (unsigned int i = 0; i < SCHED_GPUS_MAX; i++) {
		sched->gpus[i].index = i;
		sched->gpus[i].wake = SCHED_NEVER;
	}
	return sched;
}

static void free_clients(struct sched_share *share)
{
	struct sched_client *next;

	for (struct sched_client *client = share->clients; client; client = next) {
		next = client->next;
		free(client);
	}
}

struct sched *sched_free(struct sched *sched)
{
	while (sched && sched->slices) {
		for (struct sched_share *share = sched->slices->shares; share;
			share = share->sibling)
			free_clients(share);
		sched_slice_free(sched, sched->slices);
	}
	free(sched);
	return NULL;
}

struct sched_slice *sched_slice_new(struct sched *sched, void *user)
{
	struct sched_slice *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->user = user;
	s->next = sched->slices;
	sched->slices = s;
	return s;
}

static void unlink_share(struct sched_share *share)
{
	struct sched_share **at = &share->gpu->shares;

	while (*at != share)
		at = &(*at)->next;
	*at = share->next;
	if (share->gpu->holder == share)
		share->gpu->holder = NULL;
	if (share->gpu->interrupted == share)
		share->gpu->interrupted = NULL;
}

void sched_slice_free(struct sched *sched, struct sched_slice *s)
{
	struct sched_slice **at = &sched->slices;

	while (s->shares) {
		struct sched_share *share = s->shares;

		s->shares = share->sibling;
		unlink_share(share);
		free(share);
	}
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	free(s);
}

static struct sched_share *find_share(const struct sched_slice *s, unsigned int gpu)
{
	struct sched_share *share = s->shares;

	while (share && share->gpu->index != gpu)
		share = share->sibling;
	return share;
}

/* A share lives as long as its slice, so that charges and debts are not forgotten. */
static struct sched_share *find_or_new_share(struct sched *sched, struct sched_slice *s,
	unsigned int gpu, uint64_t now)
{
	struct sched_share *share = find_share(s, gpu);

	if (share)
		return share;
	share = calloc(1, sizeof(*share));
	if (!share)
		return NULL;
	share->slice = s;
	share->gpu = &sched->gpus[gpu];
	share->config = (struct sched_share_config){ .weight = 1 };
	share->vtime = share->gpu->vtime;
	share->dormant = true;
	share->idle_since = now;
	share->closed_since = share->reported_end = SCHED_NEVER;
	share->overrun = SCHED_TIME_SLICE_NS;
	share->burst.from = SCHED_NEVER;
	share->sibling = s->shares;
	s->shares = share;
	share->next = share->gpu->shares;
	share->gpu->shares = share;
	return share;
}

int sched_slice_set_share(struct sched *sched, struct sched_slice *s, unsigned int gpu,
	const struct sched_share_config *config, uint64_t now)
{
	struct sched_share *share = find_or_new_share(sched, s, gpu, now);
	bool had;

	if (!share)
		return -1;
	sched_accrue(share->gpu, now);
	had = sched_is_time_shared(share);
	sched_set_share_config(share, config);
	sched_reset_pace(share);
	if (sched_is_time_shared(share) != had)
		sched_regroup_slice(sched, s, now);
	mark_slice_dirty(sched, s);
	settle_dirty_gpus(sched, now);
	return 0;
}

struct sched_client *sched_client_new(struct sched *sched, struct sched_slice *s,
	unsigned int gpu, void *user, uint64_t now)
{
	struct sched_client *client = calloc(1, sizeof(*client));
	struct sched_share *share;

	if (!client)
		return NULL;
	share = find_or_new_share(sched, s, gpu, now);
	if (!share) {
		free(client);
		return NULL;
	}
	sched_accrue(share->gpu, now);
	client->share = share;
	client->user = user;
	client->last_progress_at = now;
	client->next = share->clients;
	share->clients = client;
	if (share->n_clients++ == 0) {
		sched_reset_pace(share);
		sched_regroup_slice(sched, s, now);
	}
	mark_slice_dirty(sched, s);
	settle_dirty_gpus(sched, now);
	return client;
}

void sched_client_free(struct sched *sched, struct sched_client *client, uint64_t now)
{
	struct sched_share *share = client->share;
	struct sched_client **at = &share->clients;

	sched_accrue(share->gpu, now);
	if (!sched_is_idle(share))
		share->idle_since = share->inactive_since = now;
	share->n_busy -= client->busy;
	share->n_wants -= client->wants;
	if (!share->n_busy)
		share->closed_since = SCHED_NEVER;
	while (*at != client)
		at = &(*at)->next;
	*at = client->next;
	free(client);
	if (--share->n_clients == 0) {
		sched_reset_pace(share);
		sched_regroup_slice(sched, share->slice, now);
	}
	mark_slice_dirty(sched, share->slice);
	settle_dirty_gpus(sched, now);
}

/* --- figures --- */

void sched_account(const struct sched *sched, const struct sched_slice *s, unsigned int gpu,
	uint64_t now, struct sched_account *ret)
{
	const struct sched_share *share = find_share(s, gpu);

	*ret = (struct sched_account){ 0 };
	if (!share)
		return;
	ret->charged_ns = share->charged;
	ret->quanta = share->quanta;
	ret->resumed = share->resumed;
	memcpy(ret->quantum_ends, share->quantum_ends, sizeof(ret->quantum_ends));
	ret->revoked = share->revoked;
	ret->waited_ns = share->waited;
	ret->has_quantum = sched->gpus[gpu].holder == share && !sched->gpus[gpu].paused;
	ret->demoted = share->demoted;
	ret->stuck_ns = share->closed_since < now ? now - share->closed_since : 0;
}

bool sched_is_concurrent(const struct sched *sched, unsigned int gpu)
{
	return sched->gpus[gpu].period.concurrent;
}

uint64_t sched_gpu_busy_ns(const struct sched *sched, unsigned int gpu)
{
	return sched->gpus[gpu].busy_ns;
}
