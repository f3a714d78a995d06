/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Room on the node that all slices need: who takes much must not take what another one will need.
 *
 * Each slice has a part for itself, which nobody can take from it as long as there are FAIR_QUOTA_SLICES slices at
 * most. The other half is common: a slice may have more of it only while it has less of it than is left. So k
 * slices that take all they can leave one part in k + 1 of it, and a slice that is alone has half of it.
 *
 * Pure. Thread: loop.
 */
#include <stdbool.h>

#define FAIR_QUOTA_SLICES 256

struct fair_quota {
	unsigned int capacity; /* set once */
	unsigned int n;        /* taken by all slices */
	unsigned int shared;   /* of these beyond the slices' parts */
};

/* Of each slice. */
unsigned int fair_quota_per_slice(const struct fair_quota *r);

/* Whether a slice that has @own may have one more. */
bool fair_quota_allows(const struct fair_quota *r, unsigned int own);

/* A slice that has @own now has one more, whether or not there was room; has one less. */
void fair_quota_add(struct fair_quota *r, unsigned int own);
void fair_quota_remove(struct fair_quota *r, unsigned int own);
