/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * CUDA MPS as the config desires it: which control daemons exist, with which limits, and what the agent gives a
 * container. Formulas and limits are those of NVIDIA's plugin (MPS control daemon), so a config means the same
 * here.
 *
 * Daemons. Each physical device, a GPU or a MIG device, has its own daemon. So a fault of a client ends no
 * client of another device. Exceptions are GPUs of which one process may have several, since a process has one
 * server only:
 * - GPUs of one entry, of which a container may have several replicas (failRequestsGreaterThanOne: false), share
 *   one daemon.
 * - So do the GPUs of two such entries that have a GPU in common.
 * These are no exceptions:
 * - MIG devices, as a process can use only one.
 * - GPUs that are divided into slices, as several slices of a container must be on one GPU.
 *
 * Limits.
 *
 *	memory of a replica   floor(floor(floor(total / replicas) / 1024) / 1024) MiB, of NVML's total
 *	thread percentage     floor(100 / replicas)
 *	replicas              at most 48 of a device from compute capability 7.5 on, else 16
 *
 * A container with k replicas of a device has k times that. Where `isolation` sets another memory limit, or
 * slices have one, the slice's charges limit the pod as a whole. The limit of MPS is one for each process, and
 * is then the same as the slice's. Slices without a limit have none under MPS either.
 *
 * Where compute is isolated, the percentage depends on the weight w among all weights W (replicas: 1 among their
 * number). Capped: floor(100 w / W). Fair: twice that share, at most 100, so that it is work-conserving. It is
 * at least 1.
 *
 * A client can lower the daemon's default, but not raise it. So the default is the limit of what a container may
 * have.
 *
 * Health is ignored, as in the offer. A lost GPU keeps its place, so the daemon of the GPUs beside it stays the
 * same.
 *
 * Threads: any (pure).
 */
#include "model/offer/offer.h"

#define MPS_KEY_MAX        64 /* of a directory's name, with its NUL */
#define MPS_MEMORY_MAX     1024
#define MPS_PRIORITY_UNSET (-1)

struct mps_device {
	uint32_t gpu, mig; /* as in struct offer_device */
	char uuid[GPU_UUID_MAX];
	uint64_t limit_mib; /* default of a client's pinned memory; 0: none */
	/* the driver does not have it now; CUDA's list of devices ends before a lost one */
	bool lost;
};

struct mps_daemon {
	char key[MPS_KEY_MAX]; /* its directory in the MPS root */
	/* in the order of the inventory, which is that of CUDA_VISIBLE_DEVICES */
	struct mps_device *devices;
	uint32_t n;
	uint32_t percent; /* default of active threads, 1 to 100 */
	/* compute mode EXCLUSIVE_PROCESS; never with MIG devices or slices */
	bool exclusive;
};

struct mps_plan {
	struct mps_daemon *daemons; /* sorted by .key */
	uint32_t n;
};

/* @offer was made from @inv and @config. A device that is listed but unavailable (.why) has no daemon. */
int mps_plan_new(struct mps_plan **ret, const struct offer *offer, const struct inventory *inv,
	const struct config *config, struct error *err) MUST_USE;
struct mps_plan *mps_plan_free(struct mps_plan *p); /* returns NULL */
DEFINE_CLEANUP(struct mps_plan *, mps_plan_free)

/* The daemon of the device at these positions; NULL: none. */
const struct mps_daemon *mps_plan_find(const struct mps_plan *p, uint32_t gpu, uint32_t mig);

/* The UUID of the GPU, or MIG device, at these positions. */
static inline const char *mps_uuid(const struct inventory *inv, uint32_t gpu, uint32_t mig)
{
	return mig == OFFER_WHOLE ? inv->gpus[gpu].uuid : inv->mig[mig].uuid;
}

/* Whether MPS shares the device. */
bool mps_shares(const struct resource *r, const struct offer_device *d);

/*
 * Memory limit of a client with @k replicas, or slices, of a device that MPS shares. MiB; 0: no limit, or the
 * memory of the device is not known.
 */
uint64_t mps_limit_mib(const struct resource *r, const struct offer_device *d,
	const struct inventory *inv, uint32_t k);

/* Limit of the active threads of a client with @k replicas, or slices, in percent: 1 to 100. */
uint32_t mps_active_thread_percent(const struct offer_share *s, uint32_t k);

/* How many clients a device accepts: 48 or 16, as in NVIDIA's plugin. */
uint32_t mps_replicas_max(uint32_t cc_major, uint32_t cc_minor);

/*
 * What a container with @ids of @r gets. Of several devices the least percentage counts, as a process has one
 * for all of them. Places in .memory are those of its devices in the order of the inventory. This is CUDA's
 * order if the devices are of one model.
 */
struct mps_grant {
	/* NULL: MPS shares none of its devices */
	const struct mps_daemon *daemon;
	uint32_t percent;
	int priority; /* 0, 1, or MPS_PRIORITY_UNSET: compute is not isolated */
	/* CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: "0=10240M"; "": none */
	char memory[MPS_MEMORY_MAX];
};

/*
 * ERR_INVALID: the devices have different daemons (several MIG devices, or MPS shares only some of the GPUs),
 * but a process can have one server only. ERR_UNAVAILABLE: a device is unavailable, so it has no daemon.
 * ERR_LIMIT: more devices than fit into .memory. Ignores ids that are not in @r.
 */
int mps_grant_make(struct mps_grant *ret, const struct mps_plan *p, const struct resource *r,
	const struct inventory *inv, const char *const *ids, size_t n_ids,
	struct error *err) MUST_USE;
