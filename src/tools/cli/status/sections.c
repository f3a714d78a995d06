/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of `gpuslice status`, a table each. */
#include "tools/cli/status/internal.h"

#include "lib/base/cleanup.h"
#include "model/sched/quantum-end.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- profiles --- */

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

static void fill_profile_row(struct status_row *r, const json_t *device, const json_t *p)
{
	int64_t cap = status_number(p, "capMillionths");
	char compute[24];

	status_format_index(r->cells[PROFILE_GPU], device);
	status_clean(r->cells[PROFILE_NAME], STATUS_CELL_MAX, status_get_text(p, "resource"));
	status_format_number(r->cells[PROFILE_REPLICAS], json_object_get(p, "slices"), "?");
	status_format_number(r->cells[PROFILE_USED], json_object_get(p, "used"), "?");
	status_format_mib(r->cells[PROFILE_MEMORY], json_object_get(p, "memoryBytes"), "-");
	status_format_number(r->cells[PROFILE_WEIGHT], json_object_get(p, "weight"), "-");
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
	rows = status_new_rows(n, err);
	if (!rows)
		return -1;
	(void)fill_profile_rows(rows, n, gpus);
	buf_putc(b, '\n');
	status_render_table(b, headers, PROFILE_COLUMNS, rows, n, colour);
	free(rows);
	return 0;
}

/* --- limits of slices --- */

static void format_slice_pod(char *cell, const json_t *slice)
{
	const json_t *h = json_object_get(slice, "holder");

	if (json_is_object(h))
		status_format_pod(cell, h);
	else
		(void)snprintf(cell, STATUS_CELL_MAX, "-");
}

/* For a slice, and for the process that causes it. */
static const char stuck_note[] = "STUCK: its work does not end";

/* The most important problem of a slice, as a short note. */
static const char *get_slice_note(const json_t *slice, const json_t *gpu)
{
	if (json_is_true(json_object_get(gpu, "over")))
		return "OVER ITS LIMIT";
	if (*status_get_text(slice, "error"))
		return status_get_text(slice, "error");
	if (json_is_true(json_object_get(gpu, "stuck")))
		return stuck_note;
	if (*status_get_text(slice, "computeError"))
		return status_get_text(slice, "computeError");
	if (json_array_size(json_object_get(slice, "unhookedProcesses")) > 0)
		return "has processes past the libraries";
	if (json_is_true(json_object_get(gpu, "demoted")))
		return "beyond its share: takes turns now";
	return "";
}

enum {
	LIMITS_SLICE,
	LIMITS_GPU,
	LIMITS_SHARE,
	LIMITS_TIME,
	LIMITS_LIMIT,
	LIMITS_USED,
	LIMITS_PEAK,
	LIMITS_POD,
	LIMITS_NOTE,
	LIMITS_COLUMNS
};

/* "weight 4, at most 25.0%, latency"; "-": the hardware's time-slicing divides the time. */
static void format_slice_share(char *cell, const json_t *slice, const json_t *gpu)
{
	int64_t cap = status_number(gpu, "capMillionths");
	char most[32] = "";

	(void)snprintf(cell, STATUS_CELL_MAX, "-");
	if (!json_is_integer(json_object_get(gpu, "weight")))
		return;
	if (cap > 0)
		(void)snprintf(most, sizeof(most), ", at most %.1f%%", (double)cap / 1e4);
	(void)snprintf(cell, STATUS_CELL_MAX, "weight %" PRId64 "%s%s",
		status_number(gpu, "weight"), most,
		strcmp(status_get_text(slice, "class"), "latency") ? "" : ", latency");
}

/* The GPU time charged to a slice or process so far. */
static void format_slice_time(char *cell, const json_t *gpu, const char *none)
{
	const json_t *ns = json_object_get(json_object_get(gpu, "time"), "chargedNs");

	if (json_is_integer(ns))
		(void)snprintf(cell, STATUS_CELL_MAX, "%.1f s",
			(double)json_integer_value(ns) / 1e9);
	else
		(void)snprintf(cell, STATUS_CELL_MAX, "%s", none);
}

static void fill_limits_row(struct status_row *r, const json_t *slice, const json_t *gpu)
{
	status_format_slice_id(r->cells[LIMITS_SLICE], slice);
	status_format_index(r->cells[LIMITS_GPU], gpu);
	format_slice_share(r->cells[LIMITS_SHARE], slice, gpu);
	format_slice_time(r->cells[LIMITS_TIME], gpu, "-");
	status_format_mib(r->cells[LIMITS_LIMIT], json_object_get(gpu, "limitBytes"), "none");
	status_format_mib(r->cells[LIMITS_USED], json_object_get(gpu, "usedBytes"), "?");
	status_format_mib(r->cells[LIMITS_PEAK], json_object_get(gpu, "peakBytes"), "?");
	format_slice_pod(r->cells[LIMITS_POD], slice);
	status_clean(r->cells[LIMITS_NOTE], STATUS_CELL_MAX, get_slice_note(slice, gpu));
	if (!r->cells[LIMITS_NOTE][0] && status_number(slice, "stopped") > 0)
		(void)snprintf(r->cells[LIMITS_NOTE], STATUS_CELL_MAX,
			"%" PRId64 " past the libraries stopped",
			status_number(slice, "stopped"));
	r->colour = json_is_true(json_object_get(gpu, "over")) ? RED
		    : r->cells[LIMITS_NOTE][0]                 ? YELLOW
							       : NULL;
}

static void fill_process_row(struct status_row *r, const json_t *process, const json_t *gpu,
	bool unhooked)
{
	char name[STATUS_CELL_MAX / 2];

	status_clean(name, sizeof(name), status_get_text(process, "name"));
	status_format_index(r->cells[LIMITS_GPU], gpu);
	format_slice_time(r->cells[LIMITS_TIME], gpu, "");
	status_format_mib(r->cells[LIMITS_USED], json_object_get(gpu, "usedBytes"), "?");
	status_format_mib(r->cells[LIMITS_PEAK], json_object_get(gpu, "peakBytes"),
		unhooked ? "-" : "?");
	(void)snprintf(r->cells[LIMITS_POD], STATUS_CELL_MAX, "  %s (pid %" PRId64 ")", name,
		status_number(process, "pid"));
	if (unhooked)
		(void)snprintf(r->cells[LIMITS_NOTE], STATUS_CELL_MAX, "past the libraries");
	else if (json_is_true(json_object_get(gpu, "stuck")))
		(void)snprintf(r->cells[LIMITS_NOTE], STATUS_CELL_MAX, "%s", stuck_note);
	else if (json_is_true(json_object_get(process, "ended")))
		(void)snprintf(r->cells[LIMITS_NOTE], STATUS_CELL_MAX,
			"has ended, a child keeps its memory");
	r->colour = r->cells[LIMITS_NOTE][0] ? YELLOW : NULL;
}

static size_t count_rows(const json_t *slice)
{
	static const char *const lists[] = { "processes", "unhookedProcesses" };
	size_t n = json_array_size(json_object_get(slice, "gpus"));

	for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
		const json_t *list = json_object_get(slice, lists[k]);

		for (size_t i = 0; i < json_array_size(list); i++)
			n += json_array_size(json_object_get(json_array_get(list, i), "gpus"));
	}
	return n;
}

/* Whether some slice of the node has a compute share; else the table has no columns of time. */
static bool has_time(const json_t *list)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *gpus = json_object_get(json_array_get(list, i), "gpus");

		for (size_t k = 0; k < json_array_size(gpus); k++)
			if (json_is_integer(json_object_get(json_array_get(gpus, k), "weight")))
				return true;
	}
	return false;
}

static void drop_time(struct status_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		memmove(rows[i].cells[LIMITS_SHARE], rows[i].cells[LIMITS_LIMIT],
			(LIMITS_COLUMNS - LIMITS_LIMIT) * sizeof(rows[i].cells[0]));
}

static void fill_process_rows(struct status_row *rows, size_t *n, const json_t *list,
	bool unhooked)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *p = json_array_get(list, i), *gpus = json_object_get(p, "gpus");

		for (size_t k = 0; k < json_array_size(gpus); k++)
			fill_process_row(&rows[(*n)++], p, json_array_get(gpus, k), unhooked);
	}
}

static int render_limits_table(struct buf *b, const json_t *list, bool colour,
	struct error *err)
{
	static const char *const headers[] = { "SLICE", "GPU", "SHARE", "TIME", "LIMIT", "USED",
		"PEAK", "HELD BY, PROCESSES", "NOTE" };
	static const char *const no_time[] = { "SLICE", "GPU", "LIMIT", "USED", "PEAK",
		"HELD BY, PROCESSES", "NOTE" };
	size_t room = 0, n = 0;
	struct status_row *rows;

	static_assert(ARRAY_LEN(headers) == LIMITS_COLUMNS, "a header for each column");
	static_assert(ARRAY_LEN(no_time) == LIMITS_COLUMNS - 2, "but for the two of time");
	for (size_t i = 0; i < json_array_size(list); i++)
		room += count_rows(json_array_get(list, i));
	if (room == 0)
		return 0;
	rows = status_new_rows(room, err);
	if (!rows)
		return -1;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *s = json_array_get(list, i), *gpus = json_object_get(s, "gpus");

		for (size_t k = 0; k < json_array_size(gpus); k++)
			fill_limits_row(&rows[n++], s, json_array_get(gpus, k));
		fill_process_rows(rows, &n, json_object_get(s, "processes"), false);
		fill_process_rows(rows, &n, json_object_get(s, "unhookedProcesses"), true);
	}
	buf_putc(b, '\n');
	if (has_time(list)) {
		status_render_table(b, headers, LIMITS_COLUMNS, rows, n, colour);
	} else {
		drop_time(rows, n);
		status_render_table(b, no_time, ARRAY_LEN(no_time), rows, n, colour);
	}
	free(rows);
	return 0;
}

static void render_unlimited_pods(struct buf *b, const json_t *list)
{
	char holder[STATUS_CELL_MAX], resource[STATUS_CELL_MAX];

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);

		status_format_pod(holder, o);
		status_clean(resource, sizeof(resource), status_get_text(o, "resource"));
		buf_printf(b,
			"%s%-9s %s, %s: started before the config isolated it; create it anew\n",
			i ? "" : "\n", i ? "" : "No slice", holder, resource);
	}
}

int status_render_limits(struct buf *b, const json_t *slices, bool colour, struct error *err)
{
	const json_t *arbiter = json_object_get(slices, "arbiter");
	const json_t *broken = json_object_get(slices, "broken");
	char line[STATUS_CELL_MAX * 4];

	status_clean(line, sizeof(line),
		status_get_text(json_object_get(slices, "error"), "message"));
	if (*line)
		buf_printf(b, "\nSlices    cannot be given: %s\n", line);
	status_clean(line, sizeof(line), status_get_text(arbiter, "reason"));
	if (!strcmp(status_get_text(arbiter, "state"), "away") ||
		(!strcmp(status_get_text(arbiter, "state"), "up") && *line))
		buf_printf(b, "\nArbiter   away, slices keep what they have: %s\n", line);
	status_render_list(b, "Broken", broken);
	render_unlimited_pods(b, json_object_get(slices, "unlimited"));
	return render_limits_table(b, json_object_get(slices, "list"), colour, err);
}

/* --- quanta --- */

enum { QUANTA_SLICE, QUANTA_GPU, QUANTA_ALL, QUANTA_REASONS, QUANTA_OTHER = 8, QUANTA_COLUMNS };

/* Each frequent reason has its own column. */
static const enum sched_end_reason reasons[] = { SCHED_END_EXPIRED, SCHED_END_RENEWED,
	SCHED_END_IDLE, SCHED_END_CAP, SCHED_END_INTERRUPTED };

static_assert(QUANTA_REASONS + ARRAY_LEN(reasons) == QUANTA_OTHER, "a column for each");
static_assert(QUANTA_COLUMNS <= STATUS_COLUMNS, "room for all");

static void fill_quanta_row(struct status_row *r, const json_t *slice, const json_t *gpu)
{
	const json_t *ends = json_object_get(gpu, "quantumEnds");
	uint64_t other = 0;

	status_format_slice_id(r->cells[QUANTA_SLICE], slice);
	status_format_index(r->cells[QUANTA_GPU], gpu);
	(void)snprintf(r->cells[QUANTA_ALL], STATUS_CELL_MAX, "%" PRId64,
		status_number(json_object_get(gpu, "time"), "turns"));
	for (unsigned int i = 0; i < SCHED_ENDS; i++)
		other += (uint64_t)status_number(ends, sched_end_reason_names[i]);
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
		int64_t n = status_number(ends, sched_end_reason_names[reasons[i]]);

		other -= (uint64_t)n;
		(void)snprintf(r->cells[QUANTA_REASONS + i], STATUS_CELL_MAX, "%" PRId64, n);
	}
	(void)snprintf(r->cells[QUANTA_OTHER], STATUS_CELL_MAX, "%" PRIu64, other);
}

static size_t fill_quanta_rows(struct status_row *rows, const json_t *list)
{
	size_t n = 0;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *s = json_array_get(list, i), *gpus = json_object_get(s, "gpus");

		for (size_t k = 0; k < json_array_size(gpus); k++) {
			const json_t *gpu = json_array_get(gpus, k);

			if (!json_is_object(json_object_get(gpu, "quantumEnds")))
				continue;
			if (rows)
				fill_quanta_row(&rows[n], s, gpu);
			n++;
		}
	}
	return n;
}

int status_render_quanta(struct buf *b, const json_t *slices, bool colour, struct error *err)
{
	static const char *const headers[QUANTA_COLUMNS] = { "SLICE", "GPU", "QUANTA",
		"EXPIRED", "RENEWED", "IDLE", "CAP", "INTERRUPTED", "OTHER" };
	const json_t *list = json_object_get(slices, "list");
	size_t n = fill_quanta_rows(NULL, list);
	struct status_row *rows;

	if (n == 0)
		return 0;
	rows = status_new_rows(n, err);
	if (!rows)
		return -1;
	(void)fill_quanta_rows(rows, list);
	buf_putc(b, '\n');
	status_render_table(b, headers, QUANTA_COLUMNS, rows, n, colour);
	free(rows);
	return 0;
}

/* --- MPS daemons --- */

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
	size_t n = json_array_size(mps);
	CLEANUP(freep) struct status_row *rows = NULL;

	if (n == 0)
		return 0;
	rows = status_new_rows(n, err);
	if (!rows)
		return -1;
	for (size_t i = 0; i < n; i++)
		fill_mps_row(&rows[i], json_array_get(mps, i), gpus);
	buf_putc(b, '\n');
	status_render_table(b, headers, MPS_COLUMNS, rows, n, colour);
	return 0;
}
