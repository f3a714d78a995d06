/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/config/config.h"

#include <stdio.h>
#include <string.h>

/*
 * The state of a node in as few entries as mig-parted's export: GPUs with the same instances share an
 * entry. The entry has `all` if its filters match no other GPU. On a node with one kind of GPU there is no
 * filter.
 */

static int add_count(struct mig_entry *e, const struct mig_profile *p, struct error *err)
{
	for (size_t i = 0; i < e->n_rows; i++) {
		if (mig_profile_equal(&e->rows[i].profile, p)) {
			e->rows[i].count++;
			return 0;
		}
	}
	return mig_entry_add_row(e,
		&(struct mig_device_row){ .profile = *p, .count = 1, .start = MIG_START_ANY },
		err);
}

static int count_instances(struct mig_entry *e, const struct mig_node_gpu *g, struct error *err)
{
	for (uint32_t i = 0; e->enabled && i < g->state.n; i++) {
		const struct mig_gi *gi = &g->state.gi[i];
		const struct mig_gi_profile *in = &g->layout.profiles[gi->profile];

		for (uint32_t c = 0; c < gi->n_ci; c++) {
			struct mig_profile p = in->name;

			p.c = gi->ci[c].slices == in->slices ? p.g : gi->ci[c].slices;
			if (add_count(e, &p, err) < 0)
				return -1;
		}
	}
	return 0;
}

static bool has_row(const struct mig_entry *e, const struct mig_device_row *row)
{
	for (size_t i = 0; i < e->n_rows; i++) {
		if (mig_profile_equal(&e->rows[i].profile, &row->profile))
			return e->rows[i].count == row->count;
	}
	return false;
}

/* Assumes one row for each profile. */
static bool same_instances(const struct mig_entry *a, const struct mig_entry *b)
{
	bool same = a->enabled == b->enabled && a->n_rows == b->n_rows;

	for (size_t i = 0; same && i < a->n_rows; i++)
		same = has_row(b, &a->rows[i]);
	return same;
}

static bool is_readable_mig_gpu(const struct mig_node_gpu *g)
{
	return g->fault.code == ERR_NONE;
}

/* Adds the filter of @g once, sorted by device ID. */
static int add_sorted_filter(struct mig_entry *e, const struct mig_node_gpu *g,
	struct error *err)
{
	struct mig_filter f = { .device = g->pci.device, .any_subsystem = true };
	size_t i = 0;

	(void)snprintf(f.text, sizeof(f.text), "0x%08X", g->pci.device);
	for (size_t k = 0; k < e->n_filters; k++) {
		if (e->filters[k].device == f.device)
			return 0;
		i += e->filters[k].device < f.device;
	}
	if (mig_entry_add_filter(e, &f, err) < 0)
		return -1;
	memmove(&e->filters[i + 1], &e->filters[i],
		(e->n_filters - 1 - i) * sizeof(*e->filters));
	e->filters[i] = f;
	return 0;
}

/* Adds the GPU to an entry with the same instances, or to a new entry. */
static int add_exported_gpu(struct mig_config *c, const struct mig_node_gpu *g,
	struct error *err)
{
	struct mig_entry *e = NULL;
	size_t like = 0;

	if (mig_config_add_entry(c, &e, err) < 0)
		return -1;
	e->enabled = g->state.capable && g->state.enabled;
	e->has_rows = true;
	if (count_instances(e, g, err) < 0)
		return -1;
	while (!same_instances(&c->entries[like], e))
		like++;
	if (like + 1 < c->n) {
		free(e->rows);
		c->n--;
	}
	e = &c->entries[like];
	if (mig_entry_add_device(e, g->index, err) < 0)
		return -1;
	return add_sorted_filter(e, g, err);
}

/* Number of GPUs of the node that the filters of @e match. */
static size_t count_matches(const struct mig_entry *e, const struct mig_node *node)
{
	size_t n = 0;

	for (uint32_t i = 0; i < node->n; i++) {
		for (size_t k = 0; is_readable_mig_gpu(&node->gpus[i]) && k < e->n_filters; k++)
			n += mig_filter_matches(&e->filters[k], &node->gpus[i].pci);
	}
	return n;
}

static bool one_kind(const struct mig_node *node)
{
	const struct mig_node_gpu *first = NULL;

	for (uint32_t i = 0; i < node->n; i++) {
		if (!is_readable_mig_gpu(&node->gpus[i]))
			continue;
		if (!first)
			first = &node->gpus[i];
		if (node->gpus[i].pci.device != first->pci.device)
			return false;
	}
	return true;
}

int mig_config_export(struct mig_configs **ret, const struct mig_node *node, const char *name,
	struct error *err)
{
	CLEANUP(mig_configs_freep) struct mig_configs *all = NULL;
	struct mig_config *c = NULL;

	if (mig_configs_new(&all, err) < 0 || mig_configs_add(all, name, &c, err) < 0)
		return -1;
	for (uint32_t i = 0; i < node->n; i++) {
		if (is_readable_mig_gpu(&node->gpus[i]) &&
			add_exported_gpu(c, &node->gpus[i], err) < 0)
			return -1;
	}
	for (size_t i = 0; i < c->n; i++) {
		struct mig_entry *e = &c->entries[i];

		e->all = e->n_devices == count_matches(e, node);
		if (e->all)
			e->n_devices = 0;
		if (one_kind(node) || c->n == 1)
			e->n_filters = 0;
		e->filter_text = e->n_filters == 1;
	}
	*ret = STEAL_PTR(all);
	return 0;
}
