/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A list of strings that owns them. Thread: the owner's. */
#include "lib/base/error.h"

#include <stdbool.h>

struct strv {
	char **v; /* v[n] is NULL once an element was added */
	size_t n, room;
};

#define STRV_INIT         \
	{                 \
		.v = NULL \
	}

/* strv_fini() frees everything, strv_clear() the strings only. The list is empty and usable after both. */
void strv_fini(struct strv *s);
void strv_clear(struct strv *s);
/* Append a copy of @text, or of its first @len bytes, at most up to a NUL. ERR_NOMEM. */
int strv_add(struct strv *s, const char *text, struct error *err) MUST_USE;
int strv_addn(struct strv *s, const char *text, size_t len, struct error *err) MUST_USE;
/* Replaces the strings of @to by copies. After ERR_NOMEM @to has only the first of them. */
int strv_copy(struct strv *to, const struct strv *from, struct error *err) MUST_USE;
/* Whether @text is in the list, by bytes. */
bool strv_has(const struct strv *s, const char *text);
void strv_sort(struct strv *s); /* by bytes */
/* Whether both have the same strings in the same order. */
bool strv_equal(const struct strv *a, const struct strv *b);

/* Splits at @sep and trims blanks off each element; "" gives one empty element, as Go does. */
int strv_split(struct strv *s, const char *text, char sep, struct error *err) MUST_USE;
