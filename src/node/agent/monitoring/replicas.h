/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The devices that the kubelet is offered, by the units that they are of, and which part of its unit each is: a whole
 * one all of it, a replica one of so many, a slice its weight among all weights. Parts of one unit come to the whole
 * exactly where it is divided as a whole; where two resources offer the same unit twice, each seat counts half.
 * Thread: any (pure).
 */
#include "node/agent/monitoring/devices.h"
#include "model/usage/usage.h"

struct monitoring_replica {
	uint32_t device_index;
	const struct resource *resource; /* borrowed, as .device */
	const struct offer_device *device;
	enum account_mode mode;
	uint32_t share;        /* millionths of the unit */
	uint64_t memory_limit; /* UINT64_MAX: none */
};

struct monitoring_replicas {
	struct monitoring_replica *v; /* by unit, resource, device */
	uint32_t n;
	const struct offer *offer;
	uint32_t *
		first; /* of each resource of the offer: where in .by_resource its devices are */
	uint32_t *by_resource; /* positions in .v; MONITORING_NONE: of no unit */
};

/* @offer (NULL: nothing is offered) was made from @of. */
int monitoring_replicas_make(struct monitoring_replicas *ret,
	const struct monitoring_devices *devices, const struct offer *offer,
	const struct inventory *of, struct error *err) MUST_USE;
void monitoring_replicas_fini(struct monitoring_replicas *s);

uint32_t monitoring_replicas_find(const struct monitoring_replicas *s, const char *resource,
	const char *id); /* or MONITORING_NONE */
