/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A usage-db in a directory of its own, and batches for it. */
#include "io/usage-db/usage-db.h"

#define T0 UINT64_C(1767225600) /* 2026-01-01T00:00:00Z */

/* The sums of a range of a usage-db. */
struct usage_db_sums {
	uint64_t periods, rows;
	uint64_t first_s, last_s; /* start and end */
	int64_t covered_ns, period_cost, held_ns, gpu_ns, busy_ns, byte_seconds, peak, cost;
	int64_t idle_cost;
	bool busy_unknown, memory_unknown;
};

void usage_db_env_setup(void);
void usage_db_env_teardown(void);
const char *usage_db_env_path(void); /* of the usage-db */
const char *usage_db_env_dir(void);

/* The bucket @start_s with @n rows, of which the last is idle; the node costs 3.06 an hour. */
int usage_db_env_add(struct usage_db *db, uint64_t start_s, unsigned n, uint64_t now_s,
	struct error *err);

void usage_db_env_sum(uint64_t from_s, uint64_t to_s, struct usage_db_sums *s);
