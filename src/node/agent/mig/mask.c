/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/mask.h"

#include "model/offer/offer.h"

#include <stdlib.h>
#include <string.h>

static bool is_planned_to_stay(const struct mig_report_gpu *g, const struct gpu_mig *d)
{
	for (uint32_t i = 0; i < g->n_remaining; i++) {
		if (g->remaining[i].gi == d->gi && g->remaining[i].ci == d->ci)
			return true;
	}
	return false;
}

static void add_remaining_device(struct mig_mask_gpu *to, const struct mig_report_gpu *g,
	const struct inventory *inv)
{
	for (uint32_t i = 0; i < inv->n_mig && to->n_remaining < MIG_REMAINING_MAX; i++) {
		const struct gpu_mig *d = &inv->mig[i];

		if (!strcmp(inv->gpus[d->gpu].uuid, g->uuid) && is_planned_to_stay(g, d))
			memcpy(to->remaining[to->n_remaining++], d->uuid, sizeof(d->uuid));
	}
}

int mig_mask_make(struct mig_mask *ret, const struct mig_report *plan,
	const struct inventory *inv, struct error *err)
{
	mig_mask_fini(ret);
	ret->gpus = calloc(plan->n ? plan->n : 1, sizeof(*ret->gpus));
	if (!ret->gpus)
		return error_nomem(err);
	for (uint32_t i = 0; i < plan->n; i++) {
		const struct mig_report_gpu *g = &plan->gpus[i];
		struct mig_mask_gpu *to = &ret->gpus[ret->n];

		if (g->steps == 0)
			continue;
		ret->n++;
		memcpy(to->uuid, g->uuid, sizeof(to->uuid));
		to->mode = g->mode;
		if (g->mode == MIG_MODE_UNCHANGED)
			add_remaining_device(to, g, inv);
	}
	return 0;
}

void mig_mask_fini(struct mig_mask *m)
{
	free(m->gpus);
	*m = (struct mig_mask){ 0 };
}

static const struct mig_mask_gpu *find_masked_gpu(const struct mig_mask *m, const char *uuid)
{
	for (uint32_t i = 0; i < m->n; i++) {
		if (*uuid && !strcmp(m->gpus[i].uuid, uuid))
			return &m->gpus[i];
	}
	return NULL;
}

static void restore_mig_mode(struct gpu *g, const struct gpu *before)
{
	g->mig_unknown = before->mig_unknown;
	g->mig_capable = before->mig_capable;
	g->mig_enabled = before->mig_enabled;
	g->mig_pending = before->mig_pending;
}

int mig_mask_restore_masked(const struct mig_mask *m, const struct inventory *before,
	struct inventory *seen, struct error *err)
{
	struct inventory came = { .n_mig = seen->n_mig, .mig = seen->mig };
	struct gpu_mig rows[GPU_MIG_MAX];
	int r = 0;

	seen->n_mig = 0;
	seen->mig = NULL;
	for (uint32_t i = 0; i < seen->n && r == 0; i++) {
		struct gpu *g = &seen->gpus[i];
		const struct gpu *old =
			find_masked_gpu(m, g->uuid) ? inventory_find(before, g->uuid) : NULL;
		uint32_t n =
			old ? inventory_mig_of(before, (uint32_t)(old - before->gpus), rows)
			    : inventory_mig_of(&came, i, rows);

		if (old)
			restore_mig_mode(g, old);
		r = inventory_add_mig(seen, i, rows, n, err);
	}
	free(came.mig);
	return r;
}

static bool is_mig_device_remaining(const struct mig_mask_gpu *g, const char *uuid)
{
	for (uint32_t i = 0; i < g->n_remaining; i++) {
		if (!strcmp(g->remaining[i], uuid))
			return true;
	}
	return false;
}

static bool is_mig_device_masked(const struct mig_mask *m, const struct inventory *inv,
	const struct gpu_mig *d)
{
	const struct mig_mask_gpu *g = find_masked_gpu(m, inv->gpus[d->gpu].uuid);

	return g && !is_mig_device_remaining(g, d->uuid);
}

void mig_mask_apply(const struct mig_mask *m, struct inventory *inv)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < inv->n_mig; i++) {
		if (!is_mig_device_masked(m, inv, &inv->mig[i]))
			inv->mig[kept++] = inv->mig[i];
	}
	inv->n_mig = kept;
	for (uint32_t i = 0; i < inv->n; i++) {
		const struct mig_mask_gpu *g = find_masked_gpu(m, inv->gpus[i].uuid);

		if (!g)
			continue;
		inv->gpus[i].changing = true;
		/*
		 * A GPU that changes its mode is not offered as a whole: it will be partitioned, or its MIG mode
		 * is not off yet.
		 */
		inv->gpus[i].mig_enabled |= g->mode != MIG_MODE_UNCHANGED;
	}
}

bool mig_mask_removes_any(const struct mig_mask *m, const struct inventory *inv)
{
	for (uint32_t i = 0; i < m->n; i++) {
		if (m->gpus[i].mode != MIG_MODE_UNCHANGED)
			return true;
	}
	for (uint32_t i = 0; i < inv->n_mig; i++) {
		if (is_mig_device_masked(m, inv, &inv->mig[i]))
			return true;
	}
	return false;
}

/* A pod that has the GPU as a whole (strategy none) has all of it. */
bool mig_mask_removes(const struct mig_mask *m, const struct inventory *inv, const char *id)
{
	char uuid[GPU_UUID_MAX];
	size_t len = device_id_physical_len(id);

	if (len >= sizeof(uuid))
		return false;
	memcpy(uuid, id, len);
	uuid[len] = '\0';
	if (find_masked_gpu(m, uuid))
		return true;
	for (uint32_t i = 0; i < inv->n_mig; i++) {
		if (!strcmp(inv->mig[i].uuid, uuid))
			return is_mig_device_masked(m, inv, &inv->mig[i]);
	}
	return false;
}

const struct pod_device *mig_mask_find_holder(const struct mig_mask *m,
	const struct inventory *inv, const struct pod_devices *list)
{
	for (size_t i = 0; list && i < list->n; i++) {
		if (mig_mask_removes(m, inv, list->v[i].id))
			return &list->v[i];
	}
	return NULL;
}
