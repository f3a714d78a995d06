/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For keep*.c only. The totals in the ledger, by key; parts of a key stand between SEE_KEY_SEPARATOR:
 *
 *	node                                        cost, other cost, since, rest of the price, next odd GPU
 *	unit UUID                                   present, idle, busy, other busy, cost, idle cost, rest
 *	use UUID NAMESPACE POD UID CONTAINER RESOURCE MODE
 *	                                            held, gpu, busy, byte-seconds, peak, cost, began, ended
 *	xid UUID NUMBER                             count, last
 *	charge SLICE UUID                           charged, when that was told, counted otherwise since
 */
#include "node/agent/monitoring/keep/keep.h"

#define SEE_KEY_SEPARATOR '\x1f'

/* .ended of a use: 0 while it is live; the lowest bits say that some of its time or memory was not known. */
#define SEE_BUSY_UNKNOWN   INT64_C(1)
#define SEE_MEMORY_UNKNOWN INT64_C(2)
#define SEE_UNKNOWN        (SEE_BUSY_UNKNOWN | SEE_MEMORY_UNKNOWN)

void see_totals_free(struct ledger_total *v, size_t n);

/* totals.c: the counters of now into .totals. */
int see_totals_make(struct see_keep *k, const struct accounts *a, uint64_t since_wall_ns,
	const struct see_kept_xid *xids, size_t n_xids, const struct see_charges *charges,
	struct error *err) MUST_USE;
