/* SPDX-License-Identifier: Apache-2.0 */
#include "node/arbiter/grants/room.h"

unsigned int room_part(const struct room *r)
{
	return r->most / 2 / ROOM_SLICES;
}

bool room_for(const struct room *r, unsigned int own)
{
	unsigned int part = room_part(r), all = r->most - part * ROOM_SLICES;

	if (r->n >= r->most)
		return false;
	return own < part || (r->common < all && own - part < all - r->common);
}

void room_take(struct room *r, unsigned int own)
{
	r->n++;
	r->common += own >= room_part(r);
}

void room_give(struct room *r, unsigned int own)
{
	r->n--;
	r->common -= own > room_part(r);
}
