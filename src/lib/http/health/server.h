/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server of probes over TCP, on a libuv loop that has other work to do: it is open to the whole network, so what
 * peers can make of it is bounded.
 *
 *  1. It answers GET and HEAD without a body, with a static line, and closes the connection.
 *  2. A request has at most HEALTH_REQUEST_MAX bytes. No byte of a body is waited for.
 *  3. A connection whose request is not complete HEALTH_DEADLINE_MS after it was accepted is closed, whatever it
 *     has sent.
 *  4. At most HEALTH_CONNECTIONS are open. One more evicts another (health_peers_evict()), so slow peers never
 *     keep a probe out.
 *  5. The kernel holds back a connection until its first bytes are here (TCP_DEFER_ACCEPT). A probe's request is one
 *     segment, so it is answered when its connection is accepted, and none that comes meanwhile can evict it.
 *  6. A turn of the loop accepts at most HEALTH_ACCEPTS.
 *
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <uv.h>

#define HEALTH_CONNECTIONS 64   /* at the same time, or fewer: fd_peers() */
#define HEALTH_DEADLINE_MS 2000 /* from accept to the end of the request */
#define HEALTH_ACCEPTS     16   /* connections in a turn of the loop */

struct health_server;

struct health_response {
	unsigned status;  /* 200, 404 or 503 */
	const char *text; /* static; one line, with its end */
};

/* Answers at once. @path: without the query. */
typedef struct health_response (*health_handler)(void *arg, const char *path);

/* @address: "host:port", ":port" or "[v6]:port". Errors: ERR_INVALID, ERR_LIMIT, ERR_NOMEM, those of bind(). */
int health_server_start(struct health_server **ret, uv_loop_t *loop, const char *address,
	health_handler handler, void *arg, struct error *err) MUST_USE;

/* The port in use, for ":0". */
unsigned health_server_port(const struct health_server *s);

/* Closes all connections. NULL is fine. The loop must run once more for libuv to let go. */
struct health_server *health_server_stop(struct health_server *s);
