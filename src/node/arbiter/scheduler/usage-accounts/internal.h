/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the accounts (usage-accounts.c) and their file (file.c). */
#include "node/arbiter/scheduler/usage-accounts/usage-accounts.h"

/* ---- words ------------------------------------------------------------------------------------ */

/* Sequentially consistent: a kill finds all that was stored before. */
static inline void usage_store(_Atomic uint64_t *at, uint64_t v)
{
	atomic_store_explicit(at, v, memory_order_seq_cst);
}

static inline uint32_t usage_record_state(const _Atomic uint32_t *state)
{
	return atomic_load_explicit(state, memory_order_acquire);
}

static inline void usage_record_set_state(_Atomic uint32_t *state, enum usage_record_state to)
{
	atomic_store_explicit(state, (uint32_t)to, memory_order_seq_cst);
}

/* ---- usage-accounts.c ---------------------------------------------------------------------------------- */

/* Over what does not change while a record is in use. */
uint64_t usage_account_check(const char *slice, const uint8_t *uuid);
/* With the account's, so that a seat is never taken for that of another one. */
uint64_t usage_client_check(const struct usage_accounts *t, const struct usage_client *s);

/* Begins the end of an account, or finishes one that was begun. What was charged to it stays the GPU's. */
void usage_account_end(struct usage_accounts *t, struct usage_account *a);

/* Seat @i is one of its account's. */
void usage_client_link(struct usage_accounts *t, uint32_t i);

/* NULL: nothing is stored of it. */
struct usage_gpu *usage_gpu_find(const struct usage_accounts *t, const uint8_t *uuid);

/* ---- file.c ----------------------------------------------------------------------------- */

/* One record more. False: the file system has no room. */
bool usage_accounts_touch_account(struct usage_accounts *t);
bool usage_accounts_touch_client(struct usage_accounts *t);
