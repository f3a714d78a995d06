/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files of /proc/PID, within bounds.
 *
 * Why bounds. The process decides how long such a file is, and how long the kernel takes to write it. 9,000
 * mounts, stacked on one directory in a user namespace, cost each reader of mountinfo six seconds. The kernel
 * writes a file in the reader's time, one piece for each read(). A reader can therefore stop after any piece.
 *
 * environ and cmdline are different: they are the process's own memory. A page of it can belong to a file
 * system in user space that never answers. The reader then waits forever and cannot be killed. Only a process
 * that can be left behind reads them.
 *
 * Thread: any, but a budget belongs to one thread.
 * Blocks: within the budget, and for one piece more.
 */
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct procfs_budget {
	size_t file_bytes;    /* limit for one file */
	uint64_t file_cpu_ns; /* limit of this thread's CPU time for one file */
	uint64_t cpu_ns;      /* CPU time left for all files; falls */
	uint64_t end_ns;      /* no reads after this; monotonic clock */
};

enum procfs_outcome {
	PROCFS_GONE,      /* the file does not exist or is not readable */
	PROCFS_WHOLE,     /* the whole file was read */
	PROCFS_TRUNCATED, /* a limit of one file ended the read: the beginning was read */
	PROCFS_SPENT,     /* the budget is used up: the beginning was read */
};

/* Reads PROCFS/PID/FILE into @b, and empties @b first. @procfs is "/proc", except in tests.
 * PROCFS_TRUNCATED: also for lack of memory. */
enum procfs_outcome procfs_read(struct buf *b, const char *procfs, uint32_t pid,
	const char *file, struct procfs_budget *budget);

/* The kernel's boot ID into @ret of @cap bytes; "" if unknown. */
void procfs_boot_id(const char *procfs, char *ret, size_t cap);

/* --- time that a thread waits --- */

/* @path: "/proc/self/schedstat", "/proc/PID/task/TID/schedstat". In ns since the thread began; false:
 * unknown. */
bool schedstat_waited(const char *path, uint64_t *ret_ns);
