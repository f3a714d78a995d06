/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which devices to prefer for a container (GetPreferredAllocation; device-plugin.md 5.5 and 13.6).
 *
 * Whole GPUs: aligned, the set that NVIDIA's search would choose on its vectors, found in bounded
 * time (10 ms for 16 GPUs). Replicas: greedy, distributed over GPUs or packed.
 * Thread: any (pure).
 */
#include "core/offer.h"

/* Ids are borrowed from the caller and appear in @ret_ids in the order to answer. */
struct prefer_request {
	const char *const *available;
	size_t n_available;
	const char *const *required; /* a subset of available */
	size_t n_required;
	size_t size;
};

#define PREFER_MAX_IDS 40000

/*
 * Writes at most req->size borrowed ids to @ret_ids (which has room for that many) and their
 * number to *ret_n; 0 is "no preference". Errors: an id that the resource does not have, too few
 * devices (texts of section 5.5).
 */
int prefer_choose(const struct resource *r, const struct inventory *inv,
	enum allocation_policy policy, const struct prefer_request *req, const char **ret_ids,
	size_t *ret_n, struct error *err) MUST_USE;
