/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* SQLite with the tree's errors. Private to src/io/usage-db. Thread: the owner of the connection. */
#include "lib/base/error.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* The file itself names its program and format. */
#define USAGE_DB_APPLICATION_ID 0x47505531 /* "GPU1" */
#define USAGE_DB_VERSION        1

struct sql {
	sqlite3 *db;
	const char *path; /* for messages; borrowed */
	const char *what; /* for messages: "read" or "write"; borrowed */
	bool damaged;     /* an error said that the file is damaged */
	bool full;        /* an error said that the file is full */
};

void sql_finip(struct sql *s); /* closes; all statements must be finalized before */

/* Opens @path with SQLite's @flags and fixed settings. On an error @s is closed. */
int sql_open(struct sql *s, const char *path, int flags, struct error *err) MUST_USE;

/* Runs statements without parameters and results. */
int sql_run(struct sql *s, const char *text, struct error *err) MUST_USE;

/* The first column of the first row; ERR_INTERNAL if there is none. */
int sql_number(struct sql *s, const char *text, int64_t *ret, struct error *err) MUST_USE;

/* Compiles one statement. The caller declares *ret with CLEANUP(sql_finalizep). */
int sql_prepare(struct sql *s, sqlite3_stmt **ret, const char *text,
	struct error *err) MUST_USE;
void sql_finalizep(sqlite3_stmt **stmt); /* NULL is fine */

/* One step. 1: a row; 0: the end; < 0: failed. At 0 and < 0 the statement is reset. */
int sql_step(struct sql *s, sqlite3_stmt *stmt, const char *what, struct error *err) MUST_USE;

/* Runs a statement, ignoring its rows. */
int sql_do(struct sql *s, sqlite3_stmt *stmt, const char *what, struct error *err) MUST_USE;

/* Rolls back the transaction, if any; errors are ignored. */
void sql_rollback(struct sql *s);

/* Bind parameter @at, from 1. @text is borrowed until the reset; NULL is "". A failure (out of memory) shows at
 * the step: the parameter is NULL where NULL is not allowed. */
void sql_text(sqlite3_stmt *stmt, int at, const char *text);
void sql_int(sqlite3_stmt *stmt, int at, int64_t v);

/* A column as text, never NULL; borrowed until the next step. */
const char *sql_column(sqlite3_stmt *stmt, int at);

/* 0: a database of usage records; 1: empty; < 0: ERR_UNSUPPORTED or a failure. */
int sql_identify(struct sql *s, struct error *err) MUST_USE;
