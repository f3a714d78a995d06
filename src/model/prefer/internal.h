/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The two algorithms of prefer_choose(). Thread: any (pure). */
#include "model/prefer/prefer.h"

int prefer_aligned(const struct resource *r, const struct inventory *inv,
	const struct prefer_request *req, const char **ret_ids, size_t *ret_n,
	struct error *err) MUST_USE;

int prefer_greedy(const struct resource *r, const struct inventory *inv,
	enum allocation_policy policy, const struct prefer_request *req, const char **ret_ids,
	size_t *ret_n, struct error *err) MUST_USE;
