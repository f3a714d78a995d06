/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One question to a Prometheus server over HTTP. Blocks. No error has the token, nor the name and
 * password that a URL may hold. Thread: main.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <stdint.h>

#define FETCH_REPLY_MAX (64U << 20) /* bytes */
#define FETCH_TOKEN_MAX 16384       /* bytes of the token's file */

struct fetch {
	const char *url;        /* "https://prometheus:9090/prefix" */
	const char *token_file; /* NULL: no token */
	const char *ca_file;    /* NULL: those of the system */
	uint64_t timeout_ns;
};

/* Asks for @query at @time_s and puts the body into @ret. A status other than 200 is an error, but for
 * those (400, 422, 503) whose body explains it. */
int fetch_query(const struct fetch *f, const char *query, uint64_t time_s, struct buf *ret,
	struct error *err) MUST_USE;
