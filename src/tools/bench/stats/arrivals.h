/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Arrivals from a file: lines of a time in ns from the beginning, in order, and units; or a trace of requests to a language
 * model, as Azure publishes them: "TIMESTAMP,ContextTokens,GeneratedTokens", of which a token that is made is a unit,
 * and each 512 of context one more. Thread: any.
 */
#include "lib/base/error.h"
#include "tools/bench/load/flow.h"

/* The caller owns *ret. ERR_INVALID with the line, ERR_LIMIT, ERR_IO, ERR_NOMEM. */
int arrivals_read(struct flow_arrival **ret, size_t *n, const char *path,
	struct error *err) MUST_USE;
