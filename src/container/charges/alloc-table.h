/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the ledger remembers of the things that hold memory: pointers, handles, arrays, pools. One
 * table for all, keyed by kind and value, in shards with a lock each that no driver call is made
 * under. Memory comes from mmap, grows by doubling, is never given back, and is zero in a child of
 * fork. Thread: any.
 */
#include <stdbool.h>
#include <stdint.h>

enum alloc_kind {
	ALLOC_FREE,    /* no row */
	ALLOC_POINTER, /* key: device pointer of cuMemAlloc and its like */
	ALLOC_CHUNK, /* key: address of a 2 MiB chunk of small pointers; .count pointers lie in it */
	ALLOC_MANAGED,
	ALLOC_HANDLE,  /* key: CUmemGenericAllocationHandle; .count handles and mappings */
	ALLOC_MAPPING, /* key: address of a mapping; .other: its handle, .bytes: its length */
	ALLOC_ARRAY, /* key: handle; .other: of a small one, its chunk and texels (array-chunk.c) */
	ALLOC_MIPMAP,      /* the same */
	ALLOC_ARRAY_CHUNK, /* key: a number; .count arrays are counted in it */
	ALLOC_POOL,
	ALLOC_GRAPH,
	ALLOC_GRAPH_EXEC,
	ALLOC_EXTERNAL,
	ALLOC_IPC,
	ALLOC_CONTEXT,
	ALLOC_GREEN, /* key: a green context's handle as a context (container/cuda/green.h) */
	ALLOC_CAPTURE, /* key: a stream that captures; .count of them (container/cuda/work/capture.c) */
};

struct alloc_row {
	uint64_t bytes;   /* charged */
	uint64_t other;   /* as the kind says */
	uint64_t context; /* that it dies with; 0: none */
	uint32_t count;
	int32_t gpu; /* of the slice */
};

/* False: no memory; a warning was given. An old row of the same key is replaced. */
bool alloc_table_put(enum alloc_kind kind, uint64_t key, const struct alloc_row *row);
bool alloc_table_get(enum alloc_kind kind, uint64_t key, struct alloc_row *ret);
bool alloc_table_remove(enum alloc_kind kind, uint64_t key,
	struct alloc_row *ret); /* and removes it */

/*
 * Adds to a row's count under its lock. The new count; -1: no such row. *ret, unless NULL: the row
 * as it is then. A row whose count falls to 0 is removed.
 */
int64_t alloc_table_count(enum alloc_kind kind, uint64_t key, int delta, struct alloc_row *ret);

/* The same, if the row's .context is @context: of handles, which of those that had this key it is. */
int64_t alloc_table_count_of(enum alloc_kind kind, uint64_t key, uint64_t context, int delta,
	struct alloc_row *ret);

/* Sets bits of a row's .other. False: no such row. */
bool alloc_table_set_bits(enum alloc_kind kind, uint64_t key, uint64_t bits);

/*
 * Adds one to the count of the row of this key, or puts *row, whose count is then 1: of many threads
 * that come at once, exactly one has put it. The new count; -1: the row that is there is of another
 * GPU, or there is no memory and a warning was given.
 */
int64_t alloc_table_join(enum alloc_kind kind, uint64_t key, const struct alloc_row *row);

/* Takes out every row that lives in @context and hands each to @fn, which may take no rows. */
void alloc_table_drop_context(uint64_t context,
	void (*fn)(enum alloc_kind kind, uint64_t key, const struct alloc_row *row, void *arg),
	void *arg);
/* The same for each row of a kind, which stays. */
void alloc_table_for_each(enum alloc_kind kind,
	void (*fn)(enum alloc_kind kind, uint64_t key, const struct alloc_row *row, void *arg),
	void *arg);
