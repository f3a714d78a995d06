/* SPDX-License-Identifier: Apache-2.0 */
#include "model/gpu/gpu.h"

#include "lib/base/array.h"

#include <string.h>

static bool links_alloc(struct inventory *inv, uint32_t n)
{
	size_t n_links = (size_t)n * n;

	inv->links = calloc(n_links, sizeof(*inv->links));
	if (!inv->links)
		return false;
	for (size_t i = 0; i < n_links; i++)
		inv->links[i].level = GPU_LEVEL_UNKNOWN;
	return true;
}

int inventory_new(struct inventory **ret, uint32_t n, struct error *err)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;

	if (n > GPU_NODE_MAX)
		return error_set(err, ERR_LIMIT, "%u GPUs: at most %d of one node are handled",
			n, GPU_NODE_MAX);
	inv = calloc(1, sizeof(*inv));
	if (!inv)
		return error_nomem(err);
	if (n) {
		inv->gpus = calloc(n, sizeof(*inv->gpus));
		if (!inv->gpus || !links_alloc(inv, n))
			return error_nomem(err);
	}
	inv->n = n;
	*ret = STEAL_PTR(inv);
	return 0;
}

int inventory_copy(struct inventory **ret, const struct inventory *from, struct error *err)
{
	CLEANUP(inventory_freep) struct inventory *inv = NULL;

	if (inventory_new(&inv, from->n, err) < 0)
		return -1;
	memcpy(inv->driver_version, from->driver_version, sizeof(inv->driver_version));
	memcpy(inv->nvml_version, from->nvml_version, sizeof(inv->nvml_version));
	inv->cuda_version = from->cuda_version;
	if (from->n)
		memcpy(inv->gpus, from->gpus, from->n * sizeof(*from->gpus));
	if (from->n && from->links)
		memcpy(inv->links, from->links,
			(size_t)from->n * from->n * sizeof(*from->links));
	if (from->n_mig) {
		inv->mig = calloc(from->n_mig, sizeof(*inv->mig));
		if (!inv->mig)
			return error_nomem(err);
		memcpy(inv->mig, from->mig, from->n_mig * sizeof(*from->mig));
		inv->n_mig = from->n_mig;
	}
	*ret = STEAL_PTR(inv);
	return 0;
}

struct inventory *inventory_free(struct inventory *inv)
{
	if (inv) {
		free(inv->gpus);
		free(inv->links);
		free(inv->mig);
		free(inv);
	}
	return NULL;
}

int inventory_add_mig(struct inventory *inv, uint32_t gpu, const struct gpu_mig *mig,
	uint32_t n, struct error *err)
{
	if (gpu >= inv->n || n > GPU_MIG_MAX)
		return error_set(err, ERR_LIMIT,
			"%u MIG devices of GPU %u: at most %d of one of %u GPUs are handled", n,
			gpu, GPU_MIG_MAX, inv->n);
	if (!ARRAY_EXTEND(&inv->mig, inv->n_mig, n, UINT32_MAX))
		return error_nomem(err);
	for (uint32_t i = 0; i < n; i++) {
		inv->mig[inv->n_mig] = mig[i];
		inv->mig[inv->n_mig++].gpu = gpu;
	}
	return 0;
}

bool gpu_mig_equal_capacity(const struct gpu_mig *a, const struct gpu_mig *b)
{
	return a->memory_mib == b->memory_mib && a->multiprocessors == b->multiprocessors &&
	       a->gi_slices == b->gi_slices && a->ci_slices == b->ci_slices &&
	       a->copy == b->copy && a->decoder == b->decoder && a->encoder == b->encoder &&
	       a->jpeg == b->jpeg && a->ofa == b->ofa;
}

uint32_t inventory_mig_of(const struct inventory *inv, uint32_t gpu,
	struct gpu_mig ret[GPU_MIG_MAX])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < inv->n_mig && n < GPU_MIG_MAX; i++) {
		if (inv->mig[i].gpu == gpu)
			ret[n++] = inv->mig[i];
	}
	return n;
}

const struct gpu *inventory_find(const struct inventory *inv, const char *uuid)
{
	if (!uuid[0]) /* an empty UUID (unreadable) matches no GPU */
		return NULL;
	for (uint32_t i = 0; i < inv->n; i++)
		if (strcmp(inv->gpus[i].uuid, uuid) == 0)
			return &inv->gpus[i];
	return NULL;
}

struct gpu_link inventory_link(const struct inventory *inv, uint32_t a, uint32_t b)
{
	if (!inv->links || a >= inv->n || b >= inv->n)
		return (struct gpu_link){ .level = GPU_LEVEL_UNKNOWN };
	return inv->links[(size_t)a * inv->n + b];
}

const char *gpu_fault_name(enum gpu_fault fault)
{
	switch (fault) {
	case GPU_OK:
		return "ok";
	case GPU_FAULT_FIELD:
		return "unreadable";
	case GPU_FAULT_LOST:
		return "lost";
	case GPU_FAULT_RESET:
		return "reset";
	case GPU_FAULT_STUCK:
		return "stuck";
	case GPU_FAULT_GONE:
		return "gone";
	}
	return "unknown";
}

bool gpu_signal(const struct gpu *g, enum gpu_signal s, uint64_t *ret)
{
	static const enum gpu_recovery asked[GPU_SIGNAL_COUNT_] = {
		[GPU_SIGNAL_RESET] = GPU_RECOVERY_RESET_GPU,
		[GPU_SIGNAL_REBOOT] = GPU_RECOVERY_REBOOT,
		[GPU_SIGNAL_DRAIN_P2P] = GPU_RECOVERY_DRAIN_P2P,
		[GPU_SIGNAL_DRAIN_RESET] = GPU_RECOVERY_DRAIN_RESET,
	};
	bool stored = s < GPU_SIGNAL_STORED_;

	if (stored ? !(g->signals_known & UINT32_C(1) << s)
		   : g->recovery == GPU_RECOVERY_UNKNOWN)
		return false;
	if (ret)
		*ret = stored ? g->signals[s] : g->recovery == asked[s];
	return true;
}

void gpu_signal_set(struct gpu *g, enum gpu_signal s, uint64_t value)
{
	g->signals_known |= UINT32_C(1) << s;
	g->signals[s] = value;
}
