/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "node/arbiter/grants/fair-quota.h"

/* Takes all that the quota allows. */
static void take_whole_quota(struct fair_quota *quota, unsigned int *own)
{
	while (fair_quota_allows(quota, *own))
		fair_quota_add(quota, (*own)++);
}

static void fair_quota__allows_each_slice_its_reserve(void **state)
{
	static const unsigned int most[] = { 4096, 8192, 7500, 384, 100 };

	(void)state;
	for (unsigned int i = 0; i < ARRAY_LEN(most); i++) {
		struct fair_quota quota = { .capacity = most[i] };
		unsigned int own[FAIR_QUOTA_SLICES] = { 0 }, sum = 0;

		for (unsigned int k = 0; k < FAIR_QUOTA_SLICES; k++) {
			take_whole_quota(&quota, &own[k]);
			assert_true(own[k] >= fair_quota_per_slice(&quota));
			sum += own[k];
		}
		assert_int_equal(quota.n, sum);
		assert_true(quota.n <= quota.capacity);
	}
}

static void fair_quota__keeps_some_of_the_common_pool_from_few_slices(void **state)
{
	struct fair_quota quota = { .capacity = 4096 };
	unsigned int own[5] = { 0 };
	bool more = true;

	(void)state;
	/* Each as often as the others, until none can have more. */
	while (more) {
		more = false;
		for (unsigned int k = 0; k < 4; k++) {
			if (fair_quota_allows(&quota, own[k])) {
				fair_quota_add(&quota, own[k]++);
				more = true;
			}
		}
	}
	for (unsigned int k = 0; k < 4; k++)
		assert_in_range(own[k], fair_quota_per_slice(&quota) + 2048 / 5,
			fair_quota_per_slice(&quota) + 2048 / 5 + 1);
	take_whole_quota(&quota, &own[4]);
	assert_true(own[4] > 2048 / 5 / 2);
}

static void fair_quota__allows_a_slice_alone_half_the_pool_and_its_reserve(void **state)
{
	struct fair_quota quota = { .capacity = 4096 };
	unsigned int own = 0;

	(void)state;
	take_whole_quota(&quota, &own);
	assert_int_equal(own, fair_quota_per_slice(&quota) + 1024);
}

static void fair_quota__allows_what_was_returned(void **state)
{
	struct fair_quota quota = { .capacity = 4096 };
	unsigned int own[8] = { 0 }, seed = 1;

	(void)state;
	for (unsigned int i = 0; i < 100000; i++) {
		unsigned int *o = &own[(seed >> 16) % 8], common = 0, n = 0;

		seed = seed * 1103515245 + 12345;
		if ((seed >> 20) % 3 && fair_quota_allows(&quota, *o))
			fair_quota_add(&quota, (*o)++);
		else if (*o)
			fair_quota_remove(&quota, (*o)--);
		for (unsigned int k = 0; k < 8; k++) {
			n += own[k];
			common += own[k] > fair_quota_per_slice(&quota)
					  ? own[k] - fair_quota_per_slice(&quota)
					  : 0;
		}
		assert_int_equal(quota.n, n);
		assert_int_equal(quota.shared, common);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fair_quota__allows_each_slice_its_reserve),
		cmocka_unit_test(fair_quota__keeps_some_of_the_common_pool_from_few_slices),
		cmocka_unit_test(
			fair_quota__allows_a_slice_alone_half_the_pool_and_its_reserve),
		cmocka_unit_test(fair_quota__allows_what_was_returned),
	};

	return cmocka_run_group_tests_name("fair-quota", tests, NULL, NULL);
}
