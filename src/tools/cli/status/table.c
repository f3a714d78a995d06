/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the agent's JSON as cells, and prints tables of them (internal.h). */
#include "tools/cli/status/internal.h"

#include "lib/report/table.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CUT      "..." /* in the middle of a name */
#define ID_SHOWN 8

/* --- reading JSON from the agent --- */

/* The text of a key; "": missing or of another type. */
const char *status_get_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

int64_t status_number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

void status_format_number(char cell[STATUS_CELL_MAX], const json_t *n, const char *none)
{
	if (json_is_integer(n))
		(void)snprintf(cell, STATUS_CELL_MAX, "%" PRId64,
			(int64_t)json_integer_value(n));
	else
		(void)snprintf(cell, STATUS_CELL_MAX, "%s", none);
}

void status_format_mib(char cell[STATUS_CELL_MAX], const json_t *bytes, const char *none)
{
	if (json_is_integer(bytes))
		(void)snprintf(cell, STATUS_CELL_MAX, "%" PRId64 " MiB",
			(int64_t)(json_integer_value(bytes) >> 20));
	else
		(void)snprintf(cell, STATUS_CELL_MAX, "%s", none);
}

/* Copies and replaces every control character, so that no name can control the terminal. */
void status_clean(char *to, size_t cap, const char *from)
{
	size_t n = 0;

	for (; *from && n + 1 < cap; from++)
		to[n++] = (unsigned char)*from < 0x20 || *from == 0x7f ? '?' : *from;
	to[n] = '\0';
}

static void clean_name(char *to, size_t cap, const char *from)
{
	size_t len = strlen(from), room = cap - 1, tail = (room - strlen(CUT)) / 2;

	if (len <= room) {
		status_clean(to, cap, from);
		return;
	}
	status_clean(to, room - strlen(CUT) - tail + 1, from);
	memcpy(to + strlen(to), CUT, sizeof(CUT));
	status_clean(to + strlen(to), tail + 1, from + len - tail);
}

void status_format_index(char cell[STATUS_CELL_MAX], const json_t *gpu)
{
	const json_t *index = json_object_get(gpu, "index");

	if (json_is_string(index))
		status_clean(cell, STATUS_CELL_MAX, json_string_value(index));
	else
		status_format_number(cell, index, "-");
}

void status_format_slice_id(char cell[STATUS_CELL_MAX], const json_t *slice)
{
	status_clean(cell, ID_SHOWN + 1, status_get_text(slice, "id"));
}

void status_format_pod(char cell[STATUS_CELL_MAX], const json_t *h)
{
	char ns[40], pod[70], container[32];

	static_assert(sizeof(ns) + sizeof(pod) + sizeof(container) + sizeof(" and 65535 more") <
			      STATUS_CELL_MAX,
		"a cell has room for all parts");
	clean_name(ns, sizeof(ns), status_get_text(h, "namespace"));
	clean_name(pod, sizeof(pod), status_get_text(h, "pod"));
	clean_name(container, sizeof(container), status_get_text(h, "container"));
	(void)snprintf(cell, STATUS_CELL_MAX, "%s/%s (%s)", ns, pod, container);
}

/* --- a table --- */

#define GAP 2 /* between columns; as they are many, less than elsewhere */

void status_render_table(struct buf *b, const char *const *headers, size_t columns,
	const struct status_row *rows, size_t n, bool colour)
{
	CLEANUP(table_fini) struct table t = { .columns = columns, .gap = GAP };

	for (size_t i = 0; i < columns; i++)
		table_add(&t, headers[i]);
	for (size_t i = 0; i < n * columns; i++)
		table_add(&t, rows[i / columns].cells[i % columns]);
	for (size_t i = 0; i <= n && !t.failed; i++) {
		const char *escape = !colour ? NULL : i ? rows[i - 1].colour : BOLD;

		buf_puts(b, escape ? escape : "");
		table_print_row(&t, i, b);
		buf_puts(b, escape ? PLAIN "\n" : "\n");
	}
	b->failed |= t.failed;
}

struct status_row *status_new_rows(size_t n, struct error *err)
{
	struct status_row *rows;

	if (n > STATUS_ROWS_MAX) {
		(void)error_set(err, ERR_LIMIT, "the agent's status has more than %d rows",
			STATUS_ROWS_MAX);
		return NULL;
	}
	rows = calloc(n ? n : 1, sizeof(*rows));
	if (!rows)
		(void)error_nomem(err);
	return rows;
}

void status_render_list(struct buf *b, const char *title, const json_t *list)
{
	char line[STATUS_CELL_MAX * 4];

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *s = json_string_value(json_array_get(list, i));

		status_clean(line, sizeof(line), s ? s : "");
		buf_printf(b, "%s%-9s %s\n", i ? "" : "\n", i ? "" : title, line);
	}
}
