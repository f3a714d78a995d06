/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mps/mps.h"

#include "model/slice/slice.h"

#define PERCENT_ALL 100

uint32_t mps_replicas_max(uint32_t cc_major, uint32_t cc_minor)
{
	return cc_major > 7 || (cc_major == 7 && cc_minor >= 5) ? 48 : 16;
}

bool mps_shares(const struct resource *r, const struct offer_device *d)
{
	const struct offer_share *s = resource_share(r, d);

	return s && s->strategy == SHARING_MPS;
}

uint32_t mps_active_thread_percent(const struct offer_share *s, uint32_t k)
{
	uint64_t weight = (uint64_t)s->weight * k, percent = 0;
	uint64_t all = s->weights > weight ? s->weights : weight;

	switch (s->isolation.compute) {
	case ISOLATION_COMPUTE_NONE:
		percent = (uint64_t)PERCENT_ALL / (s->replicas ? s->replicas : 1) * k;
		break;
	case ISOLATION_COMPUTE_FAIR:
		percent = 2 * PERCENT_ALL * weight / (all ? all : 1);
		break;
	case ISOLATION_COMPUTE_CAPPED:
		percent = PERCENT_ALL * weight / (all ? all : 1);
		break;
	}
	return percent < 1 ? 1 : percent > PERCENT_ALL ? PERCENT_ALL : (uint32_t)percent;
}

static uint64_t total_of(const struct inventory *inv, uint32_t gpu, uint32_t mig)
{
	return mig == OFFER_WHOLE ? inv->gpus[gpu].memory_total_bytes
				  : inv->mig[mig].memory_mib << 20;
}

uint64_t mps_limit_mib(const struct resource *r, const struct offer_device *d,
	const struct inventory *inv, uint32_t k)
{
	const struct offer_share *s = resource_share(r, d);
	uint64_t limit;

	if (s->isolation.memory == ISOLATION_MEMORY_NONE && r->strategy != SHARING_SLICES)
		return total_of(inv, d->gpu, d->mig) / (s->replicas ? s->replicas : 1) / 1024 /
		       1024 * k;
	limit = slice_limit(&s->isolation, s->replicas, slice_usable(inv, d->gpu, d->mig), k);
	return limit == SLICE_NO_LIMIT ? 0 : limit >> 20;
}
