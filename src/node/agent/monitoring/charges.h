/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Charges: the GPU time that the arbiter has charged to each slice since the agent's last poll.
 *
 * The arbiter's counters only grow. After a time without answers from the arbiter, the agent counts the whole
 * growth at once. From that growth the agent subtracts what it counted from NVML for the container meanwhile.
 *
 * The start of a counter:
 *	new slice                             zero;
 *	slice that an earlier agent counted   the count of that agent (node/agent/monitoring/persist/persist.h);
 *	other slice, older than this agent    the value at the first poll.
 *
 * The last growth belongs to the slice's container, even if the kubelet no longer lists the container. It is lost
 * only if the container ended while no agent ran.
 * Thread: owner's.
 */
#include "node/agent/monitoring/slices.h"
#include "node/agent/monitoring/usage.h"

struct monitoring_charge {
	char id[SLICE_ID_DIGITS + 1], device_uuid[GPU_UUID_MAX];
	char *usage_key;     /* owned: key of the usage entry */
	uint64_t charged_ns; /* as last reported by the arbiter */
	uint64_t at_ns;      /* time of the arbiter's report; 0: none in this agent */
	uint64_t at_wall_ns;
	uint64_t estimated_ns; /* counted from other sources since */
	bool restored;         /* from an earlier agent */
	uint32_t usage;        /* position in the round; MONITORING_NONE */
	bool present;
};

struct monitoring_charges {
	struct monitoring_charge *v;
	size_t n, room;
};

/*
 * Sets busy time and memory of the usage entries that have slices. @started_wall_ns: start of the agent. @wall_ns
 * and @now_ns: the current time.
 */
int monitoring_charges_count(struct monitoring_charges *c,
	const struct monitoring_slices *slices, struct monitoring_usage *usage,
	const struct monitoring_devices *devices, uint64_t started_wall_ns, uint64_t wall_ns,
	uint64_t now_ns, struct error *err) MUST_USE;
/* Called after the accounts have counted: adds the time that they counted from other sources. */
void monitoring_charges_add_estimate(struct monitoring_charges *c,
	const struct monitoring_usage *usage);
/* Restores .charged_ns, .at_wall_ns and .estimated_ns of an earlier agent from @as. */
int monitoring_charges_restore(struct monitoring_charges *c, const char *id,
	const char *device_uuid, const struct monitoring_charge *as,
	struct error *err) MUST_USE;
void monitoring_charges_fini(struct monitoring_charges *c);
