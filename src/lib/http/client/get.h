/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * GET again and again from one server, for command-line tools that do something else meanwhile: beside their
 * keyboard, for example, in one wait. Connections are kept. Calling sequence: new, then any number of begin and
 * wait until done, then free. Redirects are not followed, so a token goes nowhere else.
 * Thread: the one that made it.
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
	const char *ca_file; /* whom to trust for https; NULL: whom the system trusts */
	uint64_t timeout_ns;
	size_t max; /* bytes of an answer */
};

/* Copies what it needs. ERR_INVALID: the URL is none, or neither http nor https. */
int http_get_new(struct http_get **ret, const struct http_get_options *o,
	struct error *err) MUST_USE;
struct http_get *http_get_free(
	struct http_get *g); /* returns NULL; breaks off what is on its way */
DEFINE_CLEANUP(struct http_get *, http_get_free)

/* Asks. There must be nothing on its way. */
int http_get_begin(struct http_get *g, struct error *err) MUST_USE;
bool http_get_is_busy(const struct http_get *g);

/*
 * Waits until the answer is complete, one of @fds can be read, or @timeout_ns has passed. Returns 0 or
 * HTTP_GET_DONE. < 0: there was no answer (ERR_UNAVAILABLE: nobody listens, ERR_TIMEOUT), it was another
 * status than 200, with the server's own text (ERR_PERMISSION for 401 and 403), or it was too large
 * (ERR_LIMIT); in either case nothing is on its way any more.
 */
#define HTTP_GET_DONE 1
int http_get_wait(struct http_get *g, const int *fds, size_t n_fds, uint64_t timeout_ns,
	struct error *err) MUST_USE;

/* The last answer. Borrowed until the next begin. */
const struct buf *http_get_body(const struct http_get *g);
