/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs one program for its output: `gpuslice mig apply`, systemctl, a command for the MPS daemon, a pod of a
 * benchmark. The program leads a process group of its own, so that its hooks get the same signals. Its output
 * arrives line by line.
 *
 * Silence. A program that writes nothing for .silence_ns ends like this:
 *  1. Its group gets SIGTERM.
 *  2. Its group gets SIGKILL 5 s later.
 *  3. It is left behind 5 s after that, if it hangs in the driver.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define CHILD_LINE_MAX  65536
#define CHILD_WORDS_MAX 256 /* bytes of the last line of standard error, for messages */

struct child;

struct child_end {
	int status, signal; /* of the process; status -1: it was left behind */
	bool was_silent;    /* ended for its silence */
	struct error error; /* why a refused line ended it; else ERR_NONE */
	const char *words;  /* last line of standard error; "" */
};

struct child_ops {
	/* A line of standard output, without its end. < 0: ends the program. May be NULL. */
	int (*line)(void *arg, const char *line, size_t len, struct error *err);
	/* Runs once, unless proc_stop() comes first. Never runs within proc_start(). */
	void (*ended)(void *arg, const struct child_end *end);
};

/* Everything but .name is copied, or not used after the start. .name must stay valid until the end. */
struct child_spec {
	const char *name;        /* for the log of its standard error; NULL: not logged */
	const char *const *argv; /* ends with NULL; argv[0] is searched in PATH */
	/* Ends with NULL. NULL: this process's environment, without the variables of NVIDIA's MIG tool. */
	const char *const *env;
	const char *input; /* NULL: no input */
	size_t input_len;
	bool keep_stdin_open; /* for proc_send(); with or without .input */
	uint64_t silence_ns;
};

/* Starts the program. *ret is valid until .ended has returned or proc_stop(). @ops is borrowed until then.
 * ERR_IO: the program was not started; ERR_NOMEM. No callback runs after an error. */
int proc_start(struct child **ret, uv_loop_t *loop, const struct child_spec *what,
	const struct child_ops *ops, void *arg, struct error *err) MUST_USE;

/* Sends more standard input, with .keep_stdin_open. No error if the program has exited and reads nothing
 * more. ERR_NOMEM. */
int proc_send(struct child *c, const char *data, size_t len, struct error *err) MUST_USE;

/* Sets how long the program may be silent from now on. */
void proc_expect(struct child *c, uint64_t silence_ns);

/*
 * Sends SIGTERM to the group, and SIGKILL 5 s later. No callback runs any more. The loop frees the memory when
 * the program has ended, or 10 s later; 1 s more if another process holds the output open. Returns NULL. NULL
 * is fine.
 */
struct child *proc_stop(struct child *c);
