/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The devices that the kubelet is offered, by the units that they are of, and which part of its unit each is: a whole
 * one all of it, a replica one of so many, a slice its weight among all weights. Parts of one unit come to the whole
 * exactly where it is divided as a whole; where two resources offer the same unit twice, each seat counts half.
 * Thread: any (pure).
 */
#include "node/agent/monitoring/device.h"
#include "model/usage/usage.h"

struct see_seat {
	uint32_t unit;
	const struct resource *resource; /* borrowed, as .device */
	const struct offer_device *device;
	enum account_mode mode;
	uint32_t share;        /* millionths of the unit */
	uint64_t memory_limit; /* UINT64_MAX: none */
};

struct see_seats {
	struct see_seat *v; /* by unit, resource, device */
	uint32_t n;
	const struct offer *offer;
	uint32_t *first; /* of each resource of the offer: where in .at its devices are */
	uint32_t *at;    /* positions in .v; SEE_NONE: of no unit */
};

/* @offer (NULL: nothing is offered) was made from @of. */
int see_seats_make(struct see_seats *ret, const struct see_units *units,
	const struct offer *offer, const struct inventory *of, struct error *err) MUST_USE;
void see_seats_fini(struct see_seats *s);

uint32_t see_seat_find(const struct see_seats *s, const char *resource,
	const char *id); /* or SEE_NONE */
