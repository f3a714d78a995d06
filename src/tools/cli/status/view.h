/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's /v1/status as tables. The text comes from another process: everything in it is checked,
 * and no control character reaches the terminal. Pure. Thread: any.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct status_view_options {
	bool slices; /* adds one line for each replica and its holder, and the ends of quanta */
	bool colour;
};

/* @json: the body of /v1/status. Appends to @b. ERR_INVALID: not a status. */
int status_view(struct buf *b, const char *json, size_t len,
	const struct status_view_options *options, struct error *err) MUST_USE;
