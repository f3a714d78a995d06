/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory slots as a bit set. For model/mig/geometry/geometry.c and this folder. Profiles have passed
 * mig_layout_check().
 * Thread: any (pure).
 */
#include "model/mig/layout.h"

#include <assert.h>

static_assert(MIG_SLOTS_MAX <= 32, "one bit each");

/* The @size slots from @start on. */
static inline uint32_t mig_slots(uint32_t size, uint32_t start)
{
	return UINT32_MAX >> (MIG_SLOTS_MAX - size) << start;
}

/* How many instances of @p fit at once into the slots outside @used, at most @enough. All have one size, so
 * taking the first free place each time gives the maximum. */
static inline uint32_t mig_slots_count_free(const struct mig_gi_profile *p, uint32_t used,
	uint32_t enough)
{
	uint32_t n = 0;

	for (uint32_t m = p->starts; m && n < enough; m &= m - 1) {
		uint32_t slots = mig_slots(p->size, (uint32_t)__builtin_ctz(m));

		if (used & slots)
			continue;
		used |= slots;
		n++;
	}
	return n;
}
