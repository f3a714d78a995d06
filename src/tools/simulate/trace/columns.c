/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/simulate/trace/columns.h"

#include "lib/base/parse.h"

#include <csv.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NOT_WANTED SIZE_MAX

struct columns_reader {
	struct columns_row row;
	size_t n; /* columns that the reader knows */
	int (*visit)(void *arg, const struct columns_row *row);
	void *arg;

	uint64_t line; /* line of the text at the parser */
	bool has_head, in_row;
	size_t width, at;                    /* columns of the file; cells of this row so far */
	size_t column_of[COLUMNS_WIDTH_MAX]; /* position in .columns of the file's column */
	char cells[COLUMNS_MAX][COLUMNS_CELL_MAX + 1];
	int status;
};

static int set_columns_error(struct columns_reader *r, enum error_code code, const char *text)
{
	if (r->status == 0)
		r->status = error_set(r->row.err, code, "%s:%" PRIu64 ": %s", r->row.name,
			r->line, text);
	return -1;
}

static size_t find_named_column(const struct columns_reader *r, const char *text, size_t len)
{
	for (size_t i = 0; i < r->n; i++)
		if (strlen(r->row.columns[i].name) == len &&
			!memcmp(r->row.columns[i].name, text, len))
			return i;
	return NOT_WANTED;
}

static void add_csv_heading(struct columns_reader *r, const char *text, size_t len)
{
	size_t column = find_named_column(r, text, len);

	if (r->width == COLUMNS_WIDTH_MAX) {
		(void)set_columns_error(r, ERR_LIMIT, "more than 1024 columns");
		return;
	}
	for (size_t i = 0; column != NOT_WANTED && i < r->width; i++) {
		if (r->column_of[i] == column) {
			r->status = error_set(r->row.err, ERR_INVALID,
				"%s:%" PRIu64 ": two columns '%s'", r->row.name, r->line,
				r->row.columns[column].name);
			return;
		}
	}
	r->column_of[r->width++] = column;
}

static void on_csv_cell(void *cell, size_t len, void *arg)
{
	struct columns_reader *r = arg;
	const char *text = cell ? cell : "";
	size_t column;

	if (r->status < 0)
		return;
	if (!r->has_head) {
		add_csv_heading(r, text, len);
		return;
	}
	if (!r->in_row) {
		r->in_row = true;
		r->row.line = r->line;
		r->at = 0;
	}
	if (r->at == r->width) {
		(void)set_columns_error(r, ERR_INVALID,
			"more cells than the first line has columns");
		return;
	}
	column = r->column_of[r->at++];
	if (column == NOT_WANTED)
		return;
	if (len > COLUMNS_CELL_MAX) {
		(void)set_columns_error(r, ERR_LIMIT, "a cell of more than 4096 bytes");
		return;
	}
	if (memchr(text, 0, len)) {
		(void)set_columns_error(r, ERR_INVALID, "a cell with a NUL byte");
		return;
	}
	memcpy(r->cells[column], text, len);
	r->cells[column][len] = 0;
}

static void check_csv_header(struct columns_reader *r)
{
	r->has_head = true;
	for (size_t i = 0; i < r->n; i++) {
		bool there = false;

		for (size_t c = 0; c < r->width; c++)
			there |= r->column_of[c] == i;
		if (there || r->row.columns[i].optional)
			continue;
		r->status = error_set(r->row.err, ERR_INVALID,
			"%s:%" PRIu64 ": no column '%s' in the first line", r->row.name,
			r->line, r->row.columns[i].name);
		return;
	}
}

static void on_csv_row_end(int end, void *arg)
{
	struct columns_reader *r = arg;

	(void)end;
	if (r->status < 0)
		return;
	if (!r->has_head) {
		check_csv_header(r);
		return;
	}
	/* A short row lacks its last cells: they become empty. */
	for (; r->in_row && r->at < r->width; r->at++)
		if (r->column_of[r->at] != NOT_WANTED)
			r->cells[r->column_of[r->at]][0] = 0;
	r->in_row = false;
	if (r->visit(r->arg, &r->row) < 0)
		r->status = -1;
}

/* Parses line by line, so that the first line of each row is known. */
static int parse_columns_text(struct columns_reader *r, struct csv_parser *p, const char *text,
	size_t len)
{
	while (len && r->status == 0) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) + 1 : len;

		r->line++;
		if (csv_parse(p, text, n, on_csv_cell, on_csv_row_end, r) != n)
			return csv_error(p) == CSV_ENOMEM
				       ? (r->status = error_nomem(r->row.err))
				       : set_columns_error(r, ERR_INVALID,
						 "quotes within a cell that is not quoted, or behind its end");
		text += n;
		len -= n;
	}
	if (r->status == 0 && csv_fini(p, on_csv_cell, on_csv_row_end, r) != 0)
		return set_columns_error(r, ERR_INVALID, "a quoted cell without an end");
	if (r->status == 0 && !r->has_head)
		return set_columns_error(r, ERR_INVALID,
			"expected a first line with the names of columns");
	return r->status;
}

int columns_read(const char *name, const char *text, size_t len,
	const struct csv_column *columns, size_t n,
	int (*visit)(void *arg, const struct columns_row *row), void *arg, struct error *err)
{
	CLEANUP(freep) struct columns_reader *r = calloc(1, sizeof(*r));
	struct csv_parser p;
	int status;

	if (!r || csv_init(&p, CSV_STRICT | CSV_STRICT_FINI) != 0)
		return error_nomem(err);
	r->row = (struct columns_row){ .name = name, .columns = columns, .err = err };
	for (size_t i = 0; i < n; i++)
		r->row.cell[i] = r->cells[i];
	r->n = n;
	r->visit = visit;
	r->arg = arg;
	status = parse_columns_text(r, &p, text, len);
	csv_free(&p);
	return status;
}

int columns_fail(const struct columns_row *row, size_t column, const char *expected)
{
	return error_set(row->err, ERR_INVALID,
		"%s:%" PRIu64 ": %s: expected %s, found '%.80s'", row->name, row->line,
		row->columns[column].name, expected, row->cell[column]);
}

int columns_uint(const struct columns_row *row, size_t column, uint64_t min, uint64_t max,
	uint64_t *ret)
{
	char expected[80];

	if (parse_u64(row->cell[column], ret) && *ret >= min && *ret <= max)
		return 0;
	(void)snprintf(expected, sizeof(expected),
		"a whole number from %" PRIu64 " to %" PRIu64, min, max);
	return columns_fail(row, column, expected);
}
