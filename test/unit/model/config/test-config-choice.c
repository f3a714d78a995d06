/* SPDX-License-Identifier: Apache-2.0 */

/* Which config a node uses, after NVIDIA's config-manager. */
#include "support/test.h"

#include "model/config/choice.h"

static void fill_list(struct strv *v, const char *list)
{
	struct error err = ERROR_INIT;

	if (*list)
		assert_ok(strv_split(v, list, ',', &err), &err);
}

static void config_choose__selects_label_then_default_then_fallbacks(void **state)
{
	static const struct {
		const char *label, *def, *fallbacks, *names;
		const char *name; /* NULL: CHOICE_EMPTY */
		enum config_choice_by by;
		bool undecided;
	} rows[] = {
		{ "a", "b", "named,single", "a,b,default", "a", CHOICE_LABEL, false },
		{ "b", NULL, "", "a,b", "b", CHOICE_LABEL, false },
		{ NULL, "b", "named,single", "a,b,default", "b", CHOICE_DEFAULT, false },
		{ "", "b", "named", "a,b,default", "b", CHOICE_DEFAULT, false },
		{ NULL, NULL, "named,single", "a,default", "default", CHOICE_NAMED, false },
		{ NULL, "", "named,single", "only", "only", CHOICE_SINGLE, false },
		{ NULL, NULL, "single,named", "default", "default", CHOICE_SINGLE, false },
		{ NULL, NULL, "empty,named", "default", NULL, CHOICE_EMPTY, false },
		{ NULL, NULL, "named,single,empty", "a,b", NULL, CHOICE_EMPTY, false },
		{ NULL, "", "named,single,empty", "", NULL, CHOICE_EMPTY, .undecided = true },
		{ "a", NULL, "empty", "a", "a", CHOICE_LABEL, .undecided = true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(strv_fini) struct strv names = STRV_INIT;
		CLEANUP(strv_fini) struct strv fallbacks = STRV_INIT;
		const struct config_choice_input in = { .label = rows[i].label,
			.default_name = rows[i].def,
			.fallbacks = &fallbacks,
			.names = &names,
			.undecided = rows[i].undecided };
		struct config_choice c = { .by = CHOICE_DEFAULT };
		struct error err = ERROR_INIT;

		fill_list(&names, rows[i].names);
		fill_list(&fallbacks, rows[i].fallbacks);
		assert_ok(config_choose(&c, &in, &err), &err);
		if (rows[i].name)
			assert_string_equal(c.name, rows[i].name);
		else
			assert_null(c.name);
		assert_int_equal(c.by, rows[i].by);
	}
}

static void config_choose__reports_nvidias_text_and_the_entries(void **state)
{
	static const struct {
		const char *label, *def, *fallbacks, *names, *says;
		bool undecided;
	} rows[] = {
		{ "x", "a", "named", "a,b",
			"specified config x does not exist (from the node label); there are a, b",
			false },
		{ NULL, "x", "named", "a,default",
			"specified config x does not exist (from the default); there are a, "
			"default",
			false },
		{ "../a", NULL, "", "a", "specified config ../a does not exist", false },
		{ NULL, NULL, "named,single", "a,b",
			"no config was set, no default was provided, and all fallbacks failed; "
			"there are a, b",
			false },
		{ NULL, NULL, "", "a", "all fallbacks failed", false },
		{ "x", "x", "empty", "", "no configuration files available", false },
		{ NULL, NULL, "empty", "", "no configuration files available", false },
		{ "x", NULL, "empty", "", "no configuration files available",
			.undecided = true },
		{ NULL, "x", "empty", "", "no configuration files available",
			.undecided = true },
		{ NULL, NULL, "named,single", "", "no configuration files available",
			.undecided = true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(strv_fini) struct strv names = STRV_INIT;
		CLEANUP(strv_fini) struct strv fallbacks = STRV_INIT;
		const struct config_choice_input in = { .label = rows[i].label,
			.default_name = rows[i].def,
			.fallbacks = &fallbacks,
			.names = &names,
			.undecided = rows[i].undecided };
		struct config_choice c = { .name = "untouched" };
		struct error err = ERROR_INIT;

		fill_list(&names, rows[i].names);
		fill_list(&fallbacks, rows[i].fallbacks);
		assert_error(config_choose(&c, &in, &err), &err, rows[i].says);
		assert_int_equal(err.code, ERR_NOT_FOUND);
		assert_string_equal(c.name, "untouched");
	}
}

static void config_choose__truncates_a_long_list_of_names(void **state)
{
	static const size_t lengths[] = { 1, 20, 190, 199, 200, 253 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		CLEANUP(strv_fini) struct strv names = STRV_INIT;
		CLEANUP(strv_fini) struct strv fallbacks = STRV_INIT;
		const struct config_choice_input in = { .label = "x",
			.fallbacks = &fallbacks,
			.names = &names };
		char name[CONFIG_ENTRY_NAME_MAX];
		struct config_choice c;
		struct error err = ERROR_INIT;

		memset(name, 'n', lengths[i]);
		name[lengths[i]] = '\0';
		for (int k = 0; k < CONFIG_ENTRIES_MAX; k++)
			assert_ok(strv_add(&names, name, &err), &err);
		assert_error(config_choose(&c, &in, &err), &err, "...");
	}
}

static void config_fallbacks_check__refuses_an_unknown_word(void **state)
{
	static const struct {
		const char *list;
		bool good;
	} rows[] = { { "named,single,empty", true }, { "single", true }, { "", true },
		{ "Named", false }, { "named,first", false } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(strv_fini) struct strv v = STRV_INIT;
		struct error err = ERROR_INIT;

		assert_ok(strv_split(&v, rows[i].list, ',', &err), &err);
		if (rows[i].good)
			assert_ok(config_fallbacks_check(&v, &err), &err);
		else
			assert_error(config_fallbacks_check(&v, &err), &err,
				"unknown fallback strategy: ");
	}
}

static void config_entry_name_ok__refuses_paths(void **state)
{
	char name[CONFIG_ENTRY_NAME_MAX + 1];
	static const struct {
		const char *name;
		bool ok;
	} rows[] = { { "p3.2xlarge", true }, { "a", true }, { ".hidden", true }, { "", false },
		{ ".", false }, { "..", false }, { "..data", false }, { "..2026_11_21", false },
		{ "a/b", false }, { "/etc/passwd", false } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(config_entry_name_ok(rows[i].name), rows[i].ok);
	memset(name, 'a', sizeof(name));
	name[253] = '\0';
	assert_true(config_entry_name_ok(name));
	name[253] = 'a';
	name[254] = '\0';
	assert_false(config_entry_name_ok(name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_choose__selects_label_then_default_then_fallbacks),
		cmocka_unit_test(config_choose__reports_nvidias_text_and_the_entries),
		cmocka_unit_test(config_choose__truncates_a_long_list_of_names),
		cmocka_unit_test(config_fallbacks_check__refuses_an_unknown_word),
		cmocka_unit_test(config_entry_name_ok__refuses_paths),
	};

	return cmocka_run_group_tests_name("config-choice", tests, NULL, NULL);
}
