/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that a copy moves, for copies whose arguments are structures. */
#include "container/cuda/work/submit.h"

#include "container/cuda/memory/memory.h"

#define OPERAND_ARRAY 2

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

uint64_t bytes_2d(const CUDA_MEMCPY2D *copy)
{
	return copy ? multiply_submit_bytes(copy->WidthInBytes, copy->Height) : 0;
}

uint64_t bytes_2d_v1(const CUDA_MEMCPY2D_v1 *copy)
{
	return copy ? multiply_submit_bytes(copy->WidthInBytes, copy->Height) : 0;
}

uint64_t bytes_3d(const CUDA_MEMCPY3D *copy)
{
	return copy ? multiply_submit_bytes(
			      multiply_submit_bytes(copy->WidthInBytes, copy->Height),
			      copy->Depth)
		    : 0;
}

uint64_t bytes_3d_v1(const CUDA_MEMCPY3D_v1 *copy)
{
	return copy ? multiply_submit_bytes(
			      multiply_submit_bytes(copy->WidthInBytes, copy->Height),
			      copy->Depth)
		    : 0;
}

uint64_t bytes_3d_peer(const CUDA_MEMCPY3D_PEER *copy)
{
	return copy ? multiply_submit_bytes(
			      multiply_submit_bytes(copy->WidthInBytes, copy->Height),
			      copy->Depth)
		    : 0;
}

uint64_t bytes_batch(const size_t *sizes, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; sizes && i < count; i++)
		sum = add_submit_bytes(sum, sizes[i]);
	return sum;
}

uint64_t bytes_decompress(const CUmemDecompressParams *params, size_t count)
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

uint64_t bytes_3d_batch(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; ops && i < count; i++)
		sum = add_submit_bytes(sum, bytes_3d_op(&ops[i]));
	return sum;
}
