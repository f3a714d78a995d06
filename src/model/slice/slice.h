/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the config's `isolation` and `slices` give a container: how much memory and time of which GPU. One
 * allocation is one slice. It has one row for each physical device. With k replicas of a device, or k slices of
 * a profile, it has k times what one has.
 *
 * Time. A replica has weight 1, a slice of a profile the weight of that profile. With a cap, it has its part of
 * the device and no more: 1 of `replicas`, or its weight divided by the weights of all slices there. A container
 * has class latency if all its devices that isolate compute have it.
 *
 * Memory. "equal" is what CUDA calls the total of the device, divided by its replicas. A percentage is of the
 * same total. An amount is used as it is. All are rounded down to SLICE_GRANULE, in which GPUs allocate memory.
 * No slice has more than the device. Where one replica has less than a granule, as with a replica for each MiB,
 * the k replicas are rounded down together. The sum of all replicas is not checked here: a user whose amounts
 * exceed the card gets them, and a note (model/offer/offer.h).
 *
 * MPS. On a device that MPS shares no slice takes quanta, whatever isolation says of compute. Weight and cap are
 * the input of MPS's percentages (model/mps/mps.h). A container with such a device runs under MPS.
 *
 * Whole GPUs and MIG devices that are not shared need no isolation: the hardware isolates them. Replicas of a
 * MIG device are divided like those of a GPU, with the total of the MIG device.
 *
 * Threads: any (pure).
 */
#include "abi/slice-limits.h"
#include "model/offer/offer.h"

#define SLICE_CAP_MIN 1000 /* the least that a config should set */

struct slice_gpu {
	char uuid[GPU_UUID_MAX];
	uint64_t memory; /* bytes; SLICE_NO_LIMIT */
	uint32_t weight; /* 1 to SLICE_WEIGHT_MAX; invalid without the plan's .compute */
	uint32_t cap;    /* millionths of the GPU, at most SLICE_CAP_ALL; 0: no cap */
};

enum slice_compute {
	SLICE_COMPUTE_NONE,       /* the GPU's own time-slicing decides */
	SLICE_COMPUTE_FAIR_SHARE, /* the fair-share scheduler decides */
	/* its processes run under MPS beside others: their time is counted, and no gate closes */
	SLICE_COMPUTE_MPS,
};

struct slice_plan {
	/* False: there is nothing to enforce, and the other members are invalid. */
	bool wanted;
	enum slice_compute compute;
	enum slice_class class_;          /* invalid without .compute */
	enum isolation_unhooked unhooked; /* the strictest of its devices */
	uint32_t n;
	struct slice_gpu gpus[SLICE_GPUS_MAX]; /* in the order of the ids */
};

/* The time of one device for @k of @s. Leaves .memory unchanged. */
void slice_time(struct slice_gpu *ret, const struct offer_share *s, uint32_t k);

/* What CUDA calls the total of the device at these positions of the inventory; 0: not known. */
uint64_t slice_usable(const struct inventory *inv, uint32_t gpu, uint32_t mig);

/*
 * Bytes of @k replicas of a device with @usable bytes and @replicas. SLICE_NO_LIMIT: no limit. 0: @usable is not
 * known (0), and isolation is not an amount; or the @k replicas have less than SLICE_GRANULE.
 */
uint64_t slice_limit(const struct isolation *isolation, uint32_t replicas, uint64_t usable,
	uint32_t k);

/* The fewest of @replicas of a device that together have @bytes; 0: all of them have less. */
uint32_t slice_replicas_for(const struct isolation *isolation, uint32_t replicas,
	uint64_t usable, uint64_t bytes);

/*
 * The slice of a container that gets @ids of @r. ERR_UNAVAILABLE: the memory of a device is not known.
 * ERR_INVALID: it is too little for a replica. ERR_LIMIT: more physical devices than a slice can have. Ignores
 * ids that are not in @r.
 */
int slice_plan_make(struct slice_plan *ret, const struct resource *r,
	const struct inventory *inv, const char *const *ids, size_t n_ids,
	struct error *err) MUST_USE;

/* The config has no isolation any more: removes what the plan enforces. The slice remains. */
void slice_plan_open(struct slice_plan *plan);

/* Whether both plans are equal in all valid members. */
bool slice_plan_equal(const struct slice_plan *a, const struct slice_plan *b);
