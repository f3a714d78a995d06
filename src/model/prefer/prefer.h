/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which devices to prefer for a container (GetPreferredAllocation).
 *
 * Whole GPUs: aligned, the set that NVIDIA's search would choose, ties included, without its
 * cost: exact up to PREFER_EXACT_GPUS available GPUs, above that a heuristic (search.h).
 * Replicas and MIG devices: greedy, distributed or packed, first by how many replicas of a device
 * are taken, then by how much of its GPU is: so MIG devices are gathered on a GPU by `packed`.
 *
 * Several slices of a profile come from one device where one has room for all, chosen in the same way:
 * together they are one larger slice there (model/slice/slice.h). So do replicas of which each has less memory than a
 * CUDA context takes: a config with a replica for each MiB, or each 512 MiB, means units of memory. And so do replicas
 * of MIG devices under MPS: those of two MIG devices are refused, as they have two daemons (model/mps/mps.h).
 *
 * Softer than NVIDIA where it breaks admissions: an id in @available that the resource does not
 * have is passed over, and a GPU with a fault is left out as long as enough others are there.
 * Thread: any (pure).
 */
#include "model/offer/offer.h"

/* Ids are borrowed from the caller and appear in @ret_ids in the order to answer. */
struct prefer_request {
	const char *const *available;
	size_t n_available;
	const char *const *required; /* a subset of available */
	size_t n_required;
	size_t size;
};

#define PREFER_MAX_IDS    40000
#define PREFER_EXACT_GPUS 16

/*
 * Writes at most req->size borrowed ids to @ret_ids (which has room for that many) and their
 * number to *ret_n; 0 is "no preference", and the kubelet chooses. Errors, with the cause of section
 * 5.5 (the caller puts "error getting list of preferred allocation devices" before it): a required
 * id that the resource does not have, for whole GPUs; too few devices, for replicas; more than
 * PREFER_MAX_IDS ids (ERR_LIMIT).
 */
int prefer_choose(const struct resource *r, const struct inventory *inv,
	enum allocation_policy policy, const struct prefer_request *req, const char **ret_ids,
	size_t *ret_n, struct error *err) MUST_USE;
