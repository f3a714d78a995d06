/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/backoff.h"
#include "lib/base/buf.h"
#include "lib/base/text.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/option.h"
#include "lib/base/parse.h"
#include "lib/base/strv.h"
#include "lib/base/time.h"

#include <math.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static void error_class__has_a_row_for_every_code(void **state)
{
	(void)state;
	for (int c = 0; c < ERR_COUNT_; c++) {
		assert_non_null(error_class((enum error_code)c)->name);
		if (c != ERR_NONE)
			assert_int_not_equal(error_class((enum error_code)c)->exit_code, 0);
	}
	assert_string_equal(error_class((enum error_code)9999)->name, "internal");
}

static void error_prefix__keeps_the_text_and_the_code(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(error_sys(&err, ENOENT, "open '%s'", "x"), -1);
	assert_string_equal(err.msg, "open 'x': No such file or directory");
	assert_int_equal(err.code, ERR_NOT_FOUND);
	error_prefix(&err, "load config");
	assert_string_equal(err.msg, "load config: open 'x': No such file or directory");
	assert_int_equal(error_set(NULL, ERR_INVALID, "nobody asked"), -1);
}

static void error_set__makes_valid_utf8_of_any_bytes(void **state)
{
	char latin[ERROR_MSG_MAX], wide[ERROR_MSG_MAX];
	struct error err = ERROR_INIT;

	(void)state;
	(void)error_set(&err, ERR_INVALID, "'%s'", "r\xe9sum\303\251");
	assert_string_equal(err.msg, "'r?sum\303\251'");
	(void)error_sys(&err, ENOENT, "open '\xff'");
	(void)error_prefix(&err, "\xfe");
	error_suffix(&err, "\xc0");
	assert_string_equal(err.msg, "?: open '?': No such file or directory?");
	/* Truncated text, too. */
	memset(latin, 'x', sizeof(latin));
	for (size_t i = 0; i + 1 < sizeof(wide); i += 2)
		memcpy(wide + i, "\303\251", 2);
	latin[sizeof(latin) - 1] = wide[sizeof(wide) - 2] = '\0';
	for (int i = 0; i < 3; i++) {
		(void)error_set(&err, ERR_INVALID, "%.*s%s", i, latin, wide);
		(void)error_prefix(&err, "%.*s", i, latin);
		assert_true(utf8_is_valid(err.msg));
	}
}

static void error_set__makes_one_line_of_any_text(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	(void)error_set(&err, ERR_INVALID, "a\n\tb\x1b[31m\x7f%s", "c\xc2\x9b");
	assert_string_equal(err.msg, "a  b [31m c  ");
	(void)error_prefix(&err, "x\r");
	assert_string_equal(err.msg, "x : a  b [31m c  ");
	(void)error_sys(&err, ENOENT, "open '%s'", "a\nb");
	assert_string_equal(err.msg, "open 'a b': No such file or directory");
}

static void strv_sort__sorts_by_bytes(void **state)
{
	CLEANUP(strv_fini) struct strv v = STRV_INIT;
	struct error err = ERROR_INIT;

	(void)state;
	strv_sort(&v); /* none is sorted */
	assert_ok(strv_split(&v, "b,a10,B,a,a9", ',', &err), &err);
	strv_sort(&v);
	assert_int_equal(v.n, 5);
	assert_string_equal(v.v[0], "B");
	assert_string_equal(v.v[1], "a");
	assert_string_equal(v.v[2], "a10");
	assert_string_equal(v.v[3], "a9");
	assert_string_equal(v.v[4], "b");
	assert_null(v.v[5]);
}

static void buf_add__stops_at_its_ceiling(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(8);

	(void)state;
	buf_puts(&b, "12345678");
	assert_true(buf_ok(&b));
	assert_string_equal(buf_str(&b), "12345678");
	buf_putc(&b, '9');
	assert_false(buf_ok(&b));
	assert_string_equal(buf_str(&b), "12345678");
	buf_clear(&b);
	buf_printf(&b, "%d", 42);
	assert_true(buf_ok(&b));
	assert_string_equal(buf_str(&b), "42");
}

static void parse_duration__accepts_the_format_of_go(void **state)
{
	static const struct {
		const char *text;
		bool ok;
		int64_t ns;
	} rows[] = {
		{ "0", true, 0 },
		{ "0s", true, 0 },
		{ "5s", true, 5000000000 },
		{ "1m30s", true, 90000000000 },
		{ "500ms", true, 500000000 },
		{ "-5s", true, -5000000000 },
		{ "1.5h", true, 5400000000000 },
		{ ".5s", true, 500000000 },
		{ "1us", true, 1000 },
		{ "1\xc2\xb5s", true, 1000 },
		{ "60", false, 0 },
		{ "", false, 0 },
		{ "s", false, 0 },
		{ "5 s", false, 0 },
		{ "5x", false, 0 },
		{ "9999999999h", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int64_t ns = -1;
		bool ok = parse_duration(rows[i].text, &ns);

		if (ok != rows[i].ok || (ok && ns != rows[i].ns))
			fail_msg("'%s': %d %lld", rows[i].text, ok, (long long)ns);
	}
}

static void parse_quantity__agrees_with_kubernetes(void **state)
{
	static const struct {
		const char *text;
		double is;
	} rows[] = { { "2", 2 }, { "0.5", 0.5 }, { "500m", 0.5 }, { "2500m", 2.5 },
		{ "100u", 1e-4 }, { "0.1Gi", 0.1 * 1073741824 }, { "1.5Gi", 1610612736 },
		{ "128974848", 128974848 }, { "129e6", 129e6 }, { "1E3", 1000 }, { "2E", 2e18 },
		{ "123Mi", 128974848 }, { "128974848000m", 128974848 } };
	static const char *const bad[] = { "", "-1", "+1", "1 Gi", "1gi", "Gi", "1.2.3", "0x10",
		"1e", "m", "1mm", "inf", "nan" };
	double v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!parse_quantity(rows[i].text, &v) ||
			fabs(v - rows[i].is) > rows[i].is * 1e-12)
			fail_msg("%s", rows[i].text);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (parse_quantity(bad[i], &v))
			fail_msg("%s", bad[i]);
}

static void parse_bytes__accepts_kubernetes_quantities(void **state)
{
	static const struct {
		const char *text;
		bool ok;
		uint64_t bytes;
	} rows[] = {
		{ "0", true, 0 },
		{ "123", true, 123 },
		{ "8Gi", true, UINT64_C(8) << 30 },
		{ "0.5Gi", true, UINT64_C(1) << 29 },
		{ "512Mi", true, UINT64_C(512) << 20 },
		{ "8G", true, UINT64_C(8000000000) },
		{ "1.5Pi", true, UINT64_C(3) << 49 },
		{ "2E", true, UINT64_C(2000000000000000000) },
		{ "99E", false, 0 },
		{ "0.3Ki", false, 0 },
		{ "8GB", false, 0 },
		{ "-1Gi", false, 0 },
		{ "", false, 0 },
		{ "99999999999Ti", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t bytes = 1;
		bool ok = parse_bytes(rows[i].text, &bytes);

		if (ok != rows[i].ok || (ok && bytes != rows[i].bytes))
			fail_msg("'%s': %d %llu", rows[i].text, ok, (unsigned long long)bytes);
	}
}

static void parse_numbers__refuse_anything_around_the_value(void **state)
{
	uint64_t u;
	int64_t i;
	double d;
	bool b;

	(void)state;
	assert_true(parse_u64("18446744073709551615", &u));
	assert_false(parse_u64("18446744073709551616", &u));
	assert_false(parse_u64(" 1", &u));
	assert_false(parse_u64("+1", &u));
	assert_true(parse_i64("-9223372036854775808", &i));
	assert_true(i == INT64_MIN);
	assert_false(parse_i64("9223372036854775808", &i));
	assert_true(parse_double("1.5e3", &d));
	assert_false(parse_double("nan", &d));
	assert_false(parse_double("0x10", &d));
	assert_true(parse_bool("T", &b));
	assert_true(b);
	assert_false(parse_bool("yes", &b));
}

static void file_write_atomic__leaves_the_old_file_on_failure(void **state)
{
	struct error err = ERROR_INIT, again;
	char *dir = test_tmpdir();
	char path[256];
	struct stat st;

	(void)state;
	assert_ok(path_join(path, sizeof(path), dir, "f", &err), &err);
	assert_ok(file_write_atomic(path, "old", 3, 0644, &err), &err);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	assert_error(file_write_atomic("/nowhere/at/all", "new", 3, 0644, &err), &err,
		"/nowhere");
	/* A directory in the file's place. A reader of the parent directory sees no half file meanwhile. */
	assert_error(file_write_atomic(dir, "new", 3, 0644, &err), &err, "/.gs.");
	again = err;
	assert_error(file_write_atomic(dir, "new", 3, 0644, &err), &err, again.msg);
	assert_error(file_write_atomic("/nowhere/at/all", "new", 3, 0644, &err), &err,
		"create '/nowhere/at/.all.XXXXXX'");
	{
		CLEANUP(buf_fini) struct buf b = BUF_INIT(2);

		assert_error(file_read(path, &b, &err), &err,
			"larger than the limit of 2 bytes");
	}
	{
		CLEANUP(buf_fini) struct buf b = BUF_INIT(100);

		assert_ok(file_read(path, &b, &err), &err);
		assert_string_equal(buf_str(&b), "old");
		assert_error(file_read(dir, &b, &err), &err, "found a directory");
		assert_error(file_read("/dev/zero", &b, &err), &err, "found something else");
	}
	{
		CLEANUP(buf_fini) struct buf b = BUF_INIT(100);

		assert_ok(file_read("/dev/null", &b, &err), &err);
		assert_int_equal(b.len, 0);
	}
	test_rmdir(dir);
}

static const char *fake_env(const char *name)
{
	if (!strcmp(name, "LISTY"))
		return "env1,env2";
	if (!strcmp(name, "EMPTY"))
		return "";
	if (!strcmp(name, "NUMBER"))
		return "12";
	return NULL;
}

static const struct option_def defs[] = {
	{ .name = "list",
		.type = OPTION_LIST,
		.env = { "LISTY" },
		.arg = "A,B",
		.help = "a list" },
	{ .name = "text",
		.alias = "txt",
		.type = OPTION_STR,
		.env = { "NOPE", "EMPTY" },
		.arg = "T",
		.help = "a text" },
	{ .name = "flag",
		.letter = 'f',
		.type = OPTION_BOOL,
		.env = { "EMPTY" },
		.help = "a flag" },
	{ .name = "num",
		.letter = 'n',
		.type = OPTION_UINT,
		.env = { "NUMBER" },
		.arg = "N",
		.help = "a number" },
	{ .name = "wait",
		.type = OPTION_DURATION,
		.env = { "EMPTY" },
		.arg = "D",
		.help = "a time" },
};

static int parse_words(struct options *o, unsigned flags, struct error *err, const char *words)
{
	static char copy[256];
	char *argv[16] = { (char *)(uintptr_t) "prog" };
	int argc = 1;
	char *save = NULL;

	(void)snprintf(copy, sizeof(copy), "%s", words);
	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	return options_parse(o, defs, ARRAY_LEN(defs), argc, argv, flags, fake_env, err);
}

static void options_parse__orders_arguments_over_environment(void **state)
{
	struct error err = ERROR_INIT;
	struct options o;

	(void)state;
	assert_ok(parse_words(&o, 0, &err, ""), &err);
	assert_int_equal(option_get(&o, "list")->list.n, 2);
	assert_string_equal(option_str(&o, "text", "def"), "");
	assert_int_equal(option_get(&o, "text")->source, OPTION_FROM_ENV);
	assert_false(option_bool(&o, "flag", true));
	assert_int_equal(option_uint(&o, "num", 1), 12);
	assert_int_equal(option_get(&o, "wait")->source, OPTION_UNSET);
	options_fini(&o);

	assert_ok(parse_words(&o, 0, &err,
			  "-list a --list=b,c --txt hello -f --num 7 --wait infinite x"),
		&err);
	assert_int_equal(option_get(&o, "list")->list.n, 3);
	assert_string_equal(option_get(&o, "list")->list.v[2], "c");
	assert_string_equal(option_str(&o, "text", "def"), "hello");
	assert_true(option_bool(&o, "flag", false));
	assert_true(option_get(&o, "wait")->ns == INT64_MAX);
	assert_int_equal(o.args.n, 1);
	options_fini(&o);
}

static void options_parse__accepts_combined_letters(void **state)
{
	static const char *const forms[] = { "-fn 9 x", "-fn=9 x", "-ffn 9 x" };
	struct error err = ERROR_INIT;
	struct options o;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		assert_ok(parse_words(&o, 0, &err, forms[i]), &err);
		assert_true(option_bool(&o, "flag", false));
		assert_int_equal(option_uint(&o, "num", 0), 9);
		assert_int_equal(o.args.n, 1);
		options_fini(&o);
	}
	/* Behind two dashes it is a name; a value is the last letter's alone. */
	assert_int_equal(parse_words(&o, 0, &err, "--fn 9"), -1);
	options_fini(&o);
	assert_int_equal(parse_words(&o, 0, &err, "-nf 9"), -1);
	options_fini(&o);
	assert_int_equal(parse_words(&o, 0, &err, "-fx"), -1);
	options_fini(&o);
}

static void options_parse__reports_errors(void **state)
{
	static const struct {
		const char *words, *text;
	} rows[] = {
		{ "--nope", "unknown option '--nope'" },
		{ "--num x", "--num: expected a whole number, found 'x'" },
		{ "--num", "--num: expected a whole number, found nothing" },
		{ "--flag=maybe", "--flag: expected true or false, found 'maybe'" },
		{ "--wait 60", "--wait: expected a duration" },
		{ "--wait -5s",
			"--wait: expected a duration from 0s, such as 30s or 1m30s, found '-5s'" },
		{ "--wait=-1ns", "found '-1ns'" },
		{ "--text a --txt b", "Cannot use two forms of the same flag: text txt" },
	};
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct options o;

		assert_error(parse_words(&o, 0, &err, rows[i].words), &err, rows[i].text);
		options_fini(&o);
	}
}

static void option_choice__finds_the_word_or_lists_the_words(void **state)
{
	static const struct option_def one[] = { { .name = "form", .type = OPTION_STR } };
	static const char *const words[] = { "text", "csv", "json" };
	char *argv[] = { (char *)(uintptr_t) "prog", (char *)(uintptr_t) "--form",
		(char *)(uintptr_t) "json" };
	struct error err = ERROR_INIT;
	struct options o;

	(void)state;
	assert_ok(options_parse(&o, one, 1, 1, argv, 0, fake_env, &err), &err);
	assert_int_equal(option_choice(&o, "form", words, 3, &err), 0);
	options_fini(&o);
	assert_ok(options_parse(&o, one, 1, 3, argv, 0, fake_env, &err), &err);
	assert_int_equal(option_choice(&o, "form", words, 3, &err), 2);
	assert_error(option_choice(&o, "form", words, 2, &err), &err,
		"--form: expected text or csv, found 'json'");
	argv[2] = (char *)(uintptr_t) "xml";
	options_fini(&o);
	assert_ok(options_parse(&o, one, 1, 3, argv, 0, fake_env, &err), &err);
	assert_error(option_choice(&o, "form", words, 3, &err), &err,
		"--form: expected text, csv or json, found 'xml'");
	options_fini(&o);
}

static void options_parse__leaves_the_command_alone(void **state)
{
	struct error err = ERROR_INIT;
	struct options o;

	(void)state;
	assert_ok(parse_words(&o, OPTIONS_STOP_AT_ARG, &err, "-f cmd --num x"), &err);
	assert_int_equal(o.args.n, 3);
	options_fini(&o);
	assert_ok(parse_words(&o, 0, &err, "a -- --num b"), &err);
	assert_int_equal(o.args.n, 3);
	assert_string_equal(o.args.v[1], "--num");
	options_fini(&o);
	assert_int_equal(parse_words(&o, 0, &err, "--help"), OPTIONS_HELP);
	options_fini(&o);
}

static void log_limit_pass__counts_per_window(void **state)
{
	struct log_limit l = { 0 };

	(void)state;
	assert_true(log_limit_pass(&l, NS_PER_SEC, NS_PER_SEC, 2));
	assert_true(log_limit_pass(&l, NS_PER_SEC, NS_PER_SEC, 2));
	assert_false(log_limit_pass(&l, NS_PER_SEC + 1, NS_PER_SEC, 2));
	assert_true(log_limit_pass(&l, 2 * NS_PER_SEC, NS_PER_SEC, 2));
	assert_int_equal(l.suppressed, 1);
}

static void utf8_is_valid__knows_the_rules(void **state)
{
	static const struct {
		const char *text;
		bool valid;
	} rows[] = {
		{ "", true },
		{ "plain", true },
		{ "\xc3\xa9", true },
		{ "\xe2\x82\xac", true },
		{ "\xf0\x9f\x98\x80", true },
		{ "\xf4\x8f\xbf\xbf", true },
		{ "\xef\xbf\xbf", true },
		{ "\x80", false },             /* continuation without a start */
		{ "\xc3", false },             /* cut */
		{ "\xe2\x82", false },         /* cut */
		{ "\xc0\xaf", false },         /* overlong */
		{ "\xe0\x9f\xbf", false },     /* overlong */
		{ "\xf0\x8f\xbf\xbf", false }, /* overlong */
		{ "\xed\xa0\x80", false },     /* surrogate */
		{ "\xf4\x90\x80\x80", false }, /* beyond U+10FFFF */
		{ "\xf5\x80\x80\x80", false },
		{ "a\xff", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (utf8_is_valid(rows[i].text) != rows[i].valid)
			fail_msg("row %zu", i);
}

static void utf8_make_valid__keeps_valid_text(void **state)
{
	static const struct {
		const char *text, *made;
	} rows[] = {
		{ "", "" },
		{ "gr\303\266\303\237e", "gr\303\266\303\237e" },
		{ "broken \xff", "broken ?" },
		{ "cut \303", "cut ?" },
		{ "\xff gr\303\266\303\237e \303\303\266\x80",
			"? gr\303\266\303\237e ?\303\266?" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[32];

		(void)snprintf(text, sizeof(text), "%s", rows[i].text);
		utf8_make_valid(text);
		assert_string_equal(text, rows[i].made);
	}
}

static void utf8_is_text__reports_the_invalid_byte(void **state)
{
	static const struct {
		const char *text;
		struct utf8_position bad;
	} rows[] = {
		{ "a\n\xc3\xa9\t\xe0\x9f\xbf", { 2, 3, 0xe0 } },
		{ "%x\xf0\x8c\x90\x8a", { 1, 3, 0xf0 } }, /* libfyaml does not return from it */
		{ "\x1b[1m", { 1, 1, 0x1b } },
		{ "\r\n\x7f", { 2, 1, 0x7f } },
		{ "a\xe2\x82", { 1, 2, 0xe2 } },
	};
	struct utf8_position bad;

	(void)state;
	assert_true(utf8_is_text("a: \xf0\x9f\x98\x80\r\n\tb", 11, &bad));
	assert_false(utf8_is_text("a\0b", 3, &bad));
	assert_int_equal(bad.column, 2);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_false(utf8_is_text(rows[i].text, strlen(rows[i].text), &bad));
		assert_int_equal(bad.line, rows[i].bad.line);
		assert_int_equal(bad.column, rows[i].bad.column);
		assert_int_equal(bad.byte, rows[i].bad.byte);
	}
}

static void digits_to_differ__tells_a_figure_from_its_limit(void **state)
{
	static const struct {
		double v, limit;
		int least, digits;
	} rows[] = { { 5.04, 5, 0, 2 }, { 5.6, 5, 0, 0 }, { 5, 5, 0, 0 },
		{ 99.496, 99.5, 1, 3 }, { 95.0000000001, 95, 1, 1 }, { NAN, 5, 1, 1 },
		{ 5, NAN, 1, 1 }, { -5.04, -5, 1, 2 }, { 1e308, 1e308, 0, 0 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(digits_to_differ(rows[i].v, rows[i].limit, rows[i].least),
			rows[i].digits);
}

static void backoff_doubled__doubles_up_to_the_limit_and_overflows_nothing(void **state)
{
	(void)state;
	assert_int_equal(backoff_doubled(100, 1000, 0), 100);
	assert_int_equal(backoff_doubled(100, 1000, 3), 800);
	assert_int_equal(backoff_doubled(100, 1000, 4), 1000);
	assert_int_equal(backoff_doubled(100, 1000, UINT32_MAX), 1000);
	assert_int_equal(backoff_doubled(2000, 1000, 0), 1000);
	assert_true(backoff_doubled(3, UINT64_MAX, UINT32_MAX) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			backoff_doubled__doubles_up_to_the_limit_and_overflows_nothing),
		cmocka_unit_test(error_class__has_a_row_for_every_code),
		cmocka_unit_test(error_prefix__keeps_the_text_and_the_code),
		cmocka_unit_test(error_set__makes_valid_utf8_of_any_bytes),
		cmocka_unit_test(error_set__makes_one_line_of_any_text),
		cmocka_unit_test(strv_sort__sorts_by_bytes),
		cmocka_unit_test(buf_add__stops_at_its_ceiling),
		cmocka_unit_test(digits_to_differ__tells_a_figure_from_its_limit),
		cmocka_unit_test(parse_duration__accepts_the_format_of_go),
		cmocka_unit_test(parse_quantity__agrees_with_kubernetes),
		cmocka_unit_test(parse_bytes__accepts_kubernetes_quantities),
		cmocka_unit_test(parse_numbers__refuse_anything_around_the_value),
		cmocka_unit_test(file_write_atomic__leaves_the_old_file_on_failure),
		cmocka_unit_test(options_parse__orders_arguments_over_environment),
		cmocka_unit_test(options_parse__accepts_combined_letters),
		cmocka_unit_test(options_parse__reports_errors),
		cmocka_unit_test(option_choice__finds_the_word_or_lists_the_words),
		cmocka_unit_test(options_parse__leaves_the_command_alone),
		cmocka_unit_test(log_limit_pass__counts_per_window),
		cmocka_unit_test(utf8_is_valid__knows_the_rules),
		cmocka_unit_test(utf8_make_valid__keeps_valid_text),
		cmocka_unit_test(utf8_is_text__reports_the_invalid_byte),
	};

	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
