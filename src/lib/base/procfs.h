/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files of /proc/PID, within bounds. The process chooses how long such a file is and how long the kernel takes to
 * write it: 9,000 mounts, stacked on one directory in a user namespace, cost each reader of mountinfo six seconds.
 * The kernel writes a file in the reader's time, a piece with each read(), so a reader can stop after any piece.
 *
 * environ and cmdline are different: they are the process's own memory. A page of it can belong to a file system in
 * user space that never answers, and then the reader waits for ever and cannot be killed. Only a process that can be
 * left behind reads those two.
 *
 * Thread: any, but a budget belongs to one thread. Blocks: within the budget, and for one piece more.
 */
#include "lib/base/buf.h"

#include <stdint.h>

struct procfs_budget {
	size_t file_bytes;    /* at most of one file */
	uint64_t file_cpu_ns; /* time of this thread for one file, at most */
	uint64_t cpu_ns;      /* for all that is still to be read; falls */
	uint64_t end_ns;      /* nothing is read after that, monotonic */
};

enum procfs_outcome {
	PROCFS_GONE,      /* there is no such file, or we may not read it */
	PROCFS_WHOLE,     /* all of it has been read */
	PROCFS_TRUNCATED, /* the file's own bounds ended it: what has been read is its beginning */
	PROCFS_SPENT,     /* the budget is used up: the same */
};

/* Reads PROCFS/PID/FILE into @b, which is emptied first. @procfs is "/proc" but in tests. No memory: PROCFS_TRUNCATED. */
enum procfs_outcome procfs_read(struct buf *b, const char *procfs, uint32_t pid,
	const char *file, struct procfs_budget *budget);

/* The kernel's boot ID into @ret of @cap bytes, "" where it does not say. */
void procfs_boot_id(const char *procfs, char *ret, size_t cap);
