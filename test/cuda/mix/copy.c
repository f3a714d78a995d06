/* SPDX-License-Identifier: Apache-2.0 */

/* All forms of copying and filling. Those that wait do not wait for our stream: it is settled before. */
#include "cuda/mix/mix.h"

#include <string.h>

#define MEMORY_DEVICE 2

/* Between two places of the device that do not overlap, and equally long. */
struct pair {
	struct mix_span to, from;
};

static struct pair pick_pair(struct mix *m)
{
	struct pair p = { .to = mix_span(m) };

	p.from = p.to;
	p.from.buffer = !p.to.buffer;
	p.from.first = mix_random(m, MIX_WORDS - p.to.count + 1);
	return p;
}

static void copy_shadow(const struct mix *m, struct pair p)
{
	memcpy(mix_shadow(m, p.to), mix_shadow(m, p.from), MIX_BYTES(p.to));
}

/* name: a copy inside the device. @settle: it is not in our stream; @call may use to, from, bytes. */
#define INSIDE(step, function, settle, ...)                              \
	static bool step(struct mix *m)                                  \
	{                                                                \
		struct pair p = pick_pair(m);                            \
		CUdeviceptr to = mix_at(m, p.to);                        \
		CUdeviceptr from = mix_at(m, p.from);                    \
		size_t bytes = MIX_BYTES(p.to);                          \
                                                                         \
		MIX_NEED(function);                                      \
		if (settle)                                              \
			mix_settle(m);                                   \
		MIX_GIVEN(cu.function(__VA_ARGS__), #function);          \
		if (settle)                                              \
			must(cu.cuCtxSynchronize(), "cuCtxSynchronize"); \
		copy_shadow(m, p);                                       \
		return true;                                             \
	}

INSIDE(d2d, cuMemcpyDtoD_v2, true, to, from, bytes)
INSIDE(d2d_ptds, cuMemcpyDtoD_v2_ptds, true, to, from, bytes)
INSIDE(d2d_async, cuMemcpyDtoDAsync_v2, false, to, from, bytes, m->stream)
INSIDE(d2d_async_ptsz, cuMemcpyDtoDAsync_v2_ptsz, false, to, from, bytes, m->stream)
INSIDE(any, cuMemcpy, true, to, from, bytes)
INSIDE(any_ptds, cuMemcpy_ptds, true, to, from, bytes)
INSIDE(any_async, cuMemcpyAsync, false, to, from, bytes, m->stream)
INSIDE(any_async_ptsz, cuMemcpyAsync_ptsz, false, to, from, bytes, m->stream)
INSIDE(peer_near, cuMemcpyPeer, true, to, m->context, from, m->context, bytes)
INSIDE(peer_near_async, cuMemcpyPeerAsync, false, to, m->context, from, m->context, bytes,
	m->stream)

/* Copies to the other context and back to another place. */
static bool copy_to_peer(struct mix *m)
{
	struct pair p = pick_pair(m);

	mix_settle(m);
	MIX_TRY(cu.cuMemcpyPeer(m->far, m->other, mix_at(m, p.from), m->context,
		MIX_BYTES(p.to)));
	MIX_TRY(cu.cuMemcpyPeer(mix_at(m, p.to), m->context, m->far, m->other,
		MIX_BYTES(p.to)));
	must(cu.cuCtxSynchronize(), "cuCtxSynchronize");
	copy_shadow(m, p);
	return true;
}

static bool peer_async(struct mix *m)
{
	struct pair p = pick_pair(m);

	MIX_TRY(cu.cuMemcpyPeerAsync(m->far, m->other, mix_at(m, p.from), m->context,
		MIX_BYTES(p.to), m->stream));
	MIX_TRY(cu.cuMemcpyPeerAsync(mix_at(m, p.to), m->context, m->far, m->other,
		MIX_BYTES(p.to), m->stream));
	copy_shadow(m, p);
	return true;
}

static bool copy_in_batch(struct mix *m)
{
	CUmemcpyAttributes attributes = { .srcAccessOrder = 1 };
	struct pair p[4];
	CUdeviceptr to[4], from[4];
	size_t bytes[4], first = 0;

	MIX_NEED(cuMemcpyBatchAsync_v2);
	/* The copies of a batch have no order, so their buffers do not overlap: quarters of one buffer to
	 * those of the other. */
	for (unsigned int i = 0; i < 4; i++) {
		p[i].to = (struct mix_span){ MIX_X, i * MIX_WORDS / 4, MIX_WORDS / 4 };
		p[i].from = (struct mix_span){ MIX_Y, (3 - i) * MIX_WORDS / 4, MIX_WORDS / 4 };
		to[i] = mix_at(m, p[i].to);
		from[i] = mix_at(m, p[i].from);
		bytes[i] = MIX_BYTES(p[i].to);
	}
	MIX_TRY(cu.cuMemcpyBatchAsync_v2(to, from, bytes, 4, &attributes, &first, 1,
		m->stream));
	for (unsigned int i = 0; i < 4; i++)
		copy_shadow(m, p[i]);
	return true;
}

/* --- between host and device --- */

static void make_host(struct mix *m, uint32_t *host, unsigned int count)
{
	uint32_t v = mix_random(m, UINT32_MAX);

	for (unsigned int i = 0; i < count; i++)
		host[i] = v + i * 2654435761U;
}

/* The driver may read the host's words until the copy is done: where a function returns earlier, the step
 * waits. */
#define TO_DEVICE(step, function, host_of, settle, ...)          \
	static bool step(struct mix *m)                          \
	{                                                        \
		struct mix_span s = mix_span(m);                 \
		uint32_t *host = m->host_of;                     \
		CUdeviceptr to = mix_at(m, s);                   \
		size_t bytes = MIX_BYTES(s);                     \
                                                                 \
		MIX_NEED(function);                              \
		make_host(m, host, s.count);                     \
		if (settle)                                      \
			mix_settle(m);                           \
		MIX_GIVEN(cu.function(__VA_ARGS__), #function);  \
		memcpy(mix_shadow(m, s), host, bytes);           \
		must(cu.cuCtxSynchronize(), "cuCtxSynchronize"); \
		return true;                                     \
	}

TO_DEVICE(h2d, cuMemcpyHtoD_v2, pageable, true, to, host, bytes)
TO_DEVICE(h2d_ptds, cuMemcpyHtoD_v2_ptds, pinned, true, to, host, bytes)
TO_DEVICE(h2d_async, cuMemcpyHtoDAsync_v2, pinned, false, to, host, bytes, m->stream)
TO_DEVICE(h2d_async_pageable, cuMemcpyHtoDAsync_v2, pageable, false, to, host, bytes, m->stream)
TO_DEVICE(h2d_async_ptsz, cuMemcpyHtoDAsync_v2_ptsz, pinned, false, to, host, bytes, m->stream)

static void expect_host(const struct mix *m, struct mix_span s, const uint32_t *host)
{
	if (memcmp(host, mix_shadow(m, s), MIX_BYTES(s)) != 0)
		mix_fail(m, "what came to the host is not what was there");
}

#define FROM_DEVICE(step, function, host_of, settle, ...)       \
	static bool step(struct mix *m)                         \
	{                                                       \
		struct mix_span s = mix_span(m);                \
		uint32_t *host = m->host_of;                    \
		CUdeviceptr from = mix_at(m, s);                \
		size_t bytes = MIX_BYTES(s);                    \
                                                                \
		MIX_NEED(function);                             \
		if (settle)                                     \
			mix_settle(m);                          \
		MIX_GIVEN(cu.function(__VA_ARGS__), #function); \
		if (!(settle))                                  \
			mix_settle(m);                          \
		expect_host(m, s, host);                        \
		return true;                                    \
	}

FROM_DEVICE(d2h, cuMemcpyDtoH_v2, pageable, true, host, from, bytes)
FROM_DEVICE(d2h_ptds, cuMemcpyDtoH_v2_ptds, pinned, true, host, from, bytes)
FROM_DEVICE(d2h_async, cuMemcpyDtoHAsync_v2, pinned, false, host, from, bytes, m->stream)
FROM_DEVICE(d2h_async_pageable, cuMemcpyDtoHAsync_v2, pageable, false, host, from, bytes,
	m->stream)
FROM_DEVICE(d2h_async_ptsz, cuMemcpyDtoHAsync_v2_ptsz, pinned, false, host, from, bytes,
	m->stream)

/* Rows of a buffer: a rectangle of words. */
struct rectangle {
	unsigned int to, from; /* buffers */
	unsigned int tx, ty, fx, fy, width, height;
};

static struct rectangle pick_rectangle(struct mix *m)
{
	struct rectangle r = { .to = mix_random(m, MIX_BUFFERS) };

	r.from = !r.to;
	r.width = 1 + mix_random(m, MIX_ROW);
	r.height = 1 + mix_random(m, MIX_ROWS);
	r.tx = mix_random(m, MIX_ROW - r.width + 1);
	r.fx = mix_random(m, MIX_ROW - r.width + 1);
	r.ty = mix_random(m, MIX_ROWS - r.height + 1);
	r.fy = mix_random(m, MIX_ROWS - r.height + 1);
	return r;
}

static void rectangle_copied(const struct mix *m, const struct rectangle *r)
{
	for (unsigned int y = 0; y < r->height; y++)
		memcpy(m->shadow[r->to] + (r->ty + y) * MIX_ROW + r->tx,
			m->shadow[r->from] + (r->fy + y) * MIX_ROW + r->fx,
			(size_t)r->width * 4);
}

static CUDA_MEMCPY2D flat_of(const struct mix *m, const struct rectangle *r)
{
	return (CUDA_MEMCPY2D){ .srcXInBytes = (size_t)r->fx * 4,
		.srcY = r->fy,
		.srcMemoryType = MEMORY_DEVICE,
		.srcDevice = m->at[r->from],
		.srcPitch = (size_t)MIX_ROW * 4,
		.dstXInBytes = (size_t)r->tx * 4,
		.dstY = r->ty,
		.dstMemoryType = MEMORY_DEVICE,
		.dstDevice = m->at[r->to],
		.dstPitch = (size_t)MIX_ROW * 4,
		.WidthInBytes = (size_t)r->width * 4,
		.Height = r->height };
}

/* The rectangle as a 3D copy: slices of one row of words each. */
static CUDA_MEMCPY3D deep_of(const struct mix *m, const struct rectangle *r)
{
	return (CUDA_MEMCPY3D){ .srcXInBytes = (size_t)r->fx * 4,
		.srcZ = r->fy,
		.srcMemoryType = MEMORY_DEVICE,
		.srcDevice = m->at[r->from],
		.srcPitch = (size_t)MIX_ROW * 4,
		.srcHeight = 1,
		.dstXInBytes = (size_t)r->tx * 4,
		.dstZ = r->ty,
		.dstMemoryType = MEMORY_DEVICE,
		.dstDevice = m->at[r->to],
		.dstPitch = (size_t)MIX_ROW * 4,
		.dstHeight = 1,
		.WidthInBytes = (size_t)r->width * 4,
		.Height = 1,
		.Depth = r->height };
}

#define ROWS(step, function, type, make, settle, ...)                    \
	static bool step(struct mix *m)                                  \
	{                                                                \
		struct rectangle r = pick_rectangle(m);                  \
		type c = make(m, &r);                                    \
                                                                         \
		MIX_NEED(function);                                      \
		if (settle)                                              \
			mix_settle(m);                                   \
		MIX_GIVEN(cu.function(__VA_ARGS__), #function);          \
		if (settle)                                              \
			must(cu.cuCtxSynchronize(), "cuCtxSynchronize"); \
		rectangle_copied(m, &r);                                 \
		return true;                                             \
	}

ROWS(copy_2d, cuMemcpy2D_v2, CUDA_MEMCPY2D, flat_of, true, &c)
ROWS(copy_2d_ptds, cuMemcpy2D_v2_ptds, CUDA_MEMCPY2D, flat_of, true, &c)
ROWS(unaligned, cuMemcpy2DUnaligned_v2, CUDA_MEMCPY2D, flat_of, true, &c)
ROWS(copy_2d_async, cuMemcpy2DAsync_v2, CUDA_MEMCPY2D, flat_of, false, &c, m->stream)
ROWS(copy_2d_async_ptsz, cuMemcpy2DAsync_v2_ptsz, CUDA_MEMCPY2D, flat_of, false, &c, m->stream)
ROWS(copy_3d, cuMemcpy3D_v2, CUDA_MEMCPY3D, deep_of, true, &c)
ROWS(copy_3d_async, cuMemcpy3DAsync_v2, CUDA_MEMCPY3D, deep_of, false, &c, m->stream)
ROWS(copy_3d_async_ptsz, cuMemcpy3DAsync_v2_ptsz, CUDA_MEMCPY3D, deep_of, false, &c, m->stream)

/* The same structure, with a context in each reserved field. */
static CUDA_MEMCPY3D peer_of(const struct mix *m, const struct rectangle *r)
{
	CUDA_MEMCPY3D c = deep_of(m, r);
	CUcontext context = m->context;

	memcpy((char *)&c + offsetof(CUDA_MEMCPY3D, reserved0), &context, sizeof(context));
	memcpy((char *)&c + offsetof(CUDA_MEMCPY3D, reserved1), &context, sizeof(context));
	return c;
}

ROWS(peer_3d, cuMemcpy3DPeer, CUDA_MEMCPY3D, peer_of, true, (const void *)&c)
ROWS(peer_3d_async, cuMemcpy3DPeerAsync, CUDA_MEMCPY3D, peer_of, false, (const void *)&c,
	m->stream)

static bool batch_3d(struct mix *m)
{
	struct rectangle r = pick_rectangle(m);
	CUDA_MEMCPY3D_BATCH_OP op = { .srcAccessOrder = 1 };

	MIX_NEED(cuMemcpy3DBatchAsync_v2);
	op.extent.width = (size_t)r.width * 4;
	op.extent.height = r.height;
	op.extent.depth = 1;
	op.src.type = op.dst.type = 1;
	op.src.op.ptr.ptr = m->at[r.from] + ((CUdeviceptr)r.fy * MIX_ROW + r.fx) * 4;
	op.dst.op.ptr.ptr = m->at[r.to] + ((CUdeviceptr)r.ty * MIX_ROW + r.tx) * 4;
	op.src.op.ptr.rowLength = op.dst.op.ptr.rowLength = (size_t)MIX_ROW * 4;
	op.src.op.ptr.layerHeight = op.dst.op.ptr.layerHeight = MIX_ROWS;
	op.src.op.ptr.locHint.type = op.dst.op.ptr.locHint.type = CU_MEM_LOCATION_TYPE_DEVICE;
	op.src.op.ptr.locHint.id = op.dst.op.ptr.locHint.id = m->device;
	MIX_TRY(cu.cuMemcpy3DBatchAsync_v2(1, &op, 0, m->stream));
	rectangle_copied(m, &r);
	return true;
}

/* --- through arrays of one row --- */

static bool through_arrays(struct mix *m)
{
	struct pair p = pick_pair(m);
	size_t to = (size_t)p.to.first * 4, from = (size_t)p.from.first * 4;
	size_t bytes = MIX_BYTES(p.to);

	mix_settle(m);
	MIX_TRY(cu.cuMemcpyDtoA_v2(m->arrays[0], from, mix_at(m, p.from), bytes));
	MIX_TRY(cu.cuMemcpyAtoA_v2(m->arrays[1], to, m->arrays[0], from, bytes));
	MIX_TRY(cu.cuMemcpyAtoD_v2(mix_at(m, p.to), m->arrays[1], to, bytes));
	must(cu.cuCtxSynchronize(), "cuCtxSynchronize");
	copy_shadow(m, p);
	return true;
}

static bool arrays_and_host(struct mix *m)
{
	struct mix_span s = mix_span(m);
	size_t at = (size_t)s.first * 4, bytes = MIX_BYTES(s);

	make_host(m, m->pageable, s.count);
	mix_settle(m);
	MIX_TRY(cu.cuMemcpyHtoA_v2(m->arrays[0], at, m->pageable, bytes));
	MIX_TRY(cu.cuMemcpyAtoH_v2(m->pinned, m->arrays[0], at, bytes));
	MIX_TRY(cu.cuMemcpyHtoAAsync_v2(m->arrays[1], at, m->pinned, bytes, m->stream));
	mix_settle(m);
	memset(m->pinned, 0, bytes);
	MIX_TRY(cu.cuMemcpyAtoHAsync_v2(m->pinned, m->arrays[1], at, bytes, m->stream));
	mix_settle(m);
	if (memcmp(m->pinned, m->pageable, bytes) != 0)
		mix_fail(m, "what came back from an array is not what was there");
	return true;
}

/* --- fills --- */

static void fill_shadow(const struct mix *m, struct mix_span s, uint32_t v, unsigned int size)
{
	unsigned char *to = (unsigned char *)mix_shadow(m, s);

	for (size_t i = 0; i < MIX_BYTES(s); i++)
		to[i] = (unsigned char)(v >> i % size * 8);
}

#define FILL(step, function, type, size, settle, ...)                    \
	static bool step(struct mix *m)                                  \
	{                                                                \
		struct mix_span s = mix_span(m);                         \
		CUdeviceptr to = mix_at(m, s);                           \
		size_t n = MIX_BYTES(s) / (size);                        \
		type v = (type)mix_random(m, UINT32_MAX);                \
                                                                         \
		MIX_NEED(function);                                      \
		if (settle)                                              \
			mix_settle(m);                                   \
		MIX_GIVEN(cu.function(__VA_ARGS__), #function);          \
		if (settle)                                              \
			must(cu.cuCtxSynchronize(), "cuCtxSynchronize"); \
		fill_shadow(m, s, v, size);                              \
		return true;                                             \
	}

FILL(fill8, cuMemsetD8_v2, unsigned char, 1, true, to, v, n)
FILL(fill16, cuMemsetD16_v2, unsigned short, 2, true, to, v, n)
FILL(fill32, cuMemsetD32_v2, unsigned int, 4, true, to, v, n)
FILL(fill32_ptds, cuMemsetD32_v2_ptds, unsigned int, 4, true, to, v, n)
FILL(fill8_async, cuMemsetD8Async, unsigned char, 1, false, to, v, n, m->stream)
FILL(fill16_async, cuMemsetD16Async, unsigned short, 2, false, to, v, n, m->stream)
FILL(fill32_async, cuMemsetD32Async, unsigned int, 4, false, to, v, n, m->stream)
FILL(fill32_async_ptsz, cuMemsetD32Async_ptsz, unsigned int, 4, false, to, v, n, m->stream)

static void rectangle_filled(const struct mix *m, const struct rectangle *r, uint32_t v,
	unsigned int size)
{
	for (unsigned int y = 0; y < r->height; y++)
		fill_shadow(m,
			(struct mix_span){ r->to, (r->ty + y) * MIX_ROW + r->tx, r->width }, v,
			size);
}

#define FILL_ROWS(step, function, type, size, settle, ...)                               \
	static bool step(struct mix *m)                                                  \
	{                                                                                \
		struct rectangle r = pick_rectangle(m);                                  \
		CUdeviceptr to = m->at[r.to] + ((CUdeviceptr)r.ty * MIX_ROW + r.tx) * 4; \
		size_t pitch = (size_t)MIX_ROW * 4, n = (size_t)r.width * 4 / (size);    \
		type v = (type)mix_random(m, UINT32_MAX);                                \
                                                                                         \
		MIX_NEED(function);                                                      \
		if (settle)                                                              \
			mix_settle(m);                                                   \
		MIX_GIVEN(cu.function(__VA_ARGS__), #function);                          \
		if (settle)                                                              \
			must(cu.cuCtxSynchronize(), "cuCtxSynchronize");                 \
		rectangle_filled(m, &r, v, size);                                        \
		return true;                                                             \
	}

FILL_ROWS(rows8, cuMemsetD2D8_v2, unsigned char, 1, true, to, pitch, v, n, r.height)
FILL_ROWS(rows16, cuMemsetD2D16_v2, unsigned short, 2, true, to, pitch, v, n, r.height)
FILL_ROWS(rows32, cuMemsetD2D32_v2, unsigned int, 4, true, to, pitch, v, n, r.height)
FILL_ROWS(rows8_async, cuMemsetD2D8Async, unsigned char, 1, false, to, pitch, v, n, r.height,
	m->stream)
FILL_ROWS(rows16_async, cuMemsetD2D16Async, unsigned short, 2, false, to, pitch, v, n, r.height,
	m->stream)
FILL_ROWS(rows32_async, cuMemsetD2D32Async, unsigned int, 4, false, to, pitch, v, n, r.height,
	m->stream)

const struct mix_step mix_copy_steps[] = {
	{ "copy-device", d2d },
	{ "copy-device-ptds", d2d_ptds },
	{ "copy-device-async", d2d_async },
	{ "copy-device-async-ptsz", d2d_async_ptsz },
	{ "copy-any", any },
	{ "copy-any-ptds", any_ptds },
	{ "copy-any-async", any_async },
	{ "copy-any-async-ptsz", any_async_ptsz },
	{ "copy-peer-near", peer_near },
	{ "copy-peer-near-async", peer_near_async },
	{ "copy-peer", copy_to_peer },
	{ "copy-peer-async", peer_async },
	{ "copy-batch", copy_in_batch },
	{ "copy-to", h2d },
	{ "copy-to-ptds", h2d_ptds },
	{ "copy-to-async", h2d_async },
	{ "copy-to-async-pageable", h2d_async_pageable },
	{ "copy-to-async-ptsz", h2d_async_ptsz },
	{ "copy-from", d2h },
	{ "copy-from-ptds", d2h_ptds },
	{ "copy-from-async", d2h_async },
	{ "copy-from-async-pageable", d2h_async_pageable },
	{ "copy-from-async-ptsz", d2h_async_ptsz },
	{ "copy-2d", copy_2d },
	{ "copy-2d-ptds", copy_2d_ptds },
	{ "copy-2d-unaligned", unaligned },
	{ "copy-2d-async", copy_2d_async },
	{ "copy-2d-async-ptsz", copy_2d_async_ptsz },
	{ "copy-3d", copy_3d },
	{ "copy-3d-async", copy_3d_async },
	{ "copy-3d-async-ptsz", copy_3d_async_ptsz },
	{ "copy-3d-peer", peer_3d },
	{ "copy-3d-peer-async", peer_3d_async },
	{ "copy-3d-batch", batch_3d },
	{ "copy-arrays", through_arrays },
	{ "copy-arrays-host", arrays_and_host },
	{ "fill-8", fill8 },
	{ "fill-16", fill16 },
	{ "fill-32", fill32 },
	{ "fill-32-ptds", fill32_ptds },
	{ "fill-8-async", fill8_async },
	{ "fill-16-async", fill16_async },
	{ "fill-32-async", fill32_async },
	{ "fill-32-async-ptsz", fill32_async_ptsz },
	{ "fill-rows-8", rows8 },
	{ "fill-rows-16", rows16 },
	{ "fill-rows-32", rows32 },
	{ "fill-rows-8-async", rows8_async },
	{ "fill-rows-16-async", rows16_async },
	{ "fill-rows-32-async", rows32_async },
	{ NULL, NULL },
};
