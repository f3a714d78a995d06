/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Arrays. The size of an array follows from its descriptor (array-size.c).
 *
 * Chunks. Small arrays share chunks of one granule. Arrays have no address, so the driver does not show its chunks.
 * The hooks place small arrays in chunks of their own, one after the other. The driver fills holes, so it needs no
 * more chunks than the hooks. A chunk goes back with its last array. Only the driver knows how many chunks it has:
 * no fewer than all texels need, no more than the hooks have (charge_packed()).
 *
 * Sparse and deferred arrays take nothing: the memory that the program maps into them comes from cuMemCreate.
 */
#include "container/cuda/device.h"
#include "container/cuda/memory/memory.h"
#include "container/charges/charges.h"
#include "container/sys.h"

#define ALIGN     4096U /* of small arrays in a chunk */
#define OPEN_MAX  16    /* contexts with a chunk that has space; more contexts share entries */
#define SIZE_BITS 21    /* in .other of a small array: texels; above: the chunk */
#define SIZE_MASK ((UINT64_C(1) << SIZE_BITS) - 1)

/* --- chunks of small arrays --- */

struct array_chunks {
	struct sys_lock placing; /* guards what follows */
	struct open_chunk {
		uint64_t context, key, used;
		int gpu;
	} open[OPEN_MAX];
	uint64_t last_key;
};

static _Atomic(void *) root;

static struct open_chunk *open_of(struct array_chunks *c, uint64_t context, int gpu)
{
	for (int i = 0; i < OPEN_MAX; i++)
		if (c->open[i].context == context && c->open[i].gpu == gpu)
			return &c->open[i];
	return &c->open[context / 64 % OPEN_MAX];
}

/* Returns the chunk's key; 0: no memory for its row. *fresh: the chunk is new. */
static uint64_t reserve_in_array_chunk(uint64_t context, int gpu, uint64_t bytes, bool *fresh)
{
	struct alloc_row row = { .bytes = CHARGES_GRANULE,
		.context = context,
		.count = 1,
		.gpu = gpu };
	struct array_chunks *c = wiped_get(&root, sizeof(*c));
	struct open_chunk *o;
	uint64_t key = 0;

	if (!c)
		return 0;
	bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
	*fresh = false;
	sys_lock(&c->placing);
	o = open_of(c, context, gpu);
	if (o->key && o->context == context && o->gpu == gpu &&
		o->used + bytes <= CHARGES_GRANULE &&
		alloc_table_count(ALLOC_ARRAY_CHUNK, o->key, 1, NULL) > 0) {
		key = o->key;
		o->used += bytes;
	} else if (alloc_table_put(ALLOC_ARRAY_CHUNK, c->last_key + 1, &row)) {
		key = ++c->last_key;
		*fresh = true;
		*o = (struct open_chunk){ context, key, bytes, gpu };
	}
	sys_unlock(&c->placing);
	return key;
}

/* Counts an array of @bytes (at most ARRAY_SMALL), of which @min are texels, in a chunk of row->context and
 * row->gpu. Sets row->other to the chunk, or row->bytes if there is no memory for it. Returns the bytes to
 * charge: a granule or 0. */
static uint64_t array_chunk_add(struct alloc_row *row, uint64_t bytes, uint64_t min)
{
	bool fresh;
	uint64_t key = reserve_in_array_chunk(row->context, row->gpu, bytes, &fresh);
	uint64_t taken = !key || fresh ? CHARGES_GRANULE : 0;

	row->bytes = key ? 0 : taken;
	row->other = key ? key << SIZE_BITS | min : 0;
	if (key)
		charge_packed(row->gpu, (int64_t)min, (int64_t)taken);
	return taken;
}

/* After the array of this row is gone. Returns the bytes that came free. */
static uint64_t array_chunk_remove(const struct alloc_row *row)
{
	struct alloc_row chunk;
	uint64_t bytes = 0;

	if (alloc_table_count(ALLOC_ARRAY_CHUNK, row->other >> SIZE_BITS, -1, &chunk) == 0)
		bytes = chunk.bytes;
	charge_packed(row->gpu, -(int64_t)(row->other & SIZE_MASK), -(int64_t)bytes);
	return bytes;
}

void array_chunk_gone(enum alloc_kind kind, const struct alloc_row *row)
{
	if (kind == ALLOC_ARRAY_CHUNK)
		charge_packed(row->gpu, 0, -(int64_t)row->bytes);
	else if (kind == ALLOC_ARRAY || kind == ALLOC_MIPMAP)
		charge_packed(row->gpu, -(int64_t)(row->other & SIZE_MASK), 0);
}

/* --- creation and destruction --- */

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

static CUresult begin_array_create(struct array_creation *creation, enum alloc_kind kind,
	const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	creation->kind = kind;
	creation->bytes = array_bytes(d, levels);
	creation->texels = array_texels(d, levels);
	return charge_begin(&creation->charge, device_current_gpu(),
		round_up_to_granule(creation->bytes), CHARGE_SEEN);
}

static void end_array_create(struct array_creation *creation, CUresult r, uint64_t handle)
{
	struct alloc_row row = { .context = device_current_context(),
		.count = 1,
		.gpu = creation->charge.gpu };
	uint64_t taken = r ? 0 : creation->charge.bytes;

	if (creation->charge.gpu == CHARGES_NO_GPU)
		return;
	row.bytes = taken;
	if (taken && creation->bytes <= ARRAY_SMALL)
		taken = array_chunk_add(&row, creation->bytes, creation->texels);
	if (!r && (row.bytes || row.other) && !alloc_table_put(creation->kind, handle, &row))
		creation->charge.kind = CHARGE_HIDDEN;
	charge_end(&creation->charge, taken);
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

/* --- hooks --- */

/* The versions differ in the type of the descriptor, and in whether it has a depth and flags. */
#define ARRAY_CREATE(name, descriptor, depth, flags)                                       \
	HOOK CUresult name(CUarray *array, const descriptor *d)                            \
	{                                                                                  \
		struct array_creation m;                                                   \
		CUresult r;                                                                \
                                                                                           \
		if (!array || !d || !charges_active())                                     \
			return REAL(name)(array, d);                                       \
		r = begin_array_create(&m, ALLOC_ARRAY,                                    \
			&(CUDA_ARRAY3D_DESCRIPTOR){ d->Width, d->Height, depth, d->Format, \
				d->NumChannels, flags },                                   \
			1);                                                                \
		if (r)                                                                     \
			return r;                                                          \
		r = REAL(name)(array, d);                                                  \
		end_array_create(&m, r, r ? 0 : get_array_key(*array));                    \
		return r;                                                                  \
	}

ARRAY_CREATE(cuArrayCreate, CUDA_ARRAY_DESCRIPTOR_v1, 0, 0)
ARRAY_CREATE(cuArrayCreate_v2, CUDA_ARRAY_DESCRIPTOR, 0, 0)
ARRAY_CREATE(cuArray3DCreate, CUDA_ARRAY3D_DESCRIPTOR_v1, d->Depth, d->Flags)
ARRAY_CREATE(cuArray3DCreate_v2, CUDA_ARRAY3D_DESCRIPTOR, d->Depth, d->Flags)

HOOK CUresult cuArrayDestroy(CUarray array)
{
	return destroy_charged_array(ALLOC_ARRAY, get_array_key(array), destroy_array);
}

HOOK CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *d,
	unsigned int levels)
{
	struct array_creation creation;
	CUresult r;

	if (!array || !d || !charges_active())
		return REAL(cuMipmappedArrayCreate)(array, d, levels);
	r = begin_array_create(&creation, ALLOC_MIPMAP, d, levels);
	if (r)
		return r;
	r = REAL(cuMipmappedArrayCreate)(array, d, levels);
	end_array_create(&creation, r, r ? 0 : get_array_key(*array));
	return r;
}

HOOK CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	return destroy_charged_array(ALLOC_MIPMAP, get_array_key(array), destroy_mipmap);
}
