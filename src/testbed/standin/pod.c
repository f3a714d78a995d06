/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/standin/pod.h"

#include "lib/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A UUID in the form of version 4 that is the same for the same pod: runs are repeatable. */
static char *make_uid(const char *namespace_, const char *name, uint64_t serial)
{
	uint64_t h[2] = { UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4) };
	char *uid = NULL;

	for (int k = 0; k < 2; k++) {
		for (const char *s = namespace_; *s; s++)
			h[k] = (h[k] ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
		for (const char *s = name; *s; s++)
			h[k] = (h[k] ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
		h[k] = (h[k] ^ serial) * UINT64_C(0x9e3779b97f4a7c15);
		h[k] ^= h[k] >> 31;
	}
	if (asprintf(&uid, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(h[0] >> 32),
		    (unsigned)(h[0] >> 16) & 0xffff, (unsigned)h[0] & 0xfff,
		    ((unsigned)(h[1] >> 48) & 0x3fff) | 0x8000,
		    (unsigned long long)(h[1] & UINT64_C(0xffffffffffff))) < 0)
		return NULL;
	return uid;
}

struct pod *pod_free(struct pod *p)
{
	if (!p)
		return NULL;
	free(p->name);
	free(p->namespace_);
	free(p->uid);
	p->spec = pod_spec_unref(p->spec);
	free(p->reason);
	free(p->message);
	free(p->owner);
	free(p->hash);
	for (size_t i = 0; i < p->n_events; i++)
		free(p->events[i].text);
	free(p->events);
	free(p);
	return NULL;
}

int pod_new(struct pod **ret, const char *namespace_, const char *name, uint64_t serial,
	struct pod_spec *spec, uint64_t now_ns, struct error *err)
{
	struct pod *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err);
	p->name = strdup(name);
	p->namespace_ = strdup(namespace_);
	p->uid = make_uid(namespace_, name, serial);
	p->spec = pod_spec_ref(spec);
	p->created_ns = now_ns;
	p->serial = serial;
	if (!p->name || !p->namespace_ || !p->uid) {
		p = pod_free(p);
		return error_nomem(err);
	}
	*ret = p;
	return 0;
}

static bool is_status_text_equal(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

bool pod_set_status(struct pod *p, enum pod_phase phase, const char *reason,
	const char *message)
{
	bool changed = p->phase != phase || !is_status_text_equal(p->reason, reason) ||
		       !is_status_text_equal(p->message, message);
	char *r, *m;

	if (!changed)
		return false;
	r = reason ? strdup(reason) : NULL;
	m = message ? strdup(message) : NULL;
	free(p->reason);
	free(p->message);
	p->reason = r;
	p->message = m;
	p->phase = phase;
	return true;
}

void pod_event(struct pod *p, uint64_t now_ns, bool warning, const char *reason,
	const char *from, const char *text)
{
	char *copy;

	for (size_t i = 0; i < p->n_events; i++) {
		struct pod_event *e = &p->events[i];

		if (strcmp(e->reason, reason) == 0 && strcmp(e->text, text) == 0) {
			e->count++;
			e->last_ns = now_ns;
			return;
		}
	}
	copy = strdup(text);
	if (!copy)
		return;
	if (p->n_events == POD_EVENTS_MAX) {
		free(p->events[0].text);
		memmove(&p->events[0], &p->events[1], (p->n_events - 1) * sizeof(*p->events));
		p->n_events--;
	}
	if (!ARRAY_EXTEND(&p->events, p->n_events, 1, POD_EVENTS_MAX)) {
		free(copy);
		return;
	}
	p->events[p->n_events++] = (struct pod_event){ .first_ns = now_ns,
		.last_ns = now_ns,
		.count = 1,
		.warning = warning,
		.reason = reason,
		.from = from,
		.text = copy };
}

const char *pod_phase_name(enum pod_phase phase)
{
	static const char *const names[] = {
		[POD_PENDING] = "Pending",
		[POD_BOUND] = "Pending",
		[POD_ADMITTING] = "Pending",
		[POD_RUNNING] = "Running",
		[POD_FAILED] = "Failed",
	};

	return names[phase];
}

const char *pod_status(const struct pod *p)
{
	if (p->phase == POD_FAILED && p->reason)
		return p->reason;
	if (p->phase == POD_BOUND || p->phase == POD_ADMITTING)
		return "ContainerCreating";
	return pod_phase_name(p->phase);
}
