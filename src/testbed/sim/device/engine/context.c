/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: their multiprocessors, their compute time, their failure and end. */
#include "testbed/sim/device/engine/internal.h"

#include <stdlib.h>

static struct engine_context *context_in(struct engine_group *group, void *user)
{
	struct engine_context *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->group = group;
	group->contexts++;
	c->gpu = group->gpu;
	c->user = user;
	list_init(&c->streams);
	return c;
}

struct engine_context *engine_context_new(struct engine *e, uint32_t gpu, bool mps,
	uint32_t percent, void *user)
{
	struct engine_gpu *g = &e->gpus[gpu];
	struct engine_group *group = mps && g->mps ? g->mps : compute_group_new(g);
	uint64_t width = g->config.width;
	struct engine_context *c = group ? context_in(group, user) : NULL;

	if (!c) {
		if (group && !group->contexts)
			compute_group_free(group);
		return NULL;
	}
	if (mps)
		g->mps = group;
	engine_use(g);
	percent = percent == 0 || percent > 100 ? 100 : percent;
	c->share = (uint32_t)((width * percent + 99) / 100);
	return c;
}

struct engine_context *engine_context_join(struct engine_context *of, uint32_t width,
	int priority, void *user)
{
	struct engine_context *c = context_in(of->group, user);
	uint32_t all = of->gpu->config.width;

	if (!c)
		return NULL;
	c->share = width == 0 || width > all ? all : width;
	c->priority = priority;
	if (!of->in_members.next)
		link_before(&of->group->members, &of->in_members);
	link_before(&of->group->members, &c->in_members);
	return c;
}

static void context_fail(struct engine_context *c, uint32_t code)
{
	struct engine *e = c->gpu->engine;

	if (c->error)
		return;
	c->error = code;
	if (e->hooks.failed && !c->freed)
		e->hooks.failed(e->arg, c->user, code);
	for (struct link *l = c->streams.next; l != &c->streams; l = l->next)
		engine_stream_drop(OWNER(struct engine_stream, in_context, l));
}

void context_fault(struct engine_context *c, uint32_t code)
{
	context_fail(c, code);
	if (!c->in_members.next)
		return;
	for (struct link *l = c->group->members.next; l != &c->group->members; l = l->next)
		context_fail(OWNER(struct engine_context, in_members, l), code);
}

uint64_t engine_context_busy_ns(const struct engine_context *c)
{
	return c->busy_ns + (c->running ? c->group->ran_ns - c->busy_from_ns : 0);
}

void engine_context_fail(struct engine_context *c, uint32_t code)
{
	struct engine *e = c->gpu->engine;

	context_fail(c, code);
	engine_settle(e);
}

void engine_context_fault(struct engine_context *c, uint32_t code)
{
	struct engine *e = c->gpu->engine;

	context_fault(c, code);
	engine_settle(e);
}

bool engine_context_computes(struct engine_context *c)
{
	for (struct link *l = c->streams.next; l != &c->streams; l = l->next) {
		enum engine_list at = OWNER(struct engine_stream, in_context, l)->list;

		if (at == ENGINE_LIST_READY || at == ENGINE_LIST_RUNNING)
			return true;
	}
	return false;
}

static void context_destroy(struct engine_context *c)
{
	c->freed = true;
	link_out(&c->in_members);
	while (!list_empty(&c->streams))
		stream_destroy(OWNER(struct engine_stream, in_context, c->streams.next));
	if (--c->group->contexts == 0)
		compute_group_free(c->group);
	free(c);
}

void engine_context_free(struct engine_context *c)
{
	struct engine *e = c->gpu->engine;

	context_destroy(c);
	engine_settle(e);
}
