/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What /v1/status of the agent says, as a table for people. The text is a peer's: everything in it
 * is checked, and control characters do not reach the terminal. Pure; thread: any.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct status_view_options {
	bool slices; /* one line for each slice and its holder */
	bool colour;
};

/* @json: the body of /v1/status. Appends to @b. ERR_INVALID: it is not a status. */
int status_view(struct buf *b, const char *json, size_t len,
	const struct status_view_options *options, struct error *err) MUST_USE;
