/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The time until the next retry: exponential; for clients of a server with jitter, so that clients that lose their
 * server at the same moment return at different moments. Thread: any.
 */
#include <stdint.h>

/* @min_ns * 2^@failures, and at most @max_ns; without jitter. */
uint64_t backoff_doubled(uint64_t min_ns, uint64_t max_ns, uint32_t failures);

struct backoff {
	uint64_t min_ns, max_ns; /* of the wait, without jitter */
	uint32_t failures;       /* in a row */
};

#define BACKOFF_API                                                       \
	{                                                                 \
		.min_ns = 500000000, .max_ns = 30000000000, .failures = 0 \
	}

/*
 * Counts one more failure and returns the wait, in nanoseconds. The wait is between half and all of
 * min * 2^failures, and at most max. A longer @retry_after_ns (at most hours) replaces that wait, as a
 * value between all and five quarters of @retry_after_ns: a server sends the same value to all
 * clients. @random is any number.
 */
uint64_t backoff_next(struct backoff *b, uint64_t retry_after_ns, uint64_t random);
/* Forgets the failures: call it after a success. */
void backoff_reset(struct backoff *b);

/* For jitter only: does not wait until the kernel has entropy. */
uint64_t backoff_random(void);
