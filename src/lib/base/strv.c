/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/array.h"
#include "lib/base/strv.h"

#include <ctype.h>
#include <string.h>

void strv_fini(struct strv *s)
{
	strv_clear(s);
	free(s->v);
	*s = (struct strv)STRV_INIT;
}

void strv_clear(struct strv *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i]);
	s->n = 0;
	if (s->v)
		s->v[0] = NULL;
}

int strv_addn(struct strv *s, const char *text, size_t len, struct error *err)
{
	char *copy;

	if (!ARRAY_GROW(&s->v, s->n + 1, &s->room, ARRAY_NO_LIMIT)) /* and the final NULL */
		return error_nomem(err);
	copy = strndup(text, len);
	if (!copy)
		return error_nomem(err);
	s->v[s->n++] = copy;
	s->v[s->n] = NULL;
	return 0;
}

int strv_add(struct strv *s, const char *text, struct error *err)
{
	return strv_addn(s, text, strlen(text), err);
}

int strv_copy(struct strv *to, const struct strv *from, struct error *err)
{
	strv_clear(to);
	for (size_t i = 0; i < from->n; i++) {
		if (strv_add(to, from->v[i], err) < 0)
			return -1;
	}
	return 0;
}

bool strv_has(const struct strv *s, const char *text)
{
	for (size_t i = 0; i < s->n; i++) {
		if (!strcmp(s->v[i], text))
			return true;
	}
	return false;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void strv_sort(struct strv *s)
{
	if (s->n > 1)
		qsort(s->v, s->n, sizeof(*s->v), by_bytes);
}

bool strv_equal(const struct strv *a, const struct strv *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		if (strcmp(a->v[i], b->v[i]) != 0)
			return false;
	}
	return true;
}

int strv_split(struct strv *s, const char *text, char sep, struct error *err)
{
	for (;;) {
		const char *end = strchrnul(text, sep);
		const char *a = text, *b = end;

		while (a < b && isspace((unsigned char)*a))
			a++;
		while (b > a && isspace((unsigned char)b[-1]))
			b--;
		if (strv_addn(s, a, (size_t)(b - a), err) < 0)
			return -1;
		if (!*end)
			return 0;
		text = end + 1;
	}
}
