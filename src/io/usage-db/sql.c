/* SPDX-License-Identifier: Apache-2.0 */
#include "io/usage-db/sql.h"

#include "io/usage-db/usage-db.h"

#include <errno.h>
#include <stdio.h>

#define USAGE_DB_EXPECTED \
	"the usage records of gpusliced (" USAGE_DB_FILE " in its state directory)"
#define TEXT_MAX (64 << 10) /* bytes of any value or statement */

void sql_finip(struct sql *s)
{
	(void)sqlite3_close_v2(s->db);
	s->db = NULL;
}

/* Sets @err to the connection's last failure, in @what ("write", "read"). Returns -1. */
static int sql_fail(struct sql *s, const char *what, struct error *err)
{
	int code = s->db ? sqlite3_errcode(s->db) : SQLITE_NOMEM;
	int sys = s->db ? sqlite3_system_errno(s->db) : 0;
	const char *text = s->db ? sqlite3_errmsg(s->db) : "";

	s->damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
	s->full = false;
	switch (code) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return error_set(err, ERR_UNAVAILABLE,
			"%s ledger '%s': somebody else has it locked", what, s->path);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return error_set(err, ERR_INVALID,
			"%s ledger '%s': expected " USAGE_DB_EXPECTED ", found %s (%s)", what,
			s->path,
			code == SQLITE_NOTADB ? "a file of another kind" : "a damaged one",
			text);
	case SQLITE_FULL:
		/* The disk or the file's own limit? free_batch_space() finds out. */
		s->full = true;
		(void)error_sys(err, ENOSPC, "%s ledger '%s'", what, s->path);
		return -1;
	case SQLITE_NOMEM:
		return error_nomem(err);
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return error_set(err, ERR_PERMISSION, "%s ledger '%s': %s", what, s->path,
			text);
	case SQLITE_CONSTRAINT:
		return error_set(err, ERR_LIMIT,
			"%s ledger '%s': a number is larger than the ledger can hold (%s)",
			what, s->path, text);
	default:
		if (sys)
			return error_sys(err, sys, "%s ledger '%s': %s", what, s->path, text);
		return error_set(err, ERR_IO, "%s ledger '%s': %s", what, s->path, text);
	}
}

int sql_open(struct sql *s, const char *path, int flags, struct error *err)
{
	/* A file from elsewhere may have a hostile schema: it must do nothing but hold tables. */
	static const char settings[] =
		"PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; "
		"PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; "
		"PRAGMA synchronous = FULL";

	*s = (struct sql){ .path = path,
		.what = flags & SQLITE_OPEN_READONLY ? "read" : "write" };
	if (sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_FULLMUTEX, NULL) != SQLITE_OK) {
		(void)sql_fail(s, "open", err);
		sql_finip(s);
		return -1;
	}
	(void)sqlite3_extended_result_codes(s->db, 0);
	(void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	(void)sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, TEXT_MAX);
	(void)sqlite3_busy_timeout(s->db, USAGE_DB_BUSY_MS);
	if (sql_run(s, settings, err) < 0) {
		sql_finip(s);
		return -1;
	}
	return 0;
}

int sql_run(struct sql *s, const char *text, struct error *err)
{
	return sqlite3_exec(s->db, text, NULL, NULL, NULL) == SQLITE_OK
		       ? 0
		       : sql_fail(s, s->what, err);
}

int sql_prepare(struct sql *s, sqlite3_stmt **ret, const char *text, struct error *err)
{
	return sqlite3_prepare_v2(s->db, text, -1, ret, NULL) == SQLITE_OK
		       ? 0
		       : sql_fail(s, "read", err);
}

void sql_finalizep(sqlite3_stmt **stmt)
{
	(void)sqlite3_finalize(*stmt);
}

int sql_step(struct sql *s, sqlite3_stmt *stmt, const char *what, struct error *err)
{
	int r = sqlite3_step(stmt);

	if (r == SQLITE_ROW)
		return 1;
	if (r != SQLITE_DONE)
		(void)sql_fail(s, what, err);
	(void)sqlite3_reset(stmt);
	return r == SQLITE_DONE ? 0 : -1;
}

int sql_do(struct sql *s, sqlite3_stmt *stmt, const char *what, struct error *err)
{
	int r;

	do {
		r = sql_step(s, stmt, what, err);
	} while (r > 0);
	return r;
}

int sql_number(struct sql *s, const char *text, int64_t *ret, struct error *err)
{
	CLEANUP(sql_finalizep) sqlite3_stmt *stmt = NULL;
	int r = sql_prepare(s, &stmt, text, err);

	if (r < 0)
		return r;
	r = sql_step(s, stmt, "read", err);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, ERR_INTERNAL, "no answer to: %s", text);
	*ret = sqlite3_column_int64(stmt, 0);
	return 0;
}

void sql_rollback(struct sql *s)
{
	if (s->db && !sqlite3_get_autocommit(s->db))
		(void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

void sql_text(sqlite3_stmt *stmt, int at, const char *text)
{
	(void)sqlite3_bind_text(stmt, at, text ? text : "", -1, SQLITE_STATIC);
}

void sql_int(sqlite3_stmt *stmt, int at, int64_t v)
{
	(void)sqlite3_bind_int64(stmt, at, v);
}

const char *sql_column(sqlite3_stmt *stmt, int at)
{
	const unsigned char *text = sqlite3_column_text(stmt, at);

	return text ? (const char *)text : "";
}

int sql_identify(struct sql *s, struct error *err)
{
	int64_t application = 0, version = 0, objects = 0;

	if (sql_number(s, "SELECT count(*) FROM sqlite_schema", &objects, err) < 0 ||
		sql_number(s, "PRAGMA application_id", &application, err) < 0 ||
		sql_number(s, "PRAGMA user_version", &version, err) < 0)
		return -1;
	if (objects == 0 && application == 0 && version == 0)
		return 1;
	if (application != USAGE_DB_APPLICATION_ID)
		return error_set(err, ERR_UNSUPPORTED,
			"read ledger '%s': expected " USAGE_DB_EXPECTED
			", found a database of another program",
			s->path);
	if (version != USAGE_DB_VERSION)
		return error_set(err, ERR_UNSUPPORTED,
			"read ledger '%s': expected version %d, found %lld", s->path,
			USAGE_DB_VERSION, (long long)version);
	return 0;
}
