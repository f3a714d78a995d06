/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the parts of the agent report: Events of the cluster, and whether a component works. The agent connects
 * this to the API server and to its components. A test records it.
 *
 * Components are what the agent does besides serving devices to the kubelet: metrics, prices, usage records, ...
 * Each component fails by itself: it is then degraded, and retried. The agent logs the failure, emits one Event,
 * and shows it in its status and its metrics. A degraded component changes the allocatable devices only where some
 * need it (.needed in report.c).
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

/* --- reports --- */

enum event_type { EVENT_NORMAL, EVENT_WARNING };

/* A Pod; all "": this Node. */
struct event_about {
	char namespace_[64], pod[254];
	char uid[64]; /* "": not known; `kubectl describe pod` does not show the Event then */
};

struct reporter {
	/* @about NULL: this Node. @message is valid UTF-8. Both are borrowed. */
	void (*event)(void *arg, const struct event_about *about, enum event_type type,
		const char *reason, const char *message);
	/* @why NULL or ERR_NONE: the component works. */
	void (*component)(void *arg, enum component c, const struct error *why);
	void *arg;
};

/*
 * Emits an Event on this Node: @reason in CamelCase, then the message. The message is cut after ERROR_MSG_MAX + 63
 * bytes.
 */
void report_event(const struct reporter *r, enum event_type type, const char *reason,
	const char *fmt, ...) PRINTF(4, 5);

/* Emits an Event on a Pod, for what happened to the Pod on this node. */
void report_pod_event(const struct reporter *r, const struct event_about *pod,
	enum event_type type, const char *reason, const char *fmt, ...) PRINTF(5, 6);

/* Reports whether component @c works; @why NULL or ERR_NONE: it works. A repeated reason has no effect. */
void report_component(const struct reporter *r, enum component c, const struct error *why);

/* --- state of the components --- */

struct component_state {
	struct error why;       /* ERR_NONE: the component works, or is not used */
	uint64_t since_wall_ns; /* of .why; 0 without */
};

struct components {
	struct component_state v[COMPONENT_COUNT_];
	const struct reporter *reporter; /* for Events; borrowed */
};

/* "web-server": the name in JSON, metrics, logs and Events. */
const char *component_name(enum component c);

/* Pure. @why NULL or ERR_NONE: the component works. True: the state or its reason changed. */
bool component_set(struct component_state *s, const struct error *why, uint64_t wall_ns);

/* Records whether component @c works. Logs a change and emits an Event. @why NULL or ERR_NONE: it works. */
void components_report(struct components *s, enum component c, const struct error *why);
