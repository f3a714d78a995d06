/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/mig/layout.h"
#include "layouts.h"

static void mig_layout_check__accepts_every_product(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	for (enum product_id id = 0; id < PRODUCTS; id++) {
		struct mig_layout l = product_layout(id);

		assert_ok(mig_layout_check(&l, &err), &err);
	}
}

static void mig_layout_check__refuses_impossible_layouts(void **state)
{
	struct mig_layout good = product_layout(A100_40), bad;
	struct error err = ERROR_INIT;

	(void)state;
	bad = good;
	bad.n = MIG_PROFILES_MAX + 1;
	assert_error(mig_layout_check(&bad, &err), &err, "33 MIG profiles");
	assert_int_equal(err.code, ERR_INVALID);
	bad = good;
	bad.slots = MIG_SLOTS_MAX + 1;
	assert_error(mig_layout_check(&bad, &err), &err, "33 MIG memory slots");
	bad = good;
	bad.profiles[1].size = 0;
	assert_error(mig_layout_check(&bad, &err), &err, "0 memory slots, expected 1 to");
	bad.profiles[1].size = UINT32_MAX;
	assert_error(mig_layout_check(&bad, &err), &err, "profile 1: 4294967295 memory slots");
	bad = good;
	bad.profiles[1].starts |= AT(7); /* of two slots */
	assert_error(mig_layout_check(&bad, &err), &err, "pass the GPU's 8");
	bad.profiles[1].starts = AT(6);
	assert_ok(mig_layout_check(&bad, &err), &err);
	bad = good;
	bad.slots = 0;
	assert_error(mig_layout_check(&bad, &err), &err, "memory slots");
	bad = good;
	memset(bad.profiles[6].name.attributes, 'a', sizeof(bad.profiles[6].name.attributes));
	assert_error(mig_layout_check(&bad, &err), &err, "no end");
	bad = (struct mig_layout){ .slots = 32, .n = 1 };
	bad.profiles[0] = (struct mig_gi_profile){ .size = 32, .starts = 1 };
	assert_ok(mig_layout_check(&bad, &err), &err);
	bad.profiles[0].starts = 2;
	assert_error(mig_layout_check(&bad, &err), &err, "pass the GPU's 32");
	bad.profiles[0] = (struct mig_gi_profile){ .size = 1, .starts = UINT32_MAX };
	assert_ok(mig_layout_check(&bad, &err), &err);
}

static void mig_state_check__refuses_impossible_states(void **state)
{
	struct mig_layout l = product_layout(A100_40);
	struct mig_state s = { .capable = true, .enabled = true, .n = 1 };
	struct error err = ERROR_INIT;

	(void)state;
	s.gi[0] = (struct mig_gi){ .id = 5, .profile = profile_at(&l, "2g.10gb"), .start = 6 };
	assert_ok(mig_state_check(&l, &s, &err),
		&err); /* not where we would: but it is there */
	s.gi[0].start = 7;
	assert_error(mig_state_check(&l, &s, &err), &err,
		"instance 5: starts at memory slot 7");
	s.gi[0].start = UINT32_MAX;
	assert_error(mig_state_check(&l, &s, &err), &err, "starts at memory slot 4294967295");
	s.gi[0] = (struct mig_gi){ .id = 5, .profile = l.n };
	assert_error(mig_state_check(&l, &s, &err), &err, "none of this GPU's");
	s.gi[0] = (struct mig_gi){ .id = 5, .n_ci = MIG_CIS_MAX + 1 };
	assert_error(mig_state_check(&l, &s, &err), &err, "9 compute instances");
	s.gi[0].n_ci = 2; /* both with id 0 */
	assert_error(mig_state_check(&l, &s, &err), &err,
		"compute instance 0 of GPU instance 5: its id is not its own");
	s.gi[0].ci[1].id = MIG_ID_NONE;
	assert_error(mig_state_check(&l, &s, &err), &err, "compute instance 4294967295 of");
	s.gi[0].ci[1].id = 1;
	s.gi[1] = s.gi[0];
	assert_ok(mig_state_check(&l, &s, &err), &err);
	s.n = 2;
	assert_error(mig_state_check(&l, &s, &err), &err, "GPU instance 5: its id is not");
	s.gi[1].id = MIG_ID_NONE;
	assert_error(mig_state_check(&l, &s, &err), &err, "GPU instance 4294967295: its id");
	s.n = MIG_GIS_MAX + 1;
	assert_error(mig_state_check(&l, &s, &err), &err, "17 GPU instances");
	assert_int_equal(err.code, ERR_INVALID);
}

static void mig_desired_check__refuses_impossible_layouts(void **state)
{
	struct mig_layout l = product_layout(A100_40);
	struct mig_desired desired = { .enabled = true, .n = 1 };
	struct error err = ERROR_INIT;

	(void)state;
	desired.gi[0] = (struct mig_desired_gi){ .profile = profile_at(&l, "3g.20gb"),
		.n_ci = 2,
		.ci = { 1, 2 } };
	assert_ok(mig_desired_check(&l, &desired, &err), &err);
	desired.gi[0].ci[0] = 2;
	assert_error(mig_desired_check(&l, &desired, &err), &err,
		"compute instances of 4 slices wanted in one 3g.20gb, it has 3");
	assert_int_equal(err.code, ERR_LIMIT);
	desired.gi[0].ci[0] = UINT32_MAX;
	assert_error(mig_desired_check(&l, &desired, &err), &err, "4294967297 slices");
	desired.gi[0].ci[0] = 0;
	assert_error(mig_desired_check(&l, &desired, &err), &err, "of 0 slices");
	desired.gi[0].n_ci = MIG_CIS_MAX + 1;
	assert_error(mig_desired_check(&l, &desired, &err), &err, "9 compute instances");
	desired.gi[0] = (struct mig_desired_gi){ .profile = l.n };
	assert_error(mig_desired_check(&l, &desired, &err), &err, "profile 7, the GPU has 7");
	desired.gi[0].profile = 0;
	desired.enabled = false;
	assert_error(mig_desired_check(&l, &desired, &err), &err, "with MIG disabled");
	desired.n = 0;
	assert_ok(mig_desired_check(&l, &desired, &err), &err);
	desired.enabled = true;
	desired.n = MIG_GIS_MAX + 1;
	assert_error(mig_desired_check(&l, &desired, &err), &err, "17 GPU instances");
}

static void mig_layout_find__compares_text_then_share(void **state)
{
	static const struct {
		enum product_id product;
		const char *name, *found; /* NULL: none */
		bool guessed;
	} rows[] = {
		{ A100_40, "1g.5gb", "1g.5gb", false },
		{ A100_40, "1g.5gb+me", "1g.5gb+me", false },
		{ A100_40, "1g.10gb", "1g.10gb", false }, /* double memory */
		{ A100_40, "1c.3g.20gb", "3g.20gb", false },
		{ A100_40, "7g.40gb", "7g.40gb", false },
		{ A100_40, "1g.5gb-me", NULL, false },
		{ A100_40, "2g.20gb", NULL, false },
		{ A100_40, "7g.80gb", NULL, false },
		{ A100_40, "1g.12gb", NULL, false },
		{ A100_40, "5g.20gb", NULL, false },
		{ A100_80, "7g.79gb", "7g.80gb", true },
		{ A100_80, "3g.39gb", "3g.40gb", true },
		{ A100_80, "4g.39gb", "4g.40gb", true },
		{ A100_80, "1c.7g.79gb", "7g.80gb", true },
		{ A100_80, "1g.5gb", NULL, false },
		{ GH200_96, "3g.47gb", "3g.48gb", true },
		{ GH200_96, "7g.94gb", "7g.96gb", true },
		{ GH200_96, "1g.12gb", "1g.12gb", false },
		{ GH200_96, "1g.10gb", NULL, false },
		{ H100_NVL, "3g.48gb", "3g.47gb", true },
		{ H100_NVL, "1g.24gb", "1g.24gb", false },
		{ H100_NVL, "1g.10gb", NULL, false },  /* H100 80 */
		{ H100_NVL, "1g.18gb", NULL, false },  /* between two eighths */
		{ GB200, "1g.24gb", "1g.23gb", true }, /* the early listing */
		{ GB200, "3g.95gb", "3g.93gb", true },
		{ GB200, "7g.189gb", "7g.186gb", true },
		{ GB200, "1g.47gb", "1g.47gb", false },
		{ RTX_PRO_6000, "1g.24gb+me.all", "1g.24gb+me.all", false },
		{ RTX_PRO_6000, "1g.24gb-me", "1g.24gb-me", false },
		{ RTX_PRO_6000, "2g.47gb-me", "2g.48gb-me", true }, /* a vGPU host has less */
		{ RTX_PRO_6000, "1g.23gb", NULL, false },           /* B200 */
		{ RTX_PRO_6000, "1g.24gb+me,all", NULL, false },
		{ H200, "1g.999gb", NULL, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mig_layout l = product_layout(rows[i].product);
		struct error err = ERROR_INIT;
		struct mig_profile name;
		bool guessed = !rows[i].guessed;
		int found;

		assert_ok(mig_profile_parse(&name, rows[i].name, &err), &err);
		found = mig_layout_find(&l, &name, &guessed);
		if (found != (rows[i].found ? (int)profile_at(&l, rows[i].found) : -1) ||
			guessed != rows[i].guessed)
			fail_msg("%s: %s is %d%s", product_name(rows[i].product), rows[i].name,
				found, guessed ? ", guessed" : "");
		assert_int_equal(mig_layout_find(&l, &name, NULL), found);
	}
}

static void mig_layout_find__prefers_the_text_to_a_nearer_share(void **state)
{
	struct mig_layout l = product_layout(A100_80);
	struct mig_profile name = { .c = 3, .g = 3, .gb = 39 };

	(void)state;
	/* A driver that calls its 3g "3g.39gb" beside something that is nearly that. */
	l.profiles[4] = l.profiles[2];
	l.profiles[4].name = name;
	assert_int_equal(mig_layout_find(&l, &name, NULL), 4);
	l.memory_total_mib = 0;
	assert_int_equal(mig_layout_find(&l, &name, NULL), 4);
	name.gb = 38;
	assert_int_equal(mig_layout_find(&l, &name, NULL), -1);
}

static void mig_layout_name__names_cis_and_gis(void **state)
{
	struct mig_layout l = product_layout(A100_40);
	char text[MIG_PROFILE_NAME_MAX];

	(void)state;
	mig_layout_name(&l, profile_at(&l, "3g.20gb"), 1, text);
	assert_string_equal(text, "1c.3g.20gb");
	mig_layout_name(&l, profile_at(&l, "3g.20gb"), 3, text);
	assert_string_equal(text, "3g.20gb");
	mig_layout_name(&l, profile_at(&l, "1g.5gb+me"), 0, text);
	assert_string_equal(text, "1g.5gb+me");
	mig_layout_name(&l, l.n, 1, text);
	assert_string_equal(text, "profile 7");
}

static void mig_desired_from_state__keeps_the_state(void **state)
{
	struct mig_state s = { .capable = true, .enabled = true, .n = 2 };
	struct mig_desired desired;

	(void)state;
	s.gi[0] = (struct mig_gi){ .id = 2, .profile = 3, .start = 0 };
	s.gi[1] = (struct mig_gi){ .id = 1, .profile = 2, .start = 4, .n_ci = 2 };
	s.gi[1].ci[0] = (struct mig_ci){ .id = 0, .slices = 2 };
	s.gi[1].ci[1] = (struct mig_ci){ .id = 3, .slices = 1 };
	mig_desired_from_state(&s, &desired);
	assert_true(desired.enabled);
	assert_int_equal(desired.n, 2);
	assert_int_equal(desired.gi[0].profile, 3);
	assert_int_equal(desired.gi[0].start, 0);
	assert_int_equal(desired.gi[0].n_ci, 0);
	assert_int_equal(desired.gi[1].start, 4);
	assert_int_equal(desired.gi[1].n_ci, 2);
	assert_int_equal(desired.gi[1].ci[0], 2);
	assert_int_equal(desired.gi[1].ci[1], 1);
	s.enabled = false;
	mig_desired_from_state(&s, &desired);
	assert_false(desired.enabled);
	assert_int_equal(desired.n, 0);
	s = (struct mig_state){ .capable = true, .enabled = true, .n = UINT32_MAX };
	s.gi[0].n_ci = UINT32_MAX;
	mig_desired_from_state(&s, &desired);
	assert_int_equal(desired.n, MIG_GIS_MAX);
	assert_int_equal(desired.gi[0].n_ci, MIG_CIS_MAX);
}

static void mig_match_cis__keeps_busy_ones_first(void **state)
{
	struct mig_gi gi = { .n_ci = 4,
		.ci = { { .slices = 1 }, { .slices = 2 }, { .slices = 1, .busy = true },
			{ .slices = 1 } } };
	struct mig_desired_gi desired = { .n_ci = 3, .ci = { 1, 3, 1 } };
	struct mig_ci_match m = mig_match_cis(&gi, &desired);

	(void)state;
	assert_int_equal(m.kept, 1 << 2 | 1 << 3);
	assert_int_equal(m.served, 1 << 0 | 1 << 2);
	desired = (struct mig_desired_gi){ .n_ci = 1, .ci = { 1 } };
	assert_int_equal(mig_match_cis(&gi, &desired).kept, 1 << 2);
	desired = (struct mig_desired_gi){ .n_ci = 4, .ci = { 1, 1, 1, 2 } };
	m = mig_match_cis(&gi, &desired);
	assert_int_equal(m.kept, 0xf);
	assert_int_equal(m.served, 0xf);
	desired.n_ci = 0;
	assert_int_equal(mig_match_cis(&gi, &desired).kept, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mig_layout_check__accepts_every_product),
		cmocka_unit_test(mig_layout_check__refuses_impossible_layouts),
		cmocka_unit_test(mig_state_check__refuses_impossible_states),
		cmocka_unit_test(mig_desired_check__refuses_impossible_layouts),
		cmocka_unit_test(mig_layout_find__compares_text_then_share),
		cmocka_unit_test(mig_layout_find__prefers_the_text_to_a_nearer_share),
		cmocka_unit_test(mig_layout_name__names_cis_and_gis),
		cmocka_unit_test(mig_desired_from_state__keeps_the_state),
		cmocka_unit_test(mig_match_cis__keeps_busy_ones_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
