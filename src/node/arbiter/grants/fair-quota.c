/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arbiter/grants/fair-quota.h"

unsigned int fair_quota_per_slice(const struct fair_quota *r)
{
	return r->capacity / 2 / FAIR_QUOTA_SLICES;
}

bool fair_quota_allows(const struct fair_quota *r, unsigned int own)
{
	unsigned int part = fair_quota_per_slice(r),
		     all = r->capacity - part * FAIR_QUOTA_SLICES;

	if (r->n >= r->capacity)
		return false;
	return own < part || (r->shared < all && own - part < all - r->shared);
}

void fair_quota_add(struct fair_quota *r, unsigned int own)
{
	r->n++;
	r->shared += own >= fair_quota_per_slice(r);
}

void fair_quota_remove(struct fair_quota *r, unsigned int own)
{
	r->n--;
	r->shared -= own > fair_quota_per_slice(r);
}
