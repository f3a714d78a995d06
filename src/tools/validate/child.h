/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process that may hang or crash in the driver. The parent reads from it through one descriptor, and
 * kills it at a deadline. The parent abandons a process that does not die because the kernel holds it
 * in a call.
 * Thread: main. Safe in a program with threads: between fork and exec the child makes only system
 * calls.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct validate_child {
	pid_t pid; /* 0: none */
	int fd;    /* to read from the child; -1: closed */
};

#define CHILD_INIT       \
	{                \
		.fd = -1 \
	}

struct child_options {
	const char *const *argv; /* ends with NULL; argv[0]: path below .root */
	/* "NAME=value", over the own environment; ends with NULL. NULL: none. */
	const char *const *env;
	const char *root;     /* chroot before exec; NULL or "/": none */
	uint64_t deadline_ns; /* deadline of exec; monotonic */
	bool notes;           /* .fd: packet socket, the child's descriptor 3; false: output */
};

/* Starts the child and waits until it has become the program. ERR_PERMISSION: chroot is not allowed.
 * ERR_NOT_FOUND: no such program. ERR_TIMEOUT: the deadline passed, for example because a file
 * system does not answer. */
int child_start(struct validate_child *c, const struct child_options *options,
	struct error *err) MUST_USE;

/*
 * Waits for the end until @deadline_ns (monotonic), then kills. *ret_how is how the child ended, for
 * people: "exited with status 9". True: with status 0.
 */
bool child_end(struct validate_child *c, uint64_t deadline_ns, char *ret_how, size_t cap);
void child_fini(struct validate_child *c); /* kills the child */

/*
 * Runs the child to its end and keeps the output, up to .max of @output. Returns 0 if the exit status
 * is 0. < 0: the text has the last line of the output. ERR_TIMEOUT: the child was killed.
 */
int child_run(const struct child_options *options, uint64_t timeout_ns, struct buf *output,
	struct error *err) MUST_USE;
