/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The meaning of a `devices` list of the config. For the parts of the offer only. Thread: any (pure). */
#include "model/offer/candidates.h"

/* Whether @ref is an index: "0" is a GPU by NVML's index, "0:1" one of its MIG devices. Other texts are
 * UUIDs. */
bool offer_ref_is_index(const char *ref);

/* Position of the candidate of the resource @name (before sharing) that @ref refers to; candidates->n:
 * none. An index refers to a gone GPU only if no other GPU has that index. */
uint32_t offer_find_candidate(const struct offer_candidates *candidates,
	const struct inventory *inv, const char *name, const char *ref);
