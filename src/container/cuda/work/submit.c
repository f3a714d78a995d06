/* SPDX-License-Identifier: Apache-2.0 */
/* Submissions: the hooks that do more than the gate (work.h), and the bytes that a copy moves, for copies whose
 * arguments are structures. */
#include "container/cuda/work/work.h"

#include "container/cuda/memory/memory.h"

#define ATTRIBUTES_MAX 64  /* that a hook reads: there are about 20, each used once */
#define MEM_OPS_MAX    256 /* the driver's limit for one call */
#define OPERAND_ARRAY  2

/* --- hooks --- */

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

#define LAUNCH_EX(name, own)                                                                 \
	HOOK CUresult name(const CUlaunchConfig *config, CUfunction function, void **params, \
		void **extra)                                                                \
	{                                                                                    \
		struct turn_gpu_page *p;                                                     \
		CUresult r;                                                                  \
                                                                                             \
		if (submit_off() || !config)                                                 \
			return REAL(name)(config, function, params, extra);                  \
		p = gate_begin_kind(config->hStream, (own) | submit_programmatic(config),    \
			submit_kernel_kind(function, (uint64_t)config->gridDimX *            \
							     config->gridDimY *              \
							     config->gridDimZ));             \
		r = REAL(name)(config, function, params, extra);                             \
		gate_end(p);                                                                 \
		return r;                                                                    \
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

#define MEM_OPS(name, own)                                                                  \
	HOOK CUresult name(CUstream stream, unsigned int n, CUstreamBatchMemOpParams *ops,  \
		unsigned int flags)                                                         \
	{                                                                                   \
		struct turn_gpu_page *p;                                                    \
		uint64_t bytes;                                                             \
		CUresult r;                                                                 \
                                                                                            \
		if (submit_off())                                                           \
			return REAL(name)(stream, n, ops, flags);                           \
		if (!only_signals(ops, n, &bytes)) {                                        \
			struct gate_stream_wait wait = gate_stream_wait_begin(stream, own); \
                                                                                            \
			r = REAL(name)(stream, n, ops, flags);                              \
			gate_stream_wait_end(&wait, r);                                     \
			return r;                                                           \
		}                                                                           \
		p = gate_begin(stream, (own) | GATE_PASS);                                  \
		r = REAL(name)(stream, n, ops, flags);                                      \
		gate_end_copy(p, bytes);                                                    \
		return r;                                                                   \
	}

MEM_OPS(cuStreamBatchMemOp, 0U)
MEM_OPS(cuStreamBatchMemOp_ptsz, GATE_OWN)
MEM_OPS(cuStreamBatchMemOp_v2, 0U)
MEM_OPS(cuStreamBatchMemOp_v2_ptsz, GATE_OWN)

/* --- bytes --- */

static uint64_t multiply_submit_bytes(uint64_t a, uint64_t b)
{
	uint64_t n;

	return __builtin_mul_overflow(a, b, &n) ? UINT64_MAX : n;
}

static uint64_t add_submit_bytes(uint64_t a, uint64_t b)
{
	uint64_t n;

	return __builtin_add_overflow(a, b, &n) ? UINT64_MAX : n;
}

uint64_t submit_bytes_2d(const CUDA_MEMCPY2D *copy)
{
	return copy ? multiply_submit_bytes(copy->WidthInBytes, copy->Height) : 0;
}

uint64_t submit_bytes_2d_v1(const CUDA_MEMCPY2D_v1 *copy)
{
	return copy ? multiply_submit_bytes(copy->WidthInBytes, copy->Height) : 0;
}

uint64_t submit_bytes_3d(const CUDA_MEMCPY3D *copy)
{
	return copy ? multiply_submit_bytes(
			      multiply_submit_bytes(copy->WidthInBytes, copy->Height),
			      copy->Depth)
		    : 0;
}

uint64_t submit_bytes_3d_v1(const CUDA_MEMCPY3D_v1 *copy)
{
	return copy ? multiply_submit_bytes(
			      multiply_submit_bytes(copy->WidthInBytes, copy->Height),
			      copy->Depth)
		    : 0;
}

uint64_t submit_bytes_3d_peer(const CUDA_MEMCPY3D_PEER *copy)
{
	return copy ? multiply_submit_bytes(
			      multiply_submit_bytes(copy->WidthInBytes, copy->Height),
			      copy->Depth)
		    : 0;
}

uint64_t submit_bytes_batch(const size_t *sizes, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; sizes && i < count; i++)
		sum = add_submit_bytes(sum, sizes[i]);
	return sum;
}

uint64_t submit_bytes_decompress(const CUmemDecompressParams *params, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; params && i < count; i++)
		sum = add_submit_bytes(sum, params[i].dstNumBytes);
	return sum;
}

/* The extent is in elements. Between pointers an element is a byte; otherwise the array gives the element
 * size. */
static uint64_t bytes_3d_op(const CUDA_MEMCPY3D_BATCH_OP *op)
{
	const CUmemcpy3DOperand *array = op->src.type == OPERAND_ARRAY ? &op->src : &op->dst;
	CUDA_ARRAY3D_DESCRIPTOR d;

	if (array->type != OPERAND_ARRAY ||
		REAL(cuArray3DGetDescriptor_v2)(&d, array->op.array.array))
		return multiply_submit_bytes(
			multiply_submit_bytes(op->extent.width, op->extent.height),
			op->extent.depth);
	d.Width = op->extent.width;
	d.Height = op->extent.height;
	d.Depth = op->extent.depth;
	d.Flags = 0;
	return array_texels(&d, 1);
}

uint64_t submit_bytes_3d_batch(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; ops && i < count; i++)
		sum = add_submit_bytes(sum, bytes_3d_op(&ops[i]));
	return sum;
}
