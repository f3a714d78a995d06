/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the parts of the book: book.c has its people, credit.c what they are granted, compare.c what
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
void book_note_peak(struct book_member *m, unsigned int gpu);

/* Adds to its slice's .refused what its page says since the last look. */
void book_count_refused(const struct book_member *m, unsigned int gpu);

/* Of what the hooks charged: all, or what NVML sees. */
uint64_t book_charged(const struct book_member *m, unsigned int gpu, bool seen_only);

/* @used and @credit more for the member. */
void book_grant(struct book_member *m, unsigned int gpu, uint64_t used, uint64_t credit);

/* Lowers what is granted by @bytes that are in use by the figures, but not in truth. */
void book_give_back(struct book_member *m, unsigned int gpu, uint64_t bytes);

/* Until @bytes can be granted or nothing is left to be taken back. @own: may be taken from last. */
void book_make_room(struct book_slice *s, unsigned int gpu, uint64_t bytes,
	struct book_member *own, bool from_own);

/* Tells each page whether its member has the GPU's slice for itself. @next will be granted more. */
void book_tell_alone(struct book_slice *s, unsigned int gpu, const struct book_member *next);
