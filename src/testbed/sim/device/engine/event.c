/* SPDX-License-Identifier: Apache-2.0 */
/* Events: the number of recordings, and the newest recording that a stream has reached. */
#include "testbed/sim/device/engine/internal.h"

#include <stdlib.h>

struct engine_event *engine_event_new(struct engine *e, void *user)
{
	struct engine_event *event = calloc(1, sizeof(*event));

	if (!event)
		return NULL;
	event->engine = e;
	event->user = user;
	event->refs = 1;
	event->owned = true;
	list_init(&event->waiters);
	return event;
}

void engine_event_unref(struct engine_event *event)
{
	if (--event->refs == 0)
		free(event);
}

void engine_event_free(struct engine_event *event)
{
	event->owned = false;
	engine_event_unref(event);
}

uint64_t engine_event_recorded(const struct engine_event *event)
{
	return event->recorded;
}

uint64_t engine_event_completed(const struct engine_event *event)
{
	return event->completed;
}

void event_complete(struct engine_event *event, uint64_t number)
{
	struct engine *e = event->engine;

	/* Recordings may complete out of order: the newest counts. */
	if (number > event->completed) {
		event->completed = number;
		event->time_ns = e->now_ns;
		if (event->owned && e->hooks.recorded)
			e->hooks.recorded(e->arg, event->user, event->completed,
				event->time_ns);
	}
	stream_wake(&event->waiters, event->completed);
}
