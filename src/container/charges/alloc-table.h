/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The allocation table: one row for each object that holds device memory (pointers, handles, arrays, pools). All
 * kinds share one table, keyed by kind and value. The table has shards, each with its own lock. No thread makes a
 * driver call under such a lock.
 *
 * Memory. A shard's memory comes from mmap, grows by doubling, and never shrinks. In a child of fork the table is
 * zero. Thread: any.
 */
#include <stdbool.h>
#include <stdint.h>

enum alloc_kind {
	ALLOC_FREE,    /* no row */
	ALLOC_POINTER, /* key: device pointer of cuMemAlloc and similar calls */
	ALLOC_CHUNK, /* key: address of a 2 MiB chunk of small pointers; .count: its pointers */
	ALLOC_MANAGED,
	ALLOC_HANDLE,  /* key: CUmemGenericAllocationHandle; .count: handles and mappings */
	ALLOC_MAPPING, /* key: address of a mapping; .other: its handle; .bytes: its length */
	ALLOC_ARRAY,   /* key: handle; .other, small arrays only: chunk and texels (array.c) */
	ALLOC_MIPMAP,  /* as ALLOC_ARRAY */
	ALLOC_ARRAY_CHUNK, /* key: a number; .count: arrays in the chunk */
	ALLOC_GRAPH_EXEC,
	ALLOC_CONTEXT,
	ALLOC_GREEN, /* key: handle of a green context, as a CUcontext (container/cuda/green.h) */
	ALLOC_CAPTURE, /* key: capturing stream; .count: captures (container/cuda/work/capture.c) */
};

struct alloc_row {
	uint64_t bytes;   /* charged */
	uint64_t other;   /* meaning depends on the kind */
	uint64_t context; /* the row is removed with this context; 0: none */
	uint32_t count;
	int32_t gpu; /* number in the slice */
};

/* Puts a copy of *row, in place of an old row of this kind and key. False: no memory; the function printed a
 * warning. */
bool alloc_table_put(enum alloc_kind kind, uint64_t key, const struct alloc_row *row);
/* Copies the row to *ret. False: there is none; *ret is unchanged. */
bool alloc_table_get(enum alloc_kind kind, uint64_t key, struct alloc_row *ret);
/* Removes the row and copies it to *ret. False: there is none. Of several threads, one gets the row. */
bool alloc_table_remove(enum alloc_kind kind, uint64_t key, struct alloc_row *ret);

/* Adds @delta to the count of a row, under the lock of its shard. Returns the new count; -1: no such row.
 * *ret, unless NULL: the row after the change. A row is removed when its count becomes 0. */
int64_t alloc_table_count(enum alloc_kind kind, uint64_t key, int delta, struct alloc_row *ret);

/* alloc_table_count(), but only for a row with .context == @context. The driver can reuse a handle; .context
 * then tells the old handle from the new one. */
int64_t alloc_table_count_of(enum alloc_kind kind, uint64_t key, uint64_t context, int delta,
	struct alloc_row *ret);

/* Sets bits of a row's .other. False: no such row. */
bool alloc_table_set_bits(enum alloc_kind kind, uint64_t key, uint64_t bits);

/* Adds one to the count of the row of this key, or puts *row with a count of 1. Of several threads that join
 * at once, exactly one puts the row. Returns the new count. -1: the existing row is of another GPU, or there
 * is no memory and the function logged a warning. */
int64_t alloc_table_join(enum alloc_kind kind, uint64_t key, const struct alloc_row *row);

/* Removes every row of @context and passes each to @fn. @fn runs under the lock of a shard and must not use
 * the table. */
void alloc_table_drop_context(uint64_t context,
	void (*fn)(enum alloc_kind kind, uint64_t key, const struct alloc_row *row, void *arg),
	void *arg);
