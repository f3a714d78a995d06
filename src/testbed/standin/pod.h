/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A pod and what has happened to it. Pure data; the cluster owns all pods.
 * Thread: owner's.
 */
#include "testbed/standin/object.h"

#define POD_EVENTS_MAX 16

enum pod_phase {
	POD_PENDING,   /* not bound to the node: .message says why */
	POD_BOUND,     /* scheduled, waits for admission by the kubelet */
	POD_ADMITTING, /* the kubelet is asking the plugins for its devices */
	POD_RUNNING,
	POD_FAILED,
};

struct pod_event {
	uint64_t first_ns, last_ns;
	uint32_t count;
	bool warning;
	const char *reason, *from; /* static */
	char *text;
};

struct pod {
	char *name, *namespace_, *uid;
	struct pod_spec *spec;
	enum pod_phase phase;
	char *reason, *message; /* of Pending and Failed; or NULL */
	char *owner;            /* name of its Deployment (same namespace) or NULL */
	char *hash;             /* of the template it was made from, or NULL */
	uint64_t created_ns, started_ns;
	uint64_t serial; /* order of creation */
	struct pod_event *events;
	size_t n_events;
};

int pod_new(struct pod **ret, const char *namespace_, const char *name, uint64_t serial,
	struct pod_spec *spec, uint64_t now_ns, struct error *err) MUST_USE;
struct pod *pod_free(struct pod *p); /* returns NULL */

/* Sets reason and message (NULL: none). True if something changed. Short of memory, it stays. */
bool pod_set_status(struct pod *p, enum pod_phase phase, const char *reason,
	const char *message);

/* Adds an event, or counts it up if it was the last one of that reason. Best effort. */
void pod_event(struct pod *p, uint64_t now_ns, bool warning, const char *reason,
	const char *from, const char *text);

static inline bool pod_active(const struct pod *p)
{
	return p->phase != POD_FAILED;
}

/* What the API calls it: "Pending", "Running", "Failed". */
const char *pod_phase_name(enum pod_phase phase);
/* What `kubectl get pods` shows: the reason of a failed pod, else the phase. */
const char *pod_status(const struct pod *p);
