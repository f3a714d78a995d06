/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/internal.h"

#define BOOST_DELAY_FIRST UINT64_C(100000000)
#define BOOST_DELAY_MIN   UINT64_C(5000000)
#define BOOST_DELAY_MAX   SCHED_STUCK_NS

static uint64_t read_done_count(const struct sched *t, const struct sched_client *client)
{
	return t->done ? t->done(t->arg, client) : 0;
}

/* With a cap the delay is so long that boosted quanta alone stay within the cap. */
static uint64_t get_boost_delay(const struct sched_slice *s)
{
	uint64_t delay = s->boost_delay ? s->boost_delay : BOOST_DELAY_FIRST;

	for (const struct sched_share *p = sched_next_time_shared(s->shares); p;
		p = sched_next_time_shared(p->sibling)) {
		if (p->config.cap)
			delay = max_u64(delay,
				SCHED_BOOST_QUANTUM_NS * SLICE_CAP_ALL / p->config.cap);
	}
	return delay;
}

void sched_start_overrun(const struct sched *t, struct sched_share *p, uint64_t now)
{
	p->closed_since = now;
	for (struct sched_client *s = p->clients; s; s = s->next) {
		uint64_t done = read_done_count(t, s);

		if (!s->busy || done != s->last_done)
			s->last_progress_at = now;
		s->last_done = done;
	}
	sched_wake_at(p->gpu, now + get_boost_delay(p->slice));
}

/* Since when no work in flight of a client behind its closed gate has ended. SCHED_NEVER: no such work. */
static uint64_t get_stall_start(const struct sched *t, struct sched_share *p, uint64_t now)
{
	uint64_t since = SCHED_NEVER;

	if (p->closed_since == SCHED_NEVER)
		return SCHED_NEVER;
	for (struct sched_client *s = p->clients; s; s = s->next) {
		uint64_t done = s->busy ? read_done_count(t, s) : s->last_done;

		if (done != s->last_done)
			s->last_progress_at = now;
		s->last_done = done;
		if (s->busy)
			since = min_u64(since, s->last_progress_at);
	}
	return since;
}

/* get_stall_start() of the whole slice, while it has something to submit; else SCHED_NEVER. */
static uint64_t get_slice_stall_start(const struct sched *t, const struct sched_slice *s,
	uint64_t now)
{
	uint64_t since = SCHED_NEVER;

	if (!sched_slice_wants(s))
		return SCHED_NEVER;
	for (struct sched_share *p = sched_next_time_shared(s->shares); p;
		p = sched_next_time_shared(p->sibling))
		since = min_u64(since, get_stall_start(t, p, now));
	return since;
}

static void set_slice_boost(struct sched *t, struct sched_slice *s, bool boosted, uint64_t now)
{
	s->boosted = boosted;
	s->boosted_at = now;
	for (struct sched_share *p = s->shares; p; p = p->sibling)
		sched_mark_dirty(t, p->gpu);
}

static bool is_another_boosted(const struct sched_gpu *g, const struct sched_slice *but)
{
	for (const struct sched_share *p = g->shares; p; p = p->next) {
		if (p->slice != but && (p->slice->boosted || p->slice->boost_running))
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

	for (const struct sched_share *p = sched_next_time_shared(s->shares); p;
		p = sched_next_time_shared(p->sibling)) {
		if (is_another_boosted(p->gpu, s))
			return SCHED_NEVER;
		from = max_u64(from, p->gpu->boost_ended_at + SCHED_QUANTUM_NS);
	}
	return from;
}

static bool has_any_quantum(const struct sched_slice *s)
{
	for (const struct sched_share *p = s->shares; p; p = p->sibling) {
		if (p->gpu->holder == p)
			return true;
	}
	return false;
}

/* When the slice may be boosted; SCHED_NEVER: not as things are. Ends a boost that is not needed any more. */
static uint64_t get_boost_due_time(struct sched *t, struct sched_slice *s, uint64_t now)
{
	uint64_t since, from;

	if (s->boost_running || has_any_quantum(s))
		return SCHED_NEVER;
	since = get_slice_stall_start(t, s, now);
	if (since == SCHED_NEVER && s->boosted)
		set_slice_boost(t, s, false, now);
	if (since == SCHED_NEVER || s->boosted)
		return SCHED_NEVER;
	from = get_boost_free_time(s);
	return from == SCHED_NEVER
		       ? SCHED_NEVER
		       : max_u64(from, max_u64(since, s->boosted_at) + get_boost_delay(s));
}

void sched_update_boosts(struct sched *t, struct sched_gpu *g, uint64_t now)
{
	struct sched_slice *first = NULL;

	for (struct sched_share *p = g->shares; p; p = p->next) {
		uint64_t due = get_boost_due_time(t, p->slice, now);

		if (due > now) {
			sched_wake_at(g, due);
		} else if (!first || p->slice->boosted_at < first->boosted_at) {
			first = p->slice;
		}
	}
	if (first)
		set_slice_boost(t, first, true, now);
}

void sched_boost_begin(struct sched_slice *s, uint64_t now)
{
	if (!s->boosted)
		return;
	s->boosted = false;
	s->boost_running = true;
	for (struct sched_share *p = sched_next_time_shared(s->shares); p;
		p = sched_next_time_shared(p->sibling)) {
		sched_accrue(p->gpu, now);
		sched_lend_cap(p, true);
		for (struct sched_client *client = p->clients; client; client = client->next)
			client->boosted = p->closed_since != SCHED_NEVER && client->busy;
	}
}

void sched_boost_end(struct sched *t, struct sched_slice *s, uint64_t now)
{
	uint64_t delay = s->boost_delay ? s->boost_delay : BOOST_DELAY_FIRST;
	bool helped = false;

	if (!s->boost_running)
		return;
	s->boost_running = false;
	s->boosted_at = now;
	for (struct sched_share *p = s->shares; p; p = p->sibling) {
		sched_accrue(p->gpu, now);
		sched_lend_cap(p, false);
		p->gpu->boost_ended_at = now;
		for (struct sched_client *client = p->clients; client; client = client->next) {
			helped |= client->boosted &&
				  (!client->busy ||
					  read_done_count(t, client) != client->last_done);
			client->boosted = false;
		}
	}
	s->boost_delay = helped ? max_u64(delay / 2, BOOST_DELAY_MIN)
				: min_u64(2 * delay, BOOST_DELAY_MAX);
}
