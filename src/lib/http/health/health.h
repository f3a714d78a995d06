/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the health server (lib/http/health/server.h) decides: whether a request is one that it answers, and which
 * connection makes room for another one. Thread: any (pure).
 */
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#define HEALTH_REQUEST_MAX 4096 /* of a request: bytes of the request line and the headers */
#define HEALTH_PATH_MAX    64   /* bytes, with the end; no path that is served is as long */

struct health_request {
	char path[HEALTH_PATH_MAX]; /* without the query; "" for one that is too long */
	bool head;                  /* HEAD: the answer goes without its text */
};

/*
 * Reads @len bytes that came from a peer, which need no NUL.
 *	0	the request is not complete
 *	200	it is GET or HEAD and has no body: *ret is filled
 *	else	the status of its refusal: 400 malformed, 405 another method, 413 a body, 431 longer
 *		than HEALTH_REQUEST_MAX, 505 another version of HTTP
 */
unsigned health_request_parse(struct health_request *ret, const char *text, size_t len);

/*
 * Which of @n connections makes room for the last one of them. @peers: their addresses, in the order of arrival;
 * @n > 0. It is the oldest of the address that has the most, so an address that opens many evicts its own, and
 * of addresses that have equally many the oldest of all. A connection is here only until its request is
 * complete, so an evicted connection was idle or slow.
 */
size_t health_peers_evict(const struct in6_addr *peers, size_t n);
