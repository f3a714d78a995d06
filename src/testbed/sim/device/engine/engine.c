/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of the engine. Time goes from one change to the next, on all GPUs at once, as a stream of one GPU may
 * wait for an event of another. Each step:
 *
 *	1. removes all that has ended: kernels, copies, delays;
 *	2. starts the next commands of the streams;
 *	3. settles the compute engines.
 *
 * So a kernel that becomes ready at an instant counts at that instant.
 */
#include "testbed/sim/device/engine/internal.h"

#include <stdlib.h>

struct engine *engine_new(uint32_t gpu_count, const struct engine_hooks *hooks, void *arg)
{
	struct engine *e = calloc(1, sizeof(*e) + gpu_count * sizeof(e->gpus[0]));

	if (!e)
		return NULL;
	e->used = calloc(gpu_count, sizeof(struct engine_gpu *));
	if (!e->used) {
		free(e);
		return NULL;
	}
	e->hooks = *hooks;
	e->arg = arg;
	e->gpu_count = gpu_count;
	list_init(&e->delays);
	list_init(&e->pending);
	for (uint32_t i = 0; i < gpu_count; i++) {
		struct engine_gpu *g = &e->gpus[i];

		g->engine = e;
		g->config = (struct engine_gpu_config){ .slice_ns = 1024000,
			.switch_ns = 135000,
			.width = 1,
			.host_mbps = 25000,
			.local_mbps = 1000000 };
		list_init(&g->round);
		for (int k = 0; k < SIM_DEVICE_COPIES; k++)
			list_init(&g->copies[k].queue);
	}
	return e;
}

void engine_gpu_set(struct engine *e, uint32_t gpu, const struct engine_gpu_config *config)
{
	struct engine_gpu_config *c = &e->gpus[gpu].config;

	*c = *config;
	c->slice_ns = c->slice_ns ? c->slice_ns : 1;
	c->width = c->width ? c->width : 1;
	c->host_mbps = c->host_mbps ? c->host_mbps : 1;
	c->local_mbps = c->local_mbps ? c->local_mbps : 1;
}

void engine_use(struct engine_gpu *g)
{
	struct engine *e = g->engine;
	uint32_t at = e->n_used;

	if (g->had_context)
		return;
	g->had_context = true;
	for (; at && e->used[at - 1] > g; at--)
		e->used[at] = e->used[at - 1];
	e->used[at] = g;
	e->n_used++;
}

void engine_settle(struct engine *e)
{
	stream_settle(e);
	for (uint32_t i = 0; i < e->n_used; i++)
		compute_settle(e->used[i]);
}

void engine_advance(struct engine *e, uint64_t now_ns)
{
	for (;;) {
		uint64_t next = engine_next(e), ns;

		if (next > now_ns)
			next = now_ns;
		if (next < e->now_ns)
			next = e->now_ns;
		ns = next - e->now_ns;
		e->now_ns = next;
		for (uint32_t i = 0; i < e->n_used; i++)
			compute_pass(e->used[i], ns);
		for (uint32_t i = 0; i < e->n_used; i++) {
			compute_finish(e->used[i]);
			copy_finish(e->used[i]);
		}
		stream_finish_delays(e);
		engine_settle(e);
		if (e->now_ns >= now_ns && engine_next(e) > now_ns)
			return;
	}
}

uint64_t engine_next(const struct engine *e)
{
	uint64_t next = stream_next_delay(e), t;

	for (uint32_t i = 0; i < e->n_used; i++) {
		t = compute_next(e->used[i]);
		next = t < next ? t : next;
		t = copy_next(e->used[i]);
		next = t < next ? t : next;
	}
	return next;
}

struct engine_counters engine_gpu_counters(const struct engine *e, uint32_t gpu)
{
	return e->gpus[gpu].counters;
}

struct engine *engine_free(struct engine *e)
{
	/* The callers own contexts and events, and have freed them. */
	if (e)
		free((void *)e->used);
	free(e);
	return NULL;
}
