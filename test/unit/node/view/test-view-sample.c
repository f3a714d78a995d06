/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "support/view-sample.h"

static void view_sample__adds_up(void **state)
{
	(void)state;
	for (int k = 0; k < VIEW_SAMPLE_COUNT_; k++) {
		CLEANUP(view_unrefp) struct view *v = NULL;
		struct error err = ERROR_INIT;

		assert_ok(view_sample(&v, (enum view_sample_kind)k, &err), &err);
		assert_ok(view_check(v, &err), &err);
	}
}

static void view_check__finds_a_wrong_sum(void **state)
{
	static const char *const wanted[] = { "busy time", "memory", "time", "cost" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		CLEANUP(view_unrefp) struct view *v = NULL;
		struct error err = ERROR_INIT;

		assert_ok(view_sample(&v, VIEW_SAMPLE_MIXED, &err), &err);
		v->uses[0].busy_ns += i == 0;
		v->uses[0].memory_used += i == 1;
		v->uses[0].gpu_ns += i == 2;
		v->uses[0].cost_nano += i == 3;
		assert_error(view_check(v, &err), &err, wanted[i]);
	}
}

/* No replica is allocated twice, and used memory never exceeds the total. */
static void view_sample__is_possible(void **state)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(view_sample(&v, VIEW_SAMPLE_MIXED, &err), &err);
	assert_int_equal(v->n_gpus, 8);
	for (uint32_t i = 0; i < v->n_devices; i++) {
		const struct view_device *device = &v->devices[i];

		assert_true(device->allocated <= VIEW_MILLION);
		assert_true(device->idle_gpu_ns <= device->present_ns);
		assert_true(device->memory_used + device->memory_free <= device->memory_total);
	}
	for (uint32_t i = 0; i < v->n_uses; i++)
		assert_true(v->uses[i].share > 0 && *v->uses[i].replica_id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(view_sample__adds_up),
		cmocka_unit_test(view_check__finds_a_wrong_sum),
		cmocka_unit_test(view_sample__is_possible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
