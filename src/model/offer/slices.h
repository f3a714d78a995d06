/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `sharing.slices`: what each GPU, or MIG device, is cut into. For offer.c and the labels.
 *
 * On each device the counts are honoured in the order of the list, as far as its memory goes; then the
 * profiles without a count have, in their order, as many as fit in what is left. What does not fit is
 * noted for each kind of device that lacks it; so on a mixed node a profile is where it fits. A device on
 * which nothing fits stays whole. A profile that is nowhere on the node is a warning besides. Where the memory of a device is not known, counts are taken as they are.
 *
 * The file has been searched for devices that are meant twice (src/io/config). What only the node can tell
 * (an index and a UUID of one GPU, an index and its product) is noted, and the first set counts.
 * Thread: any (pure).
 */
#include "model/offer/candidates.h"

/* All slices of one profile on one device. */
struct offer_slice_group {
	uint32_t candidate;                  /* position in the units */
	uint32_t count;                      /* > 0 */
	uint64_t weights;                    /* of all slices of that device together */
	const struct slice_profile *profile; /* borrowed from the config */
	const struct slice_set *set;         /* as that */
};

struct offer_slice_groups {
	struct offer_slice_group *v;
	size_t n;
};

/* *ret is zeroed before; the array is yours, free(), also after an error. */
int offer_slices_make(struct offer_slice_groups *ret, const struct offer_candidates *candidates,
	const struct inventory *inv, const struct config *config, struct strv *notes,
	struct strv *warnings, struct error *err) MUST_USE;
