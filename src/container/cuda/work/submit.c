/* SPDX-License-Identifier: Apache-2.0 */
/* The submission hooks that do more than the gate; see submit.h. */
#include "container/cuda/work/submit.h"

#define ATTRIBUTES_MAX 64  /* that a hook reads: there are about 20, each used once */
#define MEM_OPS_MAX    256 /* the driver's limit for one call */

unsigned int submit_programmatic(const CUlaunchConfig *config)
{
	const CUlaunchAttribute *a = config ? config->attrs : NULL;
	unsigned int n = a ? config->numAttrs : 0;

	for (unsigned int i = 0; i < n && i < ATTRIBUTES_MAX; i++)
		if ((a[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
			    a[i].value.number) ||
			a[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
			return GATE_PROGRAMMATIC;
	return 0;
}

#define LAUNCH_EX(name, own)                                                                   \
	HOOK CUresult name(const CUlaunchConfig *config, CUfunction function, void **params,   \
		void **extra)                                                                  \
	{                                                                                      \
		struct turn_gpu_page *p;                                                       \
		CUresult r;                                                                    \
                                                                                               \
		if (submit_off() || !config)                                                   \
			return REAL(name)(config, function, params, extra);                    \
		p = gate_begin_kind(config->hStream, (own) | submit_programmatic(config),      \
			submit_kernel(function, (uint64_t)config->gridDimX *                   \
							config->gridDimY * config->gridDimZ)); \
		r = REAL(name)(config, function, params, extra);                               \
		gate_end(p);                                                                   \
		return r;                                                                      \
	}

LAUNCH_EX(cuLaunchKernelEx, 0U)
LAUNCH_EX(cuLaunchKernelEx_ptsz, GATE_OWN)

/* One kernel on several devices. Its parts wait for each other, so the hook passes all gates before the
 * launch. During a capture this call gets no events behind its submissions: such events are for one
 * submission at a time. */
HOOK CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int n,
	unsigned int flags)
{
	struct turn_gpu_page *pages[SLICE_GPUS_MAX];
	unsigned int held = 0;
	CUresult r;

	if (submit_off())
		return REAL(cuLaunchCooperativeKernelMultiDevice)(list, n, flags);
	for (; list && held < n && held < SLICE_GPUS_MAX; held++) {
		pages[held] = gate_begin(list[held].hStream, GATE_SEVERAL);
	}
	r = REAL(cuLaunchCooperativeKernelMultiDevice)(list, n, flags);
	while (held)
		gate_end(pages[--held]);
	return r;
}

/* False: the operations contain a wait, so the call is no work and may block its stream. *ret: bytes that
 * the operations write. */
static bool only_signals(const CUstreamBatchMemOpParams *ops, unsigned int n, uint64_t *ret)
{
	*ret = 0;
	for (unsigned int i = 0; ops && i < n && i < MEM_OPS_MAX; i++) {
		unsigned int what = ops[i].operation;

		if (what == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
			what == CU_STREAM_MEM_OP_WAIT_VALUE_64)
			return false;
		if (what == CU_STREAM_MEM_OP_WRITE_VALUE_32)
			*ret += 4;
		if (what == CU_STREAM_MEM_OP_WRITE_VALUE_64)
			*ret += 8;
	}
	return true;
}

#define MEM_OPS(name, own)                                                                 \
	HOOK CUresult name(CUstream stream, unsigned int n, CUstreamBatchMemOpParams *ops, \
		unsigned int flags)                                                        \
	{                                                                                  \
		struct turn_gpu_page *p;                                                   \
		uint64_t bytes;                                                            \
		CUresult r;                                                                \
                                                                                           \
		if (submit_off())                                                          \
			return REAL(name)(stream, n, ops, flags);                          \
		if (!only_signals(ops, n, &bytes)) {                                       \
			struct gate_block k = gate_block(stream, own);                     \
                                                                                           \
			r = REAL(name)(stream, n, ops, flags);                             \
			gate_blocked(&k, r);                                               \
			return r;                                                          \
		}                                                                          \
		p = gate_begin(stream, (own) | GATE_PASS);                                 \
		r = REAL(name)(stream, n, ops, flags);                                     \
		gate_end_copy(p, bytes);                                                   \
		return r;                                                                  \
	}

MEM_OPS(cuStreamBatchMemOp, 0U)
MEM_OPS(cuStreamBatchMemOp_ptsz, GATE_OWN)
MEM_OPS(cuStreamBatchMemOp_v2, 0U)
MEM_OPS(cuStreamBatchMemOp_v2_ptsz, GATE_OWN)
