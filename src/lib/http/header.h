/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether all readers of a request see the same request. libmicrohttpd takes one of several Content-Length or Host
 * headers and a value up to its first NUL; a proxy before it may take another. Such a request is refused.
 * Thread: any (pure).
 */
#include <stddef.h>

struct http_headers {
	unsigned hosts, lengths, encodings;
	const char *wrong; /* the first thing that is; NULL: none */
};

/* Takes one header of the request. @value may be NULL: none. */
void http_headers_add(struct http_headers *h, const char *name, size_t name_len,
	const char *value, size_t value_len);

/* After all of them: what is wrong, for an answer of status 400; NULL: nothing. Static. */
const char *http_headers_wrong(const struct http_headers *h);
