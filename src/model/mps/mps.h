/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * CUDA MPS as the config wants it: which control daemons there are to be, with which limits, and what a
 * container is told. Formulas and limits are those of NVIDIA's plugin (MPS control daemon), so that a config
 * means the same here.
 *
 * A daemon is one physical device's, a GPU or a MIG device, so that a client's fault ends no client of another
 * device. GPUs that an entry replicates of which a container may have several replicas
 * (failRequestsGreaterThanOne: false) have one together, and so have those of two such entries that mean the
 * same GPU, since a process has one server. MIG devices have each their own: a process can use one only. So have
 * GPUs that are cut into slices: several slices of a container are to be of one GPU. Limits:
 *
 *	memory of a replica   floor(floor(floor(total / replicas) / 1024) / 1024) MiB, of NVML's total
 *	thread percentage     floor(100 / replicas)
 *	replicas              at most 48 of a device from compute capability 7.5 on, else 16
 *
 * A container with k replicas of a device has k times that. Where `isolation` says another memory, or slices have
 * one, a slice's ledger holds the pod to it, and the limit of MPS, which is one process's, is that of the slice;
 * slices without a limit have none of MPS either. Percentages where compute is isolated, of weight w among W
 * (replicas: 1 among their number): capped: floor(100 w / W); fair: twice the share, at most 100, so that it is
 * work-conserving. At least 1.
 *
 * A client may lower what the daemon has as its default and not raise it: the default is the most that a
 * container may have.
 *
 * Health is not looked at, as in the offer: a GPU that is lost keeps its place, so that the daemon of those beside
 * it stays the same.
 * Thread: any (pure).
 */
#include "model/offer/offer.h"

#define MPS_KEY_MAX        64 /* of a directory's name, with its end */
#define MPS_MEMORY_MAX     1024
#define MPS_PRIORITY_UNSET (-1)

struct mps_device {
	uint32_t gpu, mig; /* as in struct offer_device */
	char uuid[GPU_UUID_MAX];
	uint64_t limit_mib; /* default of a client's pinned memory; 0: none */
	bool lost; /* the driver does not have it now: CUDA ends its list at such a one */
};

struct mps_daemon {
	char key[MPS_KEY_MAX]; /* its directory in the MPS root */
	struct mps_device
		*devices; /* in the order of CUDA_VISIBLE_DEVICES, which is the inventory's */
	uint32_t n;
	uint32_t percent; /* default of active threads, 1 to 100 */
	bool exclusive;   /* compute mode EXCLUSIVE_PROCESS; never with MIG devices */
};

struct mps_plan {
	struct mps_daemon *daemons; /* sorted by .key */
	uint32_t n;
};

/* @offer was made from @inv and @config. A device that is listed and cannot be had (.why) has no daemon. */
int mps_plan_new(struct mps_plan **ret, const struct offer *offer, const struct inventory *inv,
	const struct config *config, struct error *err) MUST_USE;
struct mps_plan *mps_plan_free(struct mps_plan *p); /* returns NULL */
DEFINE_CLEANUP(struct mps_plan *, mps_plan_free)

/* The daemon of the device at these positions; NULL: none. */
const struct mps_daemon *mps_plan_find(const struct mps_plan *p, uint32_t gpu, uint32_t mig);

/* The same daemons with the same limits; positions do not count, nor what is lost. */
bool mps_plan_equal(const struct mps_plan *a, const struct mps_plan *b);

/* Of the GPU, or MIG device, at these positions. */
static inline const char *mps_uuid(const struct inventory *inv, uint32_t gpu, uint32_t mig)
{
	return mig == OFFER_WHOLE ? inv->gpus[gpu].uuid : inv->mig[mig].uuid;
}

/* Whether the device is shared by MPS. */
bool mps_shares(const struct resource *r, const struct offer_device *d);

/*
 * Memory of a client that has @k replicas, or slices, of the device, which is shared by MPS: MiB; 0: no limit, or
 * the memory of the device is not known.
 */
uint64_t mps_limit_mib(const struct resource *r, const struct offer_device *d,
	const struct inventory *inv, uint32_t k);

/* Active threads of such a client, 1 to 100. */
uint32_t mps_active_thread_percent(const struct offer_share *s, uint32_t k);

/* How many clients a device takes: 48 or 16, as NVIDIA's plugin has it. */
uint32_t mps_replicas_max(uint32_t cc_major, uint32_t cc_minor);

/*
 * What a container with @ids of @r is told. Of several devices the least percentage counts, as a process has one
 * for all of them. Places in .memory are those of its devices in the inventory's order, which is CUDA's where they
 * are of one model.
 */
struct mps_grant {
	const struct mps_daemon *daemon; /* NULL: none of its devices is shared by MPS */
	uint32_t percent;
	int priority; /* 0, 1, or MPS_PRIORITY_UNSET: compute is not isolated */
	char memory
		[MPS_MEMORY_MAX]; /* CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: "0=10240M"; "": none */
};

/*
 * ERR_INVALID: its devices have different daemons (several MIG devices, or GPUs of which some are not shared
 * by MPS): a process can have one server only. ERR_UNAVAILABLE: a device has no daemon, as it cannot be had.
 * ERR_LIMIT: more devices than .memory has room for. ids that are not in @r are not looked at.
 */
int mps_grant_make(struct mps_grant *ret, const struct mps_plan *p, const struct resource *r,
	const struct inventory *inv, const char *const *ids, size_t n_ids,
	struct error *err) MUST_USE;
