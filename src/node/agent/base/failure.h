/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An error that ends the program: failure_set() stops the loop, and main() reports it. Thread: loop. */
#include "lib/base/error.h"

#include <uv.h>

struct failure {
	uv_loop_t *loop;
	struct error why; /* ERR_NONE: none */
};

/* Only the first error counts. */
void failure_set(struct failure *f, const struct error *why);
