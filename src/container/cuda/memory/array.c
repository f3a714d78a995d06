/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Arrays. The size of an array follows from its descriptor (array-size.h). Small arrays share chunks of one
 * granule (array-chunk.h).
 *
 * Sparse and deferred arrays take nothing: the memory that the program maps into them comes from cuMemCreate.
 */
#include "container/cuda/memory/array-chunk.h"
#include "container/cuda/memory/array-size.h"
#include "container/cuda/device.h"
#include "container/charges/charges.h"

static uint64_t get_array_key(const void *handle)
{
	return (uint64_t)(uintptr_t)handle;
}

/* State of a creation, from before the driver call. */
struct array_creation {
	struct charge charge;
	enum alloc_kind kind;
	uint64_t bytes, texels; /* by the descriptor */
};

static CUresult begin_array_create(struct array_creation *m, enum alloc_kind kind,
	const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	m->kind = kind;
	m->bytes = array_bytes(d, levels);
	m->texels = array_texels(d, levels);
	return charge_begin(&m->charge, charges_current_gpu(), round_up_to_granule(m->bytes),
		CHARGE_SEEN);
}

static void end_array_create(struct array_creation *m, CUresult r, uint64_t handle)
{
	struct alloc_row row = { .context = current_context(),
		.count = 1,
		.gpu = m->charge.gpu };
	uint64_t taken = r ? 0 : m->charge.bytes;

	if (m->charge.gpu == CHARGES_NO_GPU)
		return;
	row.bytes = taken;
	if (taken && m->bytes <= ARRAY_SMALL)
		taken = array_chunk_add(&row, m->bytes, m->texels);
	if (!r && (row.bytes || row.other) && !alloc_table_put(m->kind, handle, &row))
		m->charge.kind = CHARGE_HIDDEN;
	charge_end(&m->charge, taken);
}

/* The row is removed before the driver call: another thread may be given the same handle at once. */
static CUresult destroy_charged_array(enum alloc_kind kind, uint64_t handle,
	CUresult (*real)(uint64_t handle))
{
	struct charge c;
	uint64_t free_now = 0;
	struct alloc_row row;
	CUresult r;

	if (!handle || !charges_active() || !alloc_table_remove(kind, handle, &row))
		return real(handle);
	charge_free_begin(&c, row.gpu, CHARGE_SEEN);
	r = real(handle);
	if (r)
		(void)alloc_table_put(kind, handle, &row);
	else
		free_now = row.other ? array_chunk_remove(&row) : row.bytes;
	charge_free_end(&c, free_now);
	return r;
}

static CUresult destroy_array(uint64_t handle)
{
	return REAL(cuArrayDestroy)((CUarray)(uintptr_t)handle);
}

static CUresult destroy_mipmap(uint64_t handle)
{
	return REAL(cuMipmappedArrayDestroy)((CUmipmappedArray)(uintptr_t)handle);
}

HOOK CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d)
{
	struct array_creation m;
	CUresult r;

	if (!array || !d || !charges_active())
		return REAL(cuArrayCreate_v2)(array, d);
	r = begin_array_create(&m, ALLOC_ARRAY,
		&(CUDA_ARRAY3D_DESCRIPTOR){ d->Width, d->Height, 0, d->Format, d->NumChannels,
			0 },
		1);
	if (r)
		return r;
	r = REAL(cuArrayCreate_v2)(array, d);
	end_array_create(&m, r, r ? 0 : get_array_key(*array));
	return r;
}

HOOK CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
	struct array_creation m;
	CUresult r;

	if (!array || !d || !charges_active())
		return REAL(cuArrayCreate)(array, d);
	r = begin_array_create(&m, ALLOC_ARRAY,
		&(CUDA_ARRAY3D_DESCRIPTOR){ d->Width, d->Height, 0, d->Format, d->NumChannels,
			0 },
		1);
	if (r)
		return r;
	r = REAL(cuArrayCreate)(array, d);
	end_array_create(&m, r, r ? 0 : get_array_key(*array));
	return r;
}

HOOK CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	struct array_creation m;
	CUresult r;

	if (!array || !d || !charges_active())
		return REAL(cuArray3DCreate_v2)(array, d);
	r = begin_array_create(&m, ALLOC_ARRAY, d, 1);
	if (r)
		return r;
	r = REAL(cuArray3DCreate_v2)(array, d);
	end_array_create(&m, r, r ? 0 : get_array_key(*array));
	return r;
}

HOOK CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
	struct array_creation m;
	CUresult r;

	if (!array || !d || !charges_active())
		return REAL(cuArray3DCreate)(array, d);
	r = begin_array_create(&m, ALLOC_ARRAY,
		&(CUDA_ARRAY3D_DESCRIPTOR){ d->Width, d->Height, d->Depth, d->Format,
			d->NumChannels, d->Flags },
		1);
	if (r)
		return r;
	r = REAL(cuArray3DCreate)(array, d);
	end_array_create(&m, r, r ? 0 : get_array_key(*array));
	return r;
}

HOOK CUresult cuArrayDestroy(CUarray array)
{
	return destroy_charged_array(ALLOC_ARRAY, get_array_key(array), destroy_array);
}

HOOK CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *d,
	unsigned int levels)
{
	struct array_creation m;
	CUresult r;

	if (!array || !d || !charges_active())
		return REAL(cuMipmappedArrayCreate)(array, d, levels);
	r = begin_array_create(&m, ALLOC_MIPMAP, d, levels);
	if (r)
		return r;
	r = REAL(cuMipmappedArrayCreate)(array, d, levels);
	end_array_create(&m, r, r ? 0 : get_array_key(*array));
	return r;
}

HOOK CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	return destroy_charged_array(ALLOC_MIPMAP, get_array_key(array), destroy_mipmap);
}
