/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the agent does besides serving devices to the kubelet: metrics, prices, usage records, ... Each component
 * fails by itself: it is then degraded, and retried. The agent logs the failure, emits one Event, and shows it in
 * its status and its metrics. A degraded component changes the allocatable devices only where some need it
 * (.needed in components.c).
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* For a file that has become invalid while the agent runs; the effect of a restart follows. */
#define LAST_VALID "; the last valid one is in use; a restart would "

enum component {
	COMPONENT_OPTIONS,       /* values of options and environment variables */
	COMPONENT_RUN_DIR,       /* the lock that keeps other agents out */
	COMPONENT_STATUS_SOCKET, /* gpusliced.sock in the run directory */
	COMPONENT_HEALTH_TCP,    /* --listen */
	COMPONENT_WEB_SERVER,    /* --metrics-listen */
	COMPONENT_COUNTERS,      /* the counters file */
	COMPONENT_USAGE_RECORDS, /* directory of the usage records */
	COMPONENT_PRICES,        /* the price file */
	COMPONENT_CDI,           /* CDI specifications */
	COMPONENT_API_SERVER,    /* where the options ask for one */
	COMPONENT_LABELS,
	COMPONENT_XID_EVENTS, /* XIDs of each GPU */
	COMPONENT_POD_USAGE,  /* which pod uses how much of a GPU that several share */
	COMPONENT_MIG_MANAGER,
	COMPONENT_SLICES,         /* the slices of the state directory */
	COMPONENT_NODE_CONDITION, /* --node-condition */
	COMPONENT_STARTUP_TAINT,  /* --startup-taint */
	COMPONENT_SAVED_CONFIG,   /* the config in force, for the next start */
	COMPONENT_SAVED_HEALTH,   /* the GPUs' health, for the next start */
	COMPONENT_COUNT_
};

struct component_state {
	struct error why;       /* ERR_NONE: the component works, or is not used */
	uint64_t since_wall_ns; /* of .why; 0 without */
};

struct reporter;

struct components {
	struct component_state v[COMPONENT_COUNT_];
	const struct reporter *reporter; /* for Events; borrowed */
};

/* "web-server": the name in JSON, metrics, logs and Events. */
const char *component_name(enum component c);

/* Pure. @why NULL or ERR_NONE: the component works. True: the state or its reason changed. */
bool component_set(struct component_state *s, const struct error *why, uint64_t wall_ns);

/* Records whether component @c works. Logs a change and emits an Event. @why as above. */
void components_report(struct components *s, enum component c, const struct error *why);
