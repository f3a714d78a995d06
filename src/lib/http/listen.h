/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Addresses to listen on, and sockets that do: what the servers of http/ and web/ have in common.
 * Every descriptor does not block and is closed on exec. Thread: any.
 */
#include "lib/base/error.h"

#define HTTP_HOST_MAX 256 /* bytes, with the end */

/*
 * Splits "host:port", ":port" or "[v6]:port". @host gets the host without brackets, "" where there
 * is none; *ret_port points into @address.
 */
int http_split_address(const char *address, char host[HTTP_HOST_MAX], const char **ret_port,
	struct error *err) MUST_USE;

/* Listens on such an address. *ret_port is the port in use, for ":0". */
int http_listen_tcp(const char *address, int *ret_fd, unsigned *ret_port,
	struct error *err) MUST_USE;

/* Listens on the unix socket @path with @mode. One that nobody answers on is replaced, one that
 * somebody does is ERR_EXISTS. */
int http_listen_unix(const char *path, unsigned mode, int *ret_fd, struct error *err) MUST_USE;
