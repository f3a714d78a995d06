/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Emits Kubernetes Events on this Node, and on Pods to which something of the node has happened. Events of the
 * Node have the form of the kubelet's own, so that `kubectl describe node` shows them.
 *
 * A repeated event increases the count of the existing Event. A short list waits while the API server is
 * unavailable. An event without a place in the list is dropped: the log has the event, and the state is what
 * counts.
 *
 * Thread: loop.
 */
#include "node/agent/base/report.h"
#include "node/agent/api/task.h"

#include <stdbool.h>

#define EVENTS_MAX 32 /* events in the list */
/* Limit of the requests: EVENT_BURST at once, then one every EVENT_PER_NS. */
#define EVENT_BURST  20
#define EVENT_PER_NS (UINT64_C(15) * 1000000000)

/* One kind of event, and how often it happened. */
struct kube_event {
	enum event_type type;
	struct event_about about;
	char reason[64]; /* "": unused entry */
	char message[ERROR_MSG_MAX + 64];
	char name[254];                 /* of the object; "" until the first request */
	uint64_t first_ns, last_ns;     /* wall clock */
	uint32_t count, reported_count; /* reported: the count that the API server has */
};

/* The list of events by itself: pure, without I/O. */
struct event_list {
	struct kube_event v[EVENTS_MAX];
};

/* Counts an event. @about NULL: this Node. False: dropped, as every entry of the list is still unsent. */
bool event_list_add(struct event_list *l, const struct event_about *about, enum event_type type,
	const char *reason, const char *message, uint64_t wall_ns);

/* The oldest event that is not sent yet; NULL: none. */
struct kube_event *event_list_next(struct event_list *l);

/* The request body that creates the Event; NULL: no memory. The caller owns it: free(). */
char *event_create_body(const struct kube_event *e, const char *node);
/* The request body that updates the count and the last time of the Event; NULL: no memory. The caller owns it:
 * free(). */
char *event_patch_body(const struct kube_event *e);

struct event_sender {
	struct api_task task;
	struct event_list list;
	const char *node; /* borrowed; NULL: events are dropped */
	struct kube_event *sent;
	uint32_t sent_count;
	double tokens;
	uint64_t tokens_at_ns;
	uint64_t dropped;
};

/* @s is zeroed. The caller sets .node, and .task.api once there is an API client. */
void event_sender_init(struct event_sender *s, uv_loop_t *loop);
/* Emits an Event, as soon as the API server and the limit of the requests allow it. @about NULL: this Node. The
 * texts are copied. */
void event_send(struct event_sender *s, const struct event_about *about, enum event_type type,
	const char *reason, const char *message);
