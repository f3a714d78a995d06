/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parsers for headers of remote clients: bytes in, an answer out. Thread: any. */
#include <stdbool.h>
#include <stddef.h>

/* The token of "Bearer TOKEN", borrowed from @header. NULL: the header has another form. */
const char *web_bearer(const char *header, size_t *ret_len);

/* Whether the Host header names @name and nothing else, in any letter case, with any port or none. An IPv6
 * address has brackets in the header, and none in @name. */
bool web_host_is(const char *header, const char *name);

/* Whether @etag (without quotes) is in an If-None-Match header, or the header is "*". */
bool web_etag_listed(const char *header, const char *etag);

/*
 * Whether the route @path serves the path @request. They are equal, or @path ends in '*' and the part before
 * the '*' is a prefix of @request. Returns the rest after the prefix ("" if equal), borrowed from @request.
 * NULL: the route does not serve it.
 */
const char *web_route_rest(const char *path, const char *request);
