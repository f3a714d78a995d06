/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The search behind aligned preference, on bare numbers: n places with a score for each pair.
 *
 * NVIDIA's algorithm (go-gpuallocator's "best effort" policy) divides all n places into sets of
 * @size, padding the last with empty places, takes the division with the greatest total score and
 * of that the best set. It enumerates every division, which takes a minute for 16 GPUs.
 *
 * prefer_search_exact() gives the same set by dynamic programming: what remains to be divided
 * after some sets were taken is a subset of the places, so the best total of each subset is
 * computed once (at most 2^16 of them), and only where it can make a better whole: no set of a
 * division is better than the best of its size in what is divided, and the search begins from a
 * division that is good already. "The first division found wins ties" is kept as follows:
 * the enumeration is depth-first, and each level takes the lowest place that remains together with
 * the other places in lexicographic order, empty ones last. So the first best division is found
 * by walking down once, at each level taking the first set from which the best total can still be
 * reached. Sets with empty places are never returned (upstream does, and dies of it).
 *
 * prefer_search_greedy() is for more places: from each start (or from the required set) it adds
 * the place that is linked best to the set, then improves the best set by single exchanges. It
 * looks at the set only: greatest score first; of equal sets the one with the least links to the
 * rest, so that the rest stays whole; then the first found.
 * Thread: any (pure).
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define PREFER_SEARCH_MAX 256

struct prefer_search {
	uint32_t n;    /* places, 1 .. PREFER_SEARCH_MAX; exact: .. PREFER_EXACT_GPUS */
	uint32_t size; /* 1 .. n */
	const uint32_t *scores; /* [n * n], symmetric; at most 2^15 each */
	const bool *required;   /* [n]; at most @size of them */
	bool *chosen;           /* [n]; the answer */
};

int prefer_search_exact(const struct prefer_search *s, struct error *err) MUST_USE;
int prefer_search_greedy(const struct prefer_search *s, struct error *err) MUST_USE;
