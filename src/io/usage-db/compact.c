/* SPDX-License-Identifier: Apache-2.0 */
#include "io/usage-db/internal.h"

/*
 * Old buckets: merged into longer buckets, without changing a sum, and dropped when the file comes near its size
 * limit.
 */

#define MERGE_AT_ONCE 48 /* buckets in one call, which takes milliseconds */

/* Percent of the size limit. Above DROP_ABOVE the oldest buckets are dropped, down to DROP_TO. */
#define DROP_ABOVE 90
#define DROP_TO    80

static const struct {
	int64_t span_s, after_s;
} steps[] = {
	{ 3600, USAGE_DB_HOURS_AFTER_S },
	{ 86400, USAGE_DB_DAYS_AFTER_S },
};

/* The first bucket that is due: id and start; 0: none. The span that it is merged into must have ended as a
 * whole. */
static int find_due(struct usage_db *db, int64_t span_s, int64_t before_s, int64_t *id,
	int64_t *start_s, struct error *err)
{
	CLEANUP(sql_finalizep) sqlite3_stmt *stmt = NULL;
	int r;

	if (sql_prepare(&db->sql, &stmt,
		    "SELECT id, start_s FROM periods WHERE start_s - start_s % ?1 + ?1 <= ?2 AND "
		    "start_s < ?2 AND end_s - start_s < ?1 ORDER BY start_s LIMIT 1",
		    err) < 0)
		return -1;
	sql_int(stmt, 1, span_s);
	sql_int(stmt, 2, before_s);
	r = sql_step(&db->sql, stmt, "read", err);
	if (r > 0) {
		*id = sqlite3_column_int64(stmt, 0);
		*start_s = sqlite3_column_int64(stmt, 1);
	}
	return r;
}

static int move_period(struct usage_db *db, int64_t id, int64_t start_s, int64_t span_s,
	int64_t *ret_id, struct error *err)
{
	CLEANUP(sql_finalizep) sqlite3_stmt *stmt = NULL;

	if (sql_prepare(&db->sql, &stmt,
		    "INSERT INTO periods(start_s, end_s, node, instance_type, region, currency, "
		    "price_source, price_nano_per_hour, gpus, covered_ns, cost_nano) SELECT ?, ?, "
		    "node, instance_type, region, currency, price_source, price_nano_per_hour, "
		    "gpus, covered_ns, cost_nano FROM periods WHERE id = ?" USAGE_DB_ADD_PERIOD,
		    err) < 0)
		return -1;
	sql_int(stmt, 1, start_s - start_s % span_s);
	sql_int(stmt, 2, start_s - start_s % span_s + span_s);
	sql_int(stmt, 3, id);
	if (sql_step(&db->sql, stmt, "write", err) < 0)
		return -1;
	*ret_id = sqlite3_column_int64(stmt, 0);
	return sql_do(&db->sql, stmt, "write", err);
}

/* Runs @text with the parameters @a and @b. */
static int run_with(struct usage_db *db, const char *text, int64_t a, int64_t b,
	struct error *err)
{
	CLEANUP(sql_finalizep) sqlite3_stmt *stmt = NULL;

	if (sql_prepare(&db->sql, &stmt, text, err) < 0)
		return -1;
	sql_int(stmt, 1, a);
	if (sqlite3_bind_parameter_count(stmt) > 1)
		sql_int(stmt, 2, b);
	return sql_do(&db->sql, stmt, "write", err);
}

static int drop_period(struct usage_db *db, int64_t id, struct error *err)
{
	if (run_with(db, "DELETE FROM charges WHERE period = ?", id, 0, err) < 0)
		return -1;
	return run_with(db, "DELETE FROM periods WHERE id = ?", id, 0, err);
}

/* 1: merged a bucket; 0: none is due. */
static int merge_next_period(struct usage_db *db, int64_t span_s, int64_t before_s,
	struct error *err)
{
	int64_t id = 0, start_s = 0, target = 0;
	int r = find_due(db, span_s, before_s, &id, &start_s, err);

	if (r <= 0)
		return r;
	if (move_period(db, id, start_s, span_s, &target, err) < 0 ||
		run_with(db,
			"INSERT INTO charges SELECT ?1, account, held_ns, gpu_ns, busy_ns, "
			"busy_unknown, memory_byte_seconds, memory_peak_bytes, cost_nano FROM "
			"charges WHERE period = ?2" USAGE_DB_ADD,
			target, id, err) < 0 ||
		drop_period(db, id, err) < 0)
		return -1;
	return 1;
}

static int merge_old_periods(struct usage_db *db, uint64_t now_s, struct error *err)
{
	unsigned left = MERGE_AT_ONCE;

	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		int64_t before_s = (int64_t)now_s - steps[i].after_s;
		int r = 1;

		while (r > 0 && left > 0 && before_s > 0) {
			r = merge_next_period(db, steps[i].span_s, before_s, err);
			left--;
		}
		if (r < 0)
			return -1;
	}
	return 0;
}

/* Used pages, in percent of the size limit. */
static int read_used_percent(struct usage_db *db, int64_t *ret_percent, struct error *err)
{
	int64_t pages = 0, unused = 0, max = 1;

	if (sql_number(&db->sql, "PRAGMA page_count", &pages, err) < 0 ||
		sql_number(&db->sql, "PRAGMA freelist_count", &unused, err) < 0 ||
		sql_number(&db->sql, "PRAGMA max_page_count", &max, err) < 0)
		return -1;
	*ret_percent = (pages - unused) * 100 / (max > 0 ? max : 1);
	return 0;
}

/* Drops the oldest bucket, unless it begins with the newest one. 1: dropped; 0: none. */
static int drop_oldest_period(struct usage_db *db, struct error *err)
{
	CLEANUP(sql_finalizep) sqlite3_stmt *stmt = NULL;
	int64_t id;
	int r;

	if (sql_prepare(&db->sql, &stmt,
		    "SELECT id FROM periods WHERE start_s < (SELECT max(start_s) FROM periods) "
		    "ORDER BY start_s LIMIT 1",
		    err) < 0)
		return -1;
	r = sql_step(&db->sql, stmt, "read", err);
	if (r <= 0)
		return r;
	id = sqlite3_column_int64(stmt, 0);
	(void)sqlite3_reset(stmt);
	return drop_period(db, id, err) < 0 ? -1 : 1;
}

static int drop_unreferenced_rows(struct usage_db *db, struct error *err)
{
	return sql_run(&db->sql,
		"DELETE FROM accounts WHERE id NOT IN (SELECT account FROM charges)", err);
}

static int drop_excess_periods(struct usage_db *db, struct error *err)
{
	int64_t percent = 0;
	int r = 1;

	if (read_used_percent(db, &percent, err) < 0)
		return -1;
	if (percent <= DROP_ABOVE)
		return 0;
	while (r > 0 && percent > DROP_TO) {
		r = drop_oldest_period(db, err);
		if (r < 0 || read_used_percent(db, &percent, err) < 0)
			return -1;
	}
	return drop_unreferenced_rows(db, err);
}

int usage_db_age(struct usage_db *db, uint64_t now_s, struct error *err)
{
	if (now_s > INT64_MAX / 2)
		return error_set(err, ERR_INVALID, "ledger: no such time");
	if (sql_run(&db->sql, "BEGIN IMMEDIATE", err) < 0 ||
		merge_old_periods(db, now_s, err) < 0 || drop_excess_periods(db, err) < 0)
		return -1;
	return sql_run(&db->sql, "COMMIT", err);
}

static int drop_quarter(struct usage_db *db, struct error *err)
{
	int64_t n = 0;
	int r = 1;

	if (sql_run(&db->sql, "BEGIN IMMEDIATE", err) < 0 ||
		sql_number(&db->sql, "SELECT count(*) FROM periods", &n, err) < 0)
		return -1;
	n = n / 4 + 1;
	for (int64_t i = 0; i < n && r > 0; i++) {
		r = drop_oldest_period(db, err);
		if (i == 0 && r == 0)
			n = 0;
	}
	if (r < 0 || drop_unreferenced_rows(db, err) < 0 ||
		sql_run(&db->sql, "COMMIT", err) < 0)
		return -1;
	return n > 0;
}

int usage_db_drop_oldest(struct usage_db *db, struct error *err)
{
	int r = drop_quarter(db, err);

	if (r < 0)
		sql_rollback(&db->sql);
	return r;
}
