/* SPDX-License-Identifier: Apache-2.0 */

/* Arrays and mipmapped arrays. They are linear, as only copies access them. */
#include <string.h>

#include "testbed/sim/cuda/memory/memory.h"
#include "testbed/sim/cuda/stream/stream.h"

#define ROW_ALIGN  UINT64_C(64)
#define LEVELS_MAX 32

enum { FLAG_LAYERED = 1, FLAG_CUBEMAP = 4, FLAG_SPARSE = 0x40, FLAG_DEFERRED = 0x80 };

/* Bytes of one channel. 0: the format is not simulated. */
static unsigned channel_bytes(unsigned format)
{
	switch (format) {
	case 0x01: /* u8 */
	case 0x08: /* s8 */
		return 1;
	case 0x02: /* u16 */
	case 0x09: /* s16 */
	case 0x10: /* half */
		return 2;
	case 0x03: /* u32 */
	case 0x0a: /* s32 */
	case 0x20: /* float */
		return 4;
	default:
		return 0;
	}
}

/* Fills in rows and slices. Returns the total bytes; 0: not a valid shape. */
static uint64_t compute_array_layout(struct sim_cuda_array *a)
{
	const CUDA_ARRAY3D_DESCRIPTOR *d = &a->desc;
	uint64_t width = d->Width * channel_bytes(d->Format) * d->NumChannels;
	uint64_t height = d->Height ? d->Height : 1, depth = d->Depth ? d->Depth : 1;

	if (!width || d->Width > 1U << 20 || d->Height > 1U << 20 || d->Depth > 1U << 20 ||
		(d->NumChannels != 1 && d->NumChannels != 2 && d->NumChannels != 4))
		return 0;
	a->row = (width + ROW_ALIGN - 1) & ~(ROW_ALIGN - 1);
	a->slice = a->row * height;
	return a->slice * depth;
}

static void array_drop(struct sim_cuda_array *a)
{
	if (a->range)
		plain_drop(a->range);
	obj_drop(a, OBJ_ARRAY);
}

EXPORT CUresult cuArray3DCreate_v2(CUarray *ret, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	struct sim_cuda_ctx *c;
	struct sim_cuda_array *a;
	uint64_t bytes;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	if (!ret || !desc || desc->Flags & FLAG_SPARSE)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	r = capture_unsafe();
	if (r)
		return sim_cuda_leave(r);
	a = obj_new(OBJ_ARRAY, sizeof(*a));
	if (!a)
		return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
	a->desc = *desc;
	a->ctx = c;
	bytes = compute_array_layout(a);
	r = bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && !(desc->Flags & FLAG_DEFERRED)) {
		r = plain_new(c, bytes, RANGE_ARRAY, &a->range);
		if (r == CUDA_ERROR_OUT_OF_MEMORY && pools_release(c->device))
			r = plain_new(c, bytes, RANGE_ARRAY, &a->range);
	}
	if (r) {
		obj_drop(a, OBJ_ARRAY);
		return sim_cuda_leave(r);
	}
	a->at = a->range ? a->range->start : 0;
	a->next = c->arrays;
	c->arrays = a;
	*ret = (CUarray)a;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuArrayCreate_v2(CUarray *ret, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR d;

	if (!desc)
		return CUDA_ERROR_INVALID_VALUE;
	d = (CUDA_ARRAY3D_DESCRIPTOR){ .Width = desc->Width,
		.Height = desc->Height,
		.Format = desc->Format,
		.NumChannels = desc->NumChannels };
	return cuArray3DCreate_v2(ret, &d);
}

EXPORT CUresult cuArray3DCreate(CUarray *ret, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR d;

	if (!desc)
		return CUDA_ERROR_INVALID_VALUE;
	d = (CUDA_ARRAY3D_DESCRIPTOR){ .Width = desc->Width,
		.Height = desc->Height,
		.Depth = desc->Depth,
		.Format = desc->Format,
		.NumChannels = desc->NumChannels,
		.Flags = desc->Flags };
	return cuArray3DCreate_v2(ret, &d);
}

EXPORT CUresult cuArrayCreate(CUarray *ret, const CUDA_ARRAY_DESCRIPTOR_v1 *desc)
{
	CUDA_ARRAY3D_DESCRIPTOR d;

	if (!desc)
		return CUDA_ERROR_INVALID_VALUE;
	d = (CUDA_ARRAY3D_DESCRIPTOR){ .Width = desc->Width,
		.Height = desc->Height,
		.Format = desc->Format,
		.NumChannels = desc->NumChannels };
	return cuArray3DCreate_v2(ret, &d);
}

/* The array of a handle; the lock is taken on success. */
static CUresult enter_array(CUarray h, bool args_ok, struct sim_cuda_array **ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	*ret = (struct sim_cuda_array *)h;
	if (!args_ok)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (!h)
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	/* A destroyed array gives this error (measured). */
	return obj_is(h, OBJ_ARRAY) ? CUDA_SUCCESS
				    : sim_cuda_leave(CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static void unlist_array(struct sim_cuda_array *a)
{
	struct sim_cuda_array **link = &a->ctx->arrays;

	while (*link && *link != a)
		link = &(*link)->next;
	if (*link)
		*link = a->next;
}

EXPORT CUresult cuArrayDestroy(CUarray h)
{
	struct sim_cuda_array *a;
	CUresult r = enter_array(h, true, &a);

	if (r)
		return r;
	if (a->of_mipmap)
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	unlist_array(a);
	if (a->ctx->active)
		(void)device_wait_free(a->ctx);
	array_drop(a);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *ret, CUarray h)
{
	struct sim_cuda_array *a;
	CUresult r = enter_array(h, ret != NULL, &a);

	if (r)
		return r;
	*ret = a->desc;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *ret, CUarray h)
{
	struct sim_cuda_array *a;
	CUresult r = enter_array(h, ret != NULL, &a);

	if (r)
		return r;
	*ret = (CUDA_ARRAY_DESCRIPTOR){ a->desc.Width, a->desc.Height, a->desc.Format,
		a->desc.NumChannels };
	return sim_cuda_leave(CUDA_SUCCESS);
}

struct CUDA_ARRAY_MEMORY_REQUIREMENTS {
	size_t size, alignment;
	unsigned reserved[4];
};

EXPORT CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *ret, CUarray h,
	CUdevice dev)
{
	struct sim_cuda_array *a;
	CUresult r = enter_array(h, ret != NULL, &a);

	(void)dev;
	if (r)
		return r;
	*ret = (CUDA_ARRAY_MEMORY_REQUIREMENTS){ .size = (compute_array_layout(a) + 65535) &
							 ~UINT64_C(65535),
		.alignment = 65536 };
	return sim_cuda_leave(CUDA_SUCCESS);
}

/* Mipmapped arrays: one piece of memory, with an array for each level. */

struct mipmap {
	struct sim_cuda_object obj;
	struct address_range *range;
	struct mipmap *next;
	struct sim_cuda_ctx *ctx;
	unsigned levels;
	struct sim_cuda_array *arrays[LEVELS_MAX];
};

static void mipmap_drop(struct mipmap *m)
{
	for (unsigned i = 0; i < m->levels; i++)
		if (m->arrays[i])
			obj_drop(m->arrays[i], OBJ_ARRAY);
	if (m->range)
		plain_drop(m->range);
	obj_drop(m, OBJ_MIPMAP);
}

static size_t halve_mipmap_extent(size_t v, unsigned times)
{
	return v && !(v >> times) ? 1 : v >> times;
}

static CUresult mipmap_fill(struct mipmap *m, const CUDA_ARRAY3D_DESCRIPTOR *desc,
	unsigned levels)
{
	uint64_t total = 0, at[LEVELS_MAX];
	CUresult r;

	for (unsigned i = 0; i < levels; i++) {
		struct sim_cuda_array *a = obj_new(OBJ_ARRAY, sizeof(*a));
		uint64_t bytes;

		if (!a)
			return CUDA_ERROR_OUT_OF_MEMORY;
		m->arrays[m->levels++] = a;
		a->desc = *desc;
		a->desc.Width = halve_mipmap_extent(desc->Width, i);
		a->desc.Height = halve_mipmap_extent(desc->Height, i);
		if (!(desc->Flags & FLAG_LAYERED))
			a->desc.Depth = halve_mipmap_extent(desc->Depth, i);
		a->ctx = m->ctx;
		a->of_mipmap = true;
		bytes = compute_array_layout(a);
		if (!bytes)
			return CUDA_ERROR_INVALID_VALUE;
		at[i] = total;
		total += (bytes + 511) & ~UINT64_C(511);
	}
	r = plain_new(m->ctx, total, RANGE_ARRAY, &m->range);
	for (unsigned i = 0; i < levels && !r; i++)
		m->arrays[i]->at = m->range->start + at[i];
	return r;
}

EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *ret,
	const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels)
{
	struct sim_cuda_ctx *c;
	struct mipmap *m;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	if (!ret || !desc || !levels || levels > LEVELS_MAX || desc->Flags & FLAG_SPARSE)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	m = obj_new(OBJ_MIPMAP, sizeof(*m));
	if (!m)
		return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
	m->ctx = c;
	r = mipmap_fill(m, desc, levels);
	if (r) {
		mipmap_drop(m);
		return sim_cuda_leave(r);
	}
	m->next = c->mipmaps;
	c->mipmaps = m;
	*ret = (CUmipmappedArray)m;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMipmappedArrayGetLevel(CUarray *ret, CUmipmappedArray h, unsigned int level)
{
	struct mipmap *m = (struct mipmap *)h;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!obj_is(h, OBJ_MIPMAP))
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	if (!ret || level >= m->levels)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*ret = (CUarray)m->arrays[level];
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray h)
{
	struct mipmap *m = (struct mipmap *)h, **link;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!obj_is(h, OBJ_MIPMAP))
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	for (link = &m->ctx->mipmaps; *link && *link != m;)
		link = &(*link)->next;
	if (*link)
		*link = m->next;
	if (m->ctx->active)
		(void)device_wait_free(m->ctx);
	mipmap_drop(m);
	return sim_cuda_leave(CUDA_SUCCESS);
}

void arrays_drop_all(struct sim_cuda_ctx *c)
{
	struct sim_cuda_array *a;
	struct mipmap *m;

	while ((a = c->arrays)) {
		c->arrays = a->next;
		array_drop(a);
	}
	while ((m = c->mipmaps)) {
		c->mipmaps = m->next;
		mipmap_drop(m);
	}
}
