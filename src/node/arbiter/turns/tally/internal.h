/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the accounts (tally.c) and their file (file.c). */
#include "node/arbiter/turns/tally/tally.h"

/* ---- words ------------------------------------------------------------------------------------ */

/* Sequentially consistent: a kill finds all that was stored before. */
static inline void tally_put(_Atomic uint64_t *at, uint64_t v)
{
	atomic_store_explicit(at, v, memory_order_seq_cst);
}

static inline uint32_t tally_state(const _Atomic uint32_t *state)
{
	return atomic_load_explicit(state, memory_order_acquire);
}

static inline void tally_set_state(_Atomic uint32_t *state, enum tally_state to)
{
	atomic_store_explicit(state, (uint32_t)to, memory_order_seq_cst);
}

/* ---- tally.c ---------------------------------------------------------------------------------- */

/* Over what does not change while a record is in use. */
uint64_t tally_account_check(const char *slice, const uint8_t *uuid);
/* With the account's, so that a seat is never taken for that of another one. */
uint64_t tally_seat_check(const struct tally *t, const struct tally_seat *s);

/* Begins the end of an account, or finishes one that was begun. What was charged to it stays the GPU's. */
void tally_account_end(struct tally *t, struct tally_account *a);

/* Seat @i is one of its account's. */
void tally_seat_link(struct tally *t, uint32_t i);

/* NULL: nothing is stored of it. */
struct tally_busy *tally_busy_find(const struct tally *t, const uint8_t *uuid);

/* ---- file.c ----------------------------------------------------------------------------- */

/* One record more. False: the file system has no room. */
bool tally_touch_account(struct tally *t);
bool tally_touch_seat(struct tally *t);
