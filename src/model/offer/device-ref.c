/* SPDX-License-Identifier: Apache-2.0 */
#include "model/offer/device-ref.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/parse.h"

static bool parse_index(const char *ref, uint32_t *gpu, uint32_t *mig)
{
	const char *colon = strchr(ref, ':');
	char first[16];

	*mig = OFFER_WHOLE;
	if (!colon)
		return parse_u32(ref, gpu);
	(void)snprintf(first, sizeof(first), "%.*s", (int)(colon - ref), ref);
	return parse_u32(first, gpu) && parse_u32(colon + 1, mig);
}

bool offer_ref_is_index(const char *ref)
{
	uint32_t gpu, mig;

	return parse_index(ref, &gpu, &mig);
}

bool offer_mig_is_called(const struct inventory *inv, const struct gpu_mig *m, const char *ref)
{
	char legacy[GPU_UUID_MAX + 32];

	if (strcmp(m->uuid, ref) == 0)
		return true;
	(void)snprintf(legacy, sizeof(legacy), "MIG-%s/%" PRIu32 "/%" PRIu32,
		inv->gpus[m->gpu].uuid, m->gi, m->ci);
	return strcmp(legacy, ref) == 0;
}

static bool is_called(const struct offer_candidate *u, const struct inventory *inv,
	const char *ref)
{
	if (u->mig == OFFER_WHOLE)
		return strcmp(u->uuid, ref) == 0;
	return offer_mig_is_called(inv, &inv->mig[u->mig], ref);
}

static uint32_t at_index(const struct offer_candidates *candidates, const struct inventory *inv,
	const char *name, uint32_t gpu, uint32_t mig)
{
	uint32_t found = candidates->n;

	for (uint32_t i = 0; i < candidates->n; i++) {
		const struct offer_candidate *u = &candidates->v[i];
		const struct gpu *g = &inv->gpus[u->gpu];
		uint32_t index = u->mig == OFFER_WHOLE ? OFFER_WHOLE : inv->mig[u->mig].index;

		if (g->index != gpu || index != mig || strcmp(u->name, name) != 0)
			continue;
		if (g->fault != GPU_FAULT_GONE)
			return i;
		found = i;
	}
	return found;
}

uint32_t offer_find_candidate(const struct offer_candidates *candidates,
	const struct inventory *inv, const char *name, const char *ref)
{
	uint32_t gpu, mig, i = 0;

	if (parse_index(ref, &gpu, &mig))
		return at_index(candidates, inv, name, gpu, mig);
	while (i < candidates->n && (strcmp(candidates->v[i].name, name) != 0 ||
					    !is_called(&candidates->v[i], inv, ref)))
		i++;
	return i;
}
