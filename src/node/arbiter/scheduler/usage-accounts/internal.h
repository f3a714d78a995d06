/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the accounts (usage-accounts.c) and their file (file.c). Thread: as in usage-accounts.h. */
#include "node/arbiter/scheduler/usage-accounts/usage-accounts.h"

/* --- words --- */

/* Sequentially consistent: after a kill the file has all that was stored before. */
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

/* --- usage-accounts.c --- */

/* Hash of the fields that do not change while a record is in use. */
uint64_t usage_account_check(const char *slice, const uint8_t *uuid);
/* Includes the account's hash, so that the client of one account never passes for that of another account. */
uint64_t usage_client_check(const struct usage_accounts *accounts,
	const struct usage_client *client);

/* Begins the end of an account, or finishes one that a kill interrupted. Its charges stay with the GPU. */
void usage_account_end(struct usage_accounts *accounts, struct usage_account *a);

/* Adds client @i to the list of its account. */
void usage_client_link(struct usage_accounts *accounts, uint32_t i);

/* --- file.c --- */

/* Adds one account behind those that were ever used. The caller has checked that there are fewer than
 * USAGE_ACCOUNTS_MAX. False: the file system has no room. */
bool usage_accounts_touch_account(struct usage_accounts *accounts);
/* Adds one client behind those that were ever used. The caller has checked that there are fewer than
 * USAGE_CLIENTS_MAX. False: the file system has no room. */
bool usage_accounts_touch_client(struct usage_accounts *accounts);
