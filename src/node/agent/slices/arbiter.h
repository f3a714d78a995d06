/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's end of the arbiter (gpuslice-arbiter, abi/arbiter-control.h): a process of its own, since
 * tenants are served by it while agents come and go.
 *
 *	wanted, somebody answers on its control socket   it is adopted: an earlier agent's, or a service's
 *	wanted, nobody does                              started, and again when it ends, with back-off
 *	the same, and it is another build than ours      asked to end, and ours is started: at an upgrade. Once,
 *	                                                 or two agents would fight
 *	it does not answer for 5 s                       killed, and one is started: its book is kept
 *	not wanted any more                              asked to end (SIGTERM)
 *	the agent ends                                   it lives on
 *
 * Of two that are started at once the lock in the run directory lets one live, and both agents find that
 * one behind the socket.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

struct arbiter_link;

enum arbiter_state {
	ARBITER_OFF,  /* not wanted, and none is there that we know of */
	ARBITER_DOWN, /* wanted; .error says why it does not answer */
	ARBITER_UP,
};

struct arbiter_link_options {
	const char *run_dir, *state_dir; /* copied */
	const char *program; /* NULL: in libexec beside this program, or its build tree */
};

struct arbiter_ops {
	/* NVML is to be asked who uses these GPUs: answer with arbiter_link_reading(). Borrowed. */
	void (*read)(void *arg, json_int_t seq, const char *const *uuids, uint32_t n);
	/* It did not answer and was ended; NULL: nobody wants to know. */
	void (*hung)(void *arg, const char *why);
};

/* An answer to "status", borrowed for the call, or NULL and why there is none. */
typedef void arbiter_status_done(void *arg, const json_t *status, const struct error *err);

int arbiter_link_new(struct arbiter_link **ret, uv_loop_t *loop,
	const struct arbiter_link_options *options, const struct arbiter_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* Begins at once. */
void arbiter_link_set_wanted(struct arbiter_link *l, bool wanted);

/* Calls @done once, perhaps before it returns, at latest after ARBITER_PATIENCE_MS. */
#define ARBITER_PATIENCE_MS 2000
void arbiter_link_status(struct arbiter_link *l, arbiter_status_done *done, void *arg);

/* Sends a reading. Steals @line; if nobody is there any more it is dropped. */
void arbiter_link_reading(struct arbiter_link *l, json_t *line);

/*
 * Whether containers of new slices would wait for it in vain: it is wanted and has been away for ARBITER_DOWN_NS. An
 * arbiter that is started again takes less. *ret_why is borrowed.
 */
#define ARBITER_DOWN_NS (UINT64_C(10) * 1000000000)
bool arbiter_link_is_down(const struct arbiter_link *l, const char **ret_why);

/* *ret_pid: 0 where it cannot be seen. *ret_why is "" unless it is away; borrowed. */
enum arbiter_state arbiter_link_state(const struct arbiter_link *l, int *ret_pid,
	const char **ret_why);

/* Answers who waits, closes and frees as the loop runs. The arbiter goes on. Returns NULL. */
struct arbiter_link *arbiter_link_stop(struct arbiter_link *l);
