/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a `devices` list of the config means. For the parts of the offer only. Thread: any (pure). */
#include "model/offer/candidates.h"

/* "0" is a GPU by NVML's index, "0:1" one of its MIG devices; all else are UUIDs. */
bool offer_ref_is_index(const char *ref);

/*
 * Position of the unit of the resource @name (before sharing) that @ref means; units->n: there is none.
 * Of a GPU that is gone only if no other has its index.
 */
uint32_t offer_find_candidate(const struct offer_candidates *candidates,
	const struct inventory *inv, const char *name, const char *ref);
