/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the parts of the agent report what people have to know: Events of the cluster, and whether a component works.
 * The agent connects it to the API server and to its components; a test records it.
 * Thread: loop.
 */
#include "lib/base/error.h"
#include "node/agent/base/components.h"

enum event_type { EVENT_NORMAL, EVENT_WARNING };

/* A Pod; all "": our Node. */
struct event_about {
	char namespace_[64], pod[254];
	char uid[64]; /* "": not known, then `kubectl describe pod` does not show it */
};

struct reporter {
	/* @about NULL: our Node. @message is valid UTF-8. Both are borrowed. */
	void (*event)(void *arg, const struct event_about *about, enum event_type type,
		const char *reason, const char *message);
	/* @why NULL or ERR_NONE: it works. */
	void (*component)(void *arg, enum component c, const struct error *why);
	void *arg;
};

/* Emits an Event on our Node: @reason in CamelCase, then the message, of which ERROR_MSG_MAX + 63 bytes count. */
void report_event(const struct reporter *r, enum event_type type, const char *reason,
	const char *fmt, ...) PRINTF(4, 5);

/* The same on a Pod: what has happened to it on this node. */
void report_pod_event(const struct reporter *r, const struct event_about *pod,
	enum event_type type, const char *reason, const char *fmt, ...) PRINTF(5, 6);

/* Says whether component @c works; @why NULL or ERR_NONE: it does. The same again is no news. */
void report_component(const struct reporter *r, enum component c, const struct error *why);
