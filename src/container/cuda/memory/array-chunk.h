/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Small arrays share chunks of one granule. Arrays have no address, so the driver does not show its chunks.
 *
 * Model. This module places small arrays in chunks of its own, one after the other. The driver fills holes, so it
 * needs no more chunks than the module. A chunk goes back with its last array. Only the driver knows how many
 * chunks it has: no fewer than all texels need, no more than the module has (charge_packed()).
 *
 * The caller has an operation in progress (charges/charges.h). Thread: any.
 */
#include "container/charges/alloc-table.h"

/* Counts an array of @bytes (at most ARRAY_SMALL), of which @min are texels, in a chunk of row->context and
 * row->gpu. Sets row->other to the chunk, or row->bytes if there is no memory for it. Returns the bytes to
 * charge: a granule or 0. */
uint64_t array_chunk_add(struct alloc_row *row, uint64_t bytes, uint64_t min);

/* After the array of this row is gone. Returns the bytes that came free. */
uint64_t array_chunk_remove(const struct alloc_row *row);

/* After a row of any kind, chunk or array, went with its context. */
void array_chunk_gone(enum alloc_kind kind, const struct alloc_row *row);
