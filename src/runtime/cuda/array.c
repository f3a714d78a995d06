/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Arrays. Their size follows from their description (array-size.h). Small ones share chunks of one
 * granule, which the driver does not show: they have no address. So we place them in chunks of our
 * own, one after the other, which needs at least as many chunks as the driver's filling of holes; a
 * chunk goes back with its last array. The row of a chunk has a small number as its key, which is no
 * handle.
 *
 * Sparse and deferred arrays take nothing: what is mapped into them comes from cuMemCreate.
 */
#include "runtime/cuda/array-size.h"
#include "runtime/cuda/device.h"
#include "runtime/ledger.h"
#include "runtime/rows.h"
#include "runtime/sys.h"

#define ALIGN    4096U /* of small arrays in a chunk */
#define OPEN_MAX 16    /* contexts that have a chunk with room; more share places */
#define KEY_LAST 4095U /* handles are pointers: the first page is nobody's */

static struct sys_lock placing; /* guards what follows */
static struct open_chunk {
	uint64_t context, key, used;
	int gpu;
} open_chunks[OPEN_MAX];
static uint64_t last_key;

static uint64_t key_of(const void *handle)
{
	return (uint64_t)(uintptr_t)handle;
}

static struct open_chunk *open_of(uint64_t context, int gpu)
{
	for (int i = 0; i < OPEN_MAX; i++)
		if (open_chunks[i].context == context && open_chunks[i].gpu == gpu)
			return &open_chunks[i];
	return &open_chunks[context / 64 % OPEN_MAX];
}

/* A chunk's key for a small array, which is counted in it; 0: no memory for the books. *fresh: it is
 * a new chunk. */
static uint64_t place(uint64_t context, int gpu, uint64_t bytes, bool *fresh)
{
	struct row row = { .bytes = LEDGER_GRANULE,
		.context = context,
		.count = 1,
		.gpu = gpu };
	struct open_chunk *o;
	struct row there;
	uint64_t key = 0;

	bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
	*fresh = false;
	sys_lock(&placing);
	o = open_of(context, gpu);
	if (o->key && o->context == context && o->gpu == gpu &&
		o->used + bytes <= LEDGER_GRANULE &&
		row_count(ROW_ARRAY, o->key, 1, NULL) > 0) {
		key = o->key;
		o->used += bytes;
	}
	for (unsigned int n = 0; !key && n < KEY_LAST; n++) {
		last_key = last_key % KEY_LAST + 1;
		if (row_get(ROW_ARRAY, last_key, &there))
			continue;
		if (!row_put(ROW_ARRAY, last_key, &row))
			break;
		key = last_key;
		*fresh = true;
		*o = (struct open_chunk){ context, key, bytes, gpu };
	}
	sys_unlock(&placing);
	return key;
}

/* Before the driver's call. */
struct making {
	struct charge charge;
	enum row_kind kind;
	uint64_t bytes; /* by its description */
};

static CUresult make_begin(struct making *m, enum row_kind kind,
	const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	m->kind = kind;
	m->bytes = array_bytes(d, levels);
	return charge_begin(&m->charge, ledger_current_gpu(), granules(m->bytes), CHARGE_SEEN);
}

static void make_end(struct making *m, CUresult r, uint64_t handle)
{
	struct row row = { .context = current_context(), .count = 1, .gpu = m->charge.gpu };
	uint64_t taken = r ? 0 : m->charge.bytes;
	bool fresh;

	if (m->charge.gpu == LEDGER_NONE)
		return;
	row.bytes = taken;
	if (taken && m->bytes <= ARRAY_SMALL) {
		row.other = place(row.context, row.gpu, m->bytes, &fresh);
		if (row.other) {
			row.bytes = 0;
			taken = fresh ? LEDGER_GRANULE : 0;
		}
	}
	if (!r && (row.bytes || row.other) && !row_put(m->kind, handle, &row))
		m->charge.kind = CHARGE_HIDDEN;
	charge_end(&m->charge, taken);
}

/* The row goes before the call, as another thread may be given the same handle at once. */
static CUresult destroy(enum row_kind kind, uint64_t handle, CUresult (*real)(uint64_t handle))
{
	struct charge c;
	struct row row, chunk;
	uint64_t free_now;
	CUresult r;

	if (!handle || !ledger_active() || !row_take(kind, handle, &row))
		return real(handle);
	charge_free_begin(&c, row.gpu, CHARGE_SEEN);
	r = real(handle);
	free_now = r ? 0 : row.bytes;
	if (r)
		(void)row_put(kind, handle, &row);
	else if (row.other && row_count(ROW_ARRAY, row.other, -1, &chunk) == 0)
		free_now = chunk.bytes;
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
	struct making m;
	CUresult r;

	if (!array || !d || !ledger_active())
		return REAL(cuArrayCreate_v2)(array, d);
	r = make_begin(&m, ROW_ARRAY,
		&(CUDA_ARRAY3D_DESCRIPTOR){ d->Width, d->Height, 0, d->Format, d->NumChannels,
			0 },
		1);
	if (r)
		return r;
	r = REAL(cuArrayCreate_v2)(array, d);
	make_end(&m, r, r ? 0 : key_of(*array));
	return r;
}

HOOK CUresult cuArrayCreate(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
	struct making m;
	CUresult r;

	if (!array || !d || !ledger_active())
		return REAL(cuArrayCreate)(array, d);
	r = make_begin(&m, ROW_ARRAY,
		&(CUDA_ARRAY3D_DESCRIPTOR){ d->Width, d->Height, 0, d->Format, d->NumChannels,
			0 },
		1);
	if (r)
		return r;
	r = REAL(cuArrayCreate)(array, d);
	make_end(&m, r, r ? 0 : key_of(*array));
	return r;
}

HOOK CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	struct making m;
	CUresult r;

	if (!array || !d || !ledger_active())
		return REAL(cuArray3DCreate_v2)(array, d);
	r = make_begin(&m, ROW_ARRAY, d, 1);
	if (r)
		return r;
	r = REAL(cuArray3DCreate_v2)(array, d);
	make_end(&m, r, r ? 0 : key_of(*array));
	return r;
}

HOOK CUresult cuArray3DCreate(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
	struct making m;
	CUresult r;

	if (!array || !d || !ledger_active())
		return REAL(cuArray3DCreate)(array, d);
	r = make_begin(&m, ROW_ARRAY,
		&(CUDA_ARRAY3D_DESCRIPTOR){ d->Width, d->Height, d->Depth, d->Format,
			d->NumChannels, d->Flags },
		1);
	if (r)
		return r;
	r = REAL(cuArray3DCreate)(array, d);
	make_end(&m, r, r ? 0 : key_of(*array));
	return r;
}

HOOK CUresult cuArrayDestroy(CUarray array)
{
	return destroy(ROW_ARRAY, key_of(array), destroy_array);
}

HOOK CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *d,
	unsigned int levels)
{
	struct making m;
	CUresult r;

	if (!array || !d || !ledger_active())
		return REAL(cuMipmappedArrayCreate)(array, d, levels);
	r = make_begin(&m, ROW_MIPMAP, d, levels);
	if (r)
		return r;
	r = REAL(cuMipmappedArrayCreate)(array, d, levels);
	make_end(&m, r, r ? 0 : key_of(*array));
	return r;
}

HOOK CUresult cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	return destroy(ROW_MIPMAP, key_of(array), destroy_mipmap);
}
