/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the kernel says of processes, most of it from procfs mounted at @procfs. Thread: loop. */
#include "abi/slice-wire.h"
#include "base/error.h"

#include <stdbool.h>

/* So much of a file is looked at. */
#define PROC_MOUNTS_MAX (1024 * 1024)
#define PROC_FDS_MAX    65536
#define PROC_ANCESTORS  64

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

/* The slice whose directory the process sees at SLICE_CONTAINER_DIR; false: none. */
bool proc_slice(const char *procfs, uint32_t pid, char ret[SLICE_ID_MAX]);
/* The same, or that of the nearest ancestor that sees one: containers within a container, and programs that
 * changed their root, see no such directory. */
bool proc_slice_nearest(const char *procfs, uint32_t pid, char ret[SLICE_ID_MAX]);
bool proc_slice_parse(const char *mountinfo, char ret[SLICE_ID_MAX]);

/* The kernel's boot ID into @ret of @cap bytes, "" if not told. */
void proc_boot_id(const char *procfs, char *ret, size_t cap);

/* Calls @fn with each memfd of that name that the process has open, until it says true. The
 * descriptor is @fn's. What only has the name of one is not opened. */
void proc_each_memfd(const char *procfs, uint32_t pid, const char *name,
	bool (*fn)(void *arg, int fd), void *arg);
