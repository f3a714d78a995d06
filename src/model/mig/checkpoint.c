/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/checkpoint.h"

#include <stdio.h>
#include <string.h>

/* Slices of a compute instance, by NVML's enumerator of the CI profile. */
static const uint32_t ci_slices[] = { 1, 2, 3, 4, 7, 8, 6, 1, 7 };

struct mig_checkpoint *mig_checkpoint_free(struct mig_checkpoint *c)
{
	if (c)
		free(c->gpus);
	free(c);
	return NULL;
}

static void save_gi(struct mig_saved_gi *s, const struct mig_gi *gi,
	const struct mig_gi_profile *p)
{
	*s = (struct mig_saved_gi){ .profile = p->number,
		.start = gi->start,
		.size = p->size,
		.n_ci = gi->n_ci };
	for (uint32_t c = 0; c < gi->n_ci; c++)
		s->ci[c] = (struct mig_saved_ci){ .profile = gi->ci[c].number,
			.engine = gi->ci[c].engine };
}

/* Ordered by profile, as in mig-parted, which compares checkpoint and node by position. */
static void save_mig_gpu(struct mig_saved_gpu *s, const struct mig_node_gpu *g)
{
	(void)snprintf(s->uuid, sizeof(s->uuid), "%s", g->uuid);
	s->enabled = g->state.enabled;
	for (uint32_t p = 0; p < g->layout.n; p++) {
		for (uint32_t i = 0; i < g->state.n; i++) {
			if (g->state.gi[i].profile == p)
				save_gi(&s->gi[s->n++], &g->state.gi[i],
					&g->layout.profiles[p]);
		}
	}
}

int mig_checkpoint_make(struct mig_checkpoint **ret, const struct mig_node *node,
	struct error *err)
{
	CLEANUP(mig_checkpoint_freep) struct mig_checkpoint *c = calloc(1, sizeof(*c));

	if (c && node->n)
		c->gpus = calloc(node->n, sizeof(*c->gpus));
	if (!c || (node->n && !c->gpus))
		return error_nomem(err);
	for (uint32_t i = 0; i < node->n; i++) {
		if (node->gpus[i].fault.code == ERR_NONE && node->gpus[i].state.capable)
			save_mig_gpu(&c->gpus[c->n++], &node->gpus[i]);
	}
	*ret = STEAL_PTR(c);
	return 0;
}

const struct mig_saved_gpu *mig_checkpoint_find(const struct mig_checkpoint *c,
	const char *uuid)
{
	for (size_t i = 0; i < c->n; i++) {
		if (!strcmp(c->gpus[i].uuid, uuid))
			return &c->gpus[i];
	}
	return NULL;
}

static const struct mig_gi_profile *profile_of(const struct mig_layout *l, uint32_t number)
{
	for (uint32_t i = 0; i < l->n; i++) {
		if (l->profiles[i].number == number)
			return &l->profiles[i];
	}
	return NULL;
}

static int want_gi(const struct mig_saved_gi *s, const struct mig_node_gpu *g,
	struct mig_desired_gi *ret, struct error *err)
{
	const struct mig_gi_profile *p = profile_of(&g->layout, s->profile);
	uint32_t slices = 0;

	if (!p)
		return error_set(err, ERR_INVALID,
			"GPU %u (%s): the checkpoint has a GPU instance of profile number %u, which "
			"this GPU has not",
			g->index, g->uuid, s->profile);
	if (s->size != p->size || s->start >= MIG_SLOTS_MAX || !(p->starts >> s->start & 1))
		return error_set(err, ERR_INVALID,
			"GPU %u (%s): the checkpoint has a GPU instance of profile number %u at %u:%u, "
			"where this GPU has no place for it",
			g->index, g->uuid, s->profile, s->start, s->size);
	*ret = (struct mig_desired_gi){ .profile = (uint32_t)(p - g->layout.profiles),
		.start = s->start,
		.n_ci = s->n_ci };
	for (uint32_t i = 0; i < s->n_ci; i++) {
		if (s->ci[i].engine || s->ci[i].profile >= ARRAY_LEN(ci_slices))
			return error_set(err, ERR_INVALID,
				"GPU %u (%s): the checkpoint has a compute instance of profile "
				"number %u with engine profile %u, which this version does not know",
				g->index, g->uuid, s->ci[i].profile, s->ci[i].engine);
		ret->ci[i] = ci_slices[s->ci[i].profile];
		slices += ret->ci[i];
	}
	if (slices > p->slices)
		return error_set(err, ERR_INVALID,
			"GPU %u (%s): the checkpoint has compute instances of %u slices in a GPU "
			"instance of %u",
			g->index, g->uuid, slices, p->slices);
	return 0;
}

int mig_checkpoint_want(const struct mig_saved_gpu *s, const struct mig_node_gpu *g,
	struct mig_desired *ret, struct error *err)
{
	struct mig_desired desired = { .enabled = s->enabled, .n = s->n };

	if (!g->state.capable)
		return error_set(err, ERR_UNSUPPORTED,
			"GPU %u (%s): cannot set MIG config on non MIG-capable GPU", g->index,
			g->uuid);
	for (uint32_t i = 0; i < s->n; i++) {
		if (want_gi(&s->gi[i], g, &desired.gi[i], err) < 0)
			return -1;
	}
	*ret = desired;
	return 0;
}
