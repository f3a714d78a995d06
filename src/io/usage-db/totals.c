/* SPDX-License-Identifier: Apache-2.0 */
#include "io/usage-db/internal.h"

int usage_db_totals_set(struct usage_db *l, const struct usage_db_batch *b, struct error *err)
{
	CLEANUP(sql_finalizep) sqlite3_stmt *stmt = NULL;

	if (sql_run(&l->sql, "DELETE FROM totals", err) < 0 ||
		sql_prepare(&l->sql, &stmt,
			"INSERT OR REPLACE INTO totals VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
			err) < 0)
		return -1;
	for (size_t i = 0; i < b->n_totals; i++) {
		sql_text(stmt, 1, b->totals[i].key);
		for (int j = 0; j < USAGE_DB_TOTAL_COUNT; j++)
			sql_int(stmt, j + 2, b->totals[i].v[j]);
		if (sql_do(&l->sql, stmt, "write", err) < 0)
			return -1;
	}
	return 0;
}

int usage_db_totals_load(struct usage_db *l,
	int (*each)(void *arg, const struct usage_db_total *total, struct error *err),
	void *arg, struct error *err)
{
	CLEANUP(sql_finalizep) sqlite3_stmt *stmt = NULL;
	int r = usage_db_reopen(l, err);

	if (r >= 0)
		r = sql_prepare(&l->sql, &stmt, "SELECT * FROM totals ORDER BY key", err);
	while (r == 0) {
		struct usage_db_total t;

		r = sql_step(&l->sql, stmt, "read", err);
		if (r <= 0)
			return r;
		t.key = sql_column(stmt, 0);
		for (int j = 0; j < USAGE_DB_TOTAL_COUNT; j++)
			t.v[j] = sqlite3_column_int64(stmt, j + 1);
		r = each(arg, &t, err);
	}
	return r;
}
