/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Room on the node that all slices need: who takes much must not take what another one will need.
 *
 * Each slice has a part for itself, which nobody can take from it as long as there are ROOM_SLICES slices at
 * most. The other half is common: a slice may have more of it only while it has less of it than is left. So k
 * slices that take all they can leave one part in k + 1 of it, and a slice that is alone has half of it.
 *
 * Pure. Thread: loop.
 */
#include <stdbool.h>

#define ROOM_SLICES 256

struct room {
	unsigned int most;   /* set once */
	unsigned int n;      /* taken by all slices */
	unsigned int common; /* of these beyond the slices' parts */
};

/* Of each slice. */
unsigned int room_part(const struct room *r);

/* Whether a slice that has @own may have one more. */
bool room_for(const struct room *r, unsigned int own);

/* A slice that has @own now has one more, whether or not there was room; has one less. */
void room_take(struct room *r, unsigned int own);
void room_give(struct room *r, unsigned int own);
