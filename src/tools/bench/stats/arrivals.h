/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Arrivals from a file, in one of two formats:
 *
 *	1. Lines with a time in ns since the beginning, in order, and a number of units.
 *	2. A trace of requests to a language model in Azure's format: "TIMESTAMP,ContextTokens,GeneratedTokens".
 *	   Each generated token is a unit. Each 512 tokens of context, rounded up, are one more unit.
 *
 * Thread: any.
 */
#include "lib/base/error.h"
#include "tools/bench/load/flow.h"

/* The caller owns *@ret. ERR_INVALID with the line, ERR_LIMIT, ERR_IO, ERR_NOMEM. */
int arrivals_read(struct flow_arrival **ret, size_t *n, const char *path,
	struct error *err) MUST_USE;
