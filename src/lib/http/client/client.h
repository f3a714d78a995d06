/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One HTTP request to a local server of gpuslice, for command-line tools. Blocks. Thread: main. */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <stdint.h>

#define HTTP_REPLY_MAX (64U << 20) /* bytes */

/*
 * @address: "unix:/path" or "host:port". @body may be NULL. Fills @ret_body with the answer and *ret_status
 * with the HTTP status. < 0 only without an answer. ERR_UNAVAILABLE: no process listens; the text has the
 * address.
 */
int http_call(const char *address, const char *method, const char *path, const char *body,
	uint64_t timeout_ns, int *ret_status, struct buf *ret_body, struct error *err) MUST_USE;

/* http_call() for JSON servers: a status other than 2xx becomes an error with the server's own {"error":
 * ...} text. Other text of the server is quoted and cut. */
int http_call_json(const char *address, const char *method, const char *path, const char *body,
	uint64_t timeout_ns, struct buf *ret_body, struct error *err) MUST_USE;
