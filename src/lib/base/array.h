/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Room in an array from the heap for elements that are appended. The array is a pointer and a count, which the
 * caller keeps and changes; NULL and 0 are an empty array. Two forms:
 *
 *	ARRAY_GROW	The caller keeps the room, too, and the array at least doubles: for arrays that can
 *			become long.
 *	ARRAY_EXTEND	No room is kept, and each call reallocates: for arrays of at most some hundred
 *			elements, and for several elements at once.
 *
 *	if (!ARRAY_GROW(&list->rows, list->n, &list->room, LIST_ROWS_MAX))
 *		return error_nomem(err);
 *	list->rows[list->n++] = *row;
 *
 * Each call names the limit of the count, so that input cannot make the array grow without end. A caller whose
 * users can reach the limit checks it first, for an error that names it.
 *
 * Ownership: the array stays the caller's. If the result is false (no memory, or the limit), pointer and room are
 * as they were, and the elements stay valid. If it is true, pointers into the array are invalid. New elements are
 * not initialized. Thread: the owner's.
 */
#include "lib/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For a count that its source limits, such as elements of a list that is in memory already. */
#define ARRAY_NO_LIMIT SIZE_MAX

/* Makes room for one more element after @n. @items: the address of the array; @room: of a size_t, 0 at first. */
#define ARRAY_GROW(items, n, room, max) \
	array_grow((items), (n), 1, (room), sizeof(__typeof__(**(items))), (max))

/* Makes room for @more elements after @n. The array may come from elsewhere, such as calloc(). */
#define ARRAY_EXTEND(items, n, more, max) \
	array_grow((items), (n), (more), NULL, sizeof(__typeof__(**(items))), (max))

/* As the macros say, which give @size, the bytes of an element. @room may be NULL. */
bool array_grow(void *items, size_t n, size_t more, size_t *room, size_t size,
	size_t max) MUST_USE;
