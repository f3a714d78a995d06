/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/log.h"

#include "lib/base/time.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

static struct {
	enum log_level max;
	enum log_format format;
} setup = { LOG_INFO, LOG_TEXT };

static const char *const level_names[] = { "error", "warn", "info", "debug" };
static const char *const format_names[] = { "text", "json" };

/* A line under construction. Text that does not fit is cut, but the end of the line is never cut. */
struct log_line {
	char text[LINE_MAX_BYTES];
	size_t len;
};

static void add_raw_log_text(struct log_line *l, const char *s, size_t n)
{
	size_t room = sizeof(l->text) - 4 - l->len;

	if (n > room)
		n = room;
	memcpy(l->text + l->len, s, n);
	l->len += n;
}

static void add_log_text(struct log_line *l, const char *s)
{
	add_raw_log_text(l, s, strlen(s));
}

/* JSON string rules serve for both formats: control characters and quotes cannot forge a field. */
static void add_quoted_log_text(struct log_line *l, const char *s)
{
	char esc[8];

	add_log_text(l, "\"");
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\') {
			(void)snprintf(esc, sizeof(esc), "\\%c", c);
			add_log_text(l, esc);
		} else if (c == '\n') {
			add_log_text(l, "\\n");
		} else if (c < 0x20 || c == 0x7f) {
			(void)snprintf(esc, sizeof(esc), "\\u%04x", c);
			add_log_text(l, esc);
		} else {
			add_raw_log_text(l, s, 1);
		}
	}
	add_log_text(l, "\"");
}

static bool is_plain_log_text(const char *s)
{
	return *s && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			       "0123456789-_./:@%+,") == strlen(s);
}

static void add_log_value(struct log_line *l, const struct log_field *f)
{
	char num[24];
	const char *s = f->type == LOG_FIELD_STR && f->str ? f->str : "";

	switch (f->type) {
	case LOG_FIELD_INT:
		(void)snprintf(num, sizeof(num), "%" PRId64, f->i);
		add_log_text(l, num);
		return;
	case LOG_FIELD_UINT:
		(void)snprintf(num, sizeof(num), "%" PRIu64, f->u);
		add_log_text(l, num);
		return;
	case LOG_FIELD_STR:
		if (setup.format == LOG_TEXT && is_plain_log_text(s))
			add_log_text(l, s);
		else
			add_quoted_log_text(l, s);
		return;
	}
}

static void format_log_as_text(struct log_line *l, const char *when, enum log_level level,
	const char *text, const struct log_field *fields, size_t n)
{
	add_log_text(l, when);
	add_log_text(l, " ");
	add_log_text(l, level_names[level]);
	add_log_text(l, " ");
	add_log_text(l, text);
	for (size_t i = 0; i < n; i++) {
		add_log_text(l, " ");
		add_log_text(l, fields[i].key);
		add_log_text(l, "=");
		add_log_value(l, &fields[i]);
	}
}

static void format_log_as_json(struct log_line *l, const char *when, enum log_level level,
	const char *text, const struct log_field *fields, size_t n)
{
	add_log_text(l, "{\"time\":\"");
	add_log_text(l, when);
	add_log_text(l, "\",\"level\":\"");
	add_log_text(l, level_names[level]);
	add_log_text(l, "\",\"msg\":");
	add_quoted_log_text(l, text);
	for (size_t i = 0; i < n; i++) {
		add_log_text(l, ",");
		add_quoted_log_text(l, fields[i].key);
		add_log_text(l, ":");
		add_log_value(l, &fields[i]);
	}
	add_log_text(l, "}");
}

void log_setup(enum log_level max, enum log_format format)
{
	setup.max = max;
	setup.format = format;
}

bool log_level_parse(const char *text, enum log_level *ret)
{
	for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (!strcmp(text, level_names[i])) {
			*ret = (enum log_level)i;
			return true;
		}
	}
	return false;
}

bool log_format_parse(const char *text, enum log_format *ret)
{
	for (size_t i = 0; i < sizeof(format_names) / sizeof(format_names[0]); i++) {
		if (!strcmp(text, format_names[i])) {
			*ret = (enum log_format)i;
			return true;
		}
	}
	return false;
}

void log_write(enum log_level level, const char *text, const struct log_field *fields, size_t n)
{
	char when[TIME_RFC3339_MAX];
	struct log_line l;

	if (level > setup.max)
		return;
	l.len = 0;
	time_rfc3339(time_wall_ns(), when);
	if (setup.format == LOG_JSON)
		format_log_as_json(&l, when, level, text, fields, n);
	else
		format_log_as_text(&l, when, level, text, fields, n);
	l.text[l.len++] = '\n';
	/* A failure of the log itself cannot be reported. */
	if (write(STDERR_FILENO, l.text, l.len) < 0)
		return;
}

bool log_limit_pass(struct log_limit *l, uint64_t now_ns, uint64_t per_ns, uint32_t burst)
{
	if (now_ns - l->window_start_ns >= per_ns) {
		l->window_start_ns = now_ns;
		l->in_window = 0;
	}
	if (l->in_window >= burst) {
		l->suppressed++;
		return false;
	}
	l->in_window++;
	return true;
}
