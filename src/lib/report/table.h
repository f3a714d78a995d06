/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text in columns for a terminal, as kubectl prints it: heads in upper case, blanks between columns, no lines. A
 * column is as wide as its widest cell; the last column has no blanks after it. Cells may come from outside.
 *
 * Thread: the owner's.
 */
#include "lib/base/buf.h"
#include "lib/base/strv.h"

#include <stdint.h>

#define TABLE_COLUMNS_MAX 24
#define TABLE_GAP         3 /* as kubectl has it */

struct table {
	struct strv cells;   /* row after row, as they came; the first row is the heads */
	size_t columns, gap; /* the number of columns, and of blanks between two */
	/* Of the widest cells so far. A caller may begin with minimum widths. */
	size_t widths[TABLE_COLUMNS_MAX];
	uint32_t right; /* bit N: the cells of column N, from 0, are at its right edge */
	bool failed;    /* out of memory; table_print() reports it */
};

/* @heads ends with NULL and has TABLE_COLUMNS_MAX texts at most. The gap is TABLE_GAP. table_fini() frees the
 * cells. */
void table_init(struct table *t, const char *const *heads);
void table_fini(struct table *t);
/* Append the next cell, row after row. @text is copied; NULL is "". table_addf() cuts its text at 511 bytes. */
void table_add(struct table *t, const char *text);
void table_addf(struct table *t, const char *fmt, ...) PRINTF(2, 3);

/* Whether there is a row besides the heads. */
bool table_has_rows(const struct table *t);
/* Appends one row without a line end, for callers that add something before or after it. Row 0 is the heads. */
void table_print_row(const struct table *t, size_t row, struct buf *b);
/* Appends all rows. Fails @b if the table has failed. */
void table_print(const struct table *t, struct buf *b);

/*
 * Appends @text as it is in a printed cell: '?' replaces each control character, each mark that changes the direction
 * of text, and each byte that is not UTF-8. Returns the number of columns that it takes. @b NULL: only measures.
 */
size_t table_text(struct buf *b, const char *text);
