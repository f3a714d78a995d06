/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/sched/internal.h"

/* How long the work in flight at the close of a share's gates is assumed to run on, and how the scheduler
 * learns that. */
#define US  UINT64_C(1000)
#define MS  UINT64_C(1000000)
#define NOW (1000 * MS)

/* The estimate of a share whose overruns took @overrun so far, and now one took @took. */
static uint64_t learn_at_gate_close(uint64_t overrun, uint64_t took)
{
	struct sched_share share = { .overrun = overrun, .closed_since = NOW };

	sched_learn_overrun(&share, NOW + took);
	assert_int_equal(share.closed_since, NOW);
	return share.overrun;
}

static void sched_learn_overrun__learns_an_eighth_of_each(void **state)
{
	(void)state;
	assert_int_equal(learn_at_gate_close(400 * US, 400 * US), 400 * US);
	assert_int_equal(learn_at_gate_close(400 * US, 320 * US), 390 * US);
	assert_int_equal(learn_at_gate_close(400 * US, 480 * US), 410 * US);
	assert_int_equal(learn_at_gate_close(SCHED_TIME_SLICE_NS, 400 * US), 1800 * US);
	assert_int_equal(learn_at_gate_close(0, 80 * US), 10 * US);
}

/* An overrun much longer than those before it has waited for the hardware's time slice of another share. */
static void sched_learn_overrun__counts_at_most_twice_the_average(void **state)
{
	static const uint64_t overruns[] = { 0, 80 * US, 400 * US, 900 * US };

	(void)state;
	for (size_t i = 0; i < sizeof(overruns) / sizeof(overruns[0]); i++) {
		uint64_t overrun = overruns[i], max = 2 * overrun + SCHED_GRACE_MIN_NS;

		assert_int_equal(learn_at_gate_close(overrun, max), (7 * overrun + max) / 8);
		assert_int_equal(learn_at_gate_close(overrun, max - 8),
			(7 * overrun + max) / 8 - 1);
		assert_int_equal(learn_at_gate_close(overrun, max + 8),
			(7 * overrun + max) / 8);
		assert_int_equal(learn_at_gate_close(overrun, 10000 * MS),
			(7 * overrun + max) / 8);
	}
}

/* Beyond that all shares with work in flight are charged, however long the overrun is. */
static void sched_learn_overrun__counts_at_most_one_time_slice(void **state)
{
	uint64_t overrun = 0;

	(void)state;
	assert_int_equal(learn_at_gate_close(SCHED_TIME_SLICE_NS, 10000 * MS),
		SCHED_TIME_SLICE_NS);
	assert_int_equal(learn_at_gate_close(1200 * US, SCHED_TIME_SLICE_NS), 1300 * US);
	assert_int_equal(learn_at_gate_close(1200 * US, SCHED_TIME_SLICE_NS + MS), 1300 * US);
	for (int i = 0; i < 200; i++) {
		uint64_t next = learn_at_gate_close(overrun, 10000 * MS);

		assert_true(next >= overrun && next <= SCHED_TIME_SLICE_NS);
		overrun = next;
	}
	/* Except for the division's remainder: shares with long overruns are known as such. */
	assert_in_range(overrun, SCHED_TIME_SLICE_NS - 8, SCHED_TIME_SLICE_NS);
}

static void sched_learn_overrun__learns_nothing_without_an_overrun(void **state)
{
	struct sched_share share = { .overrun = 400 * US, .closed_since = SCHED_NEVER };

	(void)state;
	sched_learn_overrun(&share, NOW); /* its gates are open */
	assert_int_equal(share.overrun, 400 * US);
	assert_int_equal(learn_at_gate_close(400 * US, 0), 400 * US);
	share.closed_since = NOW; /* the overrun had ended before that */
	sched_learn_overrun(&share, NOW - MS);
	assert_int_equal(share.overrun, 400 * US);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sched_learn_overrun__learns_an_eighth_of_each),
		cmocka_unit_test(sched_learn_overrun__counts_at_most_twice_the_average),
		cmocka_unit_test(sched_learn_overrun__counts_at_most_one_time_slice),
		cmocka_unit_test(sched_learn_overrun__learns_nothing_without_an_overrun),
	};

	return cmocka_run_group_tests_name("sched-overrun", tests, NULL, NULL);
}
