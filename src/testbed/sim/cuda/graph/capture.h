/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "testbed/sim/cuda/stream/stream.h"

/* References: the list of captures until the capture ends, each stream in it, and each event recorded in it. */
struct capture {
	unsigned refs;
	struct capture *next;
	uint64_t id, thread;
	unsigned mode;
	struct graph *graph;
	struct sim_cuda_stream *origin;
	bool broken, ended;
	bool to_graph; /* into a graph that the program made before */
};
