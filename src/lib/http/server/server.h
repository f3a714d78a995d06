/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A small HTTP/1.1 server on a libuv loop, over a unix socket: status, health and control for local
 * tools. Its peers are trusted not to keep each other out: over TCP there are lib/http/health/server.h
 * and web/. libmicrohttpd does the protocol; this binds it to the loop, so that handlers
 * run on the loop thread and may answer later.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <stddef.h>
#include <uv.h>

#define HTTP_BODY_MAX    (4U << 20) /* request body, bytes */
#define HTTP_CONNECTIONS 64         /* at the same time, or fewer: fd_peers() */

struct http_server;
struct http_exchange; /* one request and its answer */

struct http_request {
	const char *method; /* "GET" */
	const char *path;   /* "/v1/status", without the query */
	const char *body;   /* NUL-terminated; "" without */
	size_t body_len;
};

/* The value of a query argument, NULL if absent. Borrowed until the reply. */
const char *http_query(const struct http_exchange *x, const char *name);

/* Called once the request is complete. @req is borrowed until the reply; the handler answers
 * exactly once with http_reply(), now or later. */
typedef void (
	*http_handler)(void *arg, struct http_exchange *x, const struct http_request *req);

/* Copies @body. */
void http_reply(struct http_exchange *x, int status, const char *content_type, const char *body,
	size_t len);
void http_reply_error(struct http_exchange *x, const struct error *err);

/*
 * @address is "unix:/path"; the socket gets @mode. One that nobody answers on is replaced, one that
 * somebody does is ERR_EXISTS.
 */
int http_server_start(struct http_server **ret, uv_loop_t *loop, const char *address,
	unsigned mode, http_handler handler, void *arg, struct error *err) MUST_USE;

/* Unanswered exchanges are dropped. The loop must run once more for libuv to let go. */
struct http_server *http_server_stop(struct http_server *s);
