/* SPDX-License-Identifier: Apache-2.0 */
#include "core/prefer/internal.h"

/* The devices of one GPU: a run in the resource, which is sorted by GPU. */
struct group {
	uint32_t first, end;
	uint32_t cursor;     /* candidates before it are taken */
	uint32_t candidates; /* left */
	uint32_t allocated;
	uint32_t picked; /* in this call */
};

struct greedy {
	const struct resource *r;
	const char **candidates; /* [n_devices] the caller's id, or NULL */
	struct group *groups;
	uint32_t n_groups;
};

static void group_devices(struct greedy *g)
{
	for (uint32_t i = 0; i < g->r->n_devices; i++) {
		struct group *last = g->n_groups ? &g->groups[g->n_groups - 1] : NULL;

		if (!last || g->r->devices[last->first].gpu != g->r->devices[i].gpu) {
			last = &g->groups[g->n_groups++];
			*last = (struct group){ .first = i, .cursor = i };
		}
		last->end = i + 1;
		last->candidates += g->candidates[i] != NULL;
	}
	for (uint32_t k = 0; k < g->n_groups; k++) {
		struct group *x = &g->groups[k];

		x->allocated = x->end - x->first - x->candidates;
	}
}

/* True if @a is the better choice; equal ones are taken in the order of the GPUs. */
static bool better(const struct group *a, const struct group *b, enum allocation_policy policy)
{
	if (a->allocated != b->allocated)
		return policy == ALLOCATION_PACKED ? a->allocated > b->allocated
						   : a->allocated < b->allocated;
	return a->picked < b->picked;
}

static const char *pick(struct greedy *g, enum allocation_policy policy)
{
	struct group *best = NULL;

	for (uint32_t k = 0; k < g->n_groups; k++)
		if (g->groups[k].candidates && (!best || better(&g->groups[k], best, policy)))
			best = &g->groups[k];
	if (!best)
		return NULL;
	while (!g->candidates[best->cursor])
		best->cursor++;
	best->candidates--;
	best->allocated++;
	best->picked++;
	return g->candidates[best->cursor++];
}

int prefer_greedy(const struct resource *r, enum allocation_policy policy,
	const struct prefer_request *req, const char **ret_ids, size_t *ret_n,
	struct error *err)
{
	uint32_t room = r->n_devices ? r->n_devices : 1;
	CLEANUP(freep) const char **candidates = calloc(room, sizeof(*candidates));
	CLEANUP(freep) struct group *groups = calloc(room, sizeof(*groups));
	struct greedy g = { .r = r, .candidates = candidates, .groups = groups };
	size_t n_candidates = 0;

	if (!candidates || !groups)
		return error_nomem(err);
	for (size_t i = 0; i < req->n_available; i++) {
		const struct offer_device *d = resource_find(r, req->available[i]);

		if (d)
			candidates[d - r->devices] = req->available[i];
	}
	for (size_t i = 0; i < req->n_required; i++) {
		const struct offer_device *d = resource_find(r, req->required[i]);

		if (d)
			candidates[d - r->devices] = NULL;
	}
	for (uint32_t i = 0; i < r->n_devices; i++)
		n_candidates += candidates[i] != NULL;
	if (req->n_required > req->size)
		return 0;
	if (n_candidates < req->size - req->n_required)
		return error_set(err, ERR_INVALID,
			"not enough available devices to satisfy allocation");
	group_devices(&g);
	for (size_t i = 0; i < req->n_required; i++)
		ret_ids[i] = req->required[i];
	for (size_t i = req->n_required; i < req->size; i++)
		ret_ids[i] = pick(&g, policy);
	*ret_n = req->size;
	return 0;
}
