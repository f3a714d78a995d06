/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Every way to divide a GPU into MIG devices, for tests that try all of them or compare their numbers with
 * NVIDIA's. The search has the geometry's limit of steps (MIG_SEARCH_MAX). At the limit the enumeration ends early.
 */
#include "model/mig/geometry/geometry.h"

/*
 * Calls @visit for every non-empty multiset of profiles that fits. @maximal: only multisets with a
 * placement to which nothing can be added (3g 2g 1g has one: with the 3g at 0, slot 7 is lost). Stops if
 * @visit returns false. @profiles: bit i allows profile i.
 */
void mig_enumerate(const struct mig_layout *layout, uint32_t profiles, bool maximal,
	bool (*visit)(void *arg, const uint32_t counts[]), void *arg);

/* Number of different placements of instances to which nothing can be added. */
uint32_t mig_enumerate_count_placed(const struct mig_layout *layout, uint32_t profiles);
