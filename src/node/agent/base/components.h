/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the agent does besides serving devices to the kubelet: metrics, prices, usage records, ... Each component
 * fails by itself: it is degraded then, and retried. The agent logs it, emits one Event and shows it in its status
 * and its metrics. A degraded component never changes which devices are allocatable.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Of a file that has become invalid while the agent runs: before what a restart would do. */
#define LAST_VALID "; the last valid one is in use; a restart would "

enum component {
	COMPONENT_OPTIONS,       /* values of options and environment variables */
	COMPONENT_RUN_DIR,       /* the lock that keeps other agents out */
	COMPONENT_STATUS_SOCKET, /* gpusliced.sock in the run directory */
	COMPONENT_HEALTH_TCP,    /* --listen */
	COMPONENT_WEB_SERVER,    /* --metrics-listen */
	COMPONENT_COUNTERS,      /* the counters file */
	COMPONENT_USAGE_RECORDS, /* the ledger directory */
	COMPONENT_PRICES,        /* the price file */
	COMPONENT_CDI,           /* CDI specifications */
	COMPONENT_API_SERVER,    /* where one is asked for */
	COMPONENT_LABELS,
	COMPONENT_XID_EVENTS, /* XIDs of each GPU */
	COMPONENT_POD_USAGE,  /* which pod uses how much of a GPU that several share */
	COMPONENT_MIG_MANAGER,
	COMPONENT_SLICES,         /* the slices of the state directory */
	COMPONENT_NODE_CONDITION, /* --node-condition */
	COMPONENT_STARTUP_TAINT,  /* --startup-taint */
	COMPONENT_SAVED_CONFIG,   /* the config in force, for the next start */
	COMPONENT_SAVED_HEALTH,   /* what of the GPUs' health outlives the agent */
	COMPONENT_COUNT_
};

struct component_state {
	struct error why;       /* ERR_NONE: it works, or it is not used */
	uint64_t since_wall_ns; /* of .why; 0 without */
};

struct reporter;

struct components {
	struct component_state v[COMPONENT_COUNT_];
	const struct reporter *reporter; /* of Events; borrowed */
};

/* "web-server": the name in JSON, metrics, logs and Events. */
const char *component_name(enum component c);

/* Pure. @why NULL or ERR_NONE: it works. True: that is news; the same reason again is none. */
bool component_set(struct component_state *s, const struct error *why, uint64_t wall_ns);

/* Notes whether component @c works, logs what is new of it and emits an Event. @why as above. */
void components_report(struct components *s, enum component c, const struct error *why);
