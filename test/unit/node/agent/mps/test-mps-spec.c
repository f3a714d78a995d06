/* SPDX-License-Identifier: Apache-2.0 */

/* Settings of an MPS daemon: from the plan, at its start, and when the applied ones are the desired ones. */
#include "support/test.h"

#include "node/agent/mps/spec.h"

static struct mps_device devices[] = {
	{ .uuid = "GPU-0", .limit_mib = 100 },
	{ .uuid = "GPU-1", .limit_mib = 200, .lost = true },
	{ .uuid = "GPU-2", .limit_mib = 300 },
};

static void make_spec(struct mps_spec *s)
{
	const struct mps_daemon d = { .devices = devices,
		.n = ARRAY_LEN(devices),
		.percent = 50,
		.exclusive = true };
	struct error err = ERROR_INIT;

	assert_ok(mps_spec_set(s, &d, &err), &err);
}

static void mps_spec_set__copies_the_plan(void **state)
{
	const struct mps_daemon fewer = { .devices = devices + 2, .n = 1, .percent = 25 };
	struct error err = ERROR_INIT;
	struct mps_spec s = { .percent = 0 };

	(void)state;
	make_spec(&s);
	assert_int_equal(s.uuids.n, 3);
	assert_string_equal(s.uuids.v[1], "GPU-1");
	assert_int_equal(s.limits[1], 200);
	assert_false(s.lost[0]);
	assert_true(s.lost[1]);
	assert_int_equal(s.percent, 50);
	assert_true(s.exclusive);
	assert_ok(mps_spec_set(&s, &fewer, &err), &err);
	assert_int_equal(s.uuids.n, 1);
	assert_string_equal(s.uuids.v[0], "GPU-2");
	assert_int_equal(s.limits[0], 300);
	assert_int_equal(s.percent, 25);
	assert_false(s.exclusive);
	mps_spec_fini(&s);
}

static void mps_spec_list_devices__leaves_lost_ones_out_unless_all_are_lost(void **state)
{
	CLEANUP(strv_fini) struct strv list = STRV_INIT;
	struct error err = ERROR_INIT;
	struct mps_spec s = { .percent = 0 };

	(void)state;
	make_spec(&s);
	assert_ok(mps_spec_list_devices(&s, &list, &err), &err);
	assert_int_equal(list.n, 2);
	assert_string_equal(list.v[0], "GPU-0");
	assert_string_equal(list.v[1], "GPU-2");
	s.lost[0] = s.lost[2] = true;
	assert_ok(mps_spec_list_devices(&s, &list, &err), &err);
	assert_true(strv_equal(&list, &s.uuids));
	mps_spec_fini(&s);
}

static void mps_spec_lacks_device__counts_only_present_devices(void **state)
{
	CLEANUP(strv_fini) struct strv started = STRV_INIT;
	struct error err = ERROR_INIT;
	struct mps_spec s = { .percent = 0 };

	(void)state;
	make_spec(&s);
	assert_ok(mps_spec_list_devices(&s, &started, &err), &err);
	assert_false(mps_spec_lacks_device(&s, &started)); /* GPU-1 is lost */
	s.lost[1] = false;
	assert_true(mps_spec_lacks_device(&s, &started));
	assert_ok(mps_spec_list_devices(&s, &started, &err), &err);
	assert_false(mps_spec_lacks_device(&s, &started));
	mps_spec_fini(&s);
}

static void mps_spec_same__compares_limits_and_share(void **state)
{
	struct mps_spec desired = { .percent = 0 }, applied = { .percent = 0 };

	(void)state;
	make_spec(&desired);
	assert_false(mps_spec_same(&desired, &applied));
	mps_spec_set_applied(&applied, &desired);
	assert_true(mps_spec_same(&desired, &applied));
	desired.limits[2]++;
	assert_false(mps_spec_same(&desired, &applied));
	mps_spec_set_applied(&applied, &desired);
	desired.percent--;
	assert_false(mps_spec_same(&desired, &applied));
	mps_spec_set_applied(&applied, &desired);
	desired.lost[0] = true;
	desired.exclusive = false;
	assert_true(mps_spec_same(&desired, &applied));
	mps_spec_fini(&desired);
	mps_spec_fini(&applied);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mps_spec_set__copies_the_plan),
		cmocka_unit_test(
			mps_spec_list_devices__leaves_lost_ones_out_unless_all_are_lost),
		cmocka_unit_test(mps_spec_lacks_device__counts_only_present_devices),
		cmocka_unit_test(mps_spec_same__compares_limits_and_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
