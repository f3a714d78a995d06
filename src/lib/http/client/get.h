/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Repeated GET requests to one server, for command-line tools that do other work meanwhile. For example, one
 * wait covers the server and the keyboard. Connections are kept. Redirects are not followed, so a token reaches
 * no other server.
 *
 * Order of calls: new, then any number of begin and wait until done, then free.
 * Thread: the creator's.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_get;

struct http_get_options {
	const char *socket;  /* path of a unix socket; NULL: .url has host and port */
	const char *url;     /* "https://host:port", without a path; NULL with .socket */
	const char *path;    /* "/api/v1/node" */
	const char *token;   /* for "Authorization: Bearer"; NULL: none */
	const char *ca_file; /* trusted certificates for https; NULL: those of the system */
	uint64_t timeout_ns;
	size_t max; /* limit of an answer, in bytes */
};

/* Copies what it needs. ERR_INVALID: the URL is malformed, or neither http nor https. */
int http_get_new(struct http_get **ret, const struct http_get_options *o,
	struct error *err) MUST_USE;
/* Cancels a request under way. Returns NULL. */
struct http_get *http_get_free(struct http_get *g);
DEFINE_CLEANUP(struct http_get *, http_get_free)

/* Starts a request. No other request may be under way. */
int http_get_begin(struct http_get *g, struct error *err) MUST_USE;
/* Whether a request is under way, of which http_get_wait() has not reported the end. */
bool http_get_is_busy(const struct http_get *g);

/*
 * Waits until the answer is complete, one of @fds (at most 8) is readable, or @timeout_ns has passed. Returns 0 or
 * HTTP_GET_DONE. < 0: one of the following, and no request is under way any more.
 *  - There was no answer. ERR_UNAVAILABLE: no process listens. ERR_TIMEOUT.
 *  - The status was not 200; the text is the server's own. ERR_PERMISSION: 401 and 403.
 *  - ERR_LIMIT: the answer was too large.
 */
#define HTTP_GET_DONE 1
int http_get_wait(struct http_get *g, const int *fds, size_t n_fds, uint64_t timeout_ns,
	struct error *err) MUST_USE;

/* The last answer. Borrowed until the next http_get_begin(). */
const struct buf *http_get_body(const struct http_get *g);
