/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which devices to prefer for a container (GetPreferredAllocation).
 *
 * Whole GPUs: aligned. The result is the set that NVIDIA's search chooses, including ties, without the cost
 * of that search. Exact up to PREFER_EXACT_GPUS available GPUs, above that a heuristic (search.h).
 *
 * Replicas and MIG devices: greedy, distributed or packed. The allocated replicas of the device count
 * first, then the allocated replicas of its GPU. So `packed` gathers MIG devices on one GPU.
 *
 * One device for several IDs. The following come from one device if a device has room for all. That device
 * is chosen in the same way.
 *  - Slices of a profile: together they form one larger slice (model/slice/slice.h).
 *  - Replicas with less memory each than a CUDA context takes: a config with a replica for each MiB, or
 *    each 512 MiB, uses replicas as units of memory.
 *  - Replicas of MIG devices under MPS: replicas of two MIG devices are refused, because these have two
 *    daemons (model/mps/mps.h).
 *
 * More tolerant than NVIDIA's plugin where that breaks admissions. An ID in @available that the resource
 * does not have is skipped. A GPU with a fault is left out as long as enough others are available.
 * Thread: any (pure).
 */
#include "model/offer/offer.h"

/* IDs are borrowed from the caller. @ret_ids has them in the order of the answer. */
struct prefer_request {
	const char *const *available;
	size_t n_available;
	const char *const *required; /* a subset of .available */
	size_t n_required;
	size_t size;
};

#define PREFER_MAX_IDS    40000
#define PREFER_EXACT_GPUS 16

/*
 * Writes at most req->size borrowed IDs to @ret_ids, which has room for that many, and their number to
 * *ret_n. 0 is "no preference": the kubelet chooses. Errors have the causes of the device-plugin reference,
 * 5.5. The caller puts "error getting list of preferred allocation devices" before them:
 *  - for whole GPUs, a required ID that the resource does not have;
 *  - for replicas, too few devices;
 *  - more than PREFER_MAX_IDS IDs (ERR_LIMIT).
 */
int prefer_choose(const struct resource *r, const struct inventory *inv,
	enum allocation_policy policy, const struct prefer_request *req, const char **ret_ids,
	size_t *ret_n, struct error *err) MUST_USE;
