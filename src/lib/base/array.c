/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/array.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 16

/* The room for @need elements of an array that had room for @have. */
static size_t get_next_room(size_t have, size_t need, size_t max)
{
	size_t room = have > max / 2 ? max : 2 * have;

	if (room < FIRST_ROOM)
		room = FIRST_ROOM < max ? FIRST_ROOM : max;
	return room < need ? need : room;
}

bool array_grow(void *items, size_t n, size_t more, size_t *room, size_t size, size_t max)
{
	void *p, *grown;
	size_t want;

	if (more == 0)
		return true;
	if (more > max || n > max - more)
		return false;
	/* @items points to a pointer of another type, which only memcpy() may read and write. */
	memcpy(&p, items, sizeof(p));
	want = n + more;
	if (room && p && want <= *room)
		return true;
	if (room)
		want = get_next_room(p ? *room : 0, want, max);
	if (want > SIZE_MAX / size)
		return false;
	grown = reallocarray(p, want, size);
	if (!grown)
		return false;
	memcpy(items, &grown, sizeof(grown));
	if (room)
		*room = want;
	return true;
}
