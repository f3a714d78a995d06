/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/config/config.h"

#include "lib/base/array.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* --- building configs --- */

/* The error of a count @n that has no room for one more: the limit, or no memory. */
static int explain_no_room(size_t n, size_t max, const char *what, struct error *err)
{
	if (n >= max)
		return error_set(err, ERR_LIMIT, "expected at most %zu %s", max, what);
	return error_nomem(err);
}

int mig_configs_new(struct mig_configs **ret, struct error *err)
{
	struct mig_configs *c = calloc(1, sizeof(*c));

	if (!c)
		return error_nomem(err);
	*ret = c;
	return 0;
}

int mig_configs_add(struct mig_configs *c, const char *name, struct mig_config **ret,
	struct error *err)
{
	size_t len = strlen(name);

	if (len >= MIG_NAME_MAX)
		return error_set(err, ERR_LIMIT,
			"expected a name of at most %d bytes, found %zu: '%.40s...'",
			MIG_NAME_MAX - 1, len, name);
	if (!ARRAY_GROW(&c->configs, c->n, &c->room, MIG_CONFIGS_MAX))
		return explain_no_room(c->n, MIG_CONFIGS_MAX, "configs", err);
	*ret = &c->configs[c->n++];
	**ret = (struct mig_config){ .line = 0 };
	memcpy((*ret)->name, name, len + 1);
	return 0;
}

int mig_config_add_entry(struct mig_config *c, struct mig_entry **ret, struct error *err)
{
	if (!ARRAY_GROW(&c->entries, c->n, &c->room, MIG_ENTRIES_MAX))
		return explain_no_room(c->n, MIG_ENTRIES_MAX, "entries", err);
	*ret = &c->entries[c->n++];
	**ret = (struct mig_entry){ .line = 0 };
	return 0;
}

int mig_entry_add_device(struct mig_entry *e, uint32_t index, struct error *err)
{
	if (!ARRAY_EXTEND(&e->devices, e->n_devices, 1, MIG_INDEXES_MAX))
		return explain_no_room(e->n_devices, MIG_INDEXES_MAX, "GPU indexes", err);
	e->devices[e->n_devices++] = index;
	return 0;
}

int mig_entry_add_filter(struct mig_entry *e, const struct mig_filter *f, struct error *err)
{
	if (!ARRAY_EXTEND(&e->filters, e->n_filters, 1, MIG_FILTERS_MAX))
		return explain_no_room(e->n_filters, MIG_FILTERS_MAX, "filters", err);
	e->filters[e->n_filters++] = *f;
	return 0;
}

int mig_entry_add_row(struct mig_entry *e, const struct mig_device_row *row, struct error *err)
{
	if (!ARRAY_EXTEND(&e->rows, e->n_rows, 1, MIG_DEVICES_MAX))
		return explain_no_room(e->n_rows, MIG_DEVICES_MAX, "kinds of MIG devices", err);
	e->rows[e->n_rows++] = *row;
	return 0;
}

/* --- configs and the GPUs of a node --- */

#define NAMES_MAX 140 /* of the names in a message: annotations and Events are short */

static void config_fini(struct mig_config *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->entries[i].devices);
		free(c->entries[i].filters);
		free(c->entries[i].rows);
	}
	free(c->entries);
}

struct mig_configs *mig_configs_free(struct mig_configs *c)
{
	for (size_t i = 0; c && i < c->n; i++)
		config_fini(&c->configs[i]);
	if (c)
		free(c->configs);
	free(c);
	return NULL;
}

const struct mig_config *mig_configs_find(const struct mig_configs *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++) {
		if (!strcmp(c->configs[i].name, name))
			return &c->configs[i];
	}
	return NULL;
}

int mig_configs_add_missing(struct mig_configs *to, struct mig_configs *from, struct error *err)
{
	size_t kept = 0, n = from->n;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		struct mig_config *c = &from->configs[i], *added;

		if (r == 0 && !mig_configs_find(to, c->name)) {
			r = mig_configs_add(to, c->name, &added, err);
			if (r == 0) {
				*added = *c;
				continue;
			}
		}
		from->configs[kept++] = *c;
	}
	from->n = kept;
	return r;
}

/* "; there are a, b and 3 more", truncated to one line. */
static void names_text(const struct mig_configs *c, char *ret, size_t cap)
{
	size_t len = 0, i;

	ret[0] = '\0';
	for (i = 0; i < c->n && len + strlen(c->configs[i].name) + 32 < cap; i++)
		len += (size_t)snprintf(ret + len, cap - len, "%s%s",
			i          ? ", "
			: c->n > 1 ? "; there are "
				   : "; there is ",
			c->configs[i].name);
	if (i && i < c->n)
		(void)snprintf(ret + len, cap - len, " and %zu more", c->n - i);
}

int mig_configs_select(const struct mig_configs *c, const char *name,
	const struct mig_config **ret, struct error *err)
{
	const struct mig_config *found;
	char names[NAMES_MAX];

	names_text(c, names, sizeof(names));
	if (!name)
		name = "";
	if (!*name && c->n > 1)
		return error_set(err, ERR_INVALID,
			"missing required flag 'selected-config' when more than one config "
			"available%s",
			names);
	found = !*name && c->n == 1 ? &c->configs[0] : mig_configs_find(c, name);
	if (!found)
		return error_set(err, ERR_NOT_FOUND,
			"selected mig-config not present: %.160s%s", name,
			c->n ? names : "; there is none");
	*ret = found;
	return 0;
}

bool mig_entry_needs_list(const struct mig_entry *e)
{
	for (size_t i = 0; i < e->n_rows; i++) {
		if (e->rows[i].start != MIG_START_ANY)
			return true;
		for (size_t k = 0; k < i; k++) {
			if (mig_profile_equal(&e->rows[i].profile, &e->rows[k].profile))
				return true;
		}
	}
	return false;
}

static bool has_entry_gpu_index(const struct mig_entry *e, uint32_t index)
{
	for (size_t i = 0; i < e->n_devices; i++) {
		if (e->devices[i] == index)
			return true;
	}
	return false;
}

/* Whether @e applies to @g. */
static bool mig_entry_matches(const struct mig_entry *e, const struct mig_node_gpu *g)
{
	bool match = !e->n_filters;

	for (size_t i = 0; !match && i < e->n_filters; i++)
		match = mig_filter_matches(&e->filters[i], &g->pci);
	return match && (e->all || has_entry_gpu_index(e, g->index));
}

const struct mig_entry *mig_config_entry(const struct mig_config *c,
	const struct mig_node_gpu *g)
{
	for (size_t i = c->n; i > 0; i--) {
		if (mig_entry_matches(&c->entries[i - 1], g))
			return &c->entries[i - 1];
	}
	return NULL;
}

static bool has_node_gpu_index(const struct mig_node *node, uint32_t index)
{
	for (uint32_t i = 0; i < node->n; i++) {
		if (node->gpus[i].index == index)
			return true;
	}
	return false;
}

/* Adds one note for all GPUs without a matching entry: "GPUs 1-3, 5". */
static int add_unlisted_gpus_note(const struct mig_config *c, const struct mig_node *node,
	struct strv *notes, struct error *err)
{
	char text[MIG_NAME_MAX + 320], list[160] = "";
	uint32_t n = 0;
	size_t len = 0;

	for (uint32_t i = 0, to; i < node->n; i = to + 1) {
		to = i;
		if (mig_config_entry(c, &node->gpus[i]))
			continue;
		while (to + 1 < node->n &&
			node->gpus[to + 1].index == node->gpus[to].index + 1 &&
			!mig_config_entry(c, &node->gpus[to + 1]))
			to++;
		if (len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%u",
				n ? ", " : "", node->gpus[i].index);
		if (to > i && len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "-%u",
				node->gpus[to].index);
		n += to - i + 1;
	}
	if (!n)
		return 0;
	len = (size_t)snprintf(text, sizeof(text),
		"config '%s' has no entry for GPU%s %s, which stay%s as %s", c->name,
		n > 1 ? "s" : "", list, n > 1 ? "" : "s", n > 1 ? "they are" : "it is");
	/* No GPU matches: most likely the filters are for other GPUs. */
	if (n == node->n && len < sizeof(text))
		(void)snprintf(text + len, sizeof(text) - len,
			"; GPU %u is 0x%08X to a device-filter", node->gpus[0].index,
			node->gpus[0].pci.device);
	return strv_add(notes, text, err);
}

int mig_config_notes(const struct mig_config *c, const struct mig_node *node,
	struct strv *notes, struct error *err)
{
	char text[MIG_NAME_MAX + 160], place[32];

	for (size_t i = 0; i < c->n; i++) {
		const struct mig_entry *e = &c->entries[i];

		place[0] = '\0';
		if (e->line)
			(void)snprintf(place, sizeof(place), " (line %u)", e->line);
		for (size_t k = 0; k < e->n_devices; k++) {
			if (has_node_gpu_index(node, e->devices[k]))
				continue;
			(void)snprintf(text, sizeof(text),
				"config '%s', entry %zu%s: GPU %u does not exist; the node has %u",
				c->name, i + 1, place, e->devices[k], node->n);
			if (strv_add(notes, text, err) < 0)
				return -1;
		}
	}
	return add_unlisted_gpus_note(c, node, notes, err);
}

/* --- device filters --- */

/* One or two numbers in Go's syntax. */

/* Returns the base by the prefix of *text, and moves *text past the prefix. */
static unsigned base_of(const char **text)
{
	static const struct {
		char letter;
		unsigned base;
	} prefixes[] = { { 'x', 16 }, { 'b', 2 }, { 'o', 8 } };

	if (**text != '0' || !(*text)[1])
		return 10;
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		if (tolower((unsigned char)(*text)[1]) == prefixes[i].letter) {
			*text += 2;
			return prefixes[i].base;
		}
	}
	(*text)++;
	return 8;
}

static unsigned digit_of(char c)
{
	if (isdigit((unsigned char)c))
		return (unsigned)(c - '0');
	return isxdigit((unsigned char)c) ? (unsigned)(tolower((unsigned char)c) - 'a' + 10)
					  : 99;
}

/* Go's ParseUint(text, 0, 32): "_" may precede each digit except the first of the number. */
static bool parse_filter_number(const char *text, uint32_t *ret)
{
	const char *start = text;
	unsigned base = base_of(&text);
	uint64_t v = 0;
	bool digit = text > start; /* a prefix counts as a digit */

	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text == '_' && digit) {
			digit = false;
			continue;
		}
		if (digit_of(*text) >= base)
			return false;
		v = v * base + digit_of(*text);
		if (v > UINT32_MAX)
			return false;
		digit = true;
	}
	*ret = (uint32_t)v;
	return digit;
}

/* A truncated text ends with dots, so it is not a number either. */
static void copy_filter_text(struct mig_filter *f, const char *text)
{
	size_t len = strlen(text);

	if (len > MIG_FILTER_MAX) {
		len = MIG_FILTER_MAX - 3;
		while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
			len--; /* not within a UTF-8 character */
		(void)snprintf(f->text, sizeof(f->text), "%.*s...", (int)len, text);
	} else {
		memcpy(f->text, text, len + 1);
	}
}

void mig_filter_parse(struct mig_filter *ret, const char *text)
{
	const char *colon = strchr(text, ':');
	char first[sizeof(ret->text)];
	struct mig_filter f = { .any_subsystem = !colon };

	copy_filter_text(&f, text);
	(void)snprintf(first, sizeof(first), "%.*s",
		colon && colon - text < MIG_FILTER_MAX ? (int)(colon - text) : MIG_FILTER_MAX,
		text);
	f.never = strlen(text) >= sizeof(f.text) || !parse_filter_number(first, &f.device) ||
		  (colon && !parse_filter_number(colon + 1, &f.subsystem));
	if (f.never)
		f.device = f.subsystem = 0;
	*ret = f;
}

bool mig_filter_matches(const struct mig_filter *f, const struct mig_pci *pci)
{
	return !f->never && f->device == pci->device &&
	       (f->any_subsystem || f->subsystem == pci->subsystem);
}

/* --- whether a config is applied --- */

/*
 * Whether a config is applied. As in mig-parted, all modes are checked first, then all instances. If
 * several entries match a GPU, the last one decides, also for the mode. mig-parted requires the modes of
 * all of them at once, which cannot succeed if they differ.
 */

bool mig_config_assert(const struct mig_config *c, const struct mig_node *node, bool mode_only,
	struct error *why)
{
	for (uint32_t i = 0; i < node->n; i++) {
		const struct mig_node_gpu *g = &node->gpus[i];
		const struct mig_entry *e = mig_config_entry(c, g);

		if (e && g->fault.code != ERR_NONE) {
			(void)error_set(why, g->fault.code, "GPU %u: %.400s", g->index,
				g->fault.msg);
			return false;
		}
		if (e && !mig_entry_mode_applied(e, g, why))
			return false;
	}
	for (uint32_t i = 0; !mode_only && i < node->n; i++) {
		const struct mig_node_gpu *g = &node->gpus[i];
		const struct mig_entry *e = mig_config_entry(c, g);

		if (!e) {
			(void)error_set(why, ERR_NOT_FOUND,
				"GPU %u: no entry of the config is about it", g->index);
			return false;
		}
		if (!mig_entry_applied(e, g, why))
			return false;
	}
	return true;
}
