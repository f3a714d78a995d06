/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An arbiter's control socket in the loop of the test, which sets its answers. Its process is the test's own:
 * the fake counts the SIGTERM by which the agent stops an arbiter.
 */
#include "support/test.h"

#include "lib/base/strv.h"

#include <stdbool.h>
#include <uv.h>

#define FAKE_ARBITER_PEERS 8

struct fake_arbiter;

struct fake_peer {
	uv_pipe_t pipe;
	struct fake_arbiter *a;
	char in[4096], chunk[4096];
	size_t len;
	bool open;
};

struct fake_arbiter {
	uv_loop_t *loop;
	uv_pipe_t listener;
	bool listens;
	struct fake_peer
		peers[FAKE_ARBITER_PEERS]; /* connections in their order; .n_peers so far */
	size_t n_peers;
	struct strv received; /* lines that the agent has sent */
	const char *answer;   /* to each question for a status, with "\n"; NULL: none */
};

/* Begins to serve RUN_DIR/CONTROL_SOCKET. */
void fake_arbiter_listen(struct fake_arbiter *a, uv_loop_t *loop, const char *run_dir);

/* Sends @text on the last connection, as it is. */
void fake_arbiter_send(struct fake_arbiter *a, const char *text);

/* Lines of the agent that contain @text. */
unsigned fake_arbiter_count_received(const struct fake_arbiter *a, const char *text);

/* Ends the last connection, and serves on. */
void fake_arbiter_hang_up(struct fake_arbiter *a);

/*
 * Ends all, and frees. The loop has to run until the handles are closed, also before it listens again. May be called
 * twice.
 */
void fake_arbiter_stop(struct fake_arbiter *a);

/* SIGTERMs since the last call. */
unsigned fake_arbiter_ends(void);
