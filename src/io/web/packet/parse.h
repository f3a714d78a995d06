/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Headers that remote clients send, read by hand: bytes in, an answer out. Thread: any. */
#include <stdbool.h>
#include <stddef.h>

/* The token of "Bearer TOKEN", borrowed from @header; NULL: the header is something else. */
const char *web_bearer(const char *header, size_t *ret_len);

/* Does the Host header name @name, in any case of letters, with any port or none, and nothing else? An IPv6 address stands
 * in brackets in the header, and without them in @name. */
bool web_host_is(const char *header, const char *name);

/* Is @etag (without quotes) among those of an If-None-Match header, or the header "*"? */
bool web_etag_listed(const char *header, const char *etag);

/* The route @path takes the @request path: ends in '*' and is a prefix up to there, or equal. The
 * rest behind the prefix ("" if equal), borrowed from @request; NULL: it does not. */
const char *web_route_rest(const char *path, const char *request);
