/* SPDX-License-Identifier: Apache-2.0 */
/* Boosts: slices that go next because their work in flight ends only then (sched.h, "Boost"). */
#include "model/sched/internal.h"

#define BOOST_DELAY_FIRST UINT64_C(100000000)
#define BOOST_DELAY_MIN   UINT64_C(5000000)
#define BOOST_DELAY_MAX   SCHED_STUCK_NS

static uint64_t read_done_count(const struct sched *sched, const struct sched_client *client)
{
	return sched->done ? sched->done(sched->arg, client) : 0;
}

/* With a cap the delay is so long that boosted quanta alone stay within the cap. */
static uint64_t get_boost_delay(const struct sched_slice *s)
{
	uint64_t delay = s->boost_delay ? s->boost_delay : BOOST_DELAY_FIRST;

	for (const struct sched_share *share = sched_next_time_shared(s->shares); share;
		share = sched_next_time_shared(share->sibling)) {
		if (share->config.cap)
			delay = max_u64(delay,
				SCHED_BOOST_QUANTUM_NS * SLICE_CAP_ALL / share->config.cap);
	}
	return delay;
}

void sched_start_overrun(const struct sched *sched, struct sched_share *share, uint64_t now)
{
	share->closed_since = now;
	for (struct sched_client *s = share->clients; s; s = s->next) {
		uint64_t done = read_done_count(sched, s);

		if (!s->busy || done != s->last_done)
			s->last_progress_at = now;
		s->last_done = done;
	}
	sched_wake_at(share->gpu, now + get_boost_delay(share->slice));
}

/* Since when no work in flight of a client behind its closed gate has ended. SCHED_NEVER: no such work. */
static uint64_t get_stall_start(const struct sched *sched, struct sched_share *share,
	uint64_t now)
{
	uint64_t since = SCHED_NEVER;

	if (share->closed_since == SCHED_NEVER)
		return SCHED_NEVER;
	for (struct sched_client *s = share->clients; s; s = s->next) {
		uint64_t done = s->busy ? read_done_count(sched, s) : s->last_done;

		if (done != s->last_done)
			s->last_progress_at = now;
		s->last_done = done;
		if (s->busy)
			since = min_u64(since, s->last_progress_at);
	}
	return since;
}

/* get_stall_start() of the whole slice, while it has something to submit; else SCHED_NEVER. */
static uint64_t get_slice_stall_start(const struct sched *sched, const struct sched_slice *s,
	uint64_t now)
{
	uint64_t since = SCHED_NEVER;

	if (!sched_slice_wants(s))
		return SCHED_NEVER;
	for (struct sched_share *share = sched_next_time_shared(s->shares); share;
		share = sched_next_time_shared(share->sibling))
		since = min_u64(since, get_stall_start(sched, share, now));
	return since;
}

static void set_slice_boost(struct sched *sched, struct sched_slice *s, bool boosted,
	uint64_t now)
{
	s->boosted = boosted;
	s->boosted_at = now;
	for (struct sched_share *share = s->shares; share; share = share->sibling)
		sched_mark_dirty(sched, share->gpu);
}

static bool is_another_boosted(const struct sched_gpu *g, const struct sched_slice *but)
{
	for (const struct sched_share *share = g->shares; share; share = share->next) {
		if (share->slice != but &&
			(share->slice->boosted || share->slice->boost_running))
			return true;
	}
	return false;
}

/*
 * A GPU has one boosted slice at a time, and time for the others in between. SCHED_NEVER: another slice is
 * boosted.
 */
static uint64_t get_boost_free_time(const struct sched_slice *s)
{
	uint64_t from = 0;

	for (const struct sched_share *share = sched_next_time_shared(s->shares); share;
		share = sched_next_time_shared(share->sibling)) {
		if (is_another_boosted(share->gpu, s))
			return SCHED_NEVER;
		from = max_u64(from, share->gpu->boost_ended_at + SCHED_QUANTUM_NS);
	}
	return from;
}

static bool has_any_quantum(const struct sched_slice *s)
{
	for (const struct sched_share *share = s->shares; share; share = share->sibling) {
		if (share->gpu->holder == share)
			return true;
	}
	return false;
}

/* When the slice may be boosted; SCHED_NEVER: not as things are. Ends a boost that is not needed any more. */
static uint64_t get_boost_due_time(struct sched *sched, struct sched_slice *s, uint64_t now)
{
	uint64_t since, from;

	if (s->boost_running || has_any_quantum(s))
		return SCHED_NEVER;
	since = get_slice_stall_start(sched, s, now);
	if (since == SCHED_NEVER && s->boosted)
		set_slice_boost(sched, s, false, now);
	if (since == SCHED_NEVER || s->boosted)
		return SCHED_NEVER;
	from = get_boost_free_time(s);
	return from == SCHED_NEVER
		       ? SCHED_NEVER
		       : max_u64(from, max_u64(since, s->boosted_at) + get_boost_delay(s));
}

void sched_update_boosts(struct sched *sched, struct sched_gpu *g, uint64_t now)
{
	struct sched_slice *first = NULL;

	for (struct sched_share *share = g->shares; share; share = share->next) {
		uint64_t due = get_boost_due_time(sched, share->slice, now);

		if (due > now) {
			sched_wake_at(g, due);
		} else if (!first || share->slice->boosted_at < first->boosted_at) {
			first = share->slice;
		}
	}
	if (first)
		set_slice_boost(sched, first, true, now);
}

void sched_boost_begin(struct sched_slice *s, uint64_t now)
{
	if (!s->boosted)
		return;
	s->boosted = false;
	s->boost_running = true;
	for (struct sched_share *share = sched_next_time_shared(s->shares); share;
		share = sched_next_time_shared(share->sibling)) {
		sched_accrue(share->gpu, now);
		sched_lend_cap(share, true);
		for (struct sched_client *client = share->clients; client;
			client = client->next)
			client->boosted = share->closed_since != SCHED_NEVER && client->busy;
	}
}

void sched_boost_end(struct sched *sched, struct sched_slice *s, uint64_t now)
{
	uint64_t delay = s->boost_delay ? s->boost_delay : BOOST_DELAY_FIRST;
	bool helped = false;

	if (!s->boost_running)
		return;
	s->boost_running = false;
	s->boosted_at = now;
	for (struct sched_share *share = s->shares; share; share = share->sibling) {
		sched_accrue(share->gpu, now);
		sched_lend_cap(share, false);
		share->gpu->boost_ended_at = now;
		for (struct sched_client *client = share->clients; client;
			client = client->next) {
			helped |= client->boosted &&
				  (!client->busy ||
					  read_done_count(sched, client) != client->last_done);
			client->boosted = false;
		}
	}
	s->boost_delay = helped ? max_u64(delay / 2, BOOST_DELAY_MIN)
				: min_u64(2 * delay, BOOST_DELAY_MAX);
}
