/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server for probes over TCP, on a libuv loop that has other work. The whole network can reach it, so its use
 * by peers is bounded:
 *
 *  1. The server answers GET and HEAD without a body, with a static line, and closes the connection.
 *  2. A request has at most HEALTH_REQUEST_MAX bytes. The server never waits for a body.
 *  3. The server closes a connection whose request is not complete HEALTH_DEADLINE_MS after accept, whatever
 *     the peer has sent.
 *  4. At most HEALTH_CONNECTIONS are open. One more evicts another (health_peers_evict()), so slow peers never
 *     keep a probe out.
 *  5. The kernel holds back a connection until its first bytes are here (TCP_DEFER_ACCEPT). A probe's request
 *     is one segment, so the server answers it at accept. No connection that arrives meanwhile can evict it.
 *  6. One round of the loop accepts at most HEALTH_ACCEPTS connections.
 *
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <uv.h>

#define HEALTH_CONNECTIONS 64   /* open at the same time, or fewer: fd_peers() */
#define HEALTH_DEADLINE_MS 2000 /* from accept to the end of the request */
#define HEALTH_ACCEPTS     16   /* connections in one round of the loop */

struct health_server;

struct health_response {
	unsigned status;  /* 200, 404 or 503 */
	const char *text; /* static; one line, with its line feed */
};

/* Answers at once. @path has no query. */
typedef struct health_response (*health_handler)(void *arg, const char *path);

/* @address: "host:port", ":port" or "[v6]:port". Errors: ERR_INVALID, ERR_LIMIT, ERR_NOMEM, those of bind(). */
int health_server_start(struct health_server **ret, uv_loop_t *loop, const char *address,
	health_handler handler, void *arg, struct error *err) MUST_USE;

/* The port in use, for ":0". */
unsigned health_server_port(const struct health_server *s);

/* Closes all connections. NULL is fine. libuv frees the handles in one more run of the loop. */
struct health_server *health_server_stop(struct health_server *s);
