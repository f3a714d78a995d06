/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/load/fill.h"

#include "lib/base/time.h"

#define PIECE_FIRST    (UINT64_C(64) << 20)
#define PIECE_LAST     (UINT64_C(2) << 20) /* smallest allocation unit of GPUs */
#define FILL_BYTES_MAX (UINT64_C(4) << 40)

void fill_run(struct memory_fill *ret)
{
	uint64_t piece = PIECE_FIRST;

	*ret = (struct memory_fill){ .refusal = CUDA_SUCCESS };
	while (piece >= PIECE_LAST && ret->bytes < FILL_BYTES_MAX) {
		uint64_t from = time_mono_ns();
		CUdeviceptr p;
		CUresult r = cu.cuMemAlloc_v2(&p, piece);

		if (r == CUDA_SUCCESS) {
			ret->bytes += piece;
			continue;
		}
		if (ret->refusal == CUDA_SUCCESS) {
			ret->refusal = r;
			ret->refusal_ns = time_mono_ns() - from;
		}
		if (r != CUDA_ERROR_OUT_OF_MEMORY) {
			ret->refusal = r;
			return;
		}
		piece /= 2;
	}
}
