/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The first packet of a connection: a process registers, for memory or for the scheduler. Thread: loop. */
#include "abi/slice-wire.h"

#include <stdbool.h>

struct arbiter_conn;

/*
 * Registers the process as the hello asks, and answers it. @fd: the page that came with the packet, or -1. It
 * has the form of a page and stays the caller's. A second hello closes the connection. May close the
 * connection, which frees @c.
 */
void conn_hello(struct arbiter_conn *c, const struct slice_hello *h, int fd);

/*
 * Answers the hello with @status. @reason: a text for @status other than SLICE_OK, or NULL; a refusal is
 * logged. @page_fd: the page that the process gets, or < 0; stays the caller's. False: the connection is
 * closed, and @c is freed.
 */
bool conn_welcome(struct arbiter_conn *c, const struct slice_hello *h, enum slice_status status,
	const char *reason, int page_fd);
