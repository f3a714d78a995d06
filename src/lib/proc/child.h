/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One program that is run for its answer: `gpuslice mig apply`, systemctl, a command for the MPS daemon, a pod of a
 * benchmark. It leads a process group of its own, so that its hooks end with it. What it writes comes line by
 * line; after so long without a line its group gets SIGTERM, then SIGKILL, and if even that does not end it
 * (it hangs in the driver) it is left behind.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define CHILD_LINE_MAX  65536
#define CHILD_WORDS_MAX 256 /* of the last line of standard error, for messages */

struct child;

struct child_end {
	int status, signal; /* of the process; -1: it was left behind */
	bool was_silent;    /* ended by us, as it said nothing */
	struct error error; /* ended by us, as a line was refused; else ERR_NONE */
	const char *words;  /* last line of standard error; "" */
};

struct child_ops {
	/* A line of standard output, without its end. < 0: ends the program. May be NULL. */
	int (*line)(void *arg, const char *line, size_t len, struct error *err);
	/* Once, unless stopped before. Not from within proc_start(). */
	void (*ended)(void *arg, const struct child_end *end);
};

/* All is copied, or of no use after the start. */
struct child_spec {
	const char *name;        /* for the log of its standard error; NULL: not logged */
	const char *const *argv; /* ends with NULL; argv[0] is looked for in PATH */
	const char *const
		*env;      /* the same; NULL: ours, without what only NVIDIA's MIG tool reads */
	const char *input; /* NULL: nothing to read */
	size_t input_len;
	bool keep_stdin_open; /* standard input stays open for proc_send(), .input or not */
	uint64_t silence_ns;
};

int proc_start(struct child **ret, uv_loop_t *loop, const struct child_spec *what,
	const struct child_ops *ops, void *arg, struct error *err) MUST_USE;

pid_t proc_pid(const struct child *c);

/* More for its standard input, with .keep_stdin_open. What it does not take, as it has ended, is no error. ERR_NOMEM. */
int proc_send(struct child *c, const char *data, size_t len, struct error *err) MUST_USE;

/* From now on it may be silent for so long. */
void proc_expect(struct child *c, uint64_t silence_ns);

/* SIGTERM for the group, and later SIGKILL; no callback any more. The memory goes as the loop runs,
 * which takes as long as the program takes to end, and ten seconds at most. Returns NULL. NULL is
 * fine. */
struct child *proc_stop(struct child *c);
