/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One query to a Prometheus server over HTTP. Blocks up to .timeout_ns. No error text contains the
 * token, or the user name and password of a URL. Thread: main.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <stdint.h>

#define FETCH_REPLY_MAX (64U << 20) /* bytes */
#define FETCH_TOKEN_MAX 16384       /* bytes of the token file */

struct fetch {
	const char *url;        /* "https://prometheus:9090/prefix" */
	const char *token_file; /* NULL: no token */
	const char *ca_file;    /* NULL: the system's */
	uint64_t timeout_ns;
};

/*
 * Evaluates @query at @time_s and appends the body to @ret. A status other than 200 is an error,
 * except 400, 422 and 503: there the body explains the failure.
 */
int fetch_query(const struct fetch *f, const char *query, uint64_t time_s, struct buf *ret,
	struct error *err) MUST_USE;
