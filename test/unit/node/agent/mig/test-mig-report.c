/* SPDX-License-Identifier: Apache-2.0 */

/* Which lines of the tool the MIG manager accepts, and which devices it removes from the offer by them. */
#include "unit/model/core-fixture.h"

#include "node/agent/mig/host.h"
#include "node/agent/mig/mask.h"

static int read_report_line(struct mig_report *r, const char *text, struct error *err)
{
	return mig_report_line(r, text, strlen(text), err);
}

static void mig_report__accepts_the_lines_of_a_run(void **state)
{
	struct mig_report r = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(read_report_line(&r,
			  "{\"event\":\"planned\",\"gpu\":3,\"uuid\":\"GPU-3\",\"steps\":2,"
			  "\"mode\":null,\"stay\":[{\"gi\":1,\"ci\":0},{\"gi\":2,\"ci\":1}]}",
			  &err),
		&err);
	assert_ok(read_report_line(&r,
			  "{\"event\":\"planned\",\"gpu\":4,\"uuid\":\"GPU-4\",\"steps\":0,"
			  "\"mode\":\"enable\"}",
			  &err),
		&err);
	assert_ok(read_report_line(&r, "{\"event\":\"of-tomorrow\",\"gpu\":\"x\"}", &err),
		&err);
	assert_ok(
		read_report_line(&r, "{\"event\":\"step\",\"gpu\":3,\"text\":\"do it\"}", &err),
		&err);
	assert_string_equal(r.current_step, "GPU 3: do it");
	assert_ok(read_report_line(&r, "{\"event\":\"note\",\"text\":\"hm\"}", &err), &err);
	assert_string_equal(r.note, "hm");
	assert_ok(read_report_line(&r, "{\"event\":\"hook\",\"name\":\"apply-start\"}", &err),
		&err);
	assert_string_equal(r.current_step, "hook apply-start");
	assert_string_equal(r.note, "");
	assert_ok(
		read_report_line(&r,
			"{\"event\":\"gpu\",\"gpu\":3,\"uuid\":\"GPU-3\",\"result\":\"undone\","
			"\"reason\":\"why\"}",
			&err),
		&err);
	assert_ok(read_report_line(&r,
			  "{\"event\":\"end\",\"ok\":false,\"code\":\"io\",\"reason\":\"no\","
			  "\"nvml_calls\":12}",
			  &err),
		&err);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.gpus[0].n_remaining, 2);
	assert_int_equal(r.gpus[0].remaining[1].ci, 1);
	assert_int_equal(r.gpus[0].mode, MIG_MODE_UNCHANGED);
	assert_int_equal(r.gpus[1].mode, MIG_MODE_ON);
	assert_string_equal(r.gpus[0].result, "undone");
	assert_true(r.ended && !r.ok && r.nvml_calls == 12);
	assert_true(mig_report_changes(&r));
	assert_true(mig_report_has(&r, "GPU-4") && !mig_report_has(&r, "GPU-5"));
	assert_error(read_report_line(&r, "{\"event\":\"note\",\"text\":\"late\"}", &err), &err,
		"after the end");
	mig_report_fini(&r);
	assert_int_equal(r.n, 0);
}

static void mig_report__accepts_a_second_plan_after_a_step(void **state)
{
	static const char *const lines[] = {
		"{\"event\":\"planned\",\"gpu\":0,\"uuid\":\"a\",\"steps\":1,\"mode\":\"enable\","
		"\"stay\":[{\"gi\":1,\"ci\":0}]}",
		"{\"event\":\"hook\",\"name\":\"pre-apply-mode\",\"command\":\"x\"}",
		"{\"event\":\"step\",\"gpu\":0,\"text\":\"enable MIG\"}",
		"{\"event\":\"planned\",\"gpu\":0,\"uuid\":\"a\",\"steps\":8,\"mode\":null,"
		"\"stay\":[]}",
	};
	struct mig_report r = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(read_report_line(&r, lines[0], &err), &err);
	assert_ok(read_report_line(&r, lines[1], &err), &err);
	assert_error(read_report_line(&r, lines[3], &err), &err, "planned twice");
	assert_ok(read_report_line(&r, lines[2], &err), &err);
	assert_ok(read_report_line(&r, lines[3], &err), &err);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.gpus[0].steps, 8);
	assert_int_equal(r.gpus[0].n_remaining, 0);
	mig_report_fini(&r);
}

static void mig_report__refuses_output_of_another_program(void **state)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{ "", "expected a JSON object" },
		{ "[]", "expected a JSON object" },
		{ "Hello", "found 'Hello'" },
		{ "{\"event\":\"end\",\"event\":\"end\"}", "expected a JSON object" },
		{ "{}", "no 'event'" },
		{ "{\"event\":1}", "no 'event'" },
		{ "{\"event\":\"planned\",\"gpu\":1,\"steps\":1}", "'uuid'" },
		{ "{\"event\":\"planned\",\"gpu\":-1,\"uuid\":\"a\",\"steps\":1}", "'gpu'" },
		{ "{\"event\":\"planned\",\"gpu\":1,\"uuid\":\"b\",\"steps\":1.5}", "'steps'" },
		{ "{\"event\":\"planned\",\"gpu\":1,\"uuid\":\"c\",\"steps\":1,\"mode\":\"x\"}",
			"'mode'" },
		{ "{\"event\":\"planned\",\"gpu\":1,\"uuid\":\"d\",\"steps\":1,\"stay\":[1]}",
			"'stay'" },
		{ "{\"event\":\"planned\",\"gpu\":1,\"uuid\":\"d\",\"steps\":1}", "twice" },
		{ "{\"event\":\"step\",\"gpu\":1}", "'text'" },
		{ "{\"event\":\"gpu\",\"result\":\"same\"}", "'uuid'" },
		{ "{\"event\":\"end\",\"ok\":1}", "'ok'" },
	};
	struct mig_report r = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_error(read_report_line(&r, cases[i].text, &err), &err, cases[i].error);
	mig_report_fini(&r);
}

static void mig_report__tells_gpus_without_a_uuid_apart(void **state)
{
	struct mig_report r = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		char text[120];

		(void)snprintf(text, sizeof(text),
			"{\"event\":\"gpu\",\"gpu\":%u,\"uuid\":\"\",\"result\":\"failed\","
			"\"reason\":\"lost %u\"}",
			i, i);
		assert_ok(read_report_line(&r, text, &err), &err);
	}
	assert_int_equal(r.n, 2);
	assert_string_equal(r.gpus[0].reason, "lost 0");
	assert_string_equal(r.gpus[1].reason, "lost 1");
	assert_int_equal(r.gpus[1].index, 1);
	assert_false(mig_report_has(&r, ""));
	mig_report_fini(&r);
}

static void mig_report__has_limits(void **state)
{
	struct mig_report r = { 0 };
	struct error err = ERROR_INIT;
	char text[200];

	(void)state;
	assert_error(mig_report_line(&r, text, MIG_LINE_MAX + 1, &err), &err, "at most");
	for (unsigned i = 0; i < GPU_NODE_MAX; i++) {
		(void)snprintf(text, sizeof(text),
			"{\"event\":\"gpu\",\"gpu\":%u,\"uuid\":\"%u\"}", i, i);
		assert_ok(read_report_line(&r, text, &err), &err);
	}
	assert_error(read_report_line(&r, "{\"event\":\"gpu\",\"gpu\":1,\"uuid\":\"x\"}", &err),
		&err, "more than 256 GPUs");
	for (unsigned i = r.lines; i < MIG_LINES_MAX; i++)
		assert_ok(read_report_line(&r, "{\"event\":\"x\"}", &err), &err);
	assert_error(read_report_line(&r, "{\"event\":\"x\"}", &err), &err, "at most");
	mig_report_fini(&r);
}

/* --- the mask --- */

/* GPU 0: two devices, of which the second stays; GPU 1: one, untouched; GPU 2: whole, to be cut. */
static void make_mask(struct mig_mask *m, struct inventory **ret)
{
	struct mig_report r = { 0 };
	struct error err = ERROR_INIT;
	struct inventory *inv = fixture_inventory(3);

	(void)fixture_mig(inv, 0, 1, 1, 5);
	(void)fixture_mig(inv, 0, 2, 2, 10);
	(void)fixture_mig(inv, 1, 1, 1, 5);
	assert_ok(read_report_line(&r,
			  "{\"event\":\"planned\",\"gpu\":0,\"uuid\":\"GPU-0\",\"steps\":2,"
			  "\"stay\":[{\"gi\":8,\"ci\":0}]}",
			  &err),
		&err);
	assert_ok(read_report_line(&r,
			  "{\"event\":\"planned\",\"gpu\":1,\"uuid\":\"GPU-1\",\"steps\":0}",
			  &err),
		&err);
	assert_ok(read_report_line(&r,
			  "{\"event\":\"planned\",\"gpu\":2,\"uuid\":\"GPU-2\",\"steps\":1,"
			  "\"mode\":\"enable\"}",
			  &err),
		&err);
	assert_ok(mig_mask_make(m, &r, inv, &err), &err);
	mig_report_fini(&r);
	*ret = inv;
}

static void mig_mask__hides_removed_devices_and_no_more(void **state)
{
	struct mig_mask m = { 0 };
	struct inventory *inv;

	(void)state;
	make_mask(&m, &inv);
	assert_int_equal(m.n, 2);
	assert_true(mig_mask_removes_any(&m, inv));
	mig_mask_apply(&m, inv);
	assert_int_equal(inv->n_mig, 2);
	assert_string_equal(inv->mig[0].uuid, "MIG-0-1");
	assert_string_equal(inv->mig[1].uuid, "MIG-1-0");
	assert_true(inv->gpus[0].changing && !inv->gpus[1].changing && inv->gpus[2].changing);
	/* The GPU is neither whole nor partitioned during the change. */
	assert_true(inv->gpus[2].mig_enabled);
	mig_mask_fini(&m);
	inventory_free(inv);
}

/* The former devices stay for any result of a probe of the GPUs that change, and only of those. */
static void mig_mask__keeps_the_former_devices(void **state)
{
	static const uint32_t seen_of_0[] = { 0, 1, 2, 3 };
	struct mig_mask m = { 0 };
	struct inventory *before;

	(void)state;
	make_mask(&m, &before);
	for (size_t i = 0; i < ARRAY_LEN(seen_of_0); i++) {
		struct inventory *seen = fixture_inventory(3);
		struct error err = ERROR_INIT;

		for (uint32_t k = 0; k < seen_of_0[i]; k++)
			(void)fixture_mig(seen, 0, 3, 3, 20);
		(void)fixture_mig(seen, 1, 1, 1, 5);
		(void)fixture_mig(seen, 1, 1, 1, 5);
		(void)fixture_mig(seen, 2, 1, 1, 5);
		assert_ok(mig_mask_restore_masked(&m, before, seen, &err), &err);
		assert_int_equal(seen->n_mig, 4);
		assert_string_equal(seen->mig[0].profile, "1g.5gb");
		assert_string_equal(seen->mig[1].profile, "2g.10gb");
		assert_int_equal(seen->mig[3].gpu, 1);
		assert_true(seen->gpus[0].mig_enabled && seen->gpus[1].mig_enabled);
		assert_false(seen->gpus[2].mig_enabled);
		/* and of that only what stays is offered */
		mig_mask_apply(&m, seen);
		assert_int_equal(seen->n_mig, 3);
		assert_string_equal(seen->mig[0].uuid, "MIG-0-1");
		inventory_free(seen);
	}
	mig_mask_fini(&m);
	inventory_free(before);
}

static void mig_mask__finds_pods_that_have_removed_devices(void **state)
{
	static const struct {
		const char *id;
		bool held;
	} cases[] = {
		{ "MIG-0-0", true },
		{ "MIG-0-0::3", true },
		{ "MIG-0-1", false },
		{ "MIG-0-1::0", false },
		{ "MIG-1-0", false },
		{ "GPU-2", true },
		{ "GPU-2::7", true },
		{ "GPU-1", false },
		{ "GPU-0", true }, /* all of it, strategy none */
		{ "GPU-22", false },
		{ "", false },
		{ "::1", false },
	};
	struct mig_mask m = { 0 };
	struct inventory *inv;

	(void)state;
	make_mask(&m, &inv);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct pod_device d = { .id = (char *)(uintptr_t)cases[i].id };
		const struct pod_devices list = { .v = &d, .n = 1 };

		if ((mig_mask_find_holder(&m, inv, &list) == &d) != cases[i].held)
			fail_msg("'%s': held %d", cases[i].id, !cases[i].held);
	}
	assert_null(mig_mask_find_holder(&m, inv, NULL));
	mig_mask_fini(&m);
	inventory_free(inv);
}

static void mig_mask__of_new_instances_alone_hides_no_device(void **state)
{
	struct mig_mask m = { 0 };
	struct mig_report r = { 0 };
	struct error err = ERROR_INIT;
	struct inventory *inv = fixture_inventory(1);

	(void)state;
	(void)fixture_mig(inv, 0, 1, 1, 5);
	assert_ok(read_report_line(&r,
			  "{\"event\":\"planned\",\"gpu\":0,\"uuid\":\"GPU-0\",\"steps\":2,"
			  "\"stay\":[{\"gi\":7,\"ci\":0}]}",
			  &err),
		&err);
	assert_ok(mig_mask_make(&m, &r, inv, &err), &err);
	assert_false(mig_mask_removes_any(&m, inv));
	mig_mask_fini(&m);
	mig_report_fini(&r);
	inventory_free(inv);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mig_report__accepts_the_lines_of_a_run),
		cmocka_unit_test(mig_report__accepts_a_second_plan_after_a_step),
		cmocka_unit_test(mig_report__refuses_output_of_another_program),
		cmocka_unit_test(mig_report__tells_gpus_without_a_uuid_apart),
		cmocka_unit_test(mig_report__has_limits),
		cmocka_unit_test(mig_mask__hides_removed_devices_and_no_more),
		cmocka_unit_test(mig_mask__keeps_the_former_devices),
		cmocka_unit_test(mig_mask__finds_pods_that_have_removed_devices),
		cmocka_unit_test(mig_mask__of_new_instances_alone_hides_no_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
