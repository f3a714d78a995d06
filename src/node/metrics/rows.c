/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/rows.h"

#include <string.h>

static bool read_bool_member(const void *object, size_t at)
{
	bool flag;

	memcpy(&flag, (const char *)object + at, sizeof(flag));
	return flag;
}

/* Reads the member into *ret; false: not known. */
static bool read_member(const struct metrics_row *row, const void *object, uint64_t *ret)
{
	const char *at = (const char *)object + row->at;
	uint32_t narrow;

	if (row->size == sizeof(bool)) {
		*ret = read_bool_member(object, row->at);
	} else if (row->size == sizeof(narrow)) {
		memcpy(&narrow, at, sizeof(narrow));
		*ret = narrow == UINT32_MAX ? UINT64_MAX : narrow;
	} else {
		memcpy(ret, at, sizeof(*ret));
	}
	if (*ret == UINT64_MAX)
		return false;
	if (row->current && !read_bool_member(object, row->current - 1U))
		return false;
	return !row->known || read_bool_member(object, row->known - 1U) ||
	       (row->family.type == METRICS_COUNTER && *ret);
}

void metrics_rows(struct metrics_writer *w, const struct metrics_row *rows, size_t n_rows,
	const struct metrics_objects *objects)
{
	uint64_t value;

	for (size_t r = 0; r < n_rows; r++) {
		metrics_begin(w, &rows[r].family);
		for (uint32_t i = 0; i < objects->n; i++)
			if (objects->labels[i].len && objects->object[i] &&
				read_member(&rows[r], objects->object[i], &value))
				metrics_line(w, objects->labels[i],
					(enum metrics_kind)rows[r].kind, value);
	}
}
