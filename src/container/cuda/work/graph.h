/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* From now on graphs of this process may have memory nodes: instantiations and launches look. */
void graph_expect_memory(void);

/*
 * The most that the allocations of one graph can take at once: @bytes is that of its next node. A
 * node of a whole piece (POOL_RESERVATION_PIECE) or more has pieces of its own; smaller ones share, and placed
 * one after the other where they fit they fill more than half of what they take. (Measured: two of
 * 40 MiB took 128, ten of 1 MiB took 32.)
 */
struct graph_need {
	uint64_t large, small;
};

void graph_need_add(struct graph_need *n, uint64_t bytes);
uint64_t graph_need_bound(const struct graph_need *n);

/* What @nodes of an instantiated graph take for themselves (measured: 20 MiB for 10,000 kernels). */
uint64_t graph_code_bound(uint64_t nodes);
