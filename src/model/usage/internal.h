/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For the files of this folder only. Thread: the owner's of the accounts. */
#include "model/usage/usage.h"

__extension__ typedef unsigned __int128 account_wide;

/* a * b / c, rounded down; c is not 0, and the result must fit. */
static inline uint64_t account_scale(uint64_t a, uint64_t b, uint64_t c)
{
	return (uint64_t)((account_wide)a * b / c);
}

/* --- accounts.c --- */

/* The account of @device that @in continues, or a new one that begins at @began_wall_ns. NULL: out of memory. */
struct account *account_match(struct account_device *device, const struct account_use *in,
	uint64_t began_wall_ns, struct error *err);
/* Adds an account to @device with the names and the mode of @in, which are copied. NULL: out of memory. */
struct account *account_new(struct account_device *device, const struct account_use *in,
	struct error *err);
/* Frees the account only: the caller removes it from the list of its device. NULL is fine. */
struct account *account_free(struct account *a); /* returns NULL */

/* Ends the accounts without a match, and adds those that ended long ago to the past. */
void account_end_others(struct account_device *device, uint64_t dt_ns, uint64_t wall_ns);

/* --- round.c --- */

/* Shares out the busy time of a device. */
void account_busy(struct account_device *device, const struct account_device_round *r,
	struct account_use *uses, uint64_t dt_ns);

/* Counts the cost of the node and other cost; @ret [n_devices]: the cost of each device in the round. */
int account_cost(struct accounts *a, const struct account_round *r, uint64_t dt_ns,
	uint64_t *ret, struct error *err) MUST_USE;
