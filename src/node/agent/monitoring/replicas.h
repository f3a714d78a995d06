/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The replicas that the agent offers to the kubelet, by device, with the share of its device that each replica
 * has:
 *
 *	whole device    all of it;
 *	replica         1 / number of replicas;
 *	slice           its weight / sum of the weights.
 *
 * If one resource divides a device as a whole, the shares come to the whole exactly. If two resources offer the
 * same device, each replica counts half.
 * Thread: any (pure).
 */
#include "node/agent/monitoring/devices.h"
#include "model/usage/usage.h"

struct monitoring_replica {
	uint32_t device_index;
	const struct resource *resource; /* borrowed, as .device */
	const struct offer_device *device;
	enum account_mode mode;
	uint32_t share;        /* millionths of the device */
	uint64_t memory_limit; /* UINT64_MAX: none */
};

struct monitoring_replicas {
	struct monitoring_replica *v; /* by device, resource, replica */
	uint32_t n;
	const struct offer *offer;
	uint32_t *first; /* by resource of the offer: its first position in .by_resource */
	uint32_t *by_resource; /* positions in .v; MONITORING_NONE: device not known */
};

/* @offer was made from @of; NULL: nothing is offered. */
int monitoring_replicas_make(struct monitoring_replicas *ret,
	const struct monitoring_devices *devices, const struct offer *offer,
	const struct inventory *of, struct error *err) MUST_USE;
void monitoring_replicas_fini(struct monitoring_replicas *s);

uint32_t monitoring_replicas_find(const struct monitoring_replicas *s, const char *resource,
	const char *id); /* or MONITORING_NONE */
