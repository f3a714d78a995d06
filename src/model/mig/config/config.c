/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/config/config.h"

#include <stdio.h>
#include <string.h>

#include "model/mig/config-build.h"

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

bool mig_entry_matches(const struct mig_entry *e, const struct mig_node_gpu *g)
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
