/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* SQLite behind our errors. Inside src/io/usage-db only. Thread: whoever has the connection. */
#include "lib/base/error.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* The file says itself whose it is and of which form. */
#define USAGE_DB_APPLICATION_ID 0x47505531 /* "GPU1" */
#define USAGE_DB_VERSION        1

struct sql {
	sqlite3 *db;
	const char *path; /* for messages; borrowed */
	const char *what; /* likewise: "read" or "write" */
	bool damaged;     /* an error said that the file is */
	bool full;        /* an error said that the ceiling of the file is reached */
};

void sql_finip(struct sql *s); /* closes; not to be called with statements open */

/* Opens @path with SQLite's @flags and our settings. On error @s is closed. */
int sql_open(struct sql *s, const char *path, int flags, struct error *err) MUST_USE;

/* @err of the last failure of the connection, while trying to @what ("write", "read"). Returns -1. */
int sql_fail(struct sql *s, const char *what, struct error *err);

/* Statements without parameters and results. */
int sql_run(struct sql *s, const char *text, struct error *err) MUST_USE;

/* The first column of the first row; ERR_INTERNAL if there is none. */
int sql_number(struct sql *s, const char *text, int64_t *ret, struct error *err) MUST_USE;

int sql_prepare(struct sql *s, sqlite3_stmt **ret, const char *text,
	struct error *err) MUST_USE;
void sql_finalizep(sqlite3_stmt **stmt);

/* One step: 1 a row, 0 the end (and the statement is reset), < 0 failed (reset as well). */
int sql_step(struct sql *s, sqlite3_stmt *stmt, const char *what, struct error *err) MUST_USE;

/* Runs a statement that gives no rows. */
int sql_do(struct sql *s, sqlite3_stmt *stmt, const char *what, struct error *err) MUST_USE;

/* Ends a transaction without a word, if there is one. */
void sql_rollback(struct sql *s);

/* Binds; a failure (no memory) shows at the step, as a parameter that is NULL where none may be. */
void sql_text(sqlite3_stmt *stmt, int at,
	const char *text); /* borrowed until the reset; NULL: "" */
void sql_int(sqlite3_stmt *stmt, int at, int64_t v);

/* A column as a text that is never NULL; borrowed until the next step. */
const char *sql_column(sqlite3_stmt *stmt, int at);

/* 0: the database is one of ours, 1: it is empty, < 0: ERR_UNSUPPORTED or a failure. */
int sql_identify(struct sql *s, struct error *err) MUST_USE;
