/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For the files of this folder only. */
#include "node/agent/monitoring/monitoring.h"

/* All about the round that was just counted; freed after the view is built. */
struct monitoring_round {
	uint64_t now_ns, wall_ns, dt_ns;
	bool counted; /* the allocations of the round are known */
	struct monitoring_devices devices;
	struct monitoring_replicas replicas;
	struct monitoring_allocations allocations_before; /* of the round before */
	struct monitoring_usage usage;
	struct monitoring_slices slices;
	struct account_device_round *in_devices; /* [devices.n] */
	struct account_use *in_usage;            /* [usage.n] */
	struct account_round in;
	const char **gpus; /* UUIDs [in.n_gpus] */
};

/* The kubelet has reported allocations, at most MONITORING_UNKNOWN_ROUNDS_MAX rounds ago. */
static inline bool monitoring_allocations_known(const struct monitoring *mon)
{
	return mon->listing.listed_ns &&
	       mon->listing.unknown_rounds <= MONITORING_UNKNOWN_ROUNDS_MAX;
}

/* count.c */

/* Counts a round in the accounts and charges. @r is zeroed, except .now_ns, .wall_ns and .dt_ns (ns since the round
 * before); its other members are filled in. The caller calls monitoring_round_fini() also after an error. */
int monitoring_count_round(struct monitoring *mon, struct monitoring_round *r,
	struct error *err) MUST_USE;
void monitoring_round_fini(struct monitoring_round *r);

/* price.c */

/* Takes the price from the options, or finds it again if the instance type or the region has changed. */
void monitoring_price_update(struct monitoring *mon);
void monitoring_price_fini(struct monitoring_price *p);
/* From the options, else from the Node's labels; "": not known. Borrowed. */
const char *monitoring_instance_type(const struct monitoring *mon);
const char *monitoring_region(const struct monitoring *mon);
/* Of this host, as of the first call; "": not known. Thread: loop. */
const char *monitoring_hostname(void);
