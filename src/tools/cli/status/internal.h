/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of `gpuslice status`: reading the agent's JSON, which is not trusted, tables with columns
 * as wide as their cells, and the sections of the output. Pure. Thread: any.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- the JSON and tables --- */

#define STATUS_CELL_MAX 160
#define STATUS_COLUMNS  9 /* limit */
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

/* The text of a key; "": missing or of another type. */
const char *status_get_text(const json_t *o, const char *key);
/* 0: missing or of another type. */
int64_t status_number(const json_t *o, const char *key);
/* A number into a cell; @none if @n is none, because the value is unknown or does not exist. */
void status_format_number(char cell[STATUS_CELL_MAX], const json_t *n, const char *none);
/* "512 MiB" into a cell; @none if @bytes is no number, because the value is unknown or does not
 * exist. */
void status_format_mib(char cell[STATUS_CELL_MAX], const json_t *bytes, const char *none);

/* Copies and replaces every control character, so that no name can control the terminal. */
void status_clean(char *to, size_t cap, const char *from);

/* The "index" of a GPU or MIG device: 0 or 0:1; "-": the device is gone. */
void status_format_index(char cell[STATUS_CELL_MAX], const json_t *gpu);
/* The first characters of a slice's ID, enough to distinguish the slices of a node. */
void status_format_slice_id(char cell[STATUS_CELL_MAX], const json_t *slice);

/*
 * "team/pod (container)" of the holder @h. Long names are cut in the middle: the end distinguishes the
 * pods of a Deployment. Leaves room for " and 65535 more".
 */
void status_format_pod(char cell[STATUS_CELL_MAX], const json_t *h);

/* Appends @headers, in bold if @colour, and the first @columns cells of @n rows. Without memory @b fails. */
void status_render_table(struct buf *b, const char *const *headers, size_t columns,
	const struct status_row *rows, size_t n, bool colour);

/* @n empty rows. Owned by the caller: free(). NULL: ERR_LIMIT or ERR_NOMEM. */
struct status_row *status_new_rows(size_t n, struct error *err);

/* One line for each text; the title begins the first. */
void status_render_list(struct buf *b, const char *title, const json_t *list);

/* --- sections; they append to @b --- */

/* The profiles of the GPUs in the list. Nothing if no GPU has profiles. */
int status_render_profiles(struct buf *b, const json_t *gpus, bool colour,
	struct error *err) MUST_USE;

/* The slices of running containers. Nothing if there are none. */
int status_render_limits(struct buf *b, const json_t *slices, bool colour,
	struct error *err) MUST_USE;

/* How many quanta of the fair-share scheduler each slice had on a GPU, and why they ended. Nothing
 * if no slice uses the scheduler. */
int status_render_quanta(struct buf *b, const json_t *slices, bool colour,
	struct error *err) MUST_USE;

/* The MPS daemons; @gpus has their devices. Nothing if there are none. */
int status_render_mps(struct buf *b, const json_t *mps, const json_t *gpus, bool colour,
	struct error *err) MUST_USE;
