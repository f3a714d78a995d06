/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/mig/profile.h"

static struct mig_profile parse_profile_name(const char *text)
{
	struct error err = ERROR_INIT;
	struct mig_profile p;

	assert_ok(mig_profile_parse(&p, text, &err), &err);
	return p;
}

static void mig_profile_parse__reads_names(void **state)
{
	static const struct {
		const char *text;
		struct mig_profile expected;
		const char *word;
	} rows[] = {
		{ "1g.5gb", { 1, 1, 5, "" }, "1g.5gb" },
		{ "1c.3g.20gb", { 1, 3, 20, "" }, "1c.3g.20gb" },
		{ "1g.10gb+me", { 1, 1, 10, "+me" }, "1g.10gb.me" },
		{ "1g.24gb+me.all", { 1, 1, 24, "+me.all" }, "1g.24gb.me.all" },
		{ "1g.24gb-me", { 1, 1, 24, "-me" }, "1g.24gb-me" },
		{ "1g.24gb+gfx,me", { 1, 1, 24, "+gfx,me" }, "1g.24gb.gfx.me" },
		{ "1g.24gb-gfx,me", { 1, 1, 24, "-gfx,me" }, "1g.24gb-gfx.me" },
		{ "7g.141gb", { 7, 7, 141, "" }, "7g.141gb" },
		{ "4c.7g.80gb+a1.b2.c", { 4, 7, 80, "+a1.b2.c" }, "4c.7g.80gb.a1.b2.c" },
		{ "4c.2g.10gb", { 4, 2, 10, "" }, "4c.2g.10gb" }, /* the form only */
		{ "999c.998g.999gb", { 999, 998, 999, "" }, "999c.998g.999gb" },
		{ "1g.5gb+Me", { 1, 1, 5, "+Me" }, "1g.5gb.Me" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mig_profile p = parse_profile_name(rows[i].text);
		char text[MIG_PROFILE_NAME_MAX];

		assert_true(mig_profile_equal(&p, &rows[i].expected));
		mig_profile_format(&p, text);
		assert_string_equal(text, rows[i].text);
		mig_profile_word(&p, text);
		assert_string_equal(text, rows[i].word);
	}
}

static void mig_profile_parse__gives_a_profile_one_name(void **state)
{
	static const char *const rows[][2] = {
		{ "7c.7g.80gb", "7g.80gb" },
		{ "1g.24gb+me,gfx", "1g.24gb+gfx,me" },
		{ "1g.24gb+b,a.b,ab,a", "1g.24gb+a,a.b,ab,b" },
		{ "1g.5gb+a,b,c,d,e,f,g,h,i,j,k,l,m,n,o",
			"1g.5gb+a,b,c,d,e,f,g,h,i,j,k,l,m,n,o" },
		{ "1g.5gb+o,n,m,l,k,j,i,h,g,f,e,d,c,b,a",
			"1g.5gb+a,b,c,d,e,f,g,h,i,j,k,l,m,n,o" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mig_profile p = parse_profile_name(rows[i][0]);
		char text[MIG_PROFILE_NAME_MAX];

		mig_profile_format(&p, text);
		assert_string_equal(text, rows[i][1]);
	}
}

static void mig_profile_parse__refuses_invalid_names(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "", "slices like '1g.' first" },
		{ "g.5gb", "'g.5gb': expected compute slices" },
		{ "1.5gb", "first" },
		{ "0g.5gb", "first" },
		{ "01g.5gb", "first" },
		{ "1000g.5gb", "first" },
		{ "-1g.5gb", "first" },
		{ "+1g.5gb", "first" },
		{ " 1g.5gb", "first" },
		{ "1 g.5gb", "first" },
		{ "1G.5GB", "first" },
		{ "1c.5gb", "after 'c.'" },
		{ "1c.1c.1g.5gb", "after 'c.'" },
		{ "1c.0g.5gb", "after 'c.'" },
		{ "0c.1g.5gb", "first" },
		{ "1g", "first" },
		{ "1g.", "memory" },
		{ "1g.5", "memory" },
		{ "1g.5g", "memory" },
		{ "1g.gb", "memory" },
		{ "1g.0gb", "memory" },
		{ "1g.05gb", "memory" },
		{ "1g.1000gb", "memory" },
		{ "1g. 5gb", "memory" },
		{ "1g.5gb ", "after the GB" },
		{ "1g.5gb\n", "after the GB" },
		{ "1g.5gb.me", "after the GB" },
		{ "1g.5gbme", "after the GB" },
		{ "1g.5gb+", "letters" },
		{ "1g.5gb-", "letters" },
		{ "1g.5gb+me,", "letters" },
		{ "1g.5gb+,me", "letters" },
		{ "1g.5gb+me,,gfx", "letters" },
		{ "1g.5gb+1x", "letters" },
		{ "1g.5gb+.me", "letters" },
		{ "1g.5gb+me.", "letters" },
		{ "1g.5gb+me-gfx", "letters" },
		{ "1g.5gb-me+gfx", "letters" },
		{ "1g.5gb+me+gfx", "letters" },
		{ "1g.5gb++me", "letters" },
		{ "1g.5gb+m e", "letters" },
		{ "1g.5gb+ me", "letters" },
		{ "1g.5gb+me, gfx", "letters" },
		{ "1g.5gb+me_all", "letters" },
		{ "1g.5gb+m\xc3\xa9", "letters" },
		{ "1g.5gb+me,me", "once" },
		{ "1g.5gb+me,gfx,me", "once" },
		{ "1g.5gb+abcdefghijklmnopqrstuvwxyzabcde", "shorter" },
	};
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mig_profile p = { .c = 77 };

		assert_error(mig_profile_parse(&p, rows[i].text, &err), &err, rows[i].says);
		assert_int_equal(err.code, ERR_INVALID);
		assert_int_equal(p.c, 77);
	}
}

static void mig_profile_gb__agrees_with_nvidia(void **state)
{
	static const struct {
		uint64_t total_mib, memory_mib;
		uint32_t gb;
	} rows[] = {
		{ 24576, 5952, 6 },
		{ 24576, 11968, 12 },
		{ 24576, 24000, 24 },
		{ 24576, 24064, 24 }, /* A30 */
		{ 40960, 4864, 5 },
		{ 40960, 9856, 10 },
		{ 40960, 9984, 10 },
		{ 40960, 19968, 20 },
		{ 40960, 20096, 20 },
		{ 40960, 40192, 40 },
		{ 40960, 40448, 40 }, /* A100-40 */
		{ 81920, 9728, 10 },
		{ 81920, 19968, 20 },
		{ 81920, 40192, 40 },
		{ 81920, 80896, 80 }, /* A100-80 */
		{ 81559, 9984, 10 },
		{ 81559, 20096, 20 },
		{ 81559, 40448, 40 },
		{ 81559, 81152, 80 }, /* H100 */
		{ 95830, 10880, 12 },
		{ 95830, 11008, 12 },
		{ 95830, 22016, 24 },
		{ 95830, 47232, 47 },
		{ 95830, 47488, 47 },
		{ 95830, 94848, 94 }, /* H100 NVL */
		{ 97871, 11264, 12 },
		{ 97871, 23552, 24 },
		{ 97871, 47616, 48 },
		{ 97871, 95232, 96 }, /* GH200 96 */
		{ 143771, 16384, 18 },
		{ 143771, 33024, 35 },
		{ 143771, 33280, 35 },
		{ 143771, 71424, 71 },
		{ 143771, 71168, 71 },
		{ 143771, 143360, 141 }, /* H200 */
		{ 97887, 24192, 24 },
		{ 97887, 48512, 48 },
		{ 97887, 97408, 96 }, /* RTX PRO */
		{ 183359, 22528, 23 },
		{ 183359, 20992, 23 },
		{ 183359, 45312, 45 },
		{ 183359, 91136, 90 },
		{ 183359, 182528, 180 }, /* B200 */
		{ 189471, 22528, 23 },
		{ 189471, 46592, 47 },
		{ 189471, 94000, 93 },
		{ 189471, 188000, 186 }, /* GB200 */
		{ 275040, 33000, 34 },
		{ 275040, 68000, 67 },
		{ 275040, 137000, 135 },
		{ 275040, 274000, 269 }, /* B300 */
		{ 284208, 35000, 35 },
		{ 284208, 71000, 70 },
		{ 284208, 142000, 139 },
		{ 284208, 284000, 278 }, /* GB300 */
		{ 147456, 17920, 18 },
		{ 147456, 36096, 36 },
		{ 147456, 73000, 72 },
		{ 147456, 147000, 144 }, /* GH200 144 */
		{ 0, 1, 0 },
		{ 1024, 0, 0 },
		{ 0, 0, 0 },
		{ 1, UINT32_MAX, 0 },
		{ 1024, UINT64_MAX, 0 },
		{ UINT64_MAX, 1, 0 },
		{ UINT32_MAX, UINT32_MAX, 0 },
		{ 1022976, 1022975, 999 },
		{ 1022977, 1022976, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint32_t gb = mig_profile_gb(rows[i].memory_mib, rows[i].total_mib);

		if (gb != rows[i].gb)
			fail_msg("row %zu: %u GB, expected %u", i, gb, rows[i].gb);
	}
}

static void mig_profile_attributes__are_found_by_number(void **state)
{
	static const char *const expected[] = { "", "", "", "", "", "", "", "+me", "+me", "",
		"+gfx", "+gfx", "+gfx", "-me", "-me", "+me.all", "+me.all", "+gfx" };

	(void)state;
	for (uint32_t i = 0; i < ARRAY_LEN(expected); i++)
		assert_string_equal(mig_profile_attributes(i), expected[i]);
	assert_null(mig_profile_attributes(ARRAY_LEN(expected)));
	assert_null(mig_profile_attributes(UINT32_MAX));
}

static void mig_profile_shape_ok__accepts_the_shapes_of_nvidia(void **state)
{
	/* Bit c of element g: NVIDIA offers c compute slices of a GPU instance of g slices. */
	static const uint32_t offered[] = { [0] = 0,
		[1] = 1 << 1,
		[2] = 1 << 1 | 1 << 2,
		[3] = 1 << 1 | 1 << 2 | 1 << 3,
		[4] = 1 << 1 | 1 << 2 | 1 << 4,
		[7] = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 7 };

	(void)state;
	for (uint32_t g = 0; g < ARRAY_LEN(offered); g++)
		for (uint32_t c = 0; (offered[g] || g == 0) && c < 10; c++)
			assert_int_equal(mig_profile_shape_ok(c, g), offered[g] >> c & 1);
	assert_true(mig_profile_shape_ok(UINT32_MAX, UINT32_MAX));
	assert_false(mig_profile_shape_ok(UINT32_MAX, UINT32_MAX - 1));
	assert_false(mig_profile_shape_ok(1u << 31, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mig_profile_parse__reads_names),
		cmocka_unit_test(mig_profile_parse__gives_a_profile_one_name),
		cmocka_unit_test(mig_profile_parse__refuses_invalid_names),
		cmocka_unit_test(mig_profile_gb__agrees_with_nvidia),
		cmocka_unit_test(mig_profile_attributes__are_found_by_number),
		cmocka_unit_test(mig_profile_shape_ok__accepts_the_shapes_of_nvidia),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
