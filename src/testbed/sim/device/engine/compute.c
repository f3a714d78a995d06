/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compute engine of a GPU: which group has the time slice, and which of its kernels run side by side.
 *
 * Kernels end by their group's clock. That clock stops while another group has the engine. So a context switch
 * needs no change to interrupted kernels: they continue where they were.
 */
#include "testbed/sim/device/engine/internal.h"

#include <stdlib.h>

struct engine_group *compute_group_new(struct engine_gpu *g)
{
	struct engine_group *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	group->gpu = g;
	list_init(&group->ready);
	list_init(&group->running);
	list_init(&group->members);
	link_before(&g->round, &group->in_round);
	return group;
}

void compute_group_free(struct engine_group *group)
{
	struct engine_gpu *g = group->gpu;

	if (g->current == group) {
		g->current = NULL;
		g->switching = false;
	}
	if (g->resident == group)
		g->resident = NULL;
	if (g->mps == group)
		g->mps = NULL;
	link_out(&group->in_round);
	free(group);
}

static bool has_group_work(const struct engine_group *group)
{
	return !list_empty(&group->ready) || !list_empty(&group->running);
}

static struct engine_group *next_busy(const struct engine_gpu *g,
	const struct engine_group *after)
{
	const struct link *start = after ? &after->in_round : &g->round;

	for (struct link *l = start->next; l != start; l = l->next) {
		struct engine_group *group;

		if (l == &g->round)
			continue;
		group = OWNER(struct engine_group, in_round, l);
		if (has_group_work(group))
			return group;
	}
	return NULL;
}

static void insert_running(struct engine_group *group, struct engine_stream *s)
{
	struct link *at = group->running.prev;

	while (at != &group->running &&
		OWNER(struct engine_stream, in_list, at)->end_ns > s->end_ns)
		at = at->prev;
	link_before(at->next, &s->in_list);
}

static bool has_higher_priority(const struct engine_stream *s,
	const struct engine_stream *other)
{
	if (s->context->priority != other->context->priority)
		return s->context->priority > other->context->priority;
	return s->priority > other->priority;
}

void compute_insert(struct engine_group *group, struct engine_stream *s)
{
	struct link *at = group->ready.prev;

	while (at != &group->ready &&
		has_higher_priority(s, OWNER(struct engine_stream, in_list, at)))
		at = at->prev;
	link_before(at->next, &s->in_list);
	s->list = ENGINE_LIST_READY;
}

static void start_kernel(struct engine_group *group, struct engine_stream *s, uint32_t width)
{
	struct engine_context *c = s->context;
	const struct engine_command *k = head_of(s);
	uint32_t asked = k->width ? k->width : group->gpu->config.width;
	uint64_t ns = k->amount;

	if (asked > group->gpu->config.width)
		asked = group->gpu->config.width;
	/* On fewer multiprocessors than a kernel could fill, it takes longer. */
	if (ns != ENGINE_NEVER && asked > width)
		ns = convert_double_ns((double)ns * asked / width);
	link_out(&s->in_list);
	s->list = ENGINE_LIST_RUNNING;
	s->width = width;
	s->end_ns = add_saturated_ns(group->ran_ns, ns);
	group->used += width;
	c->used += width;
	if (c->running++ == 0)
		c->busy_from_ns = group->ran_ns;
	insert_running(group, s);
}

void compute_remove(struct engine_stream *s)
{
	struct engine_context *c = s->context;

	c->group->used -= s->width;
	c->used -= s->width;
	if (--c->running == 0)
		c->busy_ns += c->group->ran_ns - c->busy_from_ns;
	link_out(&s->in_list);
}

/* Starts the kernels that fit, in the order of the queue. */
static void start_ready_kernels(struct engine_group *group)
{
	uint32_t all = group->gpu->config.width;

	for (struct link *l = group->ready.next, *next; l != &group->ready; l = next) {
		struct engine_stream *s = OWNER(struct engine_stream, in_list, l);
		const struct engine_command *k = head_of(s);
		uint32_t share = s->context->share < all ? s->context->share : all;
		uint32_t width = k->width && k->width < share ? k->width : share;

		next = l->next;
		if (share < all && s->context->used && s->context->used + width > share)
			continue;
		if (group->used && group->used + width > all)
			return;
		start_kernel(group, s, width);
	}
}

static void switch_gpu_group(struct engine_gpu *g, struct engine_group *group)
{
	uint64_t now = g->engine->now_ns, cost = g->config.switch_ns;

	g->current = group;
	if (!group)
		return;
	if (g->resident && !list_empty(&g->resident->running))
		cost = add_saturated_ns(cost, g->config.preempt_ns);
	/* The very first group finds the engine empty and pays nothing. A group after an ended context pays. */
	if (group == g->resident || !g->was_used || !cost) {
		g->resident = group;
		g->was_used = true;
		g->switching = false;
		g->slice_end_ns = add_saturated_ns(now, g->config.slice_ns);
		return;
	}
	g->switching = true;
	g->switch_end_ns = add_saturated_ns(now, cost);
}

void compute_settle(struct engine_gpu *g)
{
	uint64_t now = g->engine->now_ns;

	if (g->switching) {
		if (now < g->switch_end_ns)
			return;
		g->switching = false;
		g->resident = g->current;
		g->was_used = true;
		g->slice_end_ns = add_saturated_ns(now, g->config.slice_ns);
		g->counters.switches++;
	}
	if (!g->current || !has_group_work(g->current))
		switch_gpu_group(g, next_busy(g, g->current));
	else if (now >= g->slice_end_ns) {
		struct engine_group *next = next_busy(g, g->current);

		if (next)
			switch_gpu_group(g, next);
		else
			g->slice_end_ns = add_saturated_ns(now, g->config.slice_ns);
	}
	if (g->current && !g->switching)
		start_ready_kernels(g->current);
}

uint64_t compute_next(const struct engine_gpu *g)
{
	const struct engine_group *group = g->current;
	uint64_t next = ENGINE_NEVER;

	if (!group)
		return next;
	if (g->switching)
		return g->switch_end_ns;
	if (!list_empty(&group->running)) {
		const struct engine_stream *s =
			OWNER(const struct engine_stream, in_list, group->running.next);

		if (s->end_ns != ENGINE_NEVER)
			next = add_saturated_ns(g->engine->now_ns, s->end_ns - group->ran_ns);
	}
	if (g->slice_end_ns < next && next_busy(g, group))
		next = g->slice_end_ns;
	return next;
}

void compute_pass(struct engine_gpu *g, uint64_t ns)
{
	struct engine_group *group = g->current;

	if (!group)
		return;
	if (g->switching) {
		g->counters.switch_ns += ns;
	} else {
		group->ran_ns += ns;
		if (!list_empty(&group->running))
			g->counters.busy_ns += ns;
	}
}

void compute_finish(struct engine_gpu *g)
{
	struct engine_group *group = g->current;

	while (group && !g->switching && !list_empty(&group->running)) {
		struct engine_stream *s =
			OWNER(struct engine_stream, in_list, group->running.next);
		uint32_t fail;

		if (s->end_ns > group->ran_ns || s->end_ns == ENGINE_NEVER)
			return;
		fail = head_of(s)->fail;
		if (fail) {
			context_fault(s->context, fail);
			continue;
		}
		stream_withdraw(s);
		stream_complete(s);
	}
}
