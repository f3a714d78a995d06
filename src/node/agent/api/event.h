/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Events on our Node, in the form of the kubelet's own, so that `kubectl describe node` shows them, and on Pods
 * that something of the node has happened to.
 * The same event again counts up the one that is there. A short list waits while the API server is
 * away; what does not fit is dropped, since the log has it and the state is what counts.
 * Thread: loop.
 */
#include "node/agent/base/report.h"
#include "node/agent/api/task.h"

#include <stdbool.h>

#define EVENTS_MAX   32 /* that are remembered */
#define EVENT_BURST  20 /* requests at once; then one each: */
#define EVENT_PER_NS (UINT64_C(15) * 1000000000)

/* One kind of event, with how often it happened. */
struct kube_event {
	enum event_type type;
	struct event_about about;
	char reason[64]; /* "" : unused */
	char message[ERROR_MSG_MAX + 64];
	char name[254];                 /* of the object; "" before it is made */
	uint64_t first_ns, last_ns;     /* wall clock */
	uint32_t count, reported_count; /* told: as the API server knows it */
};

/* The memory of events by itself: pure but for the list. */
struct event_list {
	struct kube_event v[EVENTS_MAX];
};

/* Counts an event. @about NULL: of our Node. False: dropped, as all that are remembered wait to be told. */
bool event_list_add(struct event_list *l, const struct event_about *about, enum event_type type,
	const char *reason, const char *message, uint64_t wall_ns);

/* The oldest that is to be told; NULL: none. */
struct kube_event *event_list_next(struct event_list *l);

/* What to send for @e; NULL: no memory. Yours: free(). */
char *event_create_body(const struct kube_event *e, const char *node);
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

void event_sender_init(struct event_sender *s, uv_loop_t *loop);
void event_send(struct event_sender *s, const struct event_about *about, enum event_type type,
	const char *reason, const char *message);
