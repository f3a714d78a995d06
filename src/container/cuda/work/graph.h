/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* From now on graphs of this process may have memory nodes: instantiations and launches check for them. */
void graph_expect_memory(void);

/*
 * Upper bound of what the allocations of one graph take at once. graph_need_add() adds a node of @bytes. A node of
 * POOL_RESERVATION_PIECE or more has pieces of its own. Smaller nodes share pieces: the driver places them one
 * after the other where they fit, so they fill more than half of their pieces. (Measured: two nodes of 40 MiB took
 * 128 MiB, ten of 1 MiB took 32 MiB.)
 */
struct graph_need {
	uint64_t large, small;
};

void graph_need_add(struct graph_need *n, uint64_t bytes);
uint64_t graph_need_bound(const struct graph_need *n);

/* Bytes that @nodes nodes of an instantiated graph take for themselves (measured: 20 MiB for 10,000
 * kernels). */
uint64_t graph_code_bound(uint64_t nodes);
