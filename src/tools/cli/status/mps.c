/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/status/sections.h"

#include "tools/cli/status/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	MPS_DEVICE,
	MPS_STATE,
	MPS_MEMORY,
	MPS_THREADS,
	MPS_CLIENTS,
	MPS_FAULTS,
	MPS_DEATHS,
	MPS_WHY,
	MPS_COLUMNS
};

static bool has_uuid(const json_t *o, const char *uuid)
{
	return *uuid && !strcmp(status_get_text(o, "uuid"), uuid);
}

/* "2", "0:1": the index of a device among @gpus, as in the other tables; else its UUID. */
static void format_mps_device(char *cell, const char *uuid, const json_t *gpus)
{
	for (size_t i = 0; i < json_array_size(gpus); i++) {
		const json_t *g = json_array_get(gpus, i);
		const json_t *migs = json_object_get(g, "migDevices");

		if (has_uuid(g, uuid)) {
			(void)snprintf(cell, STATUS_CELL_MAX, "%" PRId64,
				status_number(g, "index"));
			return;
		}
		for (size_t k = 0; k < json_array_size(migs); k++)
			if (has_uuid(json_array_get(migs, k), uuid)) {
				status_clean(cell, STATUS_CELL_MAX,
					status_get_text(json_array_get(migs, k), "index"));
				return;
			}
	}
	status_clean(cell, STATUS_CELL_MAX, uuid);
}

static void format_mps_devices(char *cell, const json_t *o, const json_t *gpus)
{
	const json_t *uuids = json_object_get(o, "devices");
	char one[STATUS_CELL_MAX];
	size_t at = 0;

	for (size_t i = 0; i < json_array_size(uuids) && at < STATUS_CELL_MAX; i++) {
		const char *uuid = json_string_value(json_array_get(uuids, i));

		format_mps_device(one, uuid ? uuid : "", gpus);
		at += (size_t)snprintf(cell + at, STATUS_CELL_MAX - at, "%s%s", i ? "," : "",
			one);
	}
	if (json_array_size(uuids) == 0)
		status_clean(cell, STATUS_CELL_MAX, status_get_text(o, "key"));
}

static void format_mps_memory(char *cell, const json_t *o)
{
	const json_t *first = json_array_get(json_object_get(o, "memoryLimitsMib"), 0);
	int64_t mib = json_is_integer(first) ? (int64_t)json_integer_value(first) : 0;

	if (mib > 0)
		(void)snprintf(cell, STATUS_CELL_MAX, "%" PRId64 " MiB", mib);
	else
		(void)snprintf(cell, STATUS_CELL_MAX, "-");
}

static void fill_mps_row(struct status_row *r, const json_t *o, const json_t *gpus)
{
	format_mps_devices(r->cells[MPS_DEVICE], o, gpus);
	status_clean(r->cells[MPS_STATE], STATUS_CELL_MAX, status_get_text(o, "state"));
	format_mps_memory(r->cells[MPS_MEMORY], o);
	(void)snprintf(r->cells[MPS_THREADS], STATUS_CELL_MAX, "%" PRId64 "%%",
		status_number(o, "activeThreadPercentage"));
	(void)snprintf(r->cells[MPS_CLIENTS], STATUS_CELL_MAX, "%zu",
		json_array_size(json_object_get(o, "clients")));
	(void)snprintf(r->cells[MPS_FAULTS], STATUS_CELL_MAX, "%" PRId64,
		status_number(o, "faults"));
	(void)snprintf(r->cells[MPS_DEATHS], STATUS_CELL_MAX, "%" PRId64,
		status_number(o, "daemonDeaths") + status_number(o, "serverDeaths"));
	status_clean(r->cells[MPS_WHY], STATUS_CELL_MAX, status_get_text(o, "why"));
	if (!json_is_true(json_object_get(o, "usable")))
		r->colour = RED;
}

int status_render_mps(struct buf *b, const json_t *mps, const json_t *gpus, bool colour,
	struct error *err)
{
	static const char *const headers[MPS_COLUMNS] = { "MPS OF GPU", "STATE",
		"MEMORY A CLIENT", "THREADS", "CLIENTS", "FAULTS", "DEATHS", "REASON" };
	size_t n = 0;
	CLEANUP(freep) struct status_row *rows = NULL;

	if (json_array_size(mps) == 0)
		return 0;
	rows = status_new_rows(mps, &n, err);
	if (!rows)
		return -1;
	for (size_t i = 0; i < n; i++)
		fill_mps_row(&rows[i], json_array_get(mps, i), gpus);
	buf_putc(b, '\n');
	status_render_table(b, headers, MPS_COLUMNS, rows, n, colour);
	return 0;
}
