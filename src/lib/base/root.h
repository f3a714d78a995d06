/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Paths below a directory that is somebody else's root, such as the driver root of a driver
 * container: symlinks lead where they would lead for a process in there, never out of it.
 * Thread: any.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <sys/stat.h>

#define ROOT_LINKS_MAX 40 /* on one way, as the kernel has it */

/*
 * Follows all links of @path, which begins with "/". *ret (of @cap bytes) is the path below @root
 * without them: ROOT is to be put before it to open the file. ERR_NOT_FOUND if there is no such
 * file; @st may be NULL.
 */
int root_resolve(char *ret, size_t cap, const char *root, const char *path, struct stat *st,
	struct error *err) MUST_USE;

/* "ROOT/path" without doubled slashes; @root may be "/" or "". ERR_LIMIT if it does not fit. */
int root_join(char *ret, size_t cap, const char *root, const char *path,
	struct error *err) MUST_USE;

/* Names in the directory @path that match @pattern (fnmatch), sorted. None if there is no such
 * directory; < 0 only for lack of memory. */
int root_list(struct strv *ret, const char *root, const char *path, const char *pattern,
	struct error *err) MUST_USE;
