/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/mig/internal.h"

#include <string.h>

#include "io/config/mig/mig.h"

/* Prints layouts like Go's json.MarshalIndent(spec, "", " "), with names in byte order. */

static void print_json_escape(struct buf *b, unsigned char c)
{
	switch (c) {
	case '"':
	case '\\':
		buf_printf(b, "\\%c", c);
		break;
	case '\b':
		buf_puts(b, "\\b");
		break;
	case '\f':
		buf_puts(b, "\\f");
		break;
	case '\n':
		buf_puts(b, "\\n");
		break;
	case '\r':
		buf_puts(b, "\\r");
		break;
	case '\t':
		buf_puts(b, "\\t");
		break;
	default:
		if (c < 0x20 || c == '<' || c == '>' || c == '&')
			buf_printf(b, "\\u%04x", c);
		else
			buf_putc(b, (char)c);
	}
}

void mig_json_text(struct buf *b, const char *text)
{
	buf_putc(b, '"');
	for (; *text; text++) {
		/* U+2028 and U+2029 end a line in JavaScript. */
		if (!strncmp(text, "\xe2\x80\xa8", 3) || !strncmp(text, "\xe2\x80\xa9", 3)) {
			buf_puts(b, (unsigned char)text[2] == 0xa8 ? "\\u2028" : "\\u2029");
			text += 2;
		} else {
			print_json_escape(b, (unsigned char)*text);
		}
	}
	buf_putc(b, '"');
}

static int compare_configs(const void *a, const void *b)
{
	const struct mig_config *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static int compare_rows(const void *a, const void *b)
{
	const struct mig_device_row *const *x = a, *const *y = b;
	char one[MIG_PROFILE_NAME_MAX], two[MIG_PROFILE_NAME_MAX];

	mig_profile_format(&(*x)->profile, one);
	mig_profile_format(&(*y)->profile, two);
	return strcmp(one, two);
}

static void print_json_filters(struct buf *b, const struct mig_entry *e)
{
	if (!e->n_filters)
		return;
	buf_puts(b, "        \"device-filter\": ");
	if (e->filter_text)
		mig_json_text(b, e->filters[0].text);
	for (size_t i = 0; !e->filter_text && i < e->n_filters; i++) {
		buf_puts(b, i ? ",\n          " : "[\n          ");
		mig_json_text(b, e->filters[i].text);
	}
	buf_puts(b, e->filter_text ? ",\n" : "\n        ],\n");
}

static void print_json_devices(struct buf *b, const struct mig_entry *e)
{
	buf_puts(b, "        \"devices\": ");
	if (e->all)
		buf_puts(b, "\"all\"");
	else if (!e->n_devices)
		buf_puts(b, "[]");
	for (size_t i = 0; !e->all && i < e->n_devices; i++)
		buf_printf(b, "%s%u", i ? ",\n          " : "[\n          ", e->devices[i]);
	if (!e->all && e->n_devices)
		buf_puts(b, "\n        ]");
	buf_puts(b, ",\n");
}

static void print_json_counts(struct buf *b, const struct mig_entry *e)
{
	const struct mig_device_row *sorted[MIG_DEVICES_MAX] = { NULL };
	char name[MIG_PROFILE_NAME_MAX];

	for (size_t i = 0; i < e->n_rows; i++)
		sorted[i] = &e->rows[i];
	qsort(sorted, e->n_rows, sizeof(struct mig_device_row *), compare_rows);
	for (size_t i = 0; i < e->n_rows; i++) {
		mig_profile_format(&sorted[i]->profile, name);
		buf_puts(b, i ? ",\n          " : "{\n          ");
		mig_json_text(b, name);
		buf_printf(b, ": %u", sorted[i]->count);
	}
	buf_puts(b, "\n        }");
}

/* Our list form. */
static void print_json_placements(struct buf *b, const struct mig_entry *e)
{
	char name[MIG_PROFILE_NAME_MAX];

	for (size_t i = 0; i < e->n_rows; i++) {
		const struct mig_device_row *row = &e->rows[i];

		mig_profile_format(&row->profile, name);
		buf_printf(b, "%s          {\n            \"profile\": ", i ? ",\n" : "[\n");
		mig_json_text(b, name);
		if (row->start != MIG_START_ANY)
			buf_printf(b, ",\n            \"start\": %u", row->start);
		else
			buf_printf(b, ",\n            \"count\": %u", row->count);
		buf_puts(b, "\n          }");
	}
	buf_puts(b, "\n        ]");
}

static void print_json_entry(struct buf *b, const struct mig_entry *e)
{
	buf_puts(b, "      {\n");
	print_json_filters(b, e);
	print_json_devices(b, e);
	buf_printf(b, "        \"mig-enabled\": %s,\n        \"mig-devices\": ",
		e->enabled ? "true" : "false");
	if (!e->n_rows)
		buf_puts(b, e->has_rows ? "{}" : "null");
	else if (mig_entry_needs_list(e))
		print_json_placements(b, e);
	else
		print_json_counts(b, e);
	buf_puts(b, "\n      }");
}

static void print_config(struct buf *b, const struct mig_config *c)
{
	buf_puts(b, "    ");
	mig_json_text(b, c->name);
	buf_puts(b, c->n ? ": [\n" : ": [");
	for (size_t i = 0; i < c->n; i++) {
		if (i)
			buf_puts(b, ",\n");
		print_json_entry(b, &c->entries[i]);
	}
	buf_puts(b, c->n ? "\n    ]" : "]");
}

char *mig_configs_to_json(const struct mig_configs *c)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIG_PRINT_MAX);
	CLEANUP(freep) const struct mig_config **sorted = NULL;

	sorted = calloc(c->n + 1, sizeof(struct mig_config *));
	if (!sorted)
		return NULL;
	for (size_t i = 0; i < c->n; i++)
		sorted[i] = &c->configs[i];
	qsort(sorted, c->n, sizeof(struct mig_config *), compare_configs);
	buf_puts(&b, "{\n  \"version\": \"v1\"");
	if (c->n)
		buf_puts(&b, ",\n  \"mig-configs\": {\n");
	for (size_t i = 0; i < c->n; i++) {
		if (i)
			buf_puts(&b, ",\n");
		print_config(&b, sorted[i]);
	}
	buf_puts(&b, c->n ? "\n  }\n}" : "\n}");
	return buf_steal(&b);
}
