/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For persist/ only. The totals in the usage records, by key. MONITORING_KEY_SEPARATOR separates the parts of a
 * key:
 *
 *	node                                        cost, other cost, since, rest of the price, next odd GPU;
 *	unit UUID                                   present, idle, busy, other busy, cost, idle cost, rest;
 *	use UUID NAMESPACE POD UID CONTAINER RESOURCE MODE
 *	                                            allocated, gpu, busy, byte-seconds, peak, cost, began, ended;
 *	xid UUID NUMBER                             count, last;
 *	charge SLICE UUID                           charged, time of that report, counted from other sources since.
 *
 * Thread: loop, except monitoring_totals_free(): the owner's of the array.
 */
#include "node/agent/monitoring/persist/persist.h"

#define MONITORING_KEY_SEPARATOR '\x1f'

/* .ended of a "use" total: 0 while the account is live. The lowest bits say that some of its time or memory was
 * not known. */
#define MONITORING_BUSY_UNKNOWN   INT64_C(1)
#define MONITORING_MEMORY_UNKNOWN INT64_C(2)
#define MONITORING_UNKNOWN_MASK   (MONITORING_BUSY_UNKNOWN | MONITORING_MEMORY_UNKNOWN)

/* Frees the array and the keys of its @n entries. */
void monitoring_totals_free(struct usage_db_total *v, size_t n);

/* totals.c: sets .totals to the current counters. */
int monitoring_totals_make(struct monitoring_persist *persist, const struct accounts *a,
	uint64_t since_wall_ns, const struct monitoring_persist_xid *xids, size_t n_xids,
	const struct monitoring_charges *charges, struct error *err) MUST_USE;
