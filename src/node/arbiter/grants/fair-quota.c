/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arbiter/grants/fair-quota.h"

unsigned int fair_quota_per_slice(const struct fair_quota *quota)
{
	return quota->capacity / 2 / FAIR_QUOTA_SLICES;
}

bool fair_quota_allows(const struct fair_quota *quota, unsigned int own)
{
	unsigned int part = fair_quota_per_slice(quota),
		     all = quota->capacity - part * FAIR_QUOTA_SLICES;

	if (quota->n >= quota->capacity)
		return false;
	return own < part || (quota->shared < all && own - part < all - quota->shared);
}

void fair_quota_add(struct fair_quota *quota, unsigned int own)
{
	quota->n++;
	quota->shared += own >= fair_quota_per_slice(quota);
}

void fair_quota_remove(struct fair_quota *quota, unsigned int own)
{
	quota->n--;
	quota->shared -= own > fair_quota_per_slice(quota);
}
