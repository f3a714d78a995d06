/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "container/gate/pace.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

static void pace_window__is_the_rest_of_the_quantum(void **state)
{
	static const struct {
		uint64_t window, overrun, quantum, age, is;
	} rows[] = {
		{ 900 * US, 400 * US, 20 * MS, 0, 900 * US },
		{ 900 * US, 400 * US, 20 * MS, 19 * MS, 900 * US },
		{ 900 * US, 400 * US, 20 * MS, 19800 * US, 600 * US },
		{ 900 * US, 400 * US, 20 * MS, 20 * MS, 400 * US },
		{ 900 * US, 400 * US, 20 * MS, UINT64_MAX, 400 * US },
		{ 900 * US, 0, 20 * MS, 30 * MS, 0 },
		{ 900 * US, UINT64_MAX, 20 * MS, 1, 900 * US },
		{ 900 * US, 0, 0, 5 * MS, 900 * US }, /* a quantum without an end */
		{ 0, 0, 0, 0, PACE_WINDOW_NS },
		{ 0, 300 * US, 5 * MS, 6 * MS, 300 * US },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(pace_window(rows[i].window, rows[i].overrun, rows[i].quantum,
					 rows[i].age),
			rows[i].is);
}

static void pace_done__learns_the_time_of_a_submission(void **state)
{
	struct pace p = { 0 };
	uint64_t now = 1000 * MS;

	(void)state;
	pace_begins(&p, now);
	for (int i = 0; i < 50; i++) {
		now += 1 * MS;
		pace_pending(&p, now - 10 * US);
		pace_done(&p, now, 10);
		assert_in_range(p.ended_ns, now - 10 * US, now);
	}
	assert_in_range(p.each_ns, 99 * US, 101 * US);
	/* Longer ones are known after a few, shorter ones a little later. */
	for (int i = 0; i < 5; i++) {
		now += 1 * MS;
		pace_pending(&p, now - 10 * US);
		pace_done(&p, now, 1);
	}
	assert_true(p.each_ns > 900 * US);
	for (int i = 0; i < 40; i++) {
		now += 1 * MS;
		pace_pending(&p, now - 10 * US);
		pace_done(&p, now, 1000);
	}
	assert_true(p.each_ns < 2 * US && p.each_ns > 0);
	/* A pause is no work. */
	now += 10000 * MS;
	pace_idle(&p, now);
	pace_begins(&p, now);
	now += 1 * US;
	pace_done(&p, now, 1);
	assert_true(p.each_ns < 2 * US);
	for (int i = 0; i < 1000; i++)
		pace_done(&p, now, 1); /* in no time */
	assert_true(p.each_ns > 0);
}

static void pace_done__estimates_an_end_midway_between_polls(void **state)
{
	struct pace p = { 0 };

	(void)state;
	pace_begins(&p, 1 * MS);
	pace_pending(&p, 2 * MS);
	pace_done(&p, 4 * MS, 2);
	assert_int_equal(p.ended_ns, 3 * MS);
	assert_int_equal(p.each_ns, 1 * MS);
}

/* A submission that comes and goes between two polls, after a rest, took no longer than the time since the
 * poll before. */
static void pace_done__counts_no_idle_time_as_work(void **state)
{
	struct pace p = { 0 };

	(void)state;
	pace_begins(&p, MS);
	pace_pending(&p, MS + 100 * US);
	assert_int_equal(pace_done(&p, MS + 100 * US, 1), 100 * US);
	for (uint64_t now = MS + 100 * US; now <= 3 * MS; now += 50 * US)
		pace_idle(&p, now);
	assert_int_equal(pace_done(&p, 3 * MS + 40 * US, 1), 40 * US);
	pace_idle(&p, 3 * MS + 50 * US);
	/* The part of that time that the submission took is unknown. */
	assert_int_equal(pace_done(&p, 9 * MS, 1), 0);
	assert_in_range(p.each_ns, 40 * US, 100 * US);
	/* Polled while it runs, a submission is a measure again. */
	pace_begins(&p, 10 * MS);
	pace_pending(&p, 12 * MS);
	assert_int_equal(pace_done(&p, 12 * MS, 1), 2 * MS);
}

/* The time that the submission took, as the pace has measured it. */
static uint64_t ends_now(struct pace *p, uint64_t now)
{
	pace_pending(p, now);
	return pace_done(p, now, 1);
}

/* Behind a closed gate other processes have the GPU, too. */
static void pace_done__learns_nothing_where_the_gate_is_closed(void **state)
{
	struct pace p = { 0 };
	uint64_t now = MS;

	(void)state;
	pace_begins(&p, now);
	now += 100 * US;
	assert_int_equal(ends_now(&p, now), 100 * US);
	pace_gate(&p, now, /* changed= */ true, /* closed= */ true);
	for (int i = 0; i < 10; i++) {
		now += 4 * MS;
		assert_int_equal(ends_now(&p, now), 0);
		pace_gate(&p, now, false, true);
	}
	/* The first submission behind the others' work. */
	pace_gate(&p, now, true, false);
	now += 4 * MS;
	assert_int_equal(ends_now(&p, now), 0);
	assert_int_equal(p.each_ns, 100 * US);
	pace_gate(&p, now, false, false);
	now += 200 * US;
	assert_int_equal(ends_now(&p, now), 200 * US);
}

/* A long submission among short ones is measured as long. Otherwise each quantum would let too much in. */
static void pace_overdue__detects_ends_behind_a_closed_gate_too(void **state)
{
	struct pace p = { 0 };
	uint64_t now = MS;

	(void)state;
	pace_begins(&p, now);
	now += 25 * US;
	assert_int_equal(ends_now(&p, now), 25 * US);
	pace_gate(&p, now, true, true);
	now += 25 * US;
	(void)ends_now(&p, now);
	pace_overdue(&p, now + 19 * MS, 1);
	assert_int_equal(p.each_ns, 25 * US);
	pace_overdue(&p, now + 20 * MS, 1);
	assert_int_equal(p.each_ns, 20 * MS);
}

static void pace_fits__keeps_the_gpu_from_running_dry(void **state)
{
	struct pace_flight f = { .n = 1, .work_ns = 20 * MS };

	(void)state;
	assert_true(pace_fits(&f, 20 * MS, MS, false, 0)); /* of any length */
	f.n = PACE_IN_FLIGHT_MIN;
	assert_false(pace_fits(&f, 20 * MS, MS, false, 0));
	f.work_ns = 600 * US;
	assert_true(pace_fits(&f, 400 * US, MS, false, 0));
	assert_false(pace_fits(&f, 401 * US, MS, false, 0));
	assert_true(pace_fits(&f, 20 * MS, UINT64_MAX, false, 0));
}

static void pace_fits__follows_the_clock_with_a_small_window(void **state)
{
	struct pace_flight f = { .n = 1,
		.work_ns = 250 * US,
		.front_ns = 250 * US,
		.from_ns = MS };
	uint64_t at = MS + 250 * US - PACE_LEAD_NS;

	(void)state;
	assert_int_equal(pace_fits_at(&f, 250 * US, 300 * US), at);
	assert_false(pace_fits(&f, 250 * US, 300 * US, true, at - 1));
	assert_true(pace_fits(&f, 250 * US, 300 * US, true, at));
	/* No more of the work can be over than has begun. */
	f = (struct pace_flight){ .n = 2,
		.work_ns = 500 * US,
		.front_ns = 250 * US,
		.from_ns = MS };
	assert_true(pace_fits_at(&f, 250 * US, 300 * US) == UINT64_MAX);
	assert_false(pace_fits(&f, 250 * US, 300 * US, true, 1000 * MS));
	/* Short submissions fill the window. */
	f = (struct pace_flight){ .n = 5,
		.work_ns = 250 * US,
		.front_ns = 100 * US,
		.from_ns = MS };
	assert_true(pace_fits(&f, 50 * US, 300 * US, true, MS));
	assert_false(pace_fits(&f, 60 * US, 300 * US, true, MS));
	assert_int_equal(pace_fits_at(&f, 60 * US, 300 * US), MS + 10 * US);
	/* No submission is known to have begun. The thread waits, as other processes' work may be in front. */
	f = (struct pace_flight){ .n = 1, .work_ns = 250 * US, .from_ns = MS };
	assert_true(pace_fits_at(&f, 250 * US, 300 * US) == UINT64_MAX);
	assert_false(pace_fits(&f, 250 * US, 300 * US, true, 1000 * MS));
	f.n = 0;
	f.work_ns = 0;
	assert_true(pace_fits(&f, 250 * US, 300 * US, true, MS));
}

/* The work in flight may itself wait for a blocked thread. So a long time without an end is no reason to hold the
 * thread longer. */
static void pace_stall__counts_from_the_last_end(void **state)
{
	struct pace p = { 0 };
	uint64_t now = 1000 * MS;

	(void)state;
	assert_int_equal(pace_stall(&p), PACE_STALL_NS);
	pace_begins(&p, now);
	for (int i = 0; i < 100; i++) {
		now += 10 * MS;
		pace_pending(&p, now);
		pace_overdue(&p, now, 1);
		assert_int_equal(pace_stall(&p), PACE_STALL_NS);
	}
	assert_true(p.each_ns > 400 * MS); /* the polls follow it all the same */
	/* A kernel may just be long: one kernel was. */
	pace_done(&p, now, 1);
	assert_in_range(pace_stall(&p), 4 * 990 * MS, 4 * 1000 * MS);
	/* A submission that may have waited for others' work is no measure. */
	now += 5000 * MS;
	p.behind = true;
	pace_pending(&p, now);
	pace_done(&p, now, 1);
	assert_in_range(pace_stall(&p), 4 * 990 * MS, 4 * 1000 * MS);
	/* The wait is never longer than the maximum. */
	now += 5000 * MS;
	pace_pending(&p, now);
	pace_done(&p, now, 1);
	assert_int_equal(pace_stall(&p), PACE_STALL_MAX_NS);
	/* Short submissions again, but long ones may be among them. */
	for (int i = 0; i < PACE_SAMPLES; i++) {
		assert_int_equal(pace_stall(&p), PACE_STALL_MAX_NS);
		now += MS;
		pace_pending(&p, now);
		pace_done(&p, now, 100);
	}
	assert_int_equal(pace_stall(&p), PACE_STALL_NS);
}

static void pace_fence_due__spaces_fences(void **state)
{
	struct pace p = { .each_ns = 10 * US };

	(void)state;
	assert_false(pace_fence_due(&p, 0, false, true));
	assert_true(pace_fence_due(&p, 1, false, false)); /* none is there */
	assert_false(pace_fence_due(&p, 24, true, false));
	assert_true(pace_fence_due(&p, 25, true, false));
	assert_true(pace_fence_due(&p, 1, true, true)); /* a thread waits for its end */
	p.each_ns = 1 * MS;
	assert_true(pace_fence_due(&p, 1, true, false));
}

static void pace_sleep__ends_before_the_expected_end(void **state)
{
	struct pace p = { .each_ns = 100 * US };
	uint64_t now = 1000 * MS;

	(void)state;
	pace_begins(&p, now);
	assert_int_equal(
		pace_sleep(&p, now,
			&(struct pace_state){ .is_awaited = true, .ahead = 5, .unfenced = 0 }),
		470 * US);
	assert_int_equal(
		pace_sleep(&p, now,
			&(struct pace_state){ .is_awaited = true, .ahead = 5, .unfenced = 1 }),
		PACE_FENCE_GAP_NS); /* a fence is due */
	assert_int_equal(
		pace_sleep(&p, now + 470 * US,
			&(struct pace_state){ .is_awaited = true, .ahead = 5, .unfenced = 0 }),
		PACE_POLL_CLOSE_NS);
	assert_int_equal(
		pace_sleep(&p, now + 520 * US,
			&(struct pace_state){ .is_awaited = true, .ahead = 5, .unfenced = 0 }),
		PACE_POLL_CLOSE_NS);
	/* The work takes longer than estimated: fewer polls, but not many fewer. */
	assert_int_equal(
		pace_sleep(&p, now + 4800 * US,
			&(struct pace_state){ .is_awaited = true, .ahead = 5, .unfenced = 0 }),
		300 * US);
	assert_int_equal(
		pace_sleep(&p, now + 1000 * MS,
			&(struct pace_state){ .is_awaited = true, .ahead = 5, .unfenced = 0 }),
		PACE_POLL_OVERDUE_MAX_NS);
	/* Being submitted. */
	assert_int_equal(
		pace_sleep(&p, now,
			&(struct pace_state){ .is_awaited = true, .ahead = 0, .unfenced = 0 }),
		PACE_POLL_CLOSE_NS);
	/* The longest there is. */
	p.each_ns = UINT64_MAX / 2;
	assert_int_equal(
		pace_sleep(&p, now,
			&(struct pace_state){ .is_awaited = true, .ahead = 5, .unfenced = 0 }),
		PACE_POLL_OPEN_MAX_NS);
}

/* The work in flight may be much shorter than estimated. No work follows it while the threads are blocked. */
static void pace_sleep__is_short_while_threads_are_blocked(void **state)
{
	static const struct pace_state held = { .is_awaited = true,
		.throttled = true,
		.ahead = 5 };
	struct pace_state soon = held;
	struct pace p = { .each_ns = 1 * MS };
	uint64_t now = 1000 * MS;

	(void)state;
	pace_begins(&p, now);
	assert_int_equal(pace_sleep(&p, now, &held), PACE_POLL_THROTTLED_NS);
	assert_int_equal(pace_sleep(&p, now + 200 * US, &held), 100 * US);
	assert_int_equal(pace_sleep(&p, now + 1000 * US, &held), 500 * US);
	/* The window has room before that, by the clock. */
	soon.fits_ns = now + 130 * US;
	assert_int_equal(pace_sleep(&p, now + 100 * US, &soon), 30 * US);
	assert_int_equal(pace_sleep(&p, now + 129 * US, &soon), PACE_POLL_CLOSE_NS);
}

static void pace_sleep__grows_without_blocked_threads(void **state)
{
	static const uint64_t us[] = { 50, 100, 200, 400, 800, 1600, 2000, 2000 };
	struct pace p = { 0 };

	(void)state;
	for (int round = 0; round < 2; round++) {
		pace_doorbell_rang(&p);
		for (size_t i = 0; i < sizeof(us) / sizeof(us[0]); i++)
			assert_int_equal(pace_sleep(&p, i,
						 &(struct pace_state){ .is_awaited = false,
							 .ahead = 1,
							 .unfenced = 0 }),
				us[i] * US);
	}
	/* A thread waits for a while, then no thread does. */
	(void)pace_sleep(&p, 1,
		&(struct pace_state){ .is_awaited = true, .ahead = 1, .unfenced = 0 });
	assert_int_equal(
		pace_sleep(&p, 1,
			&(struct pace_state){ .is_awaited = false, .ahead = 1, .unfenced = 0 }),
		PACE_POLL_OPEN_MIN_NS);
}

static void pace_rest__reports_at_once_where_another_slice_waits(void **state)
{
	struct pace p = { 0 };
	uint64_t now = 1000 * MS;

	(void)state;
	pace_doorbell_rang(&p);
	pace_idle(&p, now);
	assert_int_equal(pace_rest(&p, now, true, true), PACE_REST);
	assert_int_equal(pace_rest(&p, now, true, false), PACE_REPORT);
	assert_int_equal(pace_rest(&p, now + PACE_LINGER_NS, true, false), PACE_REST);
}

/* A rest costs the thread that submits next. */
static void pace_rest__comes_late_where_no_slice_waits(void **state)
{
	struct pace p = { 0 };
	uint64_t now = 1000 * MS;

	(void)state;
	pace_doorbell_rang(&p);
	pace_idle(&p, now);
	assert_int_equal(pace_rest(&p, now, false, false), PACE_REPORT);
	assert_int_equal(pace_rest(&p, now + PACE_LINGER_NS, false, false), PACE_REPORT);
	assert_int_equal(pace_rest(&p, now + PACE_REST_OPEN_NS, false, false), PACE_REST);
	assert_int_equal(pace_rest(&p, now, false, true), PACE_REST);
	/* The work continues in between. */
	pace_begins(&p, now + 1 * MS);
	pace_idle(&p, now + 2 * MS);
	assert_int_equal(pace_rest(&p, now + 2 * MS, false, false), PACE_REPORT);
}

static void pace_bucket__keeps_to_the_cap(void **state)
{
	static const uint32_t caps[] = { 10000, 250000, 500000, 750000, 1000000 };

	(void)state;
	for (size_t i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		struct pace_bucket b = { 0 };
		uint64_t now = 1000 * MS, busy = 0;
		bool work = false;

		for (int n = 0; n < 1000000; n++) {
			uint64_t step = 20 * US;
			bool go;

			now += step;
			busy += work ? step : 0;
			go = pace_bucket(&b, now, caps[i], work);
			if (!go) {
				uint64_t wait = pace_bucket_wait(&b, caps[i]);

				assert_in_range(wait, 1, 3 * MS);
				now += wait;
				go = pace_bucket(&b, now, caps[i], false);
			}
			work = go;
		}
		assert_in_range(busy, (now - 1000 * MS) / 1000000 * caps[i] - 5 * MS,
			(now - 1000 * MS) / 1000000 * caps[i] + 25 * MS);
	}
}

static void pace_bucket__saves_up_no_more_than_a_burst(void **state)
{
	struct pace_bucket b = { 0 };
	uint64_t now = 1000 * MS, burst = 0;

	(void)state;
	assert_true(pace_bucket(&b, now, 250000, false));
	now += 3600000 * MS;
	assert_true(pace_bucket(&b, now, 250000, false));
	while (pace_bucket(&b, now, 250000, true)) {
		now += 10 * US;
		burst += 10 * US;
	}
	assert_in_range(burst, 26 * MS, 27 * MS); /* 20 ms, and the gain meanwhile */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pace_window__is_the_rest_of_the_quantum),
		cmocka_unit_test(pace_done__learns_the_time_of_a_submission),
		cmocka_unit_test(pace_done__estimates_an_end_midway_between_polls),
		cmocka_unit_test(pace_done__counts_no_idle_time_as_work),
		cmocka_unit_test(pace_done__learns_nothing_where_the_gate_is_closed),
		cmocka_unit_test(pace_overdue__detects_ends_behind_a_closed_gate_too),
		cmocka_unit_test(pace_fits__keeps_the_gpu_from_running_dry),
		cmocka_unit_test(pace_fits__follows_the_clock_with_a_small_window),
		cmocka_unit_test(pace_stall__counts_from_the_last_end),
		cmocka_unit_test(pace_fence_due__spaces_fences),
		cmocka_unit_test(pace_sleep__ends_before_the_expected_end),
		cmocka_unit_test(pace_sleep__is_short_while_threads_are_blocked),
		cmocka_unit_test(pace_sleep__grows_without_blocked_threads),
		cmocka_unit_test(pace_rest__reports_at_once_where_another_slice_waits),
		cmocka_unit_test(pace_rest__comes_late_where_no_slice_waits),
		cmocka_unit_test(pace_bucket__keeps_to_the_cap),
		cmocka_unit_test(pace_bucket__saves_up_no_more_than_a_burst),
	};

	return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
