/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage_db_add(): writes one batch in one transaction, and drops old buckets if the file is full (usage-db.h).
 */
#include "io/usage-db/internal.h"

#include <errno.h>

#define MAKE_ROOM_TRIES 64 /* each drops a quarter of the buckets: none is left */

static int save_usage_period(struct usage_db *db, const struct usage_db_period *p,
	int64_t *ret_id, struct error *err)
{
	static const char text[] =
		"INSERT INTO periods(start_s, end_s, node, instance_type, region, currency, "
		"price_source, price_nano_per_hour, gpus, covered_ns, cost_nano) "
		"VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)" USAGE_DB_ADD_PERIOD;
	CLEANUP(sql_finalizep) sqlite3_stmt *stmt = NULL;
	const char *const texts[] = { p->node, p->instance_type, p->region, p->currency,
		p->price_source };

	if (sql_prepare(&db->sql, &stmt, text, err) < 0)
		return -1;
	sql_int(stmt, 1, (int64_t)p->start_s);
	sql_int(stmt, 2, (int64_t)p->start_s + USAGE_DB_BUCKET_S);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		sql_text(stmt, 3 + (int)i, texts[i]);
	sql_int(stmt, 8, p->price_nano_per_hour);
	sql_int(stmt, 9, p->gpus);
	sql_int(stmt, 10, p->covered_ns);
	sql_int(stmt, 11, p->cost_nano);
	if (sql_step(&db->sql, stmt, "write", err) < 0)
		return -1;
	*ret_id = sqlite3_column_int64(stmt, 0);
	return sql_do(&db->sql, stmt, "write", err);
}

/* Sets *ret_id to the account that @row belongs to; creates the account if needed. */
static int save_usage_account(struct usage_db *db, sqlite3_stmt *find, sqlite3_stmt *make,
	const struct usage_db_row *row, int64_t *ret_id, struct error *err)
{
	const char *const texts[] = { row->namespace_, row->pod, row->pod_uid, row->container,
		row->gpu, row->device, row->resource, row->mode };
	sqlite3_stmt *const both[] = { find, make };
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(both) && r == 0; i++) {
		sql_int(both[i], 1, row->kind);
		for (size_t j = 0; j < ARRAY_LEN(texts); j++)
			sql_text(both[i], 2 + (int)j, texts[j]);
		r = sql_step(&db->sql, both[i], "write", err);
		if (r > 0)
			*ret_id = sqlite3_column_int64(both[i], 0);
		if (r > 0 && sql_do(&db->sql, both[i], "write", err) < 0)
			return -1;
	}
	return r < 0 ? -1 : 0;
}

static int save_usage_row(struct usage_db *db, sqlite3_stmt *stmt, int64_t period,
	int64_t account, const struct usage_db_row *row, struct error *err)
{
	const int64_t numbers[] = { period, account, row->allocated_ns, row->gpu_ns,
		row->busy_ns,
		(row->busy_unknown ? USAGE_DB_BUSY_UNKNOWN : 0) |
			(row->memory_unknown ? USAGE_DB_MEMORY_UNKNOWN : 0),
		row->memory_byte_seconds, row->memory_peak_bytes, row->cost_nano };

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		sql_int(stmt, 1 + (int)i, numbers[i]);
	return sql_do(&db->sql, stmt, "write", err);
}

static int save_usage_rows(struct usage_db *db, const struct usage_db_batch *b, int64_t period,
	struct error *err)
{
	CLEANUP(sql_finalizep) sqlite3_stmt *find = NULL;
	CLEANUP(sql_finalizep) sqlite3_stmt *make = NULL;
	CLEANUP(sql_finalizep) sqlite3_stmt *put = NULL;

	if (sql_prepare(&db->sql, &find,
		    "SELECT id FROM accounts WHERE kind = ? AND namespace = ? AND pod = ? AND "
		    "pod_uid = ? AND container = ? AND gpu = ? AND device = ? AND resource = ? "
		    "AND mode = ?",
		    err) < 0 ||
		sql_prepare(&db->sql, &make,
			"INSERT INTO accounts(kind, namespace, pod, pod_uid, container, gpu, device, "
			"resource, mode) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
			err) < 0 ||
		sql_prepare(&db->sql, &put,
			"INSERT INTO charges VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)" USAGE_DB_ADD,
			err) < 0)
		return -1;
	for (size_t i = 0; i < b->n_deltas; i++) {
		int64_t account = 0;

		if (save_usage_account(db, find, make, &b->deltas[i], &account, err) < 0 ||
			save_usage_row(db, put, period, account, &b->deltas[i], err) < 0)
			return -1;
	}
	return 0;
}

static int save_usage_batch(struct usage_db *db, const struct usage_db_batch *b,
	struct error *err)
{
	int64_t period = 0;

	if (sql_run(&db->sql, "BEGIN IMMEDIATE", err) < 0)
		return -1;
	if (b->period && (save_usage_period(db, b->period, &period, err) < 0 ||
				 save_usage_rows(db, b, period, err) < 0))
		return -1;
	if (b->set_totals && usage_db_totals_set(db, b, err) < 0)
		return -1;
	return sql_run(&db->sql, "COMMIT", err);
}

/* The batch did not fit. Makes space if the file's own limit was the cause. */
static int free_batch_space(struct usage_db *db, struct error *err)
{
	int64_t pages = 0, max = 0;
	struct error why = ERROR_INIT;
	int r;

	if (sql_number(&db->sql, "PRAGMA page_count", &pages, &why) < 0 ||
		sql_number(&db->sql, "PRAGMA max_page_count", &max, &why) < 0 ||
		pages + pages / 16 + 64 < max)
		return -1; /* the disk is full: @err says so */
	r = usage_db_drop_oldest(db, &why);
	if (r < 0) {
		error_copy(err, &why);
		return -1;
	}
	if (r == 0)
		return error_set(err, ERR_LIMIT,
			"ledger '%s': what is to be kept does not fit into %llu bytes",
			db->path, (unsigned long long)db->max_bytes);
	return 0;
}

int usage_db_add(struct usage_db *db, const struct usage_db_batch *b, uint64_t now_s,
	struct error *err)
{
	struct error ignored = ERROR_INIT;
	bool renewed;
	int r = usage_db_check(b, err);

	if (r >= 0)
		r = usage_db_reopen(db, err);
	if (r < 0)
		return r;
	renewed = r == USAGE_DB_RECREATED;
	for (unsigned i = 0; i < MAKE_ROOM_TRIES; i++) {
		struct error why = ERROR_INIT;

		r = save_usage_batch(db, b, &why);
		if (r == 0)
			break;
		sql_rollback(&db->sql);
		if (db->sql.damaged && !renewed) {
			r = usage_db_recreate(db, err);
			renewed = r == USAGE_DB_RECREATED;
			if (renewed)
				continue;
			return r;
		}
		if (!db->sql.full || free_batch_space(db, &why) < 0) {
			error_copy(err, &why);
			return -1;
		}
	}
	if (r < 0)
		return error_set(err, ERR_LIMIT, "ledger '%s': no room can be made", db->path);
	/* The batch is in the file. The next call can merge and drop what this call cannot. */
	if (usage_db_age(db, now_s, &ignored) < 0)
		sql_rollback(&db->sql);
	return renewed ? USAGE_DB_RECREATED : 0;
}
