/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/pace.h"

#include "container/sys.h"

static uint64_t max_pace_ns(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t get_pace_each_ns(const struct pace *p)
{
	return p->each_ns ? p->each_ns : PACE_FIRST_NS;
}

void pace_doorbell_rang(struct pace *p)
{
	p->open_ns = PACE_POLL_OPEN_MIN_NS;
	p->quiet_ns = 0;
}

void pace_gate(struct pace *p, uint64_t now, bool changed, bool closed)
{
	if (changed)
		p->opened_ns = now;
	p->behind |= changed;
	p->closed = closed;
}

void pace_begins(struct pace *p, uint64_t now)
{
	p->from_ns = now;
	p->pending_ns = now;
	p->quiet_ns = 0;
	p->idle = false;
}

void pace_pending(struct pace *p, uint64_t now)
{
	p->pending_ns = now;
	p->quiet_ns = 0;
}

/* The end was between the last poll that found the work in flight and this poll. */
static uint64_t estimate_work_end(const struct pace *p, uint64_t now)
{
	return p->pending_ns && p->pending_ns < now ? now - (now - p->pending_ns) / 2 : now;
}

/*
 * The mean of the last samples but the longest, which may have waited for another process's time slice.
 * An end that is seen late makes one sample longer and the next one shorter. The sum does not change.
 */
static void update_pace_mean(struct pace *p, uint64_t took, uint64_t n)
{
	const struct pace_sample *longest = NULL;
	uint64_t sum = 0, count = 0;

	p->measured_ns[p->next % PACE_SAMPLES] = took / n;
	p->samples[p->next++ % PACE_SAMPLES] = (struct pace_sample){ took, n };
	for (unsigned int i = 0; i < PACE_SAMPLES; i++) {
		const struct pace_sample *s = &p->samples[i];

		sum += s->took_ns;
		count += s->n;
		if (s->n && (!longest || s->took_ns / s->n > longest->took_ns / longest->n))
			longest = s;
	}
	if (count > longest->n) {
		sum -= longest->took_ns;
		count -= longest->n;
	}
	p->each_ns = max_pace_ns(sum / count, 1);
}

uint64_t pace_done(struct pace *p, uint64_t now, uint64_t n)
{
	uint64_t end = estimate_work_end(p, now), took;
	bool known;

	if (!n)
		return 0;
	took = end > p->from_ns ? end - p->from_ns : 0;
	known = !(p->behind || p->closed || p->idle) || !p->each_ns || took / n < p->each_ns;
	if (known)
		update_pace_mean(p, took, n);
	p->behind = false;
	p->from_ns = end;
	p->ended_ns = end;
	return known ? took : 0;
}

void pace_overdue(struct pace *p, uint64_t now, uint64_t ahead)
{
	uint64_t waited = now > p->from_ns ? now - p->from_ns : 0;
	/* Beside other slices' work it takes its time. */
	uint64_t late = p->closed ? 4 * PACE_LATE_NS : PACE_LATE_NS;

	if (!ahead || p->behind || waited < late || waited / ahead <= 2 * get_pace_each_ns(p))
		return;
	for (unsigned int i = 0; i < PACE_SAMPLES; i++)
		p->samples[i] = (struct pace_sample){ waited, ahead };
	p->each_ns = waited / ahead;
}

void pace_idle(struct pace *p, uint64_t now)
{
	if (!p->quiet_ns) {
		p->quiet_ns = now;
		/* A start is then seen as soon as an end. */
		p->open_ns = PACE_POLL_OPEN_MIN_NS;
	}
	p->pending_ns = 0;
	p->from_ns = now;
	p->idle = true;
}

uint64_t pace_window(uint64_t window_ns, uint64_t overrun_ns, uint64_t quantum_ns,
	uint64_t age_ns)
{
	uint64_t rest = quantum_ns > age_ns ? quantum_ns - age_ns : 0;
	uint64_t window = window_ns ? window_ns : PACE_WINDOW_NS;

	if (!quantum_ns)
		return window;
	rest = __builtin_add_overflow(rest, overrun_ns, &rest) ? UINT64_MAX : rest;
	return min_u64(window, rest);
}

/* Estimated ns of the work in flight that is not done at @now. */
static uint64_t get_flight_left_ns(const struct pace_flight *f, uint64_t now)
{
	uint64_t gone = now > f->from_ns ? min_u64(now - f->from_ns, f->front_ns) : 0;

	return f->work_ns > gone ? f->work_ns - gone : 0;
}

/* The most ns of work that may still be in flight when a submission of @cost_ns passes. */
static uint64_t get_allowed_rest_ns(const struct pace_flight *f, uint64_t cost_ns,
	uint64_t allow_ns)
{
	return max_pace_ns(allow_ns > cost_ns ? allow_ns - cost_ns : 0,
		f->n < PACE_IN_FLIGHT_MIN ? PACE_LEAD_NS : 0);
}

bool pace_fits(const struct pace_flight *f, uint64_t cost_ns, uint64_t allow_ns, bool tight,
	uint64_t now)
{
	if (!tight)
		return f->n < PACE_IN_FLIGHT_MIN || f->work_ns + cost_ns <= allow_ns;
	return !f->n || get_flight_left_ns(f, now) <= get_allowed_rest_ns(f, cost_ns, allow_ns);
}

uint64_t pace_fits_at(const struct pace_flight *f, uint64_t cost_ns, uint64_t allow_ns)
{
	uint64_t may = get_allowed_rest_ns(f, cost_ns, allow_ns);

	if (f->work_ns <= may)
		return f->from_ns;
	return f->work_ns - may <= f->front_ns ? f->from_ns + (f->work_ns - may) : UINT64_MAX;
}

/* Submissions between two fences. */
static uint32_t pace_fence_gap(const struct pace *p)
{
	return (uint32_t)min_u64(max_pace_ns(PACE_FENCE_GAP_NS / get_pace_each_ns(p), 1),
		PACE_FENCE_GAP_MAX);
}

uint64_t pace_stall(const struct pace *p)
{
	uint64_t longest = 0;

	for (unsigned int i = 0; i < PACE_SAMPLES; i++)
		longest = max_pace_ns(longest, p->measured_ns[i]);
	return max_pace_ns(PACE_STALL_NS, min_u64(4 * longest, PACE_STALL_MAX_NS));
}

bool pace_fence_due(const struct pace *p, uint64_t unmarked, bool pending, bool held)
{
	return unmarked && (!pending || held || unmarked >= pace_fence_gap(p));
}

uint64_t pace_sleep(struct pace *p, uint64_t now, const struct pace_state *s)
{
	uint64_t sleep, expected;

	if (!s->is_awaited) {
		sleep = max_pace_ns(p->open_ns, PACE_POLL_OPEN_MIN_NS);
		p->open_ns = min_u64(2 * sleep, PACE_POLL_OPEN_MAX_NS);
		return sleep;
	}
	p->open_ns = PACE_POLL_OPEN_MIN_NS;
	/* @s->ahead 0: a thread is submitting, or the last work has just ended. */
	if (__builtin_mul_overflow(get_pace_each_ns(p), s->ahead, &expected) ||
		__builtin_add_overflow(expected, p->from_ns, &expected))
		expected = UINT64_MAX;
	if (expected > now + PACE_EARLY_NS + PACE_POLL_CLOSE_NS)
		sleep = expected - now - PACE_EARLY_NS;
	else if (expected + PACE_EARLY_NS >= now)
		sleep = PACE_POLL_CLOSE_NS;
	else /* longer than it seemed: so often that the end is known to a sixteenth */
		sleep = max_pace_ns(PACE_POLL_CLOSE_NS,
			min_u64((now - p->from_ns) / 16, PACE_POLL_OVERDUE_MAX_NS));
	if (s->throttled && s->fits_ns)
		sleep = min_u64(sleep,
			max_pace_ns(PACE_POLL_CLOSE_NS, s->fits_ns - min_u64(s->fits_ns, now)));
	/* Short submissions among them may be over long before. */
	if (s->throttled)
		sleep = min_u64(sleep, max_pace_ns(PACE_POLL_THROTTLED_NS,
					       (now - min_u64(p->from_ns, now)) / 2));
	/* More submissions may come that need a fence. */
	return min_u64(sleep, s->unfenced ? PACE_FENCE_GAP_NS : PACE_POLL_OPEN_MAX_NS);
}

enum pace_rest pace_rest(const struct pace *p, uint64_t now, bool near, bool closed)
{
	uint64_t quiet = p->quiet_ns && now > p->quiet_ns ? now - p->quiet_ns : 0;

	if (closed)
		return PACE_REST;
	if (near)
		return quiet >= PACE_LINGER_NS ? PACE_REST : PACE_REPORT;
	return quiet >= PACE_REST_OPEN_NS ? PACE_REST : PACE_REPORT;
}

bool pace_bucket(struct pace_bucket *b, uint64_t now, uint32_t cap, bool busy)
{
	uint64_t dt = b->at_ns && now > b->at_ns ? now - b->at_ns : 0;
	int64_t come;

	if (!b->at_ns)
		b->left_ns = PACE_BURST_NS;
	b->at_ns = now;
	dt = min_u64(dt, UINT64_C(1000000000)); /* a process that was stopped */
	come = (int64_t)(dt * cap / 1000000);
	b->left_ns += come - (busy ? (int64_t)dt : 0);
	if (b->left_ns > PACE_BURST_NS)
		b->left_ns = PACE_BURST_NS;
	return b->left_ns > 0;
}

uint64_t pace_bucket_wait(const struct pace_bucket *b, uint32_t cap)
{
	uint64_t due = b->left_ns < 0 ? (uint64_t)-b->left_ns + 1 : 1;

	return cap ? min_u64(due * 1000000 / cap, PACE_POLL_OPEN_MAX_NS) + PACE_POLL_CLOSE_NS
		   : PACE_POLL_OPEN_MAX_NS;
}
