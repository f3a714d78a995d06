/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The search behind aligned preference, on plain numbers: n places with a score for each pair.
 *
 * NVIDIA's algorithm (go-gpuallocator's "best effort" policy):
 *  1. Divide all n places into sets of @size, with the last set padded by empty places.
 *  2. Take the division with the greatest total score.
 *  3. Of that division, take the best set.
 * The algorithm enumerates every division, which takes a minute for 16 GPUs.
 *
 * prefer_search_exact() gives the same set by dynamic programming. After some sets are taken, the rest is a
 * subset of the places. So the best total of each subset is computed once (at most 2^16 subsets). A subset
 * is computed only where it can improve the whole: no set of a division is better than the best set of its
 * size in the subset, and the search starts from a good division.
 *
 * Ties: the first division that NVIDIA's search finds wins. That search is depth-first. Each level takes
 * the lowest remaining place with the other places in lexicographic order, empty places last. So one walk
 * down finds the first best division: each level takes the first set from which the best total is still
 * possible. Sets with empty places are never returned (upstream returns them and crashes).
 *
 * prefer_search_greedy() is for more places. From each start, or from the required set, it adds the place
 * with the best links to the set. A set that beats the best so far is then improved by single exchanges.
 * Only the set counts: first the greatest score, then the least links to the rest (so that the rest stays
 * whole), then the first one found.
 * Thread: any (pure).
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define PREFER_SEARCH_MAX 256

struct prefer_search {
	uint32_t n;    /* places, 1 to PREFER_SEARCH_MAX; exact: to PREFER_EXACT_GPUS */
	uint32_t size; /* 1 to n */
	const uint32_t *scores; /* [n * n], symmetric; at most 2^15 each */
	const bool *required;   /* [n]; at most @size true */
	bool *chosen;           /* [n]; the result */
};

/*
 * Find the best set, as described above, and set .chosen, which the caller zeroes before.
 * prefer_search_exact() takes at most PREFER_EXACT_GPUS places (prefer.h). ERR_NOMEM: .chosen is unchanged.
 */
int prefer_search_exact(const struct prefer_search *s, struct error *err) MUST_USE;
int prefer_search_greedy(const struct prefer_search *s, struct error *err) MUST_USE;
