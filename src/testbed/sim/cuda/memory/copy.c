/* SPDX-License-Identifier: Apache-2.0 */

/* Copies and sets bytes, between any two of host, device and arrays. */
#include <string.h>

#include "testbed/sim/cuda/memory/memory.h"
#include "testbed/sim/cuda/stream/stream.h"

enum { TYPE_HOST = 1, TYPE_DEVICE = 2, TYPE_ARRAY = 3, TYPE_UNIFIED = 4 };

/* One side of a copy: the position of its rows. */
struct copy_side {
	CUdeviceptr at;
	uint64_t pitch, slice; /* bytes between rows, between slices */
};

static bool side_of(struct copy_side *s, unsigned type, const void *host, CUdeviceptr device,
	const struct sim_cuda_array *array, uint64_t pitch, uint64_t height,
	const CUDA_MEMCPY3D *c, bool is_src)
{
	uint64_t x = is_src ? c->srcXInBytes : c->dstXInBytes;
	uint64_t y = is_src ? c->srcY : c->dstY, z = is_src ? c->srcZ : c->dstZ;

	switch (type) {
	case TYPE_HOST:
		s->at = (uintptr_t)host;
		break;
	case TYPE_DEVICE:
	case TYPE_UNIFIED:
		s->at = device;
		break;
	case TYPE_ARRAY:
		if (!obj_is(array, OBJ_ARRAY))
			return false;
		s->at = array->at;
		pitch = array->row;
		height = array->slice / (array->row ? array->row : 1);
		break;
	default:
		return false;
	}
	if (!pitch)
		pitch = c->WidthInBytes;
	if (!height)
		height = c->Height;
	s->pitch = pitch;
	s->slice = pitch * height;
	s->at += x + y * pitch + z * s->slice;
	return pitch >= x + c->WidthInBytes || (c->Height == 1 && c->Depth == 1);
}

static bool sides_of(const CUDA_MEMCPY3D *c, struct copy_side *src, struct copy_side *dst)
{
	return side_of(src, c->srcMemoryType, c->srcHost, c->srcDevice,
		       (const struct sim_cuda_array *)c->srcArray, c->srcPitch, c->srcHeight, c,
		       true) &&
	       side_of(dst, c->dstMemoryType, c->dstHost, c->dstDevice,
		       (const struct sim_cuda_array *)c->dstArray, c->dstPitch, c->dstHeight, c,
		       false);
}

bool copy_is_host_side(unsigned type, const void *host, CUdeviceptr device)
{
	CUdeviceptr p = type == TYPE_HOST ? (uintptr_t)host : device;
	const struct address_range *r;

	if (type == TYPE_ARRAY)
		return false;
	if (type == TYPE_HOST)
		return !space_contains(p);
	r = range_at(p);
	return !r || r->kind == RANGE_HOST || r->kind == RANGE_REGISTERED;
}

/* Pageable memory: the program may reuse it when an asynchronous copy returns. */
static bool is_pageable(unsigned type, const void *host, CUdeviceptr device)
{
	CUdeviceptr p = type == TYPE_HOST ? (uintptr_t)host : device;

	return type != TYPE_ARRAY && !space_contains(p) && !range_at(p);
}

static CUresult check_row_mapped(CUdeviceptr p, uint64_t bytes)
{
	struct memory_piece piece;
	CUresult r;

	while (bytes) {
		r = piece_at(p, bytes, &piece);
		if (r)
			return r;
		phys_drop(piece.pin);
		p += piece.bytes;
		bytes -= piece.bytes;
	}
	return CUDA_SUCCESS;
}

CUresult copy_check(const CUDA_MEMCPY3D *c)
{
	struct copy_side src = { 0 }, dst = { 0 };
	CUresult r = CUDA_SUCCESS;

	if (!sides_of(c, &src, &dst))
		return CUDA_ERROR_INVALID_VALUE;
	if (!c->WidthInBytes || !c->Height || !c->Depth)
		return CUDA_SUCCESS;
	/* Checks only the first and the last row. */
	for (unsigned i = 0; i < 2 && !r; i++) {
		uint64_t y = i ? c->Height - 1 : 0, z = i ? c->Depth - 1 : 0;

		r = check_row_mapped(src.at + y * src.pitch + z * src.slice, c->WidthInBytes);
		if (!r)
			r = check_row_mapped(dst.at + y * dst.pitch + z * dst.slice,
				c->WidthInBytes);
	}
	return r;
}

/* Stores an aligned word as a whole, as another thread may poll its value. */
static void store_word_whole(unsigned char *to, const void *from, uint64_t bytes)
{
	uint64_t word = 0;

	if (!bytes || bytes > sizeof(word) || (uintptr_t)to % bytes) {
		memmove(to, from, bytes);
		return;
	}
	memcpy(&word, from, bytes);
	switch (bytes) {
	case 2:
		__atomic_store_n((uint16_t *)(void *)to, (uint16_t)word, __ATOMIC_RELEASE);
		break;
	case 4:
		__atomic_store_n((uint32_t *)(void *)to, (uint32_t)word, __ATOMIC_RELEASE);
		break;
	case 8:
		__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE);
		break;
	default:
		memmove(to, from, bytes);
		break;
	}
}

static CUresult copy_row(CUdeviceptr dst, CUdeviceptr src, uint64_t bytes)
{
	while (bytes) {
		struct memory_piece from, to;
		uint64_t n;
		CUresult r;

		(void)pthread_mutex_lock(&sim_cuda.lock);
		r = piece_at(src, bytes, &from);
		if (r == CUDA_SUCCESS) {
			r = piece_at(dst, bytes, &to);
			if (r)
				phys_drop(from.pin);
		}
		(void)pthread_mutex_unlock(&sim_cuda.lock);
		if (r)
			return r;
		n = from.bytes < to.bytes ? from.bytes : to.bytes;
		store_word_whole(to.cpu, from.cpu, n);
		(void)pthread_mutex_lock(&sim_cuda.lock);
		phys_drop(from.pin);
		phys_drop(to.pin);
		(void)pthread_mutex_unlock(&sim_cuda.lock);
		src += n;
		dst += n;
		bytes -= n;
	}
	return CUDA_SUCCESS;
}

CUresult copy_run(const CUDA_MEMCPY3D *c)
{
	struct copy_side src = { 0 }, dst = { 0 };
	CUresult r = CUDA_SUCCESS;
	bool ok;

	(void)pthread_mutex_lock(&sim_cuda.lock);
	ok = sides_of(c, &src, &dst);
	(void)pthread_mutex_unlock(&sim_cuda.lock);
	if (!ok)
		return CUDA_ERROR_INVALID_VALUE;
	for (uint64_t z = 0; z < c->Depth && !r; z++)
		for (uint64_t y = 0; y < c->Height && !r; y++)
			r = copy_row(dst.at + y * dst.pitch + z * dst.slice,
				src.at + y * src.pitch + z * src.slice, c->WidthInBytes);
	return r;
}

CUresult mem_peek(CUdeviceptr p, void *to, uint64_t bytes)
{
	struct memory_piece piece;
	CUresult r = piece_at(p, bytes, &piece);

	if (r)
		return r;
	if (piece.bytes < bytes) {
		r = CUDA_ERROR_INVALID_VALUE;
	} else if (bytes == 4) {
		uint32_t v = __atomic_load_n((uint32_t *)(void *)piece.cpu, __ATOMIC_ACQUIRE);

		memcpy(to, &v, sizeof(v));
	} else if (bytes == 8) {
		uint64_t v = __atomic_load_n((uint64_t *)(void *)piece.cpu, __ATOMIC_ACQUIRE);

		memcpy(to, &v, sizeof(v));
	} else {
		memcpy(to, piece.cpu, bytes);
	}
	phys_drop(piece.pin);
	return r;
}

CUresult mem_write(CUdeviceptr p, const void *from, uint64_t bytes)
{
	struct memory_piece piece;
	CUresult r;

	(void)pthread_mutex_lock(&sim_cuda.lock);
	r = piece_at(p, bytes, &piece);
	if (r == CUDA_SUCCESS && piece.bytes >= bytes)
		store_word_whole(piece.cpu, from, bytes);
	if (r == CUDA_SUCCESS)
		phys_drop(piece.pin);
	return sim_cuda_leave(r);
}

/* --- setting --- */

CUresult set_check(const CUDA_MEMSET_NODE_PARAMS *s)
{
	uint64_t row = s->width * s->elementSize;

	if (s->dst % s->elementSize)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->height > 1 && (s->pitch < row || s->pitch % s->elementSize))
		return CUDA_ERROR_INVALID_VALUE;
	if (!row || !s->height)
		return CUDA_SUCCESS;
	if (!range_at(s->dst))
		return CUDA_ERROR_INVALID_VALUE;
	return check_row_mapped(s->dst + (s->height - 1) * s->pitch, row);
}

/*
 * @phase: bytes of the row before @to. Stores elements as a whole, as a GPU does: another thread may poll the
 * value of one.
 */
static void fill_elements(unsigned char *to, uint64_t bytes, uint64_t phase, unsigned v,
	unsigned size)
{
	unsigned char pattern[4];

	if (size == 1) {
		memset(to, (int)(v & 0xFF), bytes);
		return;
	}
	memcpy(pattern, &v, sizeof(pattern));
	while (bytes) {
		uint64_t n = 1;

		if (phase % size == 0 && bytes >= size) {
			n = size;
			store_word_whole(to, pattern, n);
		} else { /* an element across two pieces */
			*to = pattern[phase % size];
		}
		to += n;
		phase += n;
		bytes -= n;
	}
}

CUresult set_run(const CUDA_MEMSET_NODE_PARAMS *s)
{
	for (uint64_t y = 0; y < s->height; y++) {
		CUdeviceptr at = s->dst + y * s->pitch;
		uint64_t left = s->width * s->elementSize, done = 0;

		while (left) {
			struct memory_piece piece;
			CUresult r;

			(void)pthread_mutex_lock(&sim_cuda.lock);
			r = piece_at(at, left, &piece);
			(void)pthread_mutex_unlock(&sim_cuda.lock);
			if (r)
				return r;
			fill_elements(piece.cpu, piece.bytes, done, s->value, s->elementSize);
			(void)pthread_mutex_lock(&sim_cuda.lock);
			phys_drop(piece.pin);
			(void)pthread_mutex_unlock(&sim_cuda.lock);
			at += piece.bytes;
			left -= piece.bytes;
			done += piece.bytes;
		}
	}
	return CUDA_SUCCESS;
}

/* --- API functions --- */

/* @wait: returns after the copy. Asynchronous copies with pageable memory wait too. */
static CUresult submit_memcpy(CUDA_MEMCPY3D c, CUstream h, bool wait)
{
	struct cuda_work w = { .kind = WORK_COPY, .copy = c };
	struct sim_cuda_stream *s;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = sim_cuda_find_stream(h, &s);
	if (r || !c.WidthInBytes || !c.Height || !c.Depth)
		return sim_cuda_leave(r);
	if (s->capture) {
		if (!wait)
			return sim_cuda_leave(capture_add_work(s, &w));
		return sim_cuda_leave(capture_unsafe_in(s));
	}
	r = s->kind == STREAM_LEGACY ? capture_legacy(s->ctx) : CUDA_SUCCESS;
	if (r == CUDA_SUCCESS)
		r = copy_check(&c);
	if (!wait)
		wait = is_pageable(c.srcMemoryType, c.srcHost, c.srcDevice) ||
		       is_pageable(c.dstMemoryType, c.dstHost, c.dstDevice);
	(void)sim_cuda_leave(r);
	if (r)
		return r;
	return wait ? sim_cuda_submit_and_wait(h, &w) : stream_submit_work(h, &w);
}

static CUDA_MEMCPY3D build_linear_copy(unsigned dst_type, CUdeviceptr dst, unsigned src_type,
	CUdeviceptr src, size_t bytes)
{
	return (CUDA_MEMCPY3D){ .srcMemoryType = src_type,
		.srcHost = (const void *)(uintptr_t)src,
		.srcDevice = src,
		.srcPitch = bytes,
		.srcHeight = 1,
		.dstMemoryType = dst_type,
		.dstHost = (void *)(uintptr_t)dst,
		.dstDevice = dst,
		.dstPitch = bytes,
		.dstHeight = 1,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1 };
}

#define AT(p) ((CUdeviceptr)(uintptr_t)(p))

/* The versions of a flat copy: synchronous with _ptds, asynchronous with _ptsz. */
#define FLAT(name, suffix, dst_arg, dst_type, src_arg, src_type)                              \
	EXPORT CUresult cuMemcpy##name##suffix(dst_arg dst, src_arg src, size_t bytes)        \
	{                                                                                     \
		return submit_memcpy(                                                         \
			build_linear_copy(dst_type, AT(dst), src_type, AT(src), bytes), NULL, \
			true);                                                                \
	}                                                                                     \
	EXPORT CUresult cuMemcpy##name##suffix##_ptds(dst_arg dst, src_arg src, size_t bytes) \
	{                                                                                     \
		return submit_memcpy(                                                         \
			build_linear_copy(dst_type, AT(dst), src_type, AT(src), bytes),       \
			CU_STREAM_PER_THREAD, true);                                          \
	}                                                                                     \
	EXPORT CUresult cuMemcpy##name##Async##suffix(dst_arg dst, src_arg src, size_t bytes, \
		CUstream h)                                                                   \
	{                                                                                     \
		return submit_memcpy(                                                         \
			build_linear_copy(dst_type, AT(dst), src_type, AT(src), bytes), h,    \
			false);                                                               \
	}                                                                                     \
	EXPORT CUresult cuMemcpy##name##Async##suffix##_ptsz(dst_arg dst, src_arg src,        \
		size_t bytes, CUstream h)                                                     \
	{                                                                                     \
		return submit_memcpy(                                                         \
			build_linear_copy(dst_type, AT(dst), src_type, AT(src), bytes),       \
			PER_THREAD(h), false);                                                \
	}

FLAT(HtoD, _v2, CUdeviceptr, TYPE_DEVICE, const void *, TYPE_HOST)
FLAT(DtoH, _v2, void *, TYPE_HOST, CUdeviceptr, TYPE_DEVICE)
FLAT(DtoD, _v2, CUdeviceptr, TYPE_DEVICE, CUdeviceptr, TYPE_DEVICE)
FLAT(, , CUdeviceptr, TYPE_UNIFIED, CUdeviceptr, TYPE_UNIFIED)

EXPORT CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
	CUcontext src_ctx, size_t bytes)
{
	(void)dst_ctx;
	(void)src_ctx;
	return cuMemcpyDtoD_v2(dst, src, bytes);
}

EXPORT CUresult cuMemcpyPeer_ptds(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
	CUcontext src_ctx, size_t bytes)
{
	(void)dst_ctx;
	(void)src_ctx;
	return cuMemcpyDtoD_v2_ptds(dst, src, bytes);
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
	CUcontext src_ctx, size_t bytes, CUstream h)
{
	(void)dst_ctx;
	(void)src_ctx;
	return cuMemcpyDtoDAsync_v2(dst, src, bytes, h);
}

EXPORT CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
	CUcontext src_ctx, size_t bytes, CUstream h)
{
	return cuMemcpyPeerAsync(dst, dst_ctx, src, src_ctx, bytes, PER_THREAD(h));
}

static CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D *c)
{
	return (CUDA_MEMCPY3D){ .srcXInBytes = c->srcXInBytes,
		.srcY = c->srcY,
		.srcMemoryType = c->srcMemoryType,
		.srcHost = c->srcHost,
		.srcDevice = c->srcDevice,
		.srcArray = c->srcArray,
		.srcPitch = c->srcPitch,
		.dstXInBytes = c->dstXInBytes,
		.dstY = c->dstY,
		.dstMemoryType = c->dstMemoryType,
		.dstHost = c->dstHost,
		.dstDevice = c->dstDevice,
		.dstArray = c->dstArray,
		.dstPitch = c->dstPitch,
		.WidthInBytes = c->WidthInBytes,
		.Height = c->Height,
		.Depth = 1 };
}

EXPORT CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *c)
{
	return c ? submit_memcpy(from_2d(c), NULL, true) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *c)
{
	return c ? submit_memcpy(from_2d(c), CU_STREAM_PER_THREAD, true)
		 : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c)
{
	return cuMemcpy2D_v2(c);
}

EXPORT CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *c)
{
	return cuMemcpy2D_v2_ptds(c);
}

EXPORT CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream h)
{
	return c ? submit_memcpy(from_2d(c), h, false) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *c, CUstream h)
{
	return cuMemcpy2DAsync_v2(c, PER_THREAD(h));
}

EXPORT CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *c)
{
	return c ? submit_memcpy(*c, NULL, true) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *c)
{
	return c ? submit_memcpy(*c, CU_STREAM_PER_THREAD, true) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *c, CUstream h)
{
	return c ? submit_memcpy(*c, h, false) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *c, CUstream h)
{
	return cuMemcpy3DAsync_v2(c, PER_THREAD(h));
}

/* --- arrays, as one row --- */

static CUresult array_copy(CUarray dst_array, CUdeviceptr dst, CUarray src_array,
	CUdeviceptr src, size_t offset_dst, size_t offset_src, size_t bytes, CUstream h,
	bool wait)
{
	CUDA_MEMCPY3D c = build_linear_copy(dst_array ? TYPE_ARRAY : TYPE_UNIFIED, dst,
		src_array ? TYPE_ARRAY : TYPE_UNIFIED, src, bytes);

	c.dstArray = dst_array;
	c.srcArray = src_array;
	c.dstXInBytes = offset_dst;
	c.srcXInBytes = offset_src;
	return submit_memcpy(c, h, wait);
}

#define ARRAY_PAIR(name, params, ...)                                       \
	EXPORT CUresult cuMemcpy##name##_v2 params                          \
	{                                                                   \
		return array_copy(__VA_ARGS__, NULL, true);                 \
	}                                                                   \
	EXPORT CUresult cuMemcpy##name##_v2_ptds params                     \
	{                                                                   \
		return array_copy(__VA_ARGS__, CU_STREAM_PER_THREAD, true); \
	}

ARRAY_PAIR(AtoA, (CUarray dst, size_t to, CUarray src, size_t from, size_t bytes), dst, 0, src,
	0, to, from, bytes)
ARRAY_PAIR(AtoD, (CUdeviceptr dst, CUarray src, size_t from, size_t bytes), NULL, dst, src, 0,
	0, from, bytes)
ARRAY_PAIR(DtoA, (CUarray dst, size_t to, CUdeviceptr src, size_t bytes), dst, 0, NULL, src, to,
	0, bytes)
ARRAY_PAIR(AtoH, (void *dst, CUarray src, size_t from, size_t bytes), NULL, AT(dst), src, 0, 0,
	from, bytes)
ARRAY_PAIR(HtoA, (CUarray dst, size_t to, const void *src, size_t bytes), dst, 0, NULL, AT(src),
	to, 0, bytes)

EXPORT CUresult cuMemcpyAtoHAsync_v2(void *dst, CUarray src, size_t from, size_t bytes,
	CUstream h)
{
	return array_copy(NULL, AT(dst), src, 0, 0, from, bytes, h, false);
}

EXPORT CUresult cuMemcpyAtoHAsync_v2_ptsz(void *dst, CUarray src, size_t from, size_t bytes,
	CUstream h)
{
	return cuMemcpyAtoHAsync_v2(dst, src, from, bytes, PER_THREAD(h));
}

EXPORT CUresult cuMemcpyHtoAAsync_v2(CUarray dst, size_t to, const void *src, size_t bytes,
	CUstream h)
{
	return array_copy(dst, 0, NULL, AT(src), to, 0, bytes, h, false);
}

EXPORT CUresult cuMemcpyHtoAAsync_v2_ptsz(CUarray dst, size_t to, const void *src, size_t bytes,
	CUstream h)
{
	return cuMemcpyHtoAAsync_v2(dst, to, src, bytes, PER_THREAD(h));
}

/* --- memset --- */

static CUresult submit_memset(CUDA_MEMSET_NODE_PARAMS p, CUstream h, bool wait)
{
	struct cuda_work w = { .kind = WORK_SET, .set = p };
	struct sim_cuda_stream *s;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = sim_cuda_find_stream(h, &s);
	if (r == CUDA_SUCCESS && !s->capture)
		r = set_check(&p);
	(void)sim_cuda_leave(r);
	if (r || !p.width || !p.height)
		return r;
	return wait ? sim_cuda_submit_and_wait(h, &w) : stream_submit_work(h, &w);
}

static CUDA_MEMSET_NODE_PARAMS build_memset_row(CUdeviceptr p, unsigned v, unsigned size,
	size_t n)
{
	return (CUDA_MEMSET_NODE_PARAMS){ .dst = p,
		.value = v,
		.elementSize = size,
		.width = n,
		.height = 1 };
}

static CUDA_MEMSET_NODE_PARAMS build_memset_rows(CUdeviceptr p, size_t pitch, unsigned v,
	unsigned size, size_t width, size_t height)
{
	return (CUDA_MEMSET_NODE_PARAMS){ .dst = p,
		.pitch = pitch,
		.value = v,
		.elementSize = size,
		.width = width,
		.height = height };
}

#define MEMSET(bits, type)                                                                     \
	EXPORT CUresult cuMemsetD##bits##_v2(CUdeviceptr p, type v, size_t n)                  \
	{                                                                                      \
		return submit_memset(build_memset_row(p, v, (bits) / 8, n), NULL, true);       \
	}                                                                                      \
	EXPORT CUresult cuMemsetD##bits##_v2_ptds(CUdeviceptr p, type v, size_t n)             \
	{                                                                                      \
		return submit_memset(build_memset_row(p, v, (bits) / 8, n),                    \
			CU_STREAM_PER_THREAD, true);                                           \
	}                                                                                      \
	EXPORT CUresult cuMemsetD##bits##Async(CUdeviceptr p, type v, size_t n, CUstream h)    \
	{                                                                                      \
		return submit_memset(build_memset_row(p, v, (bits) / 8, n), h, false);         \
	}                                                                                      \
	EXPORT CUresult cuMemsetD##bits##Async_ptsz(CUdeviceptr p, type v, size_t n,           \
		CUstream h)                                                                    \
	{                                                                                      \
		return submit_memset(build_memset_row(p, v, (bits) / 8, n), PER_THREAD(h),     \
			false);                                                                \
	}                                                                                      \
	EXPORT CUresult cuMemsetD2D##bits##_v2(CUdeviceptr p, size_t pitch, type v, size_t w,  \
		size_t height)                                                                 \
	{                                                                                      \
		return submit_memset(build_memset_rows(p, pitch, v, (bits) / 8, w, height),    \
			NULL, true);                                                           \
	}                                                                                      \
	EXPORT CUresult cuMemsetD2D##bits##_v2_ptds(CUdeviceptr p, size_t pitch, type v,       \
		size_t w, size_t height)                                                       \
	{                                                                                      \
		return submit_memset(build_memset_rows(p, pitch, v, (bits) / 8, w, height),    \
			CU_STREAM_PER_THREAD, true);                                           \
	}                                                                                      \
	EXPORT CUresult cuMemsetD2D##bits##Async(CUdeviceptr p, size_t pitch, type v,          \
		size_t w, size_t height, CUstream h)                                           \
	{                                                                                      \
		return submit_memset(build_memset_rows(p, pitch, v, (bits) / 8, w, height), h, \
			false);                                                                \
	}                                                                                      \
	EXPORT CUresult cuMemsetD2D##bits##Async_ptsz(CUdeviceptr p, size_t pitch, type v,     \
		size_t w, size_t height, CUstream h)                                           \
	{                                                                                      \
		return submit_memset(build_memset_rows(p, pitch, v, (bits) / 8, w, height),    \
			PER_THREAD(h), false);                                                 \
	}

MEMSET(8, unsigned char)
MEMSET(16, unsigned short)
MEMSET(32, unsigned int)
