/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tables as CSV (RFC 4180) with the names of the columns in the first line. A reader lists the columns that it
 * knows. Their order in the file is free, and other columns are ignored. Thread: any.
 */
#include "lib/base/cleanup.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COLUMNS_MAX       32   /* known to a reader */
#define COLUMNS_WIDTH_MAX 1024 /* columns of a file */
#define COLUMNS_CELL_MAX  4096 /* bytes of a cell */

struct csv_column {
	const char *name;
	bool optional;
};

/* A row during the read. A cell that the row or the file lacks is "". */
struct columns_row {
	const char *name; /* of the file */
	uint64_t line;    /* where the row begins, from 1 */
	const struct csv_column *columns;
	const char *cell[COLUMNS_MAX]; /* by position in .columns; borrowed for the call */
	struct error *err;
};

/*
 * Calls @visit for each row after the first. @visit returns < 0, with .err set, to stop. Errors are ERR_INVALID or
 * ERR_LIMIT and begin with "name:line: ".
 */
int columns_read(const char *name, const char *text, size_t len,
	const struct csv_column *columns, size_t n,
	int (*visit)(void *arg, const struct columns_row *row), void *arg,
	struct error *err) MUST_USE;

/* Sets "name:line: column: expected ..., found '...'" and returns -1. */
int columns_fail(const struct columns_row *row, size_t column, const char *expected);

/* The cell as a whole number from @min to @max. */
int columns_uint(const struct columns_row *row, size_t column, uint64_t min, uint64_t max,
	uint64_t *ret) MUST_USE;
