/* SPDX-License-Identifier: Apache-2.0 */
#include "model/labels/set.h"

#include "lib/base/array.h"

#include <stdio.h>
#include <string.h>

static bool is_alnum(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* A label value, or the part of a key after '/'. Only the value may be empty, which the caller checks. */
static bool is_label_name(const char *text)
{
	size_t len = strlen(text);

	if (!len || len > LABEL_VALUE_MAX || !is_alnum(text[0]) || !is_alnum(text[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_alnum(text[i]) && !strchr("-_.", text[i]))
			return false;
	return true;
}

bool label_value_ok(const char *value)
{
	return !value[0] || is_label_name(value);
}

void label_sanitise(char *text)
{
	size_t n = 0;
	bool gap = false;

	for (const char *p = text; *p; p++) {
		if (*p == ' ') {
			gap = n > 0;
		} else if (is_alnum(*p) || strchr("_.-", *p)) {
			if (gap)
				text[n++] = '-';
			text[n++] = *p;
			gap = false;
		}
	}
	text[n] = '\0';
}

void label_set_add_note(struct label_set *s, const char *fmt, ...)
{
	char text[ERROR_MSG_MAX];
	va_list ap;

	if (!s->notes || s->failed)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap); /* truncates a long note */
	va_end(ap);
	s->failed = strv_add(s->notes, text, NULL) < 0;
}

static struct label *find_label(const struct labels *l, const char *key)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].key, key) == 0)
			return &l->v[i];
	return NULL;
}

const char *labels_get(const struct labels *l, const char *key)
{
	const struct label *found = find_label(l, key);

	return found ? found->value : NULL;
}

static bool set_label(struct label_set *s, const char *key, const char *value)
{
	struct label *l = find_label(s->labels, key);
	CLEANUP(freep) char *k = NULL;
	CLEANUP(freep) char *v = strdup(value);

	if (!v)
		return false;
	if (!l) {
		k = strdup(key);
		if (!k || !ARRAY_GROW(&s->labels->v, s->labels->n, &s->room, ARRAY_NO_LIMIT))
			return false;
		l = &s->labels->v[s->labels->n++];
		*l = (struct label){ .key = STEAL_PTR(k) };
	}
	free(l->value);
	l->value = STEAL_PTR(v);
	return true;
}

/* Resource names come from the config. With a suffix they may be too long for a key. */
static bool format_label_key(struct label_set *s, char *ret, const char *prefix,
	const char *suffix)
{
	int n = snprintf(ret, LABEL_KEY_MAX + 1, "%s.%s", prefix, suffix);
	const char *slash = strchr(ret, '/');

	if (n > 0 && n <= LABEL_KEY_MAX && slash && is_label_name(slash + 1))
		return true;
	label_set_add_note(s, "no label %.200s.%s: it would not be a legal key", prefix,
		suffix);
	return false;
}

void label_set_add(struct label_set *s, const char *prefix, const char *suffix, const char *fmt,
	...)
{
	char key[LABEL_KEY_MAX + 1], value[4 * LABEL_VALUE_MAX];
	va_list ap;
	int n;

	if (s->failed || !format_label_key(s, key, prefix, suffix))
		return;
	va_start(ap, fmt);
	n = vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(value) || !label_value_ok(value))
		label_set_add_note(s, "no label %s: '%.100s' is not a legal value", key, value);
	else
		s->failed = !set_label(s, key, value);
}

/* Trims both ends to a letter or digit. Returns the new start. */
static char *trim_label_text(char *text)
{
	size_t len;

	while (*text && !is_alnum(*text))
		text++;
	len = strlen(text);
	while (len && !is_alnum(text[len - 1]))
		text[--len] = '\0';
	return text;
}

void label_set_add_text(struct label_set *s, const char *prefix, const char *suffix,
	const char *text, const char *end)
{
	CLEANUP(freep) char *copy = NULL;
	char key[LABEL_KEY_MAX + 1];
	size_t room = LABEL_VALUE_MAX - strlen(end);
	const char *body;

	if (s->failed || !format_label_key(s, key, prefix, suffix))
		return;
	copy = strdup(text);
	if (!copy) {
		s->failed = true;
		return;
	}
	label_sanitise(copy);
	if (strlen(trim_label_text(copy)) > room) {
		trim_label_text(copy)[room] = '\0';
		label_set_add_note(s,
			"label %s: '%.200s%s' is longer than %d characters and is cut", key,
			text, end, LABEL_VALUE_MAX);
	}
	body = trim_label_text(copy);
	if (!body[0] && end[0])
		body = "unknown";
	label_set_add(s, prefix, suffix, "%s%s", body, end);
}
