/* SPDX-License-Identifier: Apache-2.0 */
/* The copy engines of a GPU, one for each direction: each serves the first stream of its queue. */
#include "testbed/sim/device/engine/internal.h"

#define COPY_START_NS 2000 /* before the first byte */

static void copy_begin(struct engine_gpu *g, uint32_t kind)
{
	struct copy_engine *c = &g->copies[kind];
	uint64_t mbps = kind == SIM_DEVICE_ON_GPU ? g->config.local_mbps : g->config.host_mbps;
	uint64_t bytes;

	if (list_empty(&c->queue))
		return;
	bytes = head_of(OWNER(struct engine_stream, in_list, c->queue.next))->amount;
	c->end_ns = add_saturated_ns(g->engine->now_ns,
		add_saturated_ns(COPY_START_NS,
			convert_double_ns((double)bytes * 1000 / (double)mbps)));
}

void copy_insert(struct engine_gpu *g, uint32_t kind, struct engine_stream *s)
{
	bool first = list_empty(&g->copies[kind].queue);

	link_before(&g->copies[kind].queue, &s->in_list);
	s->list = ENGINE_LIST_COPY;
	if (first)
		copy_begin(g, kind);
}

void copy_remove(struct engine_stream *s)
{
	struct engine_gpu *g = s->context->gpu;
	uint32_t kind = head_of(s)->object;
	bool first = g->copies[kind].queue.next == &s->in_list;

	link_out(&s->in_list);
	if (first)
		copy_begin(g, kind);
}

void copy_finish(struct engine_gpu *g)
{
	for (uint32_t k = 0; k < SIM_DEVICE_COPIES; k++) {
		struct copy_engine *c = &g->copies[k];

		while (!list_empty(&c->queue) && c->end_ns <= g->engine->now_ns) {
			struct engine_stream *s =
				OWNER(struct engine_stream, in_list, c->queue.next);

			stream_withdraw(s); /* starts the next copy */
			stream_complete(s);
		}
	}
}

uint64_t copy_next(const struct engine_gpu *g)
{
	uint64_t next = ENGINE_NEVER;

	for (int k = 0; k < SIM_DEVICE_COPIES; k++)
		if (!list_empty(&g->copies[k].queue) && g->copies[k].end_ns < next)
			next = g->copies[k].end_ns;
	return next;
}
