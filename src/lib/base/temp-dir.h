/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A directory that lives as long as a command. When a command is killed, its directory stays with a free lock.
 * The next command with the same prefix removes it.
 * Thread: any.
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

/* Makes the directory in TMPDIR, with mode 0700. It uses /tmp if TMPDIR is not an absolute path or is longer
 * than @base_max bytes. @prefix ends with a dot; no other program's files may begin with it. The file "lock"
 * in the directory is reserved. */
int temp_dir_make(struct temp_dir *d, const char *prefix, size_t base_max,
	struct error *err) MUST_USE;

/* Removes the directory with everything in it. Accepts TEMP_DIR_INIT; usable with CLEANUP. */
void temp_dir_remove(struct temp_dir *d);

/* Removes @dir and everything below it as far as possible. Follows no link. */
void tree_remove(const char *dir);
