/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Small arrays share chunks of one granule, which the driver does not show: they have no address. So
 * we place them in chunks of our own, one after the other, which needs at least as many chunks as the
 * driver's filling of holes; a chunk goes back with its last array. How many the driver has nobody
 * knows but it: no fewer than all their texels need, no more than ours (charge_packed()).
 *
 * All within an operation of the caller's (charges/charges.h). Thread: any.
 */
#include "container/charges/alloc-table.h"

/* Counts an array of @bytes (ARRAY_SMALL at most), of which @min are texels, in a chunk of
 * row->context and row->gpu, as its row then says. What is to be charged for it: a granule or
 * nothing. */
uint64_t array_chunk_add(struct alloc_row *row, uint64_t bytes, uint64_t min);

/* The array of this row went. What came free with it. */
uint64_t array_chunk_remove(const struct alloc_row *row);

/* A row of any kind went with its context, chunks and arrays alike. */
void array_chunk_gone(enum alloc_kind kind, const struct alloc_row *row);
