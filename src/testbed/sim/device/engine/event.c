/* SPDX-License-Identifier: Apache-2.0 */
/* Events: the number of recordings, and the newest recording that a stream has reached. */
#include "testbed/sim/device/engine/internal.h"

#include <stdlib.h>

struct engine_event *engine_event_new(struct engine *e, void *user)
{
	struct engine_event *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->engine = e;
	v->user = user;
	v->refs = 1;
	v->owned = true;
	list_init(&v->waiters);
	return v;
}

void engine_event_unref(struct engine_event *v)
{
	if (--v->refs == 0)
		free(v);
}

void engine_event_free(struct engine_event *v)
{
	v->owned = false;
	engine_event_unref(v);
}

uint64_t engine_event_recorded(const struct engine_event *v)
{
	return v->recorded;
}

uint64_t engine_event_completed(const struct engine_event *v)
{
	return v->completed;
}

void event_complete(struct engine_event *v, uint64_t number)
{
	struct engine *e = v->engine;

	/* Recordings may complete out of order: the newest counts. */
	if (number > v->completed) {
		v->completed = number;
		v->time_ns = e->now_ns;
		if (v->owned && e->hooks.recorded)
			e->hooks.recorded(e->arg, v->user, v->completed, v->time_ns);
	}
	stream_wake(&v->waiters, v->completed);
}
