/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: what they may have of the GPU, how long they computed, and how they fail and end. */
#include "sim/device/engine/internal.h"

#include <stdlib.h>

struct engine_context *engine_context_new(struct engine *e, uint32_t gpu, bool mps,
	uint32_t percent, void *user)
{
	struct gpu *g = &e->gpus[gpu];
	struct engine_context *c = calloc(1, sizeof(*c));
	uint64_t width = g->config.width;

	if (!c)
		return NULL;
	c->group = mps && g->mps ? g->mps : compute_group_new(g);
	if (!c->group) {
		free(c);
		return NULL;
	}
	if (mps)
		g->mps = c->group;
	c->group->contexts++;
	e->used = gpu >= e->used ? gpu + 1 : e->used;
	c->gpu = g;
	c->user = user;
	list_init(&c->streams);
	percent = percent == 0 || percent > 100 ? 100 : percent;
	c->share = (uint32_t)((width * percent + 99) / 100);
	return c;
}

void context_fail(struct engine_context *c, uint32_t code)
{
	struct engine *e = c->gpu->engine;

	if (c->error)
		return;
	c->error = code;
	if (e->hooks.failed && !c->freed)
		e->hooks.failed(e->arg, c->user, code);
	for (struct link *l = c->streams.next; l != &c->streams; l = l->next)
		stream_drop(OWNER(struct engine_stream, in_context, l));
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

static void context_destroy(struct engine_context *c)
{
	c->freed = true;
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
