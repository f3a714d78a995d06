/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Addresses to listen on, and listening sockets: shared by the servers of lib/http/ and io/web/. Every
 * descriptor is non-blocking and close-on-exec. Thread: any. */
#include "lib/base/error.h"

#define HTTP_HOST_MAX 256 /* bytes, with the NUL */

/* Splits "host:port", ":port" or "[v6]:port". @host gets the host without brackets, "" if there is none;
 * *ret_port points into @address. */
int http_split_address(const char *address, char host[HTTP_HOST_MAX], const char **ret_port,
	struct error *err) MUST_USE;

/* Listens on such an address. *ret_port is the port in use, for ":0". */
int http_listen_tcp(const char *address, int *ret_fd, unsigned *ret_port,
	struct error *err) MUST_USE;

/* Listens on the unix socket @path with @mode. Replaces a socket that no process serves. ERR_EXISTS: a
 * process serves it. */
int http_listen_unix(const char *path, unsigned mode, int *ret_fd, struct error *err) MUST_USE;
