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

/* A line being put together; what does not fit is cut, the end of the line never is. */
struct line {
	char text[LINE_MAX_BYTES];
	size_t len;
};

static void put_raw(struct line *l, const char *s, size_t n)
{
	size_t room = sizeof(l->text) - 4 - l->len;

	if (n > room)
		n = room;
	memcpy(l->text + l->len, s, n);
	l->len += n;
}

static void put(struct line *l, const char *s)
{
	put_raw(l, s, strlen(s));
}

/* JSON string rules serve for both formats: control characters and quotes cannot forge a field. */
static void put_quoted(struct line *l, const char *s)
{
	char esc[8];

	put(l, "\"");
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\') {
			(void)snprintf(esc, sizeof(esc), "\\%c", c);
			put(l, esc);
		} else if (c == '\n') {
			put(l, "\\n");
		} else if (c < 0x20 || c == 0x7f) {
			(void)snprintf(esc, sizeof(esc), "\\u%04x", c);
			put(l, esc);
		} else {
			put_raw(l, s, 1);
		}
	}
	put(l, "\"");
}

static bool is_plain(const char *s)
{
	return *s && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			       "0123456789-_./:@%+,") == strlen(s);
}

static void put_value(struct line *l, const struct log_field *f)
{
	char num[24];
	const char *s = f->type == LOG_FIELD_STR && f->str ? f->str : "";

	switch (f->type) {
	case LOG_FIELD_INT:
		(void)snprintf(num, sizeof(num), "%" PRId64, f->i);
		put(l, num);
		return;
	case LOG_FIELD_UINT:
		(void)snprintf(num, sizeof(num), "%" PRIu64, f->u);
		put(l, num);
		return;
	case LOG_FIELD_STR:
		if (setup.format == LOG_TEXT && is_plain(s))
			put(l, s);
		else
			put_quoted(l, s);
		return;
	}
}

static void put_text(struct line *l, const char *when, enum log_level level, const char *text,
	const struct log_field *fields, size_t n)
{
	put(l, when);
	put(l, " ");
	put(l, level_names[level]);
	put(l, " ");
	put(l, text);
	for (size_t i = 0; i < n; i++) {
		put(l, " ");
		put(l, fields[i].key);
		put(l, "=");
		put_value(l, &fields[i]);
	}
}

static void put_json(struct line *l, const char *when, enum log_level level, const char *text,
	const struct log_field *fields, size_t n)
{
	put(l, "{\"time\":\"");
	put(l, when);
	put(l, "\",\"level\":\"");
	put(l, level_names[level]);
	put(l, "\",\"msg\":");
	put_quoted(l, text);
	for (size_t i = 0; i < n; i++) {
		put(l, ",");
		put_quoted(l, fields[i].key);
		put(l, ":");
		put_value(l, &fields[i]);
	}
	put(l, "}");
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
	struct line l;

	if (level > setup.max)
		return;
	l.len = 0;
	time_rfc3339(time_wall_ns(), when);
	if (setup.format == LOG_JSON)
		put_json(&l, when, level, text, fields, n);
	else
		put_text(&l, when, level, text, fields, n);
	l.text[l.len++] = '\n';
	/* Nobody can be told that the log itself cannot be written. */
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
