/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/mig/internal.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "io/config/mig/mig.h"
#include "lib/yaml/yaml.h"

/*
 * Prints named layouts like mig-parted with go-yaml v2.4. Names are sorted with digits as numbers. Filters
 * and indexes are on one line, which breaks after column 80. Texts that YAML would read as another type are
 * quoted. Source: https://github.com/go-yaml/yaml/tree/v2.4.0 (sorter.go, encode.go, emitterc.go).
 * Difference: a very long text with spaces is not broken. mig-parted reads both forms the same.
 */

#define WIDTH 80

static bool is_yaml_letter(unsigned char c)
{
	return isalpha(c) || c >= 0x80;
}

/* The number at s[i] (continuing @n), and its end. */
static uint64_t number_at(const char *s, size_t i, uint64_t n, size_t *end)
{
	for (; isdigit((unsigned char)s[i]); i++)
		n = n * 10 + (uint64_t)(s[i] - '0');
	*end = i;
	return n;
}

/* Whether a nonzero digit precedes s[i] in the same number. A zero there is not a leading zero. */
static bool inside_number(const char *s, size_t i)
{
	while (i > 0 && isdigit((unsigned char)s[i - 1])) {
		if (s[--i] != '0')
			return true;
	}
	return false;
}

/* Digits before letters, and numbers by value. For "1g", "2g" and "10g" this order has a cycle (10g < 1g <
 * 2g < 10g). Go has the same cycle and prints such names in varying order. */
static bool is_less(const char *a, const char *b)
{
	size_t i = 0, end_a, end_b;
	uint64_t number_a, number_b, lead;

	while (a[i] && a[i] == b[i])
		i++;
	if (!a[i] || !b[i])
		return b[i] != '\0';
	if (is_yaml_letter((unsigned char)a[i]) || is_yaml_letter((unsigned char)b[i]))
		return is_yaml_letter((unsigned char)b[i]) &&
		       (!is_yaml_letter((unsigned char)a[i]) ||
			       (unsigned char)a[i] < (unsigned char)b[i]);
	lead = (a[i] == '0' || b[i] == '0') && inside_number(a, i);
	number_a = number_at(a, i, lead, &end_a);
	number_b = number_at(b, i, lead, &end_b);
	if (number_a != number_b)
		return number_a < number_b;
	return end_a != end_b ? end_a < end_b : (unsigned char)a[i] < (unsigned char)b[i];
}

/* An item that is printed below its name. */
struct named_item {
	char name[MIG_NAME_MAX]; /* profile names are shorter */
	const void *item;
};
static_assert(MIG_NAME_MAX >= MIG_PROFILE_NAME_MAX, "room for both");

static int compare_bytes(const void *a, const void *b)
{
	return strcmp(((const struct named_item *)a)->name,
		((const struct named_item *)b)->name);
}

/* Sorts by bytes first, so that a cycle gives the same result each time. A binary insertion sort follows,
 * because qsort() needs an order without cycles. */
static void sort_names(struct named_item *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare_bytes);
	for (size_t i = 1; i < n; i++) {
		struct named_item moved = v[i];
		size_t low = 0, high = i;

		while (low < high) {
			size_t middle = (low + high) / 2;

			if (is_less(moved.name, v[middle].name))
				high = middle;
			else
				low = middle + 1;
		}
		memmove(&v[low + 1], &v[low], (i - low) * sizeof(*v));
		v[low] = moved;
	}
}

/* 1:20 is 80 in YAML 1.1. go-yaml reads such a text as text but quotes it. */
static bool is_base_60(const char *s)
{
	bool colon = false;

	if (*s == '+' || *s == '-')
		s++;
	if (!isdigit((unsigned char)*s))
		return false;
	s += strspn(s, "0123456789_");
	while (*s == ':') {
		size_t n = strspn(++s, "0123456789");

		if (!n || n > 2 || (n == 2 && *s > '5'))
			return false;
		s += n;
		colon = true;
	}
	if (*s == '.')
		s += 1 + strspn(s + 1, "0123456789_");
	return colon && !*s;
}

/* Four digits and "-" may start a date: always quoted. */
static bool is_date_like(const char *s)
{
	return strspn(s, "0123456789") == 4 && s[4] == '-';
}

/* ".inf", "-.INF", ".NaN": our reader has no such numbers, because JSON has none. */
static bool is_no_number(const char *s)
{
	static const char *const words[] = { ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF" };
	bool sign = *s == '+' || *s == '-';

	for (size_t i = sign ? 3 : 0; i < ARRAY_LEN(words); i++) {
		if (!strcmp(s + sign, words[i]))
			return true;
	}
	return false;
}

/* Whether YAML reads the unquoted text as another type. */
static bool is_other(const char *text)
{
	char copy[MIG_NAME_MAX]; /* filters and profiles are shorter */
	struct yaml_node n = { .type = YAML_STR, .text = copy };

	n.len = (size_t)snprintf(copy, sizeof(copy), "%s", text);
	yaml_resolve(&n);
	return n.type != YAML_STR || is_no_number(text) || is_base_60(text) ||
	       is_date_like(text) || !strcmp(text, "<<");
}

static bool has_blank_after(const char *p)
{
	return !p[1] || strchr(" \t\r\n", p[1]);
}

/* Whether the emitter allows the text unquoted, by its first and inner characters. */
static bool may_be_plain(const char *text, bool in_flow)
{
	size_t len = strlen(text);

	if (!len || text[0] == ' ' || text[len - 1] == ' ' || !strncmp(text, "---", 3) ||
		!strncmp(text, "...", 3) || strchr("#,[]{}&*!|>'\"%@`", text[0]))
		return false;
	if (strchr("?:-", text[0]) && (has_blank_after(text) || (in_flow && text[0] != '-')))
		return false;
	for (const char *p = text + 1; *p; p++) {
		if ((*p == ':' && (in_flow || has_blank_after(p))) ||
			(*p == '#' && p[-1] == ' ') || (in_flow && strchr(",?[]{}", *p)))
			return false;
	}
	return true;
}

/* Length and number of the character at @p if it needs an escape: a control, or a character that YAML
 * treats as a line break or ignores. 0: no escape. */
static size_t control_at(const char *p, unsigned *ret)
{
	static const struct {
		const char *bytes;
		unsigned number;
	} others[] = { { "\xe2\x80\xa8", 0x2028 }, { "\xe2\x80\xa9", 0x2029 },
		{ "\xef\xbb\xbf", 0xfeff } };
	unsigned char c = (unsigned char)*p;

	*ret = c;
	if ((c && c < 0x20) || c == 0x7f)
		return 1;
	if (c == 0xc2 && (unsigned char)p[1] < 0xa0) {
		*ret = (unsigned char)p[1];
		return 2;
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		*ret = others[i].number;
		if (!strncmp(p, others[i].bytes, 3))
			return 3;
	}
	return 0;
}

static bool has_controls(const char *text)
{
	unsigned number;

	for (; *text; text++) {
		if (control_at(text, &number))
			return true;
	}
	return false;
}

static void print_yaml_control(struct buf *b, unsigned number)
{
	if (number == '\t' || number == '\n' || number == '\r')
		buf_printf(b, "\\%c", number == '\t' ? 't' : number == '\n' ? 'n' : 'r');
	else
		buf_printf(b, number <= 0xff ? "\\x%02X" : "\\u%04X", number);
}

static void print_double_quoted(struct buf *b, const char *text)
{
	buf_putc(b, '"');
	while (*text) {
		unsigned number;
		size_t len = control_at(text, &number);

		if (len)
			print_yaml_control(b, number);
		else if (*text == '"' || *text == '\\')
			buf_printf(b, "\\%c", *text);
		else
			buf_putc(b, *text);
		text += len ? len : 1;
	}
	buf_putc(b, '"');
}

static void print_single_quoted(struct buf *b, const char *text)
{
	buf_putc(b, '\'');
	for (; *text; text++)
		buf_puts(b, *text == '\'' ? "''" : (const char[2]){ *text, '\0' });
	buf_putc(b, '\'');
}

static void print_yaml_text(struct buf *b, const char *text, bool in_flow)
{
	if (has_controls(text) || is_other(text))
		print_double_quoted(b, text);
	else if (may_be_plain(text, in_flow))
		buf_puts(b, text);
	else
		print_single_quoted(b, text);
}

/* Characters since the last line break. */
static size_t get_yaml_column(const struct buf *b)
{
	size_t n = 0;

	for (size_t i = b->len; i > 0 && b->data[i - 1] != '\n'; i--)
		n += ((unsigned char)b->data[i - 1] & 0xc0) != 0x80;
	return n;
}

/* Separator before element @i of a one-line list. */
static void print_yaml_separator(struct buf *b, size_t i)
{
	if (i)
		buf_putc(b, ',');
	if (i && get_yaml_column(b) > WIDTH)
		buf_puts(b, "\n     ");
	if (i)
		buf_putc(b, ' ');
}

static void print_yaml_filters(struct buf *b, const struct mig_entry *e)
{
	if (e->filter_text && e->n_filters) {
		print_yaml_text(b, e->filters[0].text, false);
		return;
	}
	buf_putc(b, '[');
	for (size_t i = 0; i < e->n_filters; i++) {
		print_yaml_separator(b, i);
		print_yaml_text(b, e->filters[i].text, true);
	}
	buf_putc(b, ']');
}

static void print_yaml_devices(struct buf *b, const struct mig_entry *e)
{
	if (e->all) {
		buf_puts(b, "all");
		return;
	}
	buf_putc(b, '[');
	for (size_t i = 0; i < e->n_devices; i++) {
		print_yaml_separator(b, i);
		buf_printf(b, "%u", e->devices[i]);
	}
	buf_putc(b, ']');
}

static void print_yaml_counts(struct buf *b, const struct mig_entry *e)
{
	struct named_item sorted[MIG_DEVICES_MAX] = { 0 };

	for (size_t i = 0; i < e->n_rows; i++) {
		mig_profile_format(&e->rows[i].profile, sorted[i].name);
		sorted[i].item = &e->rows[i];
	}
	sort_names(sorted, e->n_rows);
	for (size_t i = 0; i < e->n_rows; i++) {
		const struct mig_device_row *row = sorted[i].item;

		buf_puts(b, "      ");
		print_yaml_text(b, sorted[i].name, false);
		buf_printf(b, ": %u\n", row->count);
	}
}

/* Our list form. */
static void print_yaml_placements(struct buf *b, const struct mig_entry *e)
{
	char name[MIG_PROFILE_NAME_MAX];

	for (size_t i = 0; i < e->n_rows; i++) {
		const struct mig_device_row *row = &e->rows[i];

		mig_profile_format(&row->profile, name);
		buf_puts(b, "    - {profile: ");
		print_yaml_text(b, name, true);
		if (row->start != MIG_START_ANY)
			buf_printf(b, ", start: %u}\n", row->start);
		else
			buf_printf(b, ", count: %u}\n", row->count);
	}
}

static void print_yaml_entry(struct buf *b, const struct mig_entry *e)
{
	buf_puts(b, e->n_filters ? "  - device-filter: " : "  - devices: ");
	if (e->n_filters) {
		print_yaml_filters(b, e);
		buf_puts(b, "\n    devices: ");
	}
	print_yaml_devices(b, e);
	buf_printf(b, "\n    mig-enabled: %s\n    mig-devices:%s\n",
		e->enabled ? "true" : "false", e->n_rows ? "" : " {}");
	if (e->n_rows && mig_entry_needs_list(e))
		print_yaml_placements(b, e);
	else
		print_yaml_counts(b, e);
}

char *mig_configs_to_yaml(const struct mig_configs *c)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIG_PRINT_MAX);
	CLEANUP(freep) struct named_item *sorted = calloc(c->n + 1, sizeof(*sorted));

	if (!sorted)
		return NULL;
	for (size_t i = 0; i < c->n; i++) {
		memcpy(sorted[i].name, c->configs[i].name, sizeof(c->configs[i].name));
		sorted[i].item = &c->configs[i];
	}
	sort_names(sorted, c->n);
	buf_puts(&b, c->n ? "version: v1\nmig-configs:\n" : "version: v1\n");
	for (size_t i = 0; i < c->n; i++) {
		const struct mig_config *config = sorted[i].item;

		buf_puts(&b, "  ");
		print_yaml_text(&b, config->name, false);
		buf_puts(&b, config->n ? ":\n" : ": []\n");
		for (size_t k = 0; k < config->n; k++)
			print_yaml_entry(&b, &config->entries[k]);
	}
	return buf_steal(&b);
}
