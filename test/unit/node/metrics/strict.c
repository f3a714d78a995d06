/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "unit/node/metrics/strict.h"

#include "lib/base/parse.h"
#include "lib/base/strv.h"

#include <ctype.h>

struct strict {
	enum metrics_format format;
	struct strv families, series;
	char name[200], type[20]; /* of the family that is open; "" */
	bool help, typed, sampled;
};

static void fail_line(const char *line, const char *why)
{
	fail_msg("%s: '%.300s'", why, line);
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

static size_t name_length(const char *text, bool colon)
{
	size_t n = 0;

	while (isalpha((unsigned char)text[n]) || text[n] == '_' || (colon && text[n] == ':') ||
		(n && isdigit((unsigned char)text[n])))
		n++;
	return n;
}

static void open_family(struct strict *s, const char *line, const char *name, size_t len)
{
	struct error err = ERROR_INIT;

	if (!len || len >= sizeof(s->name))
		fail_line(line, "not the name of a family");
	(void)snprintf(s->name, sizeof(s->name), "%.*s", (int)len, name);
	if (strv_has(&s->families, s->name))
		fail_line(line, "a family comes twice");
	assert_ok(strv_add(&s->families, s->name, &err), &err);
	s->type[0] = '\0';
	s->help = true;
	s->typed = s->sampled = false;
}

static bool is_type(const struct strict *s, const char *type)
{
	static const char *const plain[] = { "counter", "gauge", "untyped" };
	static const char *const open[] = { "counter", "gauge", "info", "unknown" };
	const char *const *list = s->format == METRICS_OPENMETRICS ? open : plain;
	size_t n = s->format == METRICS_OPENMETRICS ? ARRAY_LEN(open) : ARRAY_LEN(plain);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i], type))
			return true;
	return false;
}

static void check_escapes(const char *line, const char *text, size_t len, bool quotes)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '"' && quotes)
			fail_line(line, "a quote that is not escaped");
		if (text[i] != '\\')
			continue;
		i++;
		if (i == len || !strchr(quotes ? "\\\"n" : "\\n", text[i]))
			fail_line(line, "an escape that there is not");
	}
}

static void read_comment(struct strict *s, const char *line)
{
	const char *name = line + 7, *text;
	bool open = s->format == METRICS_OPENMETRICS;
	size_t len = name_length(name, true);

	if (strncmp(line, "# HELP ", 7) != 0 && strncmp(line, "# TYPE ", 7) != 0 &&
		strncmp(line, "# UNIT ", 7) != 0)
		fail_line(line, "a comment of no kind");
	if (name[len] != ' ')
		fail_line(line, "no blank behind the name");
	text = name + len + 1;
	if (line[2] == 'H') {
		open_family(s, line, name, len);
		check_escapes(line, text, strlen(text), open);
		return;
	}
	if (!s->help || s->sampled || strlen(s->name) != len ||
		strncmp(s->name, name, len) != 0)
		fail_line(line, "not behind the HELP of its family");
	if (line[2] == 'U') {
		if (!open || !s->typed || !ends_with(s->name, text))
			fail_line(line, "a unit that the name does not end with");
		return;
	}
	if (s->typed || !is_type(s, text))
		fail_line(line, "no such type");
	s->typed = true;
	(void)snprintf(s->type, sizeof(s->type), "%s", text);
	if (open && (ends_with(s->name, "_total") || ends_with(s->name, "_info")))
		fail_line(line, "a family with the ending of a sample");
	if (!open && !strncmp(s->name, "gpuslice_", 9) &&
		ends_with(s->name, "_total") != !strcmp(text, "counter"))
		fail_line(line, "of ours, counters and only they end in _total");
}

static void check_name(const struct strict *s, const char *line, size_t len)
{
	char wanted[220];

	(void)snprintf(wanted, sizeof(wanted), "%s%s", s->name,
		s->format != METRICS_OPENMETRICS ? ""
		: !strcmp(s->type, "counter")    ? "_total"
		: !strcmp(s->type, "info")       ? "_info"
						 : "");
	if (!s->typed || strlen(wanted) != len || strncmp(wanted, line, len) != 0)
		fail_line(line, "not of the family that is open");
}

/* Reads {a="b",...}; adds each to @labels. Returns what is behind. */
static const char *read_labels(const char *line, const char *at, struct strv *labels)
{
	struct error err = ERROR_INIT;

	if (*at++ != '{')
		fail_line(line, "no labels");
	for (;;) {
		size_t n = name_length(at, false);
		const char *value = at + n + 2, *end = value;

		if (!n || at[n] != '=' || at[n + 1] != '"')
			fail_line(line, "no label");
		while (*end && *end != '"')
			end += *end == '\\' && end[1] ? 2 : 1;
		if (!*end)
			fail_line(line, "a label does not end");
		check_escapes(line, value, (size_t)(end - value), true);
		assert_ok(strv_addn(labels, at, (size_t)(end - at), &err), &err);
		at = end + 1;
		if (*at == '}')
			return at + 1;
		if (*at++ != ',')
			fail_line(line, "no comma between labels");
	}
}

static void check_unique_names(const char *line, const struct strv *labels)
{
	for (size_t i = 1; i < labels->n; i++) {
		size_t n = name_length(labels->v[i], false);

		if (!strncmp(labels->v[i], labels->v[i - 1], n + 1))
			fail_line(line, "a label comes twice");
	}
}

static void read_sample(struct strict *s, const char *line)
{
	CLEANUP(strv_fini) struct strv labels = STRV_INIT;
	CLEANUP(buf_fini) struct buf series = BUF_INIT(64 << 10);
	struct error err = ERROR_INIT;
	size_t len = name_length(line, true);
	const char *at;
	double value;

	check_name(s, line, len);
	at = read_labels(line, line + len, &labels);
	if (*at++ != ' ' || !parse_double(at, &value))
		fail_line(line, "no value");
	if (!strcmp(s->type, "counter") && value < 0)
		fail_line(line, "a counter below 0");
	strv_sort(&labels);
	check_unique_names(line, &labels);
	buf_add(&series, line, len);
	for (size_t i = 0; i < labels.n; i++)
		buf_printf(&series, ",%s", labels.v[i]);
	assert_true(buf_ok(&series));
	assert_ok(strv_add(&s->series, buf_str(&series), &err), &err);
	s->sampled = true;
}

size_t strict_read(const char *text, enum metrics_format format)
{
	CLEANUP(freep) char *copy = strdup(text);
	struct strict s = { .format = format };
	bool ended = false;
	size_t n;

	assert_non_null(copy);
	assert_true(*text && text[strlen(text) - 1] == '\n');
	for (char *rest = copy, *line; (line = strsep(&rest, "\n"));) {
		if (!rest) {
			assert_string_equal(line, "");
			break;
		}
		if (ended)
			fail_line(line, "a line behind # EOF");
		if (format == METRICS_OPENMETRICS && !strcmp(line, "# EOF"))
			ended = true;
		else if (*line == '#')
			read_comment(&s, line);
		else
			read_sample(&s, line);
	}
	assert_int_equal(ended, format == METRICS_OPENMETRICS);
	strv_sort(&s.series);
	for (size_t i = 1; i < s.series.n; i++)
		if (!strcmp(s.series.v[i], s.series.v[i - 1]))
			fail_line(s.series.v[i], "a series comes twice");
	n = s.series.n;
	strv_fini(&s.series);
	strv_fini(&s.families);
	return n;
}

/* --- finding --- */

static bool matches_series(const char *line, size_t len, const char *name, const char *label)
{
	size_t n = strlen(name);

	return len > n && !strncmp(line, name, n) && line[n] == '{' &&
	       (!label || memmem(line, len, label, strlen(label)));
}

static const char *value_of(const char *line, size_t len)
{
	static char value[64];
	const char *blank = memrchr(line, ' ', len);

	(void)snprintf(value, sizeof(value), "%.*s", (int)(line + len - blank - 1), blank + 1);
	return value;
}

const char *strict_find(const char *text, const char *name, const char *const *labels)
{
	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		bool all = matches_series(line, len, name, NULL);

		for (size_t i = 0; labels && labels[i] && all; i++)
			all = matches_series(line, len, name, labels[i]);
		if (all)
			return value_of(line, len);
		line += len + (line[len] == '\n');
	}
	return NULL;
}

uint64_t strict_sum(const char *text, const char *name, const char *label)
{
	double sum = 0, value = 0;

	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");

		if (matches_series(line, len, name, label)) {
			assert_true(parse_double(value_of(line, len), &value));
			sum += value;
		}
		line += len + (line[len] == '\n');
	}
	return (uint64_t)(sum * 1e6 + 0.5);
}
