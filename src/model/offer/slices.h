/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `sharing.slices`: how each GPU or MIG device is divided. For offer.c and the labels.
 *
 * On each device:
 *  1. Profiles with a count get their slices in the order of the list, as far as the memory allows.
 *  2. Profiles without a count then get, in their order, as many slices as fit into the rest.
 *
 * A note reports a shortage, once for each kind of device. So on a mixed node a profile is only where it
 * fits. A device on which nothing fits stays whole. A profile without a slice on the node is also a
 * warning. If the memory of a device is unknown, counts are taken as they are.
 *
 * The reader of the config (src/io/config) already rejected devices that two sets claim. What only the node
 * can tell (an index and a UUID of one GPU, an index and its product) is noted, and the first set counts.
 * Thread: any (pure).
 */
#include "model/offer/candidates.h"

/* All slices of one profile on one device. */
struct offer_slice_group {
	uint32_t candidate;                  /* position in the candidates */
	uint32_t count;                      /* > 0 */
	uint64_t weights;                    /* sum over all slices of that device */
	const struct slice_profile *profile; /* borrowed from the config */
	const struct slice_set *set;         /* borrowed from the config */
};

struct offer_slice_groups {
	struct offer_slice_group *v;
	size_t n;
};

/* Sets *ret. The caller frees the array .v with free(), also after an error. */
int offer_slices_make(struct offer_slice_groups *ret, const struct offer_candidates *candidates,
	const struct inventory *inv, const struct config *config, struct strv *notes,
	struct strv *warnings, struct error *err) MUST_USE;
