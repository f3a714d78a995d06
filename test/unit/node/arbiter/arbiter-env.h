/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An arbiter in a child process, with directories of its own; its control socket; other children, which are
 * processes of slices. For tests of what the arbiter serves: serve-env.h adds memory, scheduler-env.h adds quanta.
 */
#include "support/test.h"

#include "client.h"

#include <jansson.h>
#include <stdatomic.h>
#include <sys/types.h>

#define UUID    "GPU-00112233-4455-6677-8899-aabbccddeeff"
#define WAIT_MS 20000 /* for events that take microseconds, on a busy machine */
#define PROCS   64

/* Memory shared by the children and this process. */
struct shared {
	_Atomic uint32_t go, ready, failed;
	_Atomic uint32_t arbiter; /* start_arbiter_apart(): its PID */
	/* What "NVML" has: processes, and their bytes. */
	_Atomic uint32_t pid[PROCS];
	_Atomic uint64_t bytes[PROCS];
	_Atomic uint64_t truth, most; /* sum of bytes, and the highest that anyone saw */
	_Atomic uint32_t refused, taken;
	_Atomic uint64_t turns[PROCS]; /* quanta of each */
};

struct env {
	char *dir;
	char run[80], log[160];
	char slice[160]; /* the directory of the slice in question */
	bool keep_log;   /* of the next arbiter, in the file .log */
	pid_t arbiter;
	int control;
	char line[512 * 1024]; /* read, up to .len */
	size_t len;
	struct shared *shared;
};

/* Directories; no arbiter yet. */
struct env *arbiter_env_new(void);
/* Ends the arbiter, which must be in order. */
void arbiter_env_free(struct env *e);

void start_arbiter(struct env *e);
/* In a PID namespace of its own, from where the arbiter sees no process of the test. Its parent is .arbiter;
 * SIGKILL ends both. False: no permission. */
bool start_arbiter_apart(struct env *e);
void end_arbiter(struct env *e, int signal_number);

/* Lines of .log that have both. */
unsigned int log_lines(const struct env *e, const char *text, const char *also);

/* --- the control socket --- */

/* A new connection in place of the present one. < 0: no arbiter answers. */
int open_control(struct env *e);
void send_control_line(struct env *e, const char *text);
/* The next line within @ms, without its end, as an object to be released; NULL: none came. */
json_t *next_line(struct env *e, int ms);

/* --- children --- */

/* Forks. The child ends with this process. */
pid_t child(struct env *e);
void wait_for(_Atomic uint32_t *word, uint32_t value);
void wait_ms(long ms);
