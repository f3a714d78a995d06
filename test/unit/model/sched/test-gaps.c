/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/sched/gaps.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

static void add(struct sched_gaps *gaps, uint64_t ns, unsigned int times)
{
	while (times--)
		sched_gaps_add(gaps, ns);
}

static void sched_gaps__wait_for_what_a_return_is_worth_while_nothing_is_known(void **state)
{
	struct sched_gaps gaps = { .n = 0 };

	(void)state;
	assert_int_equal(sched_gaps_best_wait(&gaps, 300 * US), 300 * US);
	add(&gaps, 10 * MS, 7);
	assert_int_equal(sched_gaps_best_wait(&gaps, 300 * US), 300 * US);
	add(&gaps, 10 * MS, 1);
	assert_int_equal(sched_gaps_best_wait(&gaps, 300 * US), 0);
}

static void sched_gaps__wait_for_constant_gaps_that_are_shorter_than_the_worth(void **state)
{
	static const struct {
		uint64_t gap, worth, min, max;
	} rows[] = {
		{ 30 * US, 200 * US, 30 * US, 45 * US },
		{ 250 * US, 500 * US, 250 * US, 360 * US }, { 250 * US, 150 * US, 0, 0 },
		{ 30 * MS, 2 * MS, 0, 0 }, /* beyond all bins */
		{ 1 * US, 2 * US, 0, 0 },  /* less than a bin */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct sched_gaps gaps = { .n = 0 };
		uint64_t wait;

		add(&gaps, rows[i].gap, 40);
		wait = sched_gaps_best_wait(&gaps, rows[i].worth);
		assert_in_range(wait, rows[i].min, rows[i].max);
	}
}

/* Short gaps between the pieces of a token, long ones between tokens. */
static void sched_gaps__give_up_between_two_humps(void **state)
{
	struct sched_gaps gaps = { .n = 0 };

	(void)state;
	for (unsigned int i = 0; i < 10; i++) {
		add(&gaps, 20 * US, 5);
		add(&gaps, 300 * US, 1);
	}
	assert_in_range(sched_gaps_best_wait(&gaps, 200 * US), 20 * US, 40 * US);
	assert_in_range(sched_gaps_best_wait(&gaps, 2 * MS), 300 * US, 460 * US);
}

static void sched_gaps__forget(void **state)
{
	struct sched_gaps gaps = { .n = 0 };

	(void)state;
	add(&gaps, 20 * US, 1000);
	assert_true(sched_gaps_best_wait(&gaps, 200 * US) > 0);
	add(&gaps, 10 * MS, 200);
	assert_int_equal(sched_gaps_best_wait(&gaps, 200 * US), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			sched_gaps__wait_for_what_a_return_is_worth_while_nothing_is_known),
		cmocka_unit_test(
			sched_gaps__wait_for_constant_gaps_that_are_shorter_than_the_worth),
		cmocka_unit_test(sched_gaps__give_up_between_two_humps),
		cmocka_unit_test(sched_gaps__forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
