/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/status/sections.h"

#include "tools/cli/status/table.h"

#include <inttypes.h>
#include <stdio.h>

enum {
	PROFILE_GPU,
	PROFILE_NAME,
	PROFILE_REPLICAS,
	PROFILE_USED,
	PROFILE_MEMORY,
	PROFILE_WEIGHT,
	PROFILE_COMPUTE,
	PROFILE_CLASS,
	PROFILE_COLUMNS
};

static void format_profile_number(char *cell, const json_t *o, const char *key,
	const char *none)
{
	const json_t *v = json_object_get(o, key);

	if (json_is_integer(v))
		(void)snprintf(cell, STATUS_CELL_MAX, "%" PRId64,
			(int64_t)json_integer_value(v));
	else
		(void)snprintf(cell, STATUS_CELL_MAX, "%s", none);
}

static void fill_profile_row(struct status_row *r, const json_t *device, const json_t *p)
{
	const json_t *index = json_object_get(device, "index");
	const json_t *memory = json_object_get(p, "memoryBytes");
	int64_t cap = status_number(p, "capMillionths");
	char compute[24];

	if (json_is_string(index))
		status_clean(r->cells[PROFILE_GPU], STATUS_CELL_MAX, json_string_value(index));
	else
		format_profile_number(r->cells[PROFILE_GPU], device, "index", "-");
	status_clean(r->cells[PROFILE_NAME], STATUS_CELL_MAX, status_get_text(p, "resource"));
	format_profile_number(r->cells[PROFILE_REPLICAS], p, "slices", "?");
	format_profile_number(r->cells[PROFILE_USED], p, "used", "?");
	if (json_is_integer(memory))
		(void)snprintf(r->cells[PROFILE_MEMORY], STATUS_CELL_MAX, "%" PRId64 " MiB",
			(int64_t)json_integer_value(memory) >> 20);
	else
		(void)snprintf(r->cells[PROFILE_MEMORY], STATUS_CELL_MAX, "-");
	format_profile_number(r->cells[PROFILE_WEIGHT], p, "weight", "-");
	status_clean(compute, sizeof(compute), status_get_text(p, "compute"));
	if (cap > 0)
		(void)snprintf(r->cells[PROFILE_COMPUTE], STATUS_CELL_MAX, "%s at %.1f%%",
			compute, (double)cap / 1e4);
	else
		(void)snprintf(r->cells[PROFILE_COMPUTE], STATUS_CELL_MAX, "%s", compute);
	status_clean(r->cells[PROFILE_CLASS], STATUS_CELL_MAX, status_get_text(p, "class"));
}

/* Rows of GPUs, each followed by its MIG devices. @rows NULL: only counts. */
static size_t fill_profile_rows(struct status_row *rows, size_t room, const json_t *devices)
{
	size_t n = 0;

	for (size_t i = 0; i < json_array_size(devices); i++) {
		const json_t *d = json_array_get(devices, i);
		const json_t *list = json_object_get(d, "profiles");
		const json_t *migs = json_object_get(d, "migDevices");

		for (size_t k = 0; k < json_array_size(list); k++, n++)
			if (rows && n < room)
				fill_profile_row(&rows[n], d, json_array_get(list, k));
		for (size_t m = 0; m < json_array_size(migs); m++) {
			const json_t *mig = json_array_get(migs, m);

			list = json_object_get(mig, "profiles");
			for (size_t k = 0; k < json_array_size(list); k++, n++)
				if (rows && n < room)
					fill_profile_row(&rows[n], mig,
						json_array_get(list, k));
		}
	}
	return n;
}

int status_render_profiles(struct buf *b, const json_t *gpus, bool colour, struct error *err)
{
	static const char *const headers[PROFILE_COLUMNS] = { "GPU", "PROFILE", "REPLICAS",
		"USED", "MEMORY EACH", "WEIGHT", "COMPUTE", "CLASS" };
	size_t n = fill_profile_rows(NULL, 0, gpus);
	struct status_row *rows;

	if (n == 0)
		return 0;
	if (n > STATUS_ROWS_MAX)
		return error_set(err, ERR_LIMIT, "the agent's status has more than %d rows",
			STATUS_ROWS_MAX);
	rows = calloc(n, sizeof(*rows));
	if (!rows)
		return error_nomem(err);
	(void)fill_profile_rows(rows, n, gpus);
	buf_putc(b, '\n');
	status_render_table(b, headers, PROFILE_COLUMNS, rows, n, colour);
	free(rows);
	return 0;
}
