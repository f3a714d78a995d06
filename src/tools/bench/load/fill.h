/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* All memory that the driver gives. Thread: one. */
#include "tools/bench/load/cuda.h"

struct memory_fill {
	uint64_t bytes;
	CUresult refusal;    /* CUDA_SUCCESS: there was none, up to more than any GPU has */
	uint64_t refusal_ns; /* that the first one took */
};

/* With a context. Takes it in pieces that get smaller once one is refused, and keeps it until the program ends. */
void fill_run(struct memory_fill *ret);
