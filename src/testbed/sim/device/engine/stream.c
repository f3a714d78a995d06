/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: rings of commands. When the first command is done, the stream goes to the pending list, and
 * stream_settle() starts its next command. It does not start at once, as other streams may wait for the
 * completion.
 */
#include "testbed/sim/device/engine/internal.h"

#include <stdlib.h>

#define QUEUE_FIRST 16

struct engine_stream *engine_stream_new(struct engine_context *c, int priority, void *user)
{
	struct engine_stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->context = c;
	s->priority = priority;
	s->user = user;
	s->refs = 1;
	list_init(&s->waiters);
	link_before(&c->streams, &s->in_context);
	return s;
}

uint64_t engine_stream_submitted(const struct engine_stream *s)
{
	return s->submitted;
}

uint64_t engine_stream_completed(const struct engine_stream *s)
{
	return s->completed;
}

/* Drops a reference. */
static void engine_stream_unref(struct engine_stream *s)
{
	if (--s->refs == 0)
		free(s);
}

static void mark_stream_pending(struct engine_stream *s)
{
	if (!s->in_pending.next)
		link_before(&engine_of(s)->pending, &s->in_pending);
}

void stream_wake(struct link *waiters, uint64_t value)
{
	for (struct link *l = waiters->next, *next; l != waiters; l = next) {
		struct engine_stream *s = OWNER(struct engine_stream, in_list, l);

		next = l->next;
		if (s->wait_for > value)
			continue;
		link_out(l);
		s->list = ENGINE_LIST_NONE;
		mark_stream_pending(s);
	}
}

/* Takes the first command off the queue, and drops its references. */
static void pop_stream_command(struct engine_stream *s)
{
	struct engine_command *c = &s->queue[s->first];

	if (c->event)
		engine_event_unref(c->event);
	if (c->stream)
		engine_stream_unref(c->stream);
	s->first = (s->first + 1) % s->room;
	s->completed++;
}

void stream_complete(struct engine_stream *s)
{
	struct engine *e = engine_of(s);

	s->list = ENGINE_LIST_NONE;
	pop_stream_command(s);
	if (e->hooks.completed && !s->context->freed)
		e->hooks.completed(e->arg, s->user, s->completed);
	stream_wake(&s->waiters, s->completed);
	mark_stream_pending(s);
}

void stream_withdraw(struct engine_stream *s)
{
	if (s->list == ENGINE_LIST_COPY)
		copy_remove(s);
	else if (s->list == ENGINE_LIST_RUNNING)
		compute_remove(s);
	else
		link_out(&s->in_list);
	s->list = ENGINE_LIST_NONE;
}

void stream_destroy(struct engine_stream *s)
{
	stream_withdraw(s);
	link_out(&s->in_pending);
	link_out(&s->in_context);
	while (head_of(s)) {
		const struct engine_command *c = head_of(s);

		if (c->kind == SIM_DEVICE_RECORD)
			event_complete(c->event, c->amount);
		pop_stream_command(s);
	}
	s->gone = true;
	stream_wake(&s->waiters, UINT64_MAX);
	free(s->queue);
	engine_stream_unref(s);
}

void engine_stream_drop(struct engine_stream *s)
{
	struct engine *e = engine_of(s);
	bool any = head_of(s) != NULL;

	stream_withdraw(s);
	while (head_of(s)) {
		const struct engine_command *c = head_of(s);

		if (c->kind == SIM_DEVICE_RECORD)
			event_complete(c->event, c->amount);
		pop_stream_command(s);
	}
	if (any && e->hooks.completed)
		e->hooks.completed(e->arg, s->user, s->completed);
	stream_wake(&s->waiters, s->completed);
	mark_stream_pending(s);
}

static void delay_insert(struct engine *e, struct engine_stream *s)
{
	struct link *at = e->delays.prev;

	while (at != &e->delays && OWNER(struct engine_stream, in_list, at)->end_ns > s->end_ns)
		at = at->prev;
	link_before(at->next, &s->in_list);
	s->list = ENGINE_LIST_DELAY;
}

void stream_finish_delays(struct engine *e)
{
	while (!list_empty(&e->delays)) {
		struct engine_stream *s = OWNER(struct engine_stream, in_list, e->delays.next);

		if (s->end_ns > e->now_ns)
			return;
		stream_withdraw(s);
		stream_complete(s);
	}
}

uint64_t stream_next_delay(const struct engine *e)
{
	return list_empty(&e->delays)
		       ? ENGINE_NEVER
		       : OWNER(const struct engine_stream, in_list, e->delays.next)->end_ns;
}

/* True: the wait is over already. */
static bool wait_on(struct engine_stream *s, struct link *waiters, uint64_t have, uint64_t want)
{
	if (have >= want)
		return true;
	s->wait_for = want;
	s->list = ENGINE_LIST_WAIT;
	link_before(waiters, &s->in_list);
	return false;
}

/* Puts the first command into its place. True: the command is done at once. */
static bool begin_stream_command(struct engine_stream *s, struct engine_command *c)
{
	struct engine *e = engine_of(s);

	switch (c->kind) {
	case SIM_DEVICE_KERNEL:
		compute_insert(s->context->group, s);
		return false;
	case SIM_DEVICE_COPY:
		copy_insert(s->context->gpu, c->object, s);
		return false;
	case SIM_DEVICE_RECORD:
		event_complete(c->event, c->amount);
		return true;
	case SIM_DEVICE_WAIT_EVENT:
		return wait_on(s, &c->event->waiters, c->event->completed, c->amount);
	case SIM_DEVICE_WAIT_STREAM:
		return c->stream->gone ||
		       wait_on(s, &c->stream->waiters, c->stream->completed, c->amount);
	case SIM_DEVICE_HOST:
		s->list = ENGINE_LIST_HOST;
		if (e->hooks.host)
			e->hooks.host(e->arg, s->user, s->completed + 1);
		return false;
	default: /* SIM_DEVICE_DELAY */
		s->end_ns = add_saturated_ns(e->now_ns, c->amount);
		delay_insert(e, s);
		return false;
	}
}

void stream_settle(struct engine *e)
{
	while (!list_empty(&e->pending)) {
		struct engine_stream *s =
			OWNER(struct engine_stream, in_pending, e->pending.next);
		struct engine_command *c;

		link_out(&s->in_pending);
		c = head_of(s);
		if (c && s->list == ENGINE_LIST_NONE && begin_stream_command(s, c))
			stream_complete(s);
		else if (!c && s->dying) {
			if (e->hooks.drained && !s->context->freed)
				e->hooks.drained(e->arg, s->user);
			stream_destroy(s);
		}
	}
}

/* Makes room for one command more. */
static bool queue_grow(struct engine_stream *s)
{
	uint64_t used = s->submitted - s->completed;
	uint32_t room = s->room ? s->room * 2 : QUEUE_FIRST;
	struct engine_command *q;

	if (used < s->room)
		return true;
	if (used >= SIM_DEVICE_QUEUE_MAX)
		return false;
	q = calloc(room, sizeof(*q));
	if (!q)
		return false;
	for (uint64_t i = 0; s->room && i < used; i++)
		q[i] = s->queue[(s->first + i) % s->room];
	free(s->queue);
	s->queue = q;
	s->room = room;
	s->first = 0;
	return true;
}

bool engine_submit(struct engine_stream *s, const struct engine_command *command,
	uint64_t now_ns)
{
	struct engine *e = engine_of(s);
	struct engine_command *c;

	engine_advance(e, now_ns);
	if (!queue_grow(s))
		return false;
	c = &s->queue[(s->first + (s->submitted - s->completed)) % s->room];
	*c = *command;
	if (c->event) {
		struct engine_event *event = c->event;

		event->refs++;
		if (c->kind == SIM_DEVICE_RECORD) {
			c->amount = c->amount ? c->amount : event->recorded + 1;
			if (c->amount > event->recorded)
				event->recorded = c->amount;
		} else if (c->amount == 0) {
			c->amount = event->recorded;
		}
	}
	if (c->stream)
		c->stream->refs++;
	s->submitted++;
	if (s->context->error)
		engine_stream_drop(s);
	else
		mark_stream_pending(s);
	engine_settle(e);
	return true;
}

bool engine_host_done(struct engine_stream *s, uint64_t seq, uint64_t now_ns)
{
	struct engine *e = engine_of(s);

	engine_advance(e, now_ns);
	if (s->list != ENGINE_LIST_HOST || s->completed + 1 != seq)
		return false;
	stream_complete(s);
	engine_settle(e);
	return true;
}

void engine_stream_free(struct engine_stream *s)
{
	struct engine *e = engine_of(s);

	s->dying = true;
	mark_stream_pending(s);
	engine_settle(e);
}
