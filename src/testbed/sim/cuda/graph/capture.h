/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "testbed/sim/cuda/stream/stream.h"

/* Kept by the list of all until it ends, by the streams in it, and by events recorded in it. */
struct capture {
	unsigned refs;
	struct capture *next;
	uint64_t id, thread;
	unsigned mode;
	struct graph *graph;
	struct sim_cuda_stream *origin;
	bool broken, ended;
	bool to_graph; /* a graph that the program had before */
};
