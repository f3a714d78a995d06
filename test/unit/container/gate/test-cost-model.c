/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/cleanup.h"
#include "container/gate/cost-model.h"
#include "container/gate/pace.h"

#include <stdlib.h>

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

/* One submission of that kind, with a fence behind it that passes: the time it took. */
static void submit_and_fence(struct cost_model *model, unsigned int kind, uint64_t ns)
{
	struct cost_model_snapshot note;
	uint32_t cost = cost_model_cost_ns(model, kind);

	(void)cost_model_begin(model, cost);
	cost_model_end(model, kind, cost);
	cost_model_snapshot(model, &note);
	cost_model_fence_passed(model, &note);
	cost_model_learn(model, 1, ns, ns);
}

static void cost_model_learn__learns_from_a_submission_that_ran_alone(void **state)
{
	struct cost_model model = { .count = 0 };

	(void)state;
	assert_int_equal(cost_model_cost_ns(&model, 7), COST_MODEL_DEFAULT_NS);
	assert_true(cost_model_needs_fences(&model, 7));
	submit_and_fence(&model, 7, 3 * MS);
	assert_int_equal(cost_model_cost_ns(&model, 7), 3 * MS);
	assert_true(cost_model_needs_fences(&model, 7));         /* it is long */
	assert_int_equal(cost_model_cost_ns(&model, 8), 3 * MS); /* the mean */
	submit_and_fence(&model, 8, 5 * US);
	assert_int_equal(cost_model_cost_ns(&model, 8), 5 * US);
	assert_false(cost_model_needs_fences(&model, 8));
	submit_and_fence(&model, 8, 0); /* of unknown time */
	assert_int_equal(cost_model_cost_ns(&model, 8), 5 * US);
	submit_and_fence(&model, 8, 1);
	assert_int_equal(cost_model_cost_ns(&model, 8), COST_MODEL_MIN_NS);
	submit_and_fence(&model, 8, UINT64_MAX);
	assert_int_equal(cost_model_cost_ns(&model, 8), COST_MODEL_MAX_NS);
}

static void cost_model_in_flight_ns__sums_submissions_that_are_not_done(void **state)
{
	struct cost_model model = { .count = 0 };
	struct cost_model_snapshot first, second;
	uint64_t begun = 0;

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		begun = cost_model_begin(&model, 10 * US);
		cost_model_end(&model, 1, 10 * US);
		if (i == 1)
			cost_model_snapshot(&model, &first);
	}
	assert_int_equal(cost_model_unfenced_ns(&model), 20 * US);
	cost_model_snapshot(&model, &second);
	assert_int_equal(cost_model_in_flight_ns(&model, begun), 40 * US);
	cost_model_fence_passed(&model, &first);
	assert_int_equal(cost_model_in_flight_ns(&model, begun), 20 * US);
	cost_model_fence_passed(&model, &second);
	assert_int_equal(cost_model_in_flight_ns(&model, begun), 0);
	begun = cost_model_begin(&model, 10 * US);
	cost_model_uncount(&model, 10 * US);
	cost_model_set_idle(&model);
	assert_int_equal(cost_model_in_flight_ns(&model, atomic_load(&model.begun_ns)), 0);
}

static void cost_model_learn__learns_nothing_without_an_observed_end(void **state)
{
	struct cost_model model = { .count = 0 };

	(void)state;
	submit_and_fence(&model, 1, 10 * US);
	(void)cost_model_begin(&model, 10 * US);
	cost_model_end(&model, 1, 10 * US);
	cost_model_fence_passed(&model,
		&(struct cost_model_snapshot){ .work_ns = 20 * US, .count = 2 });
	cost_model_learn(&model, 100, 5 * MS, 50 * US); /* 99 others */
	assert_int_equal(cost_model_cost_ns(&model, 1), 10 * US);
}

/* --- a throttled thread, a GPU, and a gate thread --- */

/*
 * A program submits series of kernels; each submission takes processor time. The gate thread polls by pace.h,
 * and some time later. A thread that the gate thread lets in continues after some time.
 */
#define PENDING 64    /* markers */
#define LOST    (300) /* ns that a marker takes the processor */

struct row {
	unsigned int kind;
	uint64_t ns;
};

struct rig {
	struct pace pace;
	struct cost_model kinds;
	uint64_t now, random, window_ns, submit_ns;
	const struct row *rows;
	unsigned int n_rows;
	uint64_t ends[PENDING * 4096]; /* of submissions, on the GPU */
	uint64_t submitted, ended, done, total;
	struct marker {
		uint64_t target;
		struct cost_model_snapshot note;
	} markers[PENDING];
	unsigned int first, pending;
	uint64_t last; /* target of the last marker */
	uint64_t front_ns;
	bool held, was_busy;
	uint64_t submit_at, poll_at;
	uint64_t dry_ns, over_ns,
		most_ns; /* without work; time with more than twice the window */
};

static uint64_t pick_random(struct rig *r, uint64_t below)
{
	r->random ^= r->random << 13;
	r->random ^= r->random >> 7;
	r->random ^= r->random << 17;
	return r->random % below;
}

static uint64_t get_earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void place_marker(struct rig *r)
{
	struct marker *m = &r->markers[(r->first + r->pending) % PENDING];

	if (r->last == r->submitted || r->pending == PENDING / 2)
		return;
	m->target = r->last = r->submitted;
	cost_model_snapshot(&r->kinds, &m->note);
	r->pending++;
	r->submit_at += LOST;
}

static void run_on_gpu(struct rig *r, uint64_t ns)
{
	uint64_t free_at = r->submitted ? r->ends[r->submitted - 1] : r->now, in_flight;

	if (free_at < r->now) {
		r->dry_ns += r->now - free_at;
		free_at = r->now;
	}
	r->ends[r->submitted++] = free_at + ns;
	in_flight = free_at + ns - r->now;
	if (in_flight > (pace_is_tight(r->window_ns)
					? 3 * r->window_ns / 2 + ns
					: 2 * r->window_ns + PACE_IN_FLIGHT_MIN * ns))
		r->over_ns += ns;
}

static void submit_cost_row(struct rig *r)
{
	const struct row *row = &r->rows[r->submitted % r->n_rows];
	uint32_t cost = cost_model_cost_ns(&r->kinds, row->kind);
	bool alone = cost_model_needs_fences(&r->kinds, row->kind);
	uint64_t work = cost_model_begin(&r->kinds, cost);

	if (!pace_fits(&(struct pace_flight){ r->submitted - r->done,
			       cost_model_in_flight_ns(&r->kinds, work - cost), r->front_ns,
			       r->pace.from_ns },
		    cost, r->window_ns, pace_is_tight(r->window_ns), r->now)) {
		cost_model_uncount(&r->kinds, cost);
		r->submit_at = UINT64_MAX;
		if (!r->held && r->poll_at > r->now + 10 * US)
			r->poll_at = r->now + 10 * US;
		r->held = true;
		return;
	}
	r->held = false;
	r->submit_at = r->now + r->submit_ns;
	if (alone)
		place_marker(r);
	run_on_gpu(r, row->ns);
	cost_model_end(&r->kinds, row->kind, cost);
	if (alone || cost_model_unfenced_ns(&r->kinds) >=
			     (pace_is_tight(r->window_ns) ? PACE_FENCE_GAP_TIGHT_NS
							  : PACE_FENCE_GAP_NS))
		place_marker(r);
}

static void wake_submitter(struct rig *r)
{
	r->submit_at = get_earlier(r->submit_at, r->now + 8 * US + pick_random(r, 30 * US));
}

/* The clock lets the blocked thread pass. */
static void throttle_tightly(struct rig *r, struct pace_state *sight)
{
	struct pace_flight f = { r->submitted - r->done,
		cost_model_in_flight_ns(&r->kinds, r->kinds.begun_ns), 0, r->pace.from_ns };
	uint64_t cost = cost_model_mean_ns(&r->kinds);

	if (r->pending)
		f.front_ns =
			cost_model_in_flight_ns(&r->kinds, r->markers[r->first].note.work_ns);
	r->front_ns = f.front_ns;
	if (!r->held)
		return;
	sight->fits_ns = pace_fits_at(&f, cost, r->window_ns);
	if (pace_fits(&f, cost, r->window_ns, true, r->now))
		wake_submitter(r);
}

static void poll_markers(struct rig *r)
{
	struct pace_state sight = { .is_awaited = true };
	uint64_t done = r->done;
	bool busy;

	while (r->pending && r->ends[r->markers[r->first].target - 1] <= r->now) {
		done = r->markers[r->first].target;
		cost_model_fence_passed(&r->kinds, &r->markers[r->first].note);
		r->first = (r->first + 1) % PENDING;
		r->pending--;
	}
	if (done > r->done) {
		uint64_t took = pace_done(&r->pace, r->now, done - r->done);

		cost_model_learn(&r->kinds, done - r->done, took, r->pace.each_ns);
		if (r->held)
			wake_submitter(r);
	}
	r->done = done;
	busy = r->submitted != done;
	if (!busy) {
		pace_idle(&r->pace, r->now);
		cost_model_set_idle(&r->kinds);
	} else if (!r->was_busy) {
		pace_begins(&r->pace, r->now);
	} else {
		pace_pending(&r->pace, r->now);
	}
	r->was_busy = busy;
	if (!r->pending || r->held)
		place_marker(r);
	sight.ahead = r->pending ? r->markers[r->first].target - done : 0;
	sight.throttled = r->held;
	sight.unfenced = r->submitted - r->last;
	if (pace_is_tight(r->window_ns))
		throttle_tightly(r, &sight);
	r->poll_at = r->now + 8 * US + pace_sleep(&r->pace, r->now, &sight) +
		     pick_random(r, 20 * US);
}

/* The part of the time in which the GPU was without work; percent. */
static double run_cost_rows(const struct row *rows, unsigned int n_rows, uint64_t window_ns,
	uint64_t submit_ns, double *over)
{
	struct rig *r = calloc(1, sizeof(*r));
	uint64_t began;
	double dry;

	assert_non_null(r);
	*r = (struct rig){ .now = MS,
		.random = 88172645463325252,
		.window_ns = window_ns,
		.submit_ns = submit_ns,
		.rows = rows,
		.n_rows = n_rows,
		.submit_at = MS,
		.poll_at = MS,
		.total = n_rows < 100 ? 4000 : 40 * n_rows };
	assert_true(r->total < ARRAY_LEN(r->ends));
	began = 0;
	while (r->submitted < r->total) {
		r->now = r->submit_at < r->poll_at ? r->submit_at : r->poll_at;
		/* The cost model has seen all kinds. */
		if (!began && r->submitted >= 200 && r->submitted >= 2 * n_rows) {
			began = r->now;
			r->dry_ns = r->over_ns = 0;
		}
		if (r->now == r->submit_at)
			submit_cost_row(r);
		else
			poll_markers(r);
	}
	dry = 100.0 * (double)r->dry_ns / (double)(r->now - began);
	*over = 100.0 * (double)r->over_ns / (double)(r->now - began);
	free(r);
	return dry;
}

/* Like a step of a training: a few long kernels, and many short ones. */
static unsigned int fill_training_step(struct row *rows, unsigned int n_long, uint64_t long_ns,
	unsigned int n_short, uint64_t short_ns, bool mixed)
{
	unsigned int n = 0, each = n_short / n_long;

	for (unsigned int i = 0; i < n_long; i++) {
		rows[n++] =
			(struct row){ 1 + i % 3, mixed ? long_ns * (1 + i % 3) / 2 : long_ns };
		for (unsigned int k = 0; mixed && k < each; k++)
			rows[n++] = (struct row){ 10 + k % 20, short_ns * (1 + k % 3) };
	}
	for (unsigned int k = 0; !mixed && k < n_short; k++)
		rows[n++] = (struct row){ 10 + k % 20, short_ns };
	return n;
}

static void throttled_work__is_short_and_never_empty(void **state)
{
	static const struct {
		unsigned int n_long;
		uint64_t long_ns;
		unsigned int n_short;
		uint64_t short_ns, submit_ns, window_ns;
		bool mixed;
		double dry, over; /* at most, percent */
	} cases[] = {
		{ 1, 250 * US, 0, 0, 3 * US, 2 * MS, false, 1, 1 },
		{ 1, 250 * US, 0, 0, 3 * US, 500 * US, false, 2, 1 },
		{ 1, 5 * US, 999, 5 * US, 3 * US, 2 * MS, false, 1, 1 },
		{ 10, MS, 300, 5 * US, 5 * US, 2 * MS, false, 1, 2 },
		{ 20, 300 * US, 300, 5 * US, 3 * US, 2 * MS, false, 1, 2 },
		{ 20, 300 * US, 300, 5 * US, 3 * US, 2 * MS, true, 1, 2 },
		{ 60, 120 * US, 600, 6 * US, 4 * US, 2 * MS, true, 1, 2 },
		{ 4, 2 * MS, 400, 5 * US, 5 * US, 500 * US, false, 4, 5 },
		{ 20, 300 * US, 300, 5 * US, 3 * US, 500 * US, true, 6, 2 },
		{ 1, 250 * US, 0, 0, 3 * US, 300 * US, false, 1, 1 },
		{ 1, 60 * US, 0, 0, 3 * US, 300 * US, false, 1, 1 },
		{ 1, 5 * US, 999, 5 * US, 3 * US, 300 * US, false, 1, 1 },
		{ 4, 2 * MS, 400, 5 * US, 5 * US, 300 * US, false, 3, 1 },
		{ 20, 300 * US, 300, 5 * US, 3 * US, 300 * US, true, 6, 1 },
	};
	static struct row rows[2000];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned int n = fill_training_step(rows, cases[i].n_long, cases[i].long_ns,
			cases[i].n_short, cases[i].short_ns, cases[i].mixed);
		double over, dry = run_cost_rows(rows, n, cases[i].window_ns,
				     cases[i].submit_ns, &over);

		if (dry > cases[i].dry || over > cases[i].over)
			fail_msg("case %zu: dry for %.2f %%, over for %.2f %%", i, dry, over);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(cost_model_learn__learns_from_a_submission_that_ran_alone),
		cmocka_unit_test(cost_model_in_flight_ns__sums_submissions_that_are_not_done),
		cmocka_unit_test(cost_model_learn__learns_nothing_without_an_observed_end),
		cmocka_unit_test(throttled_work__is_short_and_never_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
