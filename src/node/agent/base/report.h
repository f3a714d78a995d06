/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the parts of the agent report: Events of the cluster, and whether a component works. The agent connects
 * this to the API server and to its components. A test records it.
 * Thread: loop.
 */
#include "lib/base/error.h"
#include "node/agent/base/components.h"

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
