/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Paths below a directory that is the root of another system, such as the driver root of a driver container.
 * Symlinks lead where they lead for a process in that root, never out of it.
 * Thread: any.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <sys/stat.h>

#define ROOT_LINKS_MAX 40 /* on one path, as in the kernel */

/* Follows all links of @path, which begins with "/". *ret (of @cap bytes) is the resulting path below @root:
 * put @root before it to open the file. ERR_NOT_FOUND: the file does not exist. @st may be NULL. */
int root_resolve(char *ret, size_t cap, const char *root, const char *path, struct stat *st,
	struct error *err) MUST_USE;

/* "ROOT/path" without doubled slashes; @root may be "/" or "". ERR_LIMIT if it does not fit. */
int root_join(char *ret, size_t cap, const char *root, const char *path,
	struct error *err) MUST_USE;

/* Names in the directory @path that match @pattern (fnmatch), sorted; none if the directory does not exist.
 * < 0 only for lack of memory. */
int root_list(struct strv *ret, const char *root, const char *path, const char *pattern,
	struct error *err) MUST_USE;
