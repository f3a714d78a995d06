/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the parts of `gpuslice status` share: reading an agent's JSON, of which nothing is believed, and tables
 * whose columns are as wide as they must be. Pure; thread: any.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATUS_CELL_MAX 160
#define STATUS_COLUMNS  9 /* at most */
#define STATUS_ROWS_MAX 65536
#define RED             "\033[31m"
#define YELLOW          "\033[33m"
#define GREEN           "\033[32m"
#define BOLD            "\033[1m"
#define PLAIN           "\033[0m"

struct status_row {
	char cells[STATUS_COLUMNS][STATUS_CELL_MAX];
	const char *colour; /* of the whole row; NULL: plain */
};

/* Text of a key, "" if absent or of another type. */
const char *status_get_text(const json_t *o, const char *key);
/* 0 if absent or of another type. */
int64_t status_number(const json_t *o, const char *key);
/* "512 MiB" into a cell; @none where @bytes is no number, as it is not known or there is none. */
void status_format_mib(char cell[STATUS_CELL_MAX], const json_t *bytes, const char *none);

/* Copies with every control character replaced, so that no name can drive the terminal. */
void status_clean(char *to, size_t cap, const char *from);

/* The "index" of a GPU or MIG device: 0 or 0:1; "-": it is not there now. */
void status_format_index(char cell[STATUS_CELL_MAX], const json_t *gpu);
/* The beginning of a slice's ID, which is enough to tell slices of a node apart. */
void status_format_slice_id(char cell[STATUS_CELL_MAX], const json_t *slice);

/*
 * "team/pod (container)" of the holder @h. Names that are too long for the cell are cut in their middle: the end is
 * what tells the pods of a Deployment apart. Leaves room for " and 65535 more".
 */
void status_format_pod(char cell[STATUS_CELL_MAX], const json_t *h);

void status_render_table(struct buf *b, const char *const *headers, size_t columns,
	const struct status_row *rows, size_t n, bool colour);

/* Empty ones for each element of @list; yours, free(). NULL: ERR_LIMIT or ERR_NOMEM. */
struct status_row *status_new_rows(const json_t *list, size_t *ret_n, struct error *err);

/* One line for each text, the first behind the title. */
void status_render_list(struct buf *b, const char *title, const json_t *list);
