/* SPDX-License-Identifier: Apache-2.0 */

/* Several operations in one call: the same as one call for each, in this order. */
#include "testbed/sim/cuda/memory/memory.h"
#include "testbed/sim/cuda/stream/stream.h"

enum { OPERAND_POINTER = 1, OPERAND_ARRAY = 2 };
enum { TYPE_ARRAY = 3, TYPE_UNIFIED = 4 };

/* --- values in memory --- */

static bool to_work(const CUstreamBatchMemOpParams *p, struct cuda_work *w)
{
	bool wide = p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
		    p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;

	*w = (struct cuda_work){ .kind = WORK_EMPTY };
	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		w->kind = WORK_WAIT_VALUE;
		break;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		w->kind = WORK_WRITE_VALUE;
		break;
	default:
		return p->operation == CU_STREAM_MEM_OP_BARRIER;
	}
	w->value.at = p->waitValue.address;
	w->value.value = wide ? p->waitValue.value64 : p->waitValue.value;
	w->value.flags = p->waitValue.flags;
	w->value.wide = wide;
	return value_ok(w->kind, w->value.at, w->value.flags, wide);
}

EXPORT CUresult cuStreamBatchMemOp_v2(CUstream h, unsigned int n, CUstreamBatchMemOpParams *ops,
	unsigned int flags)
{
	CUresult r = sim_cuda_enter();
	struct sim_cuda_stream *s;
	struct cuda_work w;

	if (r)
		return r;
	r = sim_cuda_find_stream(h, &s);
	if (r == CUDA_SUCCESS && (flags || (n && !ops) || n > 256))
		r = CUDA_ERROR_INVALID_VALUE;
	/* All or nothing. */
	for (unsigned i = 0; i < n && !r; i++)
		if (!to_work(&ops[i], &w))
			r = CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n && !r; i++) {
		(void)to_work(&ops[i], &w);
		if (w.kind != WORK_EMPTY)
			r = stream_add_work(s, &w);
	}
	return sim_cuda_leave(r);
}

EXPORT CUresult cuStreamBatchMemOp_v2_ptsz(CUstream h, unsigned int n,
	CUstreamBatchMemOpParams *ops, unsigned int flags)
{
	return cuStreamBatchMemOp_v2(PER_THREAD(h), n, ops, flags);
}

/* Copies. They refuse the default stream and streams that capture. */

static CUresult batch_stream(CUstream h, bool args_ok)
{
	struct sim_cuda_stream *s;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = sim_cuda_find_stream(h, &s);
	if (r == CUDA_SUCCESS && (!args_ok || s->kind == STREAM_LEGACY))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && s->capture)
		r = capture_unsafe_in(s);
	return sim_cuda_leave(r);
}

EXPORT CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dst, CUdeviceptr *src, size_t *bytes,
	size_t n, CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count,
	CUstream h)
{
	bool ok = n && dst && src && bytes && attributes && first && attribute_count &&
		  attribute_count <= n && first[0] == 0;
	CUresult r = batch_stream(h, ok);

	for (size_t i = 0; i < n && !r; i++)
		r = cuMemcpyAsync(dst[i], src[i], bytes[i], h);
	return r;
}

EXPORT CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *dst, CUdeviceptr *src, size_t *bytes,
	size_t n, CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count,
	CUstream h)
{
	return cuMemcpyBatchAsync_v2(dst, src, bytes, n, attributes, first, attribute_count,
		PER_THREAD(h));
}

EXPORT CUresult cuMemcpyBatchAsync(CUdeviceptr *dst, CUdeviceptr *src, size_t *bytes, size_t n,
	CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count, size_t *bad,
	CUstream h)
{
	if (bad)
		*bad = SIZE_MAX; /* which one is unknown */
	return cuMemcpyBatchAsync_v2(dst, src, bytes, n, attributes, first, attribute_count, h);
}

EXPORT CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr *dst, CUdeviceptr *src, size_t *bytes,
	size_t n, CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count,
	size_t *bad, CUstream h)
{
	return cuMemcpyBatchAsync(dst, src, bytes, n, attributes, first, attribute_count, bad,
		PER_THREAD(h));
}

/* Elements are bytes if both operands are pointers. Arrays are not simulated here. */
static bool to_copy(const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *ret)
{
	const CUmemcpy3DOperand *s = &op->src, *d = &op->dst;

	if (s->type != OPERAND_POINTER || d->type != OPERAND_POINTER)
		return false;
	*ret = (CUDA_MEMCPY3D){
		.srcMemoryType = TYPE_UNIFIED,
		.srcDevice = s->op.ptr.ptr,
		.srcPitch = s->op.ptr.rowLength ? s->op.ptr.rowLength : op->extent.width,
		.srcHeight = s->op.ptr.layerHeight ? s->op.ptr.layerHeight : op->extent.height,
		.dstMemoryType = TYPE_UNIFIED,
		.dstDevice = d->op.ptr.ptr,
		.dstPitch = d->op.ptr.rowLength ? d->op.ptr.rowLength : op->extent.width,
		.dstHeight = d->op.ptr.layerHeight ? d->op.ptr.layerHeight : op->extent.height,
		.WidthInBytes = op->extent.width,
		.Height = op->extent.height,
		.Depth = op->extent.depth,
	};
	return true;
}

EXPORT CUresult cuMemcpy3DBatchAsync_v2(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops,
	unsigned long long flags, CUstream h)
{
	CUresult r = batch_stream(h, n && ops && !flags);
	CUDA_MEMCPY3D c;

	for (size_t i = 0; i < n && !r; i++)
		r = to_copy(&ops[i], &c) ? cuMemcpy3DAsync_v2(&c, h) : CUDA_ERROR_NOT_SUPPORTED;
	return r;
}

EXPORT CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops,
	unsigned long long flags, CUstream h)
{
	return cuMemcpy3DBatchAsync_v2(n, ops, flags, PER_THREAD(h));
}

EXPORT CUresult cuMemcpy3DBatchAsync(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *bad,
	unsigned long long flags, CUstream h)
{
	if (bad)
		*bad = SIZE_MAX;
	return cuMemcpy3DBatchAsync_v2(n, ops, flags, h);
}

EXPORT CUresult cuMemcpy3DBatchAsync_ptsz(size_t n, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *bad,
	unsigned long long flags, CUstream h)
{
	return cuMemcpy3DBatchAsync(n, ops, bad, flags, PER_THREAD(h));
}

/* The struct is that of one device, with contexts in its reserved fields. */

static CUresult peer_copy(const CUDA_MEMCPY3D_PEER *p, CUstream h, bool wait)
{
	const CUDA_MEMCPY3D *c = (const void *)p;

	return wait ? cuMemcpy3D_v2(c) : cuMemcpy3DAsync_v2(c, h);
}

EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *p)
{
	return peer_copy(p, NULL, true);
}

EXPORT CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *p)
{
	return cuMemcpy3D_v2_ptds((const void *)p);
}

EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *p, CUstream h)
{
	return peer_copy(p, h, false);
}

EXPORT CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *p, CUstream h)
{
	return peer_copy(p, PER_THREAD(h), false);
}

/* Managed memory is always host memory here: moving it does nothing. */

static CUresult check_managed_batch(CUdeviceptr *at, const size_t *bytes, size_t n,
	bool args_ok, CUstream h)
{
	struct sim_cuda_stream *s;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = sim_cuda_find_stream(h, &s);
	if (r == CUDA_SUCCESS && (!args_ok || !n || !at || !bytes))
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n && !r; i++) {
		const struct address_range *range = range_at(at[i]);

		if (!range || range->kind != RANGE_MANAGED)
			r = CUDA_ERROR_INVALID_VALUE;
	}
	return sim_cuda_leave(r);
}

#define ADVISE(name)                                                                          \
	EXPORT CUresult name(CUdeviceptr *at, size_t *bytes, size_t n, CUmemLocation *to,     \
		size_t *first, size_t locations, unsigned long long flags, CUstream h)        \
	{                                                                                     \
		return check_managed_batch(at, bytes, n, to && first && locations && !flags,  \
			h);                                                                   \
	}                                                                                     \
	EXPORT CUresult name##_ptsz(CUdeviceptr *at, size_t *bytes, size_t n,                 \
		CUmemLocation *to, size_t *first, size_t locations, unsigned long long flags, \
		CUstream h)                                                                   \
	{                                                                                     \
		return name(at, bytes, n, to, first, locations, flags, PER_THREAD(h));        \
	}

ADVISE(cuMemPrefetchBatchAsync)
ADVISE(cuMemDiscardAndPrefetchBatchAsync)

EXPORT CUresult cuMemDiscardBatchAsync(CUdeviceptr *at, size_t *bytes, size_t n,
	unsigned long long flags, CUstream h)
{
	return check_managed_batch(at, bytes, n, !flags, h);
}

EXPORT CUresult cuMemDiscardBatchAsync_ptsz(CUdeviceptr *at, size_t *bytes, size_t n,
	unsigned long long flags, CUstream h)
{
	return cuMemDiscardBatchAsync(at, bytes, n, flags, PER_THREAD(h));
}

/* One cooperative kernel for each of several devices, in a stream of that device. */

EXPORT CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned int n,
	unsigned int flags)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = list && n && flags <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n && !r; i++)
		if (!obj_is(list[i].hStream, OBJ_STREAM))
			r = CUDA_ERROR_INVALID_VALUE;
	(void)sim_cuda_leave(r);
	for (unsigned i = 0; i < n && !r; i++) {
		const CUDA_LAUNCH_PARAMS *p = &list[i];
		CUcontext its = NULL, ignored;

		r = cuStreamGetCtx(p->hStream, &its);
		if (r == CUDA_SUCCESS)
			r = cuCtxPushCurrent_v2(its);
		if (r)
			break;
		r = cuLaunchCooperativeKernel(p->function, p->gridDimX, p->gridDimY,
			p->gridDimZ, p->blockDimX, p->blockDimY, p->blockDimZ,
			p->sharedMemBytes, p->hStream, p->kernelParams);
		(void)cuCtxPopCurrent_v2(&ignored);
	}
	return r;
}
