/* SPDX-License-Identifier: Apache-2.0 */

/* Extents of pools that no block has any more, but that submitted work still uses. */
#include <stdlib.h>

#include "testbed/sim/cuda/memory/memory.h"
#include "testbed/sim/cuda/stream/stream.h"

struct ghost {
	struct ghost *next;
	CUdeviceptr start, end;
	struct sim_cuda_queue *queue; /* a reference */
	uint64_t seq;
};

bool ghost_add(struct ghost **list, CUdeviceptr start, CUdeviceptr end,
	struct sim_cuda_queue *queue, uint64_t seq)
{
	struct ghost *g = malloc(sizeof(*g));

	if (!g)
		return false;
	*g = (struct ghost){ .next = *list,
		.start = start,
		.end = end,
		.queue = queue_ref(queue),
		.seq = seq };
	*list = g;
	return true;
}

void ghosts_expire(struct ghost **list)
{
	for (struct ghost **link = list, *g; (g = *link);) {
		if (!queue_done(g->queue, g->seq)) {
			link = &g->next;
			continue;
		}
		*link = g->next;
		queue_drop(g->queue);
		free(g);
	}
}

CUdeviceptr ghost_end(const struct ghost *list, CUdeviceptr from, CUdeviceptr to)
{
	const struct ghost *g = list;

	while (g && (g->end <= from || g->start >= to))
		g = g->next;
	return g ? g->end : 0;
}
