/* SPDX-License-Identifier: Apache-2.0 */
#include "io/usage-db/internal.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_CAP 4096
#define DAMAGED  ".damaged-"

/* Strict tables: a sum beyond 63 bits fails and never becomes a float. */
static const char schema[] =
	"CREATE TABLE periods(id INTEGER PRIMARY KEY, start_s INTEGER NOT NULL, "
	"end_s INTEGER NOT NULL, node TEXT NOT NULL, instance_type TEXT NOT NULL, "
	"region TEXT NOT NULL, currency TEXT NOT NULL, price_source TEXT NOT NULL, "
	"price_nano_per_hour INTEGER NOT NULL, gpus INTEGER NOT NULL, covered_ns INTEGER NOT NULL, "
	"cost_nano INTEGER NOT NULL, UNIQUE(start_s, end_s, node, instance_type, region, currency, "
	"price_source, price_nano_per_hour, gpus)) STRICT;"
	"CREATE TABLE accounts(id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, "
	"namespace TEXT NOT NULL, pod TEXT NOT NULL, pod_uid TEXT NOT NULL, container TEXT NOT NULL, "
	"gpu TEXT NOT NULL, device TEXT NOT NULL, resource TEXT NOT NULL, mode TEXT NOT NULL, "
	"UNIQUE(pod_uid, device, container, resource, mode, kind, namespace, pod, gpu)) STRICT;"
	"CREATE TABLE charges(period INTEGER NOT NULL, account INTEGER NOT NULL, "
	"held_ns INTEGER NOT NULL, gpu_ns INTEGER NOT NULL, busy_ns INTEGER NOT NULL, "
	"busy_unknown INTEGER NOT NULL, memory_byte_seconds INTEGER NOT NULL, "
	"memory_peak_bytes INTEGER NOT NULL, cost_nano INTEGER NOT NULL, "
	"PRIMARY KEY(period, account)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE totals(key TEXT PRIMARY KEY, v0 INTEGER NOT NULL, v1 INTEGER NOT NULL, "
	"v2 INTEGER NOT NULL, v3 INTEGER NOT NULL, v4 INTEGER NOT NULL, v5 INTEGER NOT NULL, "
	"v6 INTEGER NOT NULL, v7 INTEGER NOT NULL) STRICT, WITHOUT ROWID;";

/* Creates the file, or checks that the existing file is a regular file with one link. */
static int make_file(const char *path, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	struct stat st;

	/* An existing file is not opened: closing it would drop this process's locks. */
	if (lstat(path, &st) == 0) {
		if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
			return error_set(err, ERR_INVALID,
				"open ledger '%s': expected a regular file with one name",
				path);
		if ((st.st_mode & 07777) != 0600 && chmod(path, 0600) < 0)
			return error_sys(err, errno, "change the mode of '%s'", path);
		return 0;
	}
	if (errno != ENOENT)
		return error_sys(err, errno, "open ledger '%s'", path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? error_sys(err, errno, "make ledger '%s'", path) : 0;
}

static int make_schema(struct usage_db *db, struct error *err)
{
	char text[128];

	(void)snprintf(text, sizeof(text),
		"PRAGMA application_id = %d; PRAGMA user_version = %d", USAGE_DB_APPLICATION_ID,
		USAGE_DB_VERSION);
	if (sql_run(&db->sql, schema, err) < 0 || sql_run(&db->sql, text, err) < 0)
		return -1;
	return 0;
}

static int check_pages(struct usage_db *db, struct error *err)
{
	CLEANUP(sql_finalizep) sqlite3_stmt *stmt = NULL;

	if (sql_prepare(&db->sql, &stmt, "PRAGMA quick_check(1)", err) < 0 ||
		sql_step(&db->sql, stmt, "check", err) < 0)
		return -1;
	if (strcmp(sql_column(stmt, 0), "ok") != 0) {
		db->sql.damaged = true;
		return error_set(err, ERR_INVALID, "check ledger '%s': %.200s", db->path,
			sql_column(stmt, 0));
	}
	return 0;
}

/* In one transaction: identifies the file, then checks its pages, or creates the schema if it is empty. */
static int prepare_usage_db(struct usage_db *db, struct error *err)
{
	int r;

	if (sql_run(&db->sql, "BEGIN IMMEDIATE", err) < 0)
		return -1;
	r = sql_identify(&db->sql, err);
	if (r < 0) {
		db->sql.damaged |= err && err->code == ERR_UNSUPPORTED;
		return -1;
	}
	r = r > 0 ? make_schema(db, err) : check_pages(db, err);
	return r < 0 ? -1 : sql_run(&db->sql, "COMMIT", err);
}

static int open_usage_db(struct usage_db *db, struct error *err)
{
	struct error why = ERROR_INIT;
	int64_t size = 0;
	char text[160];
	int r = make_file(db->path, &why);

	if (r >= 0)
		r = sql_open(&db->sql, db->path, SQLITE_OPEN_READWRITE, &why);
	if (r >= 0)
		r = sql_run(&db->sql, "PRAGMA journal_mode = TRUNCATE", &why);
	if (r >= 0)
		r = sql_number(&db->sql, "PRAGMA page_size", &size, &why);
	if (r >= 0 && size > 0) {
		(void)snprintf(text, sizeof(text),
			"PRAGMA journal_size_limit = 0; PRAGMA max_page_count = %llu",
			(unsigned long long)(db->max_bytes / (uint64_t)size));
		r = sql_run(&db->sql, text, &why);
	}
	if (r >= 0)
		r = prepare_usage_db(db, &why);
	if (r < 0) {
		sql_rollback(&db->sql);
		sql_finip(&db->sql);
		error_copy(err, &why);
	}
	return r;
}

/* Of the renamed files only @keep stays: each is as large as the usage records. */
static void remove_old_renamed_files(const char *path, const char *keep)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	CLEANUP(freep) char *folder = strndup(path, slash ? (size_t)(slash - path) : 0);
	char prefix[256];
	DIR *dir = folder ? opendir(!slash ? "." : *folder ? folder : "/") : NULL;
	struct dirent *e;

	if (!dir)
		return;
	(void)snprintf(prefix, sizeof(prefix), "%.200s" DAMAGED, name);
	while ((e = readdir(dir)) != NULL) {
		if (!strncmp(e->d_name, prefix, strlen(prefix)) && strcmp(e->d_name, keep) != 0)
			(void)unlinkat(dirfd(dir), e->d_name, 0);
	}
	(void)closedir(dir);
}

int usage_db_recreate(struct usage_db *db, struct error *err)
{
	char aside[PATH_CAP], journal[PATH_CAP];
	struct error why = ERROR_INIT;
	int n = snprintf(aside, sizeof(aside), "%s" DAMAGED "%llu", db->path,
		(unsigned long long)(time_wall_ns() / NS_PER_SEC));
	const char *slash = strrchr(db->path, '/');

	sql_finip(&db->sql);
	if (n < 0 || (size_t)n >= sizeof(aside))
		return error_set(err, ERR_LIMIT, "the path '%.100s...' is too long", db->path);
	/* The journal first, so that SQLite never takes it for the new file's journal. */
	(void)snprintf(journal, sizeof(journal), "%s-journal", db->path);
	if (unlink(journal) < 0 && errno != ENOENT)
		return error_sys(err, errno, "remove '%s'", journal);
	if (rename(db->path, aside) < 0)
		return error_sys(err, errno, "rename the damaged ledger '%s'", db->path);
	remove_old_renamed_files(db->path, slash ? aside + (slash - db->path) + 1 : aside);
	if (open_usage_db(db, &why) < 0) {
		error_copy(err, &why);
		return -1;
	}
	(void)error_set(err, ERR_INVALID,
		"ledger '%s' was damaged, or of another program or version: it is now '%s', and a new one is begun",
		db->path, aside);
	return USAGE_DB_RECREATED;
}

int usage_db_reopen(struct usage_db *db, struct error *err)
{
	struct error why = ERROR_INIT;
	int r = db->sql.db ? 0 : open_usage_db(db, &why);

	if (r < 0 && db->sql.damaged)
		r = usage_db_recreate(db, &why);
	if (r != 0)
		error_copy(err, &why);
	return r;
}

int usage_db_open(struct usage_db **ret, const char *path, uint64_t max_bytes,
	struct error *err)
{
	CLEANUP(usage_db_closep) struct usage_db *db = calloc(1, sizeof(*db));
	int r;

	*ret = NULL;
	if (!db)
		return error_nomem(err);
	db->path = strdup(path);
	db->max_bytes = max_bytes < USAGE_DB_BYTES_MIN ? USAGE_DB_BYTES_MIN : max_bytes;
	if (!db->path)
		return error_nomem(err);
	r = usage_db_reopen(db, err);
	if (r >= 0)
		*ret = STEAL_PTR(db);
	return r;
}

struct usage_db *usage_db_close(struct usage_db *db)
{
	if (!db)
		return NULL;
	sql_finip(&db->sql);
	free(db->path);
	free(db);
	return NULL;
}
