/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks that all readers of a request see the same request. libmicrohttpd uses one of several Content-Length
 * or Host headers, and a value up to its first NUL. A proxy before it may use another. Such a request is
 * refused.
 * Thread: any (pure).
 */
#include <stddef.h>

struct http_headers {
	unsigned hosts, lengths, encodings;
	const char *wrong; /* the first fault; NULL: none */
};

/* Adds one header of the request. @value NULL: none. */
void http_headers_add(struct http_headers *h, const char *name, size_t name_len,
	const char *value, size_t value_len);

/* Call it after all headers. Returns the fault, as text for an answer of status 400; NULL: none. Static. */
const char *http_headers_wrong(const struct http_headers *h);
