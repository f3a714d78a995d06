/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A directory that lives as long as a command. What a killed command left is removed by the next
 * that makes one with the same prefix: its lock is free then. Thread: any.
 */
#include "lib/base/error.h"

#include <limits.h>

struct temp_dir {
	char path[PATH_MAX]; /* "": none */
	int lock_fd;         /* held while the directory is in use */
};

#define TEMP_DIR_INIT         \
	{                     \
		.lock_fd = -1 \
	}

/*
 * Makes it in TMPDIR, or in /tmp if TMPDIR is no absolute path or longer than @base_max bytes, with
 * mode 0700. @prefix ends with a dot; nobody else's files may begin with it. The file "lock" in the
 * directory is not the caller's.
 */
int temp_dir_make(struct temp_dir *d, const char *prefix, size_t base_max,
	struct error *err) MUST_USE;

/* With all that is in it. Takes TEMP_DIR_INIT as well; a cleanup function. */
void temp_dir_remove(struct temp_dir *d);

/* Removes @dir and what is below it, as far as that is possible; follows no link. */
void tree_remove(const char *dir);
