/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/slices/life.h"

#include <string.h>

static bool is_slice_wait_over(uint64_t since_ns, uint64_t now_ns, uint64_t keep_ns,
	enum slice_life_answer busy)
{
	uint64_t wait = busy == SLICE_LIFE_UNKNOWN ? 2 * keep_ns : keep_ns;

	return since_ns && now_ns >= since_ns && now_ns - since_ns >= wait;
}

bool slice_life_ends(struct stored_slice *s, const struct slice_life_facts *f, uint64_t now_ns,
	uint64_t keep_ns)
{
	bool not_named = f->named == SLICE_LIFE_NO;

	if (f->named == SLICE_LIFE_YES || f->allocated != SLICE_LIFE_NO)
		s->free_since_ns = 0;
	else if (!s->free_since_ns)
		s->free_since_ns = now_ns;
	if (f->busy == SLICE_LIFE_YES || f->named == SLICE_LIFE_YES)
		return false;
	if (s->superseded && not_named && f->busy == SLICE_LIFE_NO)
		return true;
	if (s->superseded && is_slice_wait_over(s->superseded_ns, now_ns, keep_ns, f->busy))
		return true;
	return is_slice_wait_over(s->free_since_ns, now_ns, keep_ns, f->busy);
}

const struct pod_device *slice_holder(const struct slice_file *f,
	const struct pod_devices *list)
{
	for (size_t i = 0; list && i < list->n; i++)
		if (!strcmp(list->v[i].resource, f->resource) &&
			strv_has(&f->devices, list->v[i].id))
			return &list->v[i];
	return NULL;
}
