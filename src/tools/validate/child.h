/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process that may hang or crash in the driver: started with one descriptor to hear from it,
 * killed at a deadline. One that the kernel holds in a call is given up, not waited for.
 * Thread: main. Safe in a program with threads: between fork and exec only system calls are made.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct validate_child {
	pid_t pid; /* 0: none */
	int fd;    /* to hear from it; -1: closed */
};

#define CHILD_INIT       \
	{                \
		.fd = -1 \
	}

struct child_options {
	const char *const *argv; /* ends with NULL; argv[0] is the path, below .root */
	const char *const
		*env;     /* "NAME=value" over the own environment; ends with NULL; or NULL */
	const char *root; /* chroot first; NULL or "/": no */
	uint64_t deadline_ns; /* to become the program; monotonic */
	bool notes;           /* .fd is a packet socket, descriptor 3 there; else its output */
};

/* ERR_PERMISSION: chroot is not allowed. ERR_NOT_FOUND: no such program. ERR_TIMEOUT: the program is
 * on a file system that does not answer, say. */
int child_start(struct validate_child *c, const struct child_options *options,
	struct error *err) MUST_USE;

/*
 * Waits for the end until @deadline_ns (monotonic), then kills. *ret_how is how it ended, for
 * people: "exited with status 9"; returns true if that was with status 0.
 */
bool child_end(struct validate_child *c, uint64_t deadline_ns, char *ret_how, size_t cap);
void child_fini(struct validate_child *c); /* kills */

/*
 * Runs it to its end and keeps the output up to the ceiling of @output. Returns 0 when it exited
 * with 0; else < 0 with the last line of what it said in the text. ERR_TIMEOUT: it was killed.
 */
int child_run(const struct child_options *options, uint64_t timeout_ns, struct buf *output,
	struct error *err) MUST_USE;
