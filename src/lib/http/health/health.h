/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The decisions of the health server (lib/http/health/server.h): whether a request is one that it answers,
 * and which connection makes room for another. Thread: any (pure). */
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>

#define HEALTH_REQUEST_MAX 4096 /* of a request: bytes of the request line and the headers */
#define HEALTH_PATH_MAX    64   /* bytes, with the NUL; all served paths are shorter */

struct health_request {
	char path[HEALTH_PATH_MAX]; /* without the query; "" if too long */
	bool head;                  /* HEAD: the answer has no text */
};

/*
 * Parses @len bytes from a peer; they need no NUL. Returns:
 *	0	the request is not complete
 *	200	it is GET or HEAD and has no body: *ret is filled
 *	else	the status of the refusal: 400 malformed, 405 another method, 413 a body, 431 longer
 *		than HEALTH_REQUEST_MAX, 505 another version of HTTP
 */
unsigned health_request_parse(struct health_request *ret, const char *text, size_t len);

/*
 * Returns which of @n connections makes room for the last of them. @peers: their addresses, in the order of
 * arrival; @n > 0. The result is the oldest connection of the address with the most connections. If several
 * addresses have the most, it is the oldest of these connections. So an address that opens many evicts its own.
 * A connection exists only until its request is complete, so an evicted connection was idle or slow.
 */
size_t health_peers_evict(const struct in6_addr *peers, size_t n);
