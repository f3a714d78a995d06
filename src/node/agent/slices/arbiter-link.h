/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's end of the arbiter (gpuslice-arbiter, abi/arbiter-control.h). The arbiter is a process of its own,
 * since it serves tenants while agents come and go.
 *
 *	wanted, and an arbiter answers       the agent adopts it: an earlier agent's, or a service's.
 *	wanted, and no arbiter answers       the agent starts one; when it ends, again, with back-off.
 *	wanted, an arbiter of another build  the agent ends it (SIGTERM) and starts its own: an upgrade. Once only, or
 *	                                     two agents would fight.
 *	no answer for 5 s                    the agent kills the arbiter and starts another; the grants file stays.
 *	not wanted any more                  the agent ends the arbiter (SIGTERM).
 *	the agent ends                       the arbiter goes on.
 *
 * If two arbiters are started at once, the lock in the run directory lets only one live. Both agents find that one
 * behind the socket.
 *
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

struct arbiter_link;

enum arbiter_state {
	ARBITER_OFF,  /* not wanted, and none is known */
	ARBITER_DOWN, /* wanted, but does not answer; *ret_why says why */
	ARBITER_UP,
};

struct arbiter_link_options {
	const char *run_dir, *state_dir; /* copied */
	const char *program; /* NULL: in libexec beside this program, or its build tree */
};

struct arbiter_ops {
	/* The arbiter asks which processes NVML lists on these GPUs. Answer with arbiter_link_reading(). @uuids:
	 * borrowed. */
	void (*read)(void *arg, json_int_t seq, const char *const *uuids, uint32_t n);
	/* The arbiter did not answer and was killed. NULL: not needed. */
	void (*hung)(void *arg, const char *why);
};

/* The answer to "status", borrowed for the call, or NULL and the reason in @err. */
typedef void arbiter_status_done(void *arg, const json_t *status, const struct error *err);

/* Makes a link that wants no arbiter yet. *ops is copied. < 0: no memory, or the run directory is too long for a
 * socket. */
int arbiter_link_new(struct arbiter_link **ret, uv_loop_t *loop,
	const struct arbiter_link_options *options, const struct arbiter_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* Takes effect at once. */
void arbiter_link_set_wanted(struct arbiter_link *l, bool wanted);

#define ARBITER_STATUS_TIMEOUT_MS 2000
/* Calls @done once, perhaps before it returns, at the latest one tick (500 ms) after ARBITER_STATUS_TIMEOUT_MS. */
void arbiter_link_status(struct arbiter_link *l, arbiter_status_done *done, void *arg);

/* Sends a reading. Takes @line. Drops it if no arbiter is connected or the line has CONTROL_LINE_MAX bytes or
 * more. */
void arbiter_link_reading(struct arbiter_link *l, json_t *line);

#define ARBITER_DOWN_NS (UINT64_C(10) * 1000000000)
/*
 * Whether new slices' containers would get no memory: the arbiter is wanted and has been down for ARBITER_DOWN_NS.
 * A restart takes less. *ret_why is borrowed.
 */
bool arbiter_link_is_down(const struct arbiter_link *l, const char **ret_why);

/* *ret_pid: 0 if not known. *ret_why: "" unless ARBITER_DOWN; borrowed. */
enum arbiter_state arbiter_link_state(const struct arbiter_link *l, int *ret_pid,
	const char **ret_why);

/* Answers all waiters with an error. The handles close, and @l is freed, as the loop runs. The arbiter goes on.
 * Returns NULL. */
struct arbiter_link *arbiter_link_stop(struct arbiter_link *l);
