/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Allocates all memory that the driver grants. Thread: one. */
#include "tools/bench/load/cuda.h"

struct memory_fill {
	uint64_t bytes;
	CUresult refusal;    /* CUDA_SUCCESS: no refusal, up to more memory than any GPU has */
	uint64_t refusal_ns; /* duration of the first refusal */
};

/*
 * Needs a current context. Allocates pieces, smaller ones after each refusal. The memory stays allocated until the
 * program ends.
 */
void fill_run(struct memory_fill *ret);
