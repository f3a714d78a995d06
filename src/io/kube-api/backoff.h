/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When to try again: exponential, with jitter, so that a fleet that lost its API server at the same
 * moment does not come back at the same moment.
 * Thread: any.
 */
#include <stdint.h>

struct backoff {
	uint64_t min_ns, max_ns;
	uint32_t failures;
};

#define BACKOFF_API                                                       \
	{                                                                 \
		.min_ns = 500000000, .max_ns = 30000000000, .failures = 0 \
	}

/*
 * Counts one more failure; the wait is between half and all of min * 2^failures, at most max. It is
 * longer where the server says so: between all and five quarters of @retry_after_ns (at most
 * hours), which a server tells a whole fleet alike. @random is any number.
 */
uint64_t backoff_next(struct backoff *b, uint64_t retry_after_ns, uint64_t random);
void backoff_reset(struct backoff *b);

/* For jitter only: it does not wait for the kernel to have entropy. */
uint64_t backoff_random(void);
