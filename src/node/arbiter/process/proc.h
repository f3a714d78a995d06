/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the kernel reports of processes, mostly from procfs mounted at @procfs. Thread: loop. */
#include "abi/slice-wire.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <sys/types.h>

#define PROC_ANCESTORS 64
/* Limits of one call of proc_each_memfd(): descriptors read, and memfds of the name opened. Both together take
 * about 5 ms. */
#define PROC_FDS_MAX    4096
#define PROC_MEMFDS_MAX 256

struct proc_stat {
	uint32_t parent;
	uint64_t start; /* clock ticks after boot; with the PID it identifies a process */
	/* From the addresses of stack and code: another value, another program. 0: not known. */
	uint64_t image;
};

/* False: no such process. */
bool proc_stat(const char *procfs, uint32_t pid, struct proc_stat *ret);
bool proc_stat_parse(const char *text, struct proc_stat *ret);

/* Whether the process of this pidfd has ended. At most a zombie is left of it. */
bool proc_ended(int pidfd);

/* PID in its own namespace; 0: not known. */
uint32_t proc_ns_pid(const char *procfs, uint32_t pid);

/* As in comm, printable ASCII; "": not known. @ret has SLICE_NAME_MAX bytes. */
void proc_name(const char *procfs, uint32_t pid, char *ret);
void proc_printable(char *name);

/* Identifies a file by values that only the kernel chooses. A process chooses the names and roots of its mounts
 * itself. */
struct proc_file_id {
	dev_t dev;
	ino_t ino;
	mode_t type; /* S_IFDIR, ... */
};

/* False: the kernel does not know. Does not wait for a file server. */
bool proc_file_id(int fd, struct proc_file_id *ret);
bool proc_file_id_equal(const struct proc_file_id *a, const struct proc_file_id *b);

enum proc_dir_result {
	PROC_DIR_UNREADABLE, /* the arbiter may not look there */
	PROC_DIR_ABSENT,     /* there is none, or the process has ended */
	PROC_DIR_FOUND,
};

/* The directory that the process sees at SLICE_CONTAINER_DIR. A process that mounts another one there can choose
 * only among directories that it reaches. */
enum proc_dir_result proc_slice_dir(const char *procfs, uint32_t pid, struct proc_file_id *ret);

/*
 * Calls @find with the directory at SLICE_CONTAINER_DIR of the process, then of its ancestors, until @find returns
 * other than NULL. The ancestors are for processes that do not see the slice: in a container within the container,
 * after a change of root, or with another mount there. NULL: nothing is known of any of them.
 */
void *proc_nearest(const char *procfs, uint32_t pid,
	void *(*find)(void *arg, const struct proc_file_id *dir), void *arg);

/*
 * Calls @fn with each memfd of that name that the process has open, until @fn returns true. @fn owns the
 * descriptor. A file that only has the name of a memfd is not opened. A process may have any number of
 * descriptors: false if there are more than one call reads. The next call continues at *at, which is 0 before the
 * first call. NULL: no call follows.
 */
bool proc_each_memfd(const char *procfs, uint32_t pid, const char *name, long *at,
	bool (*fn)(void *arg, int fd), void *arg);
