/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Allocations that fail, for one file of a test that has wrap_allocations (test/unit/meson.build): the linker puts
 * these functions between our code and libc (--wrap). Shared libraries keep their memory.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/cleanup.h"

static long countdown = -1; /* allocations until one fails; < 0: none, or it failed */

static bool fails(void)
{
	return countdown >= 0 && countdown-- == 0;
}

#define WRAP(ret, name, params, args)      \
	ret __real_##name params;          \
	ret __wrap_##name params;          \
	ret __wrap_##name params           \
	{                                  \
		if (fails())               \
			return NULL;       \
		return __real_##name args; \
	}
WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, (void *p, size_t n), (p, n))
WRAP(void *, reallocarray, (void *p, size_t n, size_t size), (p, n, size))
WRAP(char *, strdup, (const char *s), (s))
WRAP(char *, strndup, (const char *s, size_t n), (s, n))

int __wrap_asprintf(char **ret, const char *fmt, ...) PRINTF(2, 3);
int __wrap_asprintf(char **ret, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (fails())
		return -1;
	va_start(ap, fmt);
	n = vasprintf(ret, fmt, ap);
	va_end(ap);
	return n;
}
