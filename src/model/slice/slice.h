/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the config's `isolation` and `slices` give a container: how much memory and time of which GPU. One
 * slice is one allocation. Of k replicas, or k slices of a profile, of one physical device it has k times
 * what one has, and one row for each physical device.
 *
 * Time: a replica weighs 1, a slice of a profile what that says. Where it is capped, it has its part of all
 * that the device is divided into and no more: of `replicas`, or of the weights of all slices there. A
 * container has the class latency if all its devices that isolate compute say so.
 *
 * equal: the part of one replica is what CUDA calls the total of the device, divided by its replicas;
 * a percentage is of the same total; an amount is taken as it is. All are rounded down to SLICE_GRANULE,
 * in which GPUs give out memory, and no slice has more than the device. Where one replica has less than
 * a grain, as with a replica for each MiB, the k replicas are rounded down together. The sum of all replicas is
 * not looked at here: a user who wrote amounts that come to more than the card gets them, and a note
 * (model/offer/offer.h).
 *
 * On a device that is shared by MPS nobody takes turns, whatever isolation says of compute: weight and cap
 * are what MPS's percentages are made from (model/mps/mps.h). A container with any such device is of MPS.
 *
 * Whole GPUs and MIG devices that are not shared have no isolation: they are walls already. Replicas of
 * a MIG device are divided as those of a GPU are; its total is that of the MIG device.
 * Thread: any (pure).
 */
#include "abi/slice-limits.h"
#include "model/offer/offer.h"

#define SLICE_CAP_MIN 1000 /* the least that a config should say */

struct slice_gpu {
	char uuid[GPU_UUID_MAX];
	uint64_t memory; /* bytes; SLICE_NO_LIMIT */
	uint32_t weight; /* 1 to SLICE_WEIGHT_MAX; says nothing without the plan's .compute */
	uint32_t cap;    /* millionths of the GPU, at most SLICE_CAP_ALL; 0: none */
};

enum slice_compute {
	SLICE_COMPUTE_NONE, /* its processes have the GPU when the GPU's own time-slicing gives it */
	SLICE_COMPUTE_FAIR_SHARE,
	SLICE_COMPUTE_MPS, /* they run under MPS beside others: time is accounted, and no gate closed */
};

struct slice_plan {
	bool wanted; /* else there is nothing to enforce, and the rest says nothing */
	enum slice_compute compute;
	enum slice_class class_;          /* says nothing without .compute */
	enum isolation_unhooked unhooked; /* the strictest of those that its devices have */
	uint32_t n;
	struct slice_gpu gpus[SLICE_GPUS_MAX]; /* in the order of the ids */
};

/* What @k of @s are of the time of one device; .memory is not touched. */
void slice_time(struct slice_gpu *ret, const struct offer_share *s, uint32_t k);

/* What CUDA calls the total of a device at these positions of the inventory; 0: not known. */
uint64_t slice_usable(const struct inventory *inv, uint32_t gpu, uint32_t mig);

/*
 * Bytes of @k replicas of a device that has @usable and is divided into @replicas. SLICE_NO_LIMIT
 * if nothing is to be enforced; 0 if it is not known, since @usable is not known (0), or if the
 * part of @k replicas is less than SLICE_GRANULE.
 */
uint64_t slice_limit(const struct isolation *isolation, uint32_t replicas, uint64_t usable,
	uint32_t k);

/* The fewest of @replicas of a device that together have @bytes; 0: all of them have less. */
uint32_t slice_replicas_for(const struct isolation *isolation, uint32_t replicas,
	uint64_t usable, uint64_t bytes);

/*
 * The slice of a container that gets @ids of @r. ERR_UNAVAILABLE: the memory of a device is not known.
 * ERR_INVALID: there is none of it for a replica.
 * ERR_LIMIT: more physical devices than a slice can have. ids that are not in @r are not looked at.
 */
int slice_plan_make(struct slice_plan *ret, const struct resource *r,
	const struct inventory *inv, const char *const *ids, size_t n_ids,
	struct error *err) MUST_USE;

/* Isolation was taken away: what nothing is enforced of any more. The slice stays one. */
void slice_plan_open(struct slice_plan *plan);

/* The same in all that says something. */
bool slice_plan_equal(const struct slice_plan *a, const struct slice_plan *b);
