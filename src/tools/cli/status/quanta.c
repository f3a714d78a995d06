/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/status/sections.h"

#include "tools/cli/status/table.h"
#include "lib/base/cleanup.h"
#include "model/sched/quantum-end.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

enum { QUANTA_SLICE, QUANTA_GPU, QUANTA_ALL, QUANTA_REASONS, QUANTA_OTHER = 8, QUANTA_COLUMNS };

/* Each frequent reason has its own column. */
static const enum sched_quantum_end reasons[] = { SCHED_END_EXPIRED, SCHED_END_RENEWED,
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
		other += (uint64_t)status_number(ends, sched_quantum_end_names[i]);
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
		int64_t n = status_number(ends, sched_quantum_end_names[reasons[i]]);

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
	if (n > STATUS_ROWS_MAX)
		return error_set(err, ERR_LIMIT, "the agent's status has more than %d rows",
			STATUS_ROWS_MAX);
	rows = calloc(n, sizeof(*rows));
	if (!rows)
		return error_nomem(err);
	(void)fill_quanta_rows(rows, list);
	buf_putc(b, '\n');
	status_render_table(b, headers, QUANTA_COLUMNS, rows, n, colour);
	free(rows);
	return 0;
}
