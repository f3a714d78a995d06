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

void strv_fini(struct strv *s);
void strv_clear(struct strv *s);
int strv_add(struct strv *s, const char *text, struct error *err) MUST_USE; /* copies */
int strv_addn(struct strv *s, const char *text, size_t len, struct error *err) MUST_USE;
int strv_copy(struct strv *to, const struct strv *from, struct error *err) MUST_USE;
bool strv_has(const struct strv *s, const char *text);
void strv_sort(struct strv *s); /* by bytes */
bool strv_equal(const struct strv *a, const struct strv *b);

/* Splits at @sep and trims blanks off each element; "" gives one empty element, as Go does. */
int strv_split(struct strv *s, const char *text, char sep, struct error *err) MUST_USE;
