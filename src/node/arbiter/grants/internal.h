/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the parts of the book: grants.c has its people, credit.c what they are granted, compare.c what
 * NVML says of it. */
#include "node/arbiter/grants/grants.h"

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Raises the peak of a member to what it uses now. */
void grants_update_peak(struct grants_member *m, unsigned int gpu);

/* Adds to its slice's .refused what its page says since the last look. */
void grants_count_refused(const struct grants_member *m, unsigned int gpu);

/* Of what the hooks charged: all, or what NVML sees. */
uint64_t grants_get_charged(const struct grants_member *m, unsigned int gpu, bool seen_only);

/* @used and @credit more for the member. */
void grants_add_granted(struct grants_member *m, unsigned int gpu, uint64_t used,
	uint64_t credit);

/* Lowers what is granted by @bytes that are in use by the figures, but not in truth. */
void grants_return(struct grants_member *m, unsigned int gpu, uint64_t bytes);

/* Until @bytes can be granted or nothing is left to be taken back. @own: may be taken from last. */
void grants_reclaim_credit(struct grants_slice *s, unsigned int gpu, uint64_t bytes,
	struct grants_member *own, bool from_own);

/* Tells each page whether its member has the GPU's slice for itself. @next will be granted more. */
void grants_publish_sole_member(struct grants_slice *s, unsigned int gpu,
	const struct grants_member *next);
