/* SPDX-License-Identifier: Apache-2.0 */
#include "container/cuda/memory/array-chunk.h"

#include "container/charges/charges.h"
#include "container/sys.h"

#define ALIGN     4096U /* of small arrays in a chunk */
#define OPEN_MAX  16    /* contexts with a chunk that has space; more contexts share entries */
#define SIZE_BITS 21    /* in .other of a small array: texels; above: the chunk */
#define SIZE_MASK ((UINT64_C(1) << SIZE_BITS) - 1)

static struct sys_lock placing; /* guards what follows */
static struct open_chunk {
	uint64_t context, key, used;
	int gpu;
} open_chunks[OPEN_MAX];
static uint64_t last_key;

static struct open_chunk *open_of(uint64_t context, int gpu)
{
	for (int i = 0; i < OPEN_MAX; i++)
		if (open_chunks[i].context == context && open_chunks[i].gpu == gpu)
			return &open_chunks[i];
	return &open_chunks[context / 64 % OPEN_MAX];
}

/* Returns the chunk's key; 0: no memory for its row. *fresh: the chunk is new. */
static uint64_t reserve_in_array_chunk(uint64_t context, int gpu, uint64_t bytes, bool *fresh)
{
	struct alloc_row row = { .bytes = CHARGES_GRANULE,
		.context = context,
		.count = 1,
		.gpu = gpu };
	struct open_chunk *o;
	uint64_t key = 0;

	bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
	*fresh = false;
	sys_lock(&placing);
	o = open_of(context, gpu);
	if (o->key && o->context == context && o->gpu == gpu &&
		o->used + bytes <= CHARGES_GRANULE &&
		alloc_table_count(ALLOC_ARRAY_CHUNK, o->key, 1, NULL) > 0) {
		key = o->key;
		o->used += bytes;
	} else if (alloc_table_put(ALLOC_ARRAY_CHUNK, last_key + 1, &row)) {
		key = ++last_key;
		*fresh = true;
		*o = (struct open_chunk){ context, key, bytes, gpu };
	}
	sys_unlock(&placing);
	return key;
}

uint64_t array_chunk_add(struct alloc_row *row, uint64_t bytes, uint64_t min)
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

uint64_t array_chunk_remove(const struct alloc_row *row)
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
