/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A resource of the node that all slices share, so that one slice cannot use up what another slice needs.
 *
 * Half of the capacity is divided into FAIR_QUOTA_SLICES equal parts. Each slice has one part to itself, as long
 * as there are at most FAIR_QUOTA_SLICES slices. The other half is common. A slice may take one more from the
 * common half only while it has less of it than is left. So k slices that take all they can leave 1 / (k + 1) of
 * the common half. A single slice gets half of it.
 *
 * Pure. Thread: loop.
 */
#include <stdbool.h>

#define FAIR_QUOTA_SLICES 256

struct fair_quota {
	unsigned int capacity; /* set once */
	unsigned int n;        /* taken by all slices */
	unsigned int shared;   /* of .n: beyond the slices' own parts */
};

/* The part of each slice. */
unsigned int fair_quota_per_slice(const struct fair_quota *quota);

/* Whether a slice that has @own may have one more. */
bool fair_quota_allows(const struct fair_quota *quota, unsigned int own);

/* A slice that had @own takes one more, also without capacity. */
void fair_quota_add(struct fair_quota *quota, unsigned int own);
/* A slice that had @own, at least 1, gives one back. */
void fair_quota_remove(struct fair_quota *quota, unsigned int own);
