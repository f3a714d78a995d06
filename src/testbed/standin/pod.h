/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A pod and its events. Pure data; the cluster owns all pods. Thread: the owner's.
 */
#include "testbed/standin/object.h"

#define POD_EVENTS_MAX 16

enum pod_phase {
	POD_PENDING,   /* not bound to the node: .message has the reason */
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
	char *hash;             /* of the template of the pod, or NULL */
	uint64_t created_ns, started_ns;
	uint64_t serial; /* order of creation */
	struct pod_event *events;
	size_t n_events;
};

/*
 * A pending pod. Takes its own reference to @spec and copies the names. The UID is a function of @namespace_,
 * @name and @serial. ERR_NOMEM.
 */
int pod_new(struct pod **ret, const char *namespace_, const char *name, uint64_t serial,
	struct pod_spec *spec, uint64_t now_ns, struct error *err) MUST_USE;
struct pod *pod_free(struct pod *p); /* returns NULL */

/* Sets reason and message (NULL: none). True if something changed. Without memory a text becomes NULL. */
bool pod_set_status(struct pod *p, enum pod_phase phase, const char *reason,
	const char *message);

/* Adds an event, or increments the count of one with the same reason and text. Best effort. */
void pod_event(struct pod *p, uint64_t now_ns, bool warning, const char *reason,
	const char *from, const char *text);

static inline bool pod_active(const struct pod *p)
{
	return p->phase != POD_FAILED;
}

/* The API's phase: "Pending", "Running", "Failed". */
const char *pod_phase_name(enum pod_phase phase);
/* The text in `kubectl get pods`: the reason of a failed pod, else the phase. */
const char *pod_status(const struct pod *p);
