/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The only file that includes cmocka: its headers have an order. Tests are named
 * `module_function__says_the_behaviour`. Tables of rows replace copies of code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

#include "lib/base/error.h"

/* Ends the test where it cannot be run, from its own body. cmocka's skip() says "not ok # SKIP", which
 * Meson takes for a failure. */
#define SKIP_UNLESS(condition, why)                            \
	do {                                                   \
		if (!(condition)) {                            \
			print_message("# skipped: %s\n", why); \
			return;                                \
		}                                              \
	} while (0)

/* The call returns 0; else its message is printed and the test ends. */
#define assert_ok(call, err)                                                      \
	do {                                                                      \
		int assert_ok_r_ = (call);                                        \
		if (assert_ok_r_ != 0)                                            \
			fail_msg("%s = %d: %s", #call, assert_ok_r_, (err)->msg); \
	} while (0)

/* The call returns < 0 and the message contains @text. */
#define assert_error(call, err, text)                                                    \
	do {                                                                             \
		int assert_error_r_;                                                     \
		error_clear(err);                                                        \
		assert_error_r_ = (call);                                                \
		if (assert_error_r_ >= 0)                                                \
			fail_msg("%s = %d, expected an error with '%s'", #call,          \
				assert_error_r_, text);                                  \
		if (!strstr((err)->msg, text))                                           \
			fail_msg("%s says '%s', expected '%s' in it", #call, (err)->msg, \
				text);                                                   \
	} while (0)

/* Makes a directory below $TMPDIR or /tmp that test_rmdir() removes with all in it. */
char *test_tmpdir(void);
void test_rmdir(char *dir); /* also frees the name; NULL is fine */

/* Writes a file @name below @dir, and the directories that it needs, with exactly this @mode. */
void test_write(const char *dir, const char *name, const void *data, size_t len, mode_t mode);

/* The path of a file of the build: @name from the directory of this program, as in "../support/libfake-
 * nvml.so". @ret has PATH_MAX bytes and is returned. */
char *test_built(char *ret, const char *name);
