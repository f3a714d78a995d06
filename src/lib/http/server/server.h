/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A small HTTP/1.1 server on a libuv loop, over a unix socket: status, health and control for local tools. It
 * trusts its peers not to keep each other out; for TCP there are lib/http/health/server.h and io/web/.
 * libmicrohttpd does the protocol. This module binds libmicrohttpd to the loop, so that handlers run on the
 * loop thread and may answer later.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <stddef.h>
#include <uv.h>

#define HTTP_BODY_MAX    (4U << 20) /* bytes of a request's body */
#define HTTP_CONNECTIONS 64         /* open at the same time, or fewer: fd_peers() */

struct http_server;
struct http_exchange; /* one request and its answer */

struct http_request {
	const char *method; /* "GET" */
	const char *path;   /* "/v1/status", without the query */
	const char *body;   /* NUL-terminated; "" if absent */
	size_t body_len;
};

/* The value of a query argument, NULL if absent. Borrowed until the reply. */
const char *http_query(const struct http_exchange *x, const char *name);

/* Runs once the request is complete. @req is borrowed until the reply. The handler answers exactly once with
 * http_reply(), now or later. */
typedef void (
	*http_handler)(void *arg, struct http_exchange *x, const struct http_request *req);

/* Answers with @len bytes, which libmicrohttpd copies. @content_type NULL: none. @x is invalid afterwards. */
void http_reply(struct http_exchange *x, int status, const char *content_type, const char *body,
	size_t len);
/* http_reply() with the HTTP status of the error's code (error_class()) and {"code": ..., "error": ...} as
 * JSON. */
void http_reply_error(struct http_exchange *x, const struct error *err);

/* @address is "unix:/path"; the socket gets @mode. Replaces a socket that no process serves. ERR_EXISTS: a
 * process serves it. */
int http_server_start(struct http_server **ret, uv_loop_t *loop, const char *address,
	unsigned mode, http_handler handler, void *arg, struct error *err) MUST_USE;

/* Drops unanswered exchanges. libuv frees the handles in one more run of the loop. */
struct http_server *http_server_stop(struct http_server *s);
