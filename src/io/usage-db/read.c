/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the usage records of a period, and saves and loads the totals (usage-db.h). */
#include "io/usage-db/internal.h"

#include <errno.h>
#include <sys/stat.h>

struct usage_db_reading {
	struct sql sql;
	usage_db_each each;
	void *arg;
};

static int check_file(const char *path, struct error *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? error_set(err, ERR_NOT_FOUND, "there is no ledger '%s'", path)
			       : error_sys(err, errno, "read ledger '%s'", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERR_INVALID, "read ledger '%s': expected a regular file",
			path);
	return 0;
}

static int read_period_rows(struct usage_db_reading *r, const struct usage_db_period *p,
	sqlite3_stmt *stmt, int64_t period, struct error *err)
{
	int got;

	sql_int(stmt, 1, period);
	while ((got = sql_step(&r->sql, stmt, "read", err)) > 0) {
		const struct usage_db_row row = {
			.kind = sqlite3_column_int(stmt, 0) == USAGE_DB_UNALLOCATED
					? USAGE_DB_UNALLOCATED
					: USAGE_DB_ALLOCATED,
			.namespace_ = sql_column(stmt, 1),
			.pod = sql_column(stmt, 2),
			.pod_uid = sql_column(stmt, 3),
			.container = sql_column(stmt, 4),
			.gpu = sql_column(stmt, 5),
			.device = sql_column(stmt, 6),
			.resource = sql_column(stmt, 7),
			.mode = sql_column(stmt, 8),
			.allocated_ns = sqlite3_column_int64(stmt, 9),
			.gpu_ns = sqlite3_column_int64(stmt, 10),
			.busy_ns = sqlite3_column_int64(stmt, 11),
			.busy_unknown =
				(sqlite3_column_int(stmt, 12) & USAGE_DB_BUSY_UNKNOWN) != 0,
			.memory_unknown =
				(sqlite3_column_int(stmt, 12) & USAGE_DB_MEMORY_UNKNOWN) != 0,
			.memory_byte_seconds = sqlite3_column_int64(stmt, 13),
			.memory_peak_bytes = sqlite3_column_int64(stmt, 14),
			.cost_nano = sqlite3_column_int64(stmt, 15),
		};

		got = r->each(r->arg, p, &row, err);
		if (got < 0) {
			(void)sqlite3_reset(stmt);
			return got;
		}
	}
	return got;
}

static int read_periods(struct usage_db_reading *r, sqlite3_stmt *periods, sqlite3_stmt *rows,
	struct error *err)
{
	int got;

	while ((got = sql_step(&r->sql, periods, "read", err)) > 0) {
		const struct usage_db_period p = {
			.start_s = (uint64_t)sqlite3_column_int64(periods, 1),
			.end_s = (uint64_t)sqlite3_column_int64(periods, 2),
			.node = sql_column(periods, 3),
			.instance_type = sql_column(periods, 4),
			.region = sql_column(periods, 5),
			.currency = sql_column(periods, 6),
			.price_source = sql_column(periods, 7),
			.price_nano_per_hour = sqlite3_column_int64(periods, 8),
			.gpus = (uint32_t)sqlite3_column_int64(periods, 9),
			.covered_ns = sqlite3_column_int64(periods, 10),
			.cost_nano = sqlite3_column_int64(periods, 11),
		};

		got = r->each(r->arg, &p, NULL, err);
		if (got >= 0)
			got = read_period_rows(r, &p, rows, sqlite3_column_int64(periods, 0),
				err);
		if (got < 0)
			return got;
	}
	return got;
}

static int read_usage_periods(struct usage_db_reading *r, uint64_t from_s, uint64_t to_s,
	struct error *err)
{
	CLEANUP(sql_finalizep) sqlite3_stmt *periods = NULL;
	CLEANUP(sql_finalizep) sqlite3_stmt *rows = NULL;

	if (sql_prepare(&r->sql, &periods,
		    "SELECT id, start_s, end_s, node, instance_type, region, currency, price_source, "
		    "price_nano_per_hour, gpus, covered_ns, cost_nano FROM periods WHERE start_s < ?2 "
		    "AND end_s > ?1 ORDER BY start_s, end_s, id",
		    err) < 0 ||
		sql_prepare(&r->sql, &rows,
			"SELECT kind, namespace, pod, pod_uid, container, gpu, device, resource, "
			"mode, held_ns, gpu_ns, busy_ns, busy_unknown, memory_byte_seconds, "
			"memory_peak_bytes, cost_nano FROM charges JOIN accounts ON account = id "
			"WHERE period = ? ORDER BY account",
			err) < 0)
		return -1;
	sql_int(periods, 1, from_s > INT64_MAX ? INT64_MAX : (int64_t)from_s);
	sql_int(periods, 2, to_s > INT64_MAX ? INT64_MAX : (int64_t)to_s);
	return read_periods(r, periods, rows, err);
}

static int begin_usage_read(struct usage_db_reading *r, const char *path, int flags,
	struct error *err)
{
	int got = sql_open(&r->sql, path, flags, err);

	if (got >= 0)
		got = sql_run(&r->sql, "BEGIN", err);
	if (got >= 0)
		got = sql_identify(&r->sql, err); /* the first access to the file */
	if (got < 0)
		sql_finip(&r->sql);
	return got;
}

int usage_db_read(const char *path, uint64_t from_s, uint64_t to_s, usage_db_each each,
	void *arg, struct error *err)
{
	struct usage_db_reading r = { .each = each, .arg = arg };
	struct error why = ERROR_INIT;
	int got = check_file(path, err);

	if (got < 0)
		return got;
	got = begin_usage_read(&r, path, SQLITE_OPEN_READONLY, &why);
	/* If an agent was killed during a write, its journal is still there. A reader with read permission only
	 * cannot roll the write back. A reader with write permission can, and creates no file. */
	if (got < 0 && why.code == ERR_PERMISSION)
		got = begin_usage_read(&r, path, SQLITE_OPEN_READWRITE, &why);
	if (got < 0 && why.code == ERR_PERMISSION)
		return error_set(err, ERR_PERMISSION,
			"read ledger '%s': no right to read it, or an agent was killed while it wrote, and "
			"who repairs it must have the right to write; the agent does so when it starts",
			path);
	if (got < 0) {
		error_copy(err, &why);
		return got;
	}
	if (got == 0)
		got = read_usage_periods(&r, from_s, to_s, err);
	else
		got = 0; /* the agent has just created the file */
	sql_finip(&r.sql);
	return got;
}

/* --- totals --- */

int usage_db_totals_set(struct usage_db *db, const struct usage_db_batch *b, struct error *err)
{
	CLEANUP(sql_finalizep) sqlite3_stmt *stmt = NULL;

	if (sql_run(&db->sql, "DELETE FROM totals", err) < 0 ||
		sql_prepare(&db->sql, &stmt,
			"INSERT OR REPLACE INTO totals VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
			err) < 0)
		return -1;
	for (size_t i = 0; i < b->n_totals; i++) {
		sql_text(stmt, 1, b->totals[i].key);
		for (int j = 0; j < USAGE_DB_TOTAL_COUNT; j++)
			sql_int(stmt, j + 2, b->totals[i].v[j]);
		if (sql_do(&db->sql, stmt, "write", err) < 0)
			return -1;
	}
	return 0;
}

int usage_db_totals_load(struct usage_db *db,
	int (*each)(void *arg, const struct usage_db_total *total, struct error *err),
	void *arg, struct error *err)
{
	CLEANUP(sql_finalizep) sqlite3_stmt *stmt = NULL;
	int r = usage_db_reopen(db, err);

	if (r >= 0)
		r = sql_prepare(&db->sql, &stmt, "SELECT * FROM totals ORDER BY key", err);
	while (r == 0) {
		struct usage_db_total t;

		r = sql_step(&db->sql, stmt, "read", err);
		if (r <= 0)
			return r;
		t.key = sql_column(stmt, 0);
		for (int j = 0; j < USAGE_DB_TOTAL_COUNT; j++)
			t.v[j] = sqlite3_column_int64(stmt, j + 1);
		r = each(arg, &t, err);
	}
	return r;
}
