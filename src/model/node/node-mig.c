/* SPDX-License-Identifier: Apache-2.0 */

/* MIG devices of a node: which known device a seen one is, their health, and the devices of the next state. */
#include "model/node/internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool mig_same_type(const struct gpu_mig *a, const struct gpu_mig *b)
{
	return strcmp(a->profile, b->profile) == 0 && gpu_mig_equal_capacity(a, b);
}

static bool mig_equal(const struct gpu_mig *a, const struct gpu_mig *b)
{
	return a->gpu == b->gpu && a->index == b->index && a->gi == b->gi && a->ci == b->ci &&
	       strcmp(a->uuid, b->uuid) == 0 && mig_same_type(a, b) &&
	       a->has_minors == b->has_minors && a->gi_minor == b->gi_minor &&
	       a->ci_minor == b->ci_minor && strcmp(a->reason, b->reason) == 0;
}

uint32_t node_first_mig(const struct inventory *inv, uint32_t gpu)
{
	uint32_t low = 0, high = inv->n_mig;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (inv->mig[mid].gpu < gpu)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Whether the GPU at position @gpu has a MIG device @uuid. */
static bool has_mig_uuid(const struct inventory *inv, uint32_t gpu, const char *uuid)
{
	for (uint32_t i = node_first_mig(inv, gpu); i < inv->n_mig && inv->mig[i].gpu == gpu;
		i++)
		if (strcmp(inv->mig[i].uuid, uuid) == 0)
			return true;
	return false;
}

/*
 * The known MIG device, of the GPU at the old position @old, that matches device @at of @seen. UINT32_MAX:
 * a new device. A device without a UUID matches the device at its place in NVML's list, because its
 * instances may be unreadable too. It never matches a device that @seen has by UUID.
 */
static uint32_t find_known_mig(const struct node *n, uint32_t old, const struct inventory *seen,
	uint32_t at)
{
	const struct gpu_mig *s = &seen->mig[at];
	const struct inventory *inv = n->inv;

	if (old == NODE_NONE)
		return NODE_NONE;
	for (uint32_t i = node_first_mig(inv, old); i < inv->n_mig && inv->mig[i].gpu == old;
		i++) {
		const struct gpu_mig *m = &inv->mig[i];

		if (s->uuid[0] ? strcmp(m->uuid, s->uuid) != 0 : m->index != s->index)
			continue;
		if (s->uuid[0])
			return s->reason[0] || mig_same_type(m, s) ? i : NODE_NONE;
		return m->uuid[0] && has_mig_uuid(seen, s->gpu, m->uuid) ? NODE_NONE : i;
	}
	return NODE_NONE;
}

static bool probe_mig_health(struct health *h, const struct health_policy *p,
	const struct gpu *g, const struct gpu_mig *m, uint64_t now_ns)
{
	struct gpu seen = *g;

	/* Signals belong to the GPU, which reports them. */
	seen.signals_known = 0;
	if (seen.recovery != GPU_RECOVERY_UNKNOWN)
		seen.recovery = GPU_RECOVERY_NONE;
	if (seen.fault == GPU_OK && m->reason[0])
		node_set_gpu_fault(&seen, GPU_FAULT_FIELD, m->reason);
	return health_probe(h, p, &seen, now_ns);
}

/* Adds one device: as known (@seen NULL) or as seen. @old without a position: a new device. */
static void apply_mig_device(struct node_migs *to, const struct node *n,
	const struct health_policy *p, uint32_t old, const struct gpu_mig *seen, uint32_t gpu,
	uint64_t now_ns)
{
	struct gpu_mig *m = &to->mig[to->n];
	struct health *h = &to->health[to->n++];

	if (old == NODE_NONE)
		node_start_health(h, p, node_find_persisted(n, seen->uuid, seen->profile),
			now_ns);
	else
		*h = n->migs[old];
	*m = seen && (old == NODE_NONE || !seen->reason[0]) ? *seen : n->inv->mig[old];
	if (seen && old != NODE_NONE) {
		m->index = seen->index;
		memcpy(m->reason, seen->reason, sizeof(m->reason));
	}
	m->gpu = gpu;
}

/* Adds the devices as seen. For a GPU that is faulty or was not seen: as known. */
static void apply_mig_devices(struct node_migs *to, const struct node *n,
	const struct health_policy *p, const struct inventory *seen,
	const struct node_entry *pl, uint32_t gpu, uint64_t now_ns)
{
	bool fresh = pl->seen != NODE_NONE &&
		     (pl->old == NODE_NONE || seen->gpus[pl->seen].fault == GPU_OK);

	assert(n->inv || pl->old == NODE_NONE); /* a position is one in the old inventory */
	for (uint32_t i = 0; fresh && i < seen->n_mig; i++)
		if (seen->mig[i].gpu == pl->seen)
			apply_mig_device(to, n, p, find_known_mig(n, pl->old, seen, i),
				&seen->mig[i], gpu, now_ns);
	for (uint32_t i = 0; !fresh && pl->old != NODE_NONE && i < n->inv->n_mig; i++)
		if (n->inv->mig[i].gpu == pl->old)
			apply_mig_device(to, n, p, i, NULL, gpu, now_ns);
}

int node_make_migs(struct node_migs *to, const struct node *n, const struct health_policy *p,
	const struct inventory *seen, const struct node_entry *places, uint32_t n_places,
	uint64_t now_ns, struct error *err)
{
	size_t room = (size_t)seen->n_mig + (n->inv ? n->inv->n_mig : 0);

	*to = (struct node_migs){ .n = 0 };
	if (room == 0)
		return 0;
	to->mig = calloc(room, sizeof(*to->mig));
	to->health = calloc(room, sizeof(*to->health));
	if (!to->mig || !to->health) {
		free(to->mig);
		free(to->health);
		return error_nomem(err);
	}
	for (uint32_t i = 0; i < n_places; i++)
		apply_mig_devices(to, n, p, seen, &places[i], i, now_ns);
	return 0;
}

bool node_probe_migs(struct node *n, const struct health_policy *p, uint64_t now_ns)
{
	bool changed = false;

	for (uint32_t i = 0; i < n->inv->n_mig; i++) {
		const struct gpu_mig *m = &n->inv->mig[i];

		changed |= probe_mig_health(&n->migs[i], p, &n->inv->gpus[m->gpu], m, now_ns);
	}
	return changed;
}

bool node_migs_changed(const struct inventory *a, const struct inventory *b)
{
	if (a->n_mig != b->n_mig)
		return true;
	for (uint32_t i = 0; i < a->n_mig; i++)
		if (!mig_equal(&a->mig[i], &b->mig[i]))
			return true;
	return false;
}

void node_forget_migs(struct node *n, uint32_t i)
{
	struct inventory *inv = n->inv;
	uint32_t to = 0;

	for (uint32_t k = 0; k < inv->n_mig; k++) {
		if (inv->mig[k].gpu == i)
			continue;
		inv->mig[to] = inv->mig[k];
		inv->mig[to].gpu -= inv->mig[to].gpu > i;
		n->migs[to++] = n->migs[k];
	}
	inv->n_mig = to;
}
