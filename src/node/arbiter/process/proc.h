/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the kernel says of processes, most of it from procfs mounted at @procfs. Thread: loop. */
#include "abi/slice-wire.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <sys/types.h>

#define PROC_ANCESTORS 64
/* So many descriptors of a process are read in one call, and so many that have the name: some 5 ms together. */
#define PROC_FDS_MAX    4096
#define PROC_MEMFDS_MAX 256

struct proc_stat {
	uint32_t parent;
	uint64_t start; /* clock ticks after boot; with the PID it names a process */
	/* Where its stack and code lie: another value, another program. 0: not told. */
	uint64_t image;
};

/* False: no such process. */
bool proc_stat(const char *procfs, uint32_t pid, struct proc_stat *ret);
bool proc_stat_parse(const char *text, struct proc_stat *ret);

/* The process of this pidfd, of which a zombie is what is left at most. */
bool proc_ended(int pidfd);

/* PID in its own namespace: 0 if not told. */
uint32_t proc_ns_pid(const char *procfs, uint32_t pid);

/* As in comm, printable ASCII; "" if not told. @ret has SLICE_NAME_MAX bytes. */
void proc_name(const char *procfs, uint32_t pid, char *ret);
void proc_printable(char *name);

/* Which file it is, by what only the kernel chooses: names and roots of mounts are a process's own to choose. */
struct proc_file_id {
	dev_t dev;
	ino_t ino;
	mode_t type; /* S_IFDIR, ... */
};

/* False: the kernel does not tell. Waits for no server. */
bool proc_file_id(int fd, struct proc_file_id *ret);
bool proc_file_id_equal(const struct proc_file_id *a, const struct proc_file_id *b);

enum proc_dir_result {
	PROC_DIR_UNREADABLE, /* we may not look there */
	PROC_DIR_ABSENT,     /* there is none, or no such process any more */
	PROC_DIR_FOUND,
};

/* The directory that the process sees at SLICE_CONTAINER_DIR. Who mounts another one there can choose only among
 * those that it reaches. */
enum proc_dir_result proc_slice_dir(const char *procfs, uint32_t pid, struct proc_file_id *ret);

/*
 * What @find knows of the directory that the process, or else its nearest ancestor of which anything is known, sees
 * at SLICE_CONTAINER_DIR: containers within a container, programs that changed their root and those that mounted
 * something else there do not see the slice. NULL: nothing is known of any.
 */
void *proc_nearest(const char *procfs, uint32_t pid,
	void *(*find)(void *arg, const struct proc_file_id *dir), void *arg);

/*
 * Calls @fn with each memfd of that name that the process has open, until it returns true. @fn owns the descriptor.
 * What only has the name of a memfd is not opened. A process may have any number of descriptors: false, if there are
 * more than one call reads. The next call continues at *at, which is 0 before the first one; NULL: no call follows.
 */
bool proc_each_memfd(const char *procfs, uint32_t pid, const char *name, long *at,
	bool (*fn)(void *arg, int fd), void *arg);
