/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to src/io/usage-db. Thread: one at a time for each struct usage_db. Blocks (usage-db.h). */
#include "io/usage-db/usage-db.h"
#include "io/usage-db/sql.h"

/* How two rows of one key are added: columns are summed; of the peak the larger stays. */
#define USAGE_DB_ADD                                                                 \
	" ON CONFLICT DO UPDATE SET held_ns = held_ns + excluded.held_ns,"           \
	" gpu_ns = gpu_ns + excluded.gpu_ns, busy_ns = busy_ns + excluded.busy_ns,"  \
	" busy_unknown = busy_unknown | excluded.busy_unknown,"                      \
	" memory_byte_seconds = memory_byte_seconds + excluded.memory_byte_seconds," \
	" memory_peak_bytes = max(memory_peak_bytes, excluded.memory_peak_bytes),"   \
	" cost_nano = cost_nano + excluded.cost_nano"

/* Bits of the column busy_unknown. */
#define USAGE_DB_BUSY_UNKNOWN   1
#define USAGE_DB_MEMORY_UNKNOWN 2

#define USAGE_DB_ADD_PERIOD                                                         \
	" ON CONFLICT DO UPDATE SET covered_ns = covered_ns + excluded.covered_ns," \
	" cost_nano = cost_nano + excluded.cost_nano RETURNING id"

struct usage_db {
	struct sql sql;
	char *path;
	uint64_t max_bytes;
};

/* Whether a batch obeys usage-db.h; ERR_INVALID or ERR_LIMIT names the row and the field. */
int usage_db_check(const struct usage_db_batch *b, struct error *err) MUST_USE;

/* Merges and drops a bounded part of what is due, in a transaction of its own. */
int usage_db_age(struct usage_db *db, uint64_t now_s, struct error *err) MUST_USE;

/* Drops the oldest quarter of the buckets, but never the newest bucket. 1: dropped; 0: nothing to drop; < 0:
 * failed. */
int usage_db_drop_oldest(struct usage_db *db, struct error *err) MUST_USE;

/* Inside a transaction: replaces all totals. */
int usage_db_totals_set(struct usage_db *db, const struct usage_db_batch *b,
	struct error *err) MUST_USE;

/* Opens the file of @db again after a failure closed it; does nothing if it is open. Recreates a damaged file. 0,
 * USAGE_DB_RECREATED or < 0. */
int usage_db_reopen(struct usage_db *db, struct error *err) MUST_USE;

/* Renames the damaged file of @db and creates a new file. USAGE_DB_RECREATED or < 0. */
int usage_db_recreate(struct usage_db *db, struct error *err) MUST_USE;
