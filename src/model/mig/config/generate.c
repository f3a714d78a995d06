/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/config/config.h"

#include <stdio.h>
#include <string.h>

/* Configs that the GPUs of a node make possible, from their own profiles. */

#define KINDS_MAX         64 /* of GPUs in one node */
#define PCI_A30           0x20B710DEU
#define DEVICE_DGX_SCREEN 0x1FB0U /* display adapter of a DGX Station; enumerated like a GPU */

/* The kinds of GPUs, by PCI ID. One GPU represents its kind. */
struct kinds {
	const struct mig_node_gpu *gpus[KINDS_MAX];
	size_t n;
};

/* Some drivers report wrong counts for A30. */
static const struct {
	const char *name;
	uint32_t count;
} a30_counts[] = {
	{ "1g.6gb", 4 },
	{ "1g.6gb+me", 1 },
	{ "2g.12gb", 2 },
	{ "2g.12gb+me", 1 },
	{ "4g.24gb", 1 },
};

static uint32_t max_of(const struct mig_node_gpu *g, const struct mig_gi_profile *p)
{
	char name[MIG_PROFILE_NAME_MAX];

	mig_profile_format(&p->name, name);
	for (size_t i = 0; g->pci.device == PCI_A30 && i < ARRAY_LEN(a30_counts); i++) {
		if (!strcmp(name, a30_counts[i].name))
			return a30_counts[i].count;
	}
	return p->max;
}

static int add_gpu_kind(struct kinds *k, const struct mig_node_gpu *g, struct error *err)
{
	size_t i = 0;

	while (i < k->n && k->gpus[i]->pci.device < g->pci.device)
		i++;
	if (i < k->n && k->gpus[i]->pci.device == g->pci.device) {
		if (!k->gpus[i]->layout.n) /* a GPU with profiles represents all */
			k->gpus[i] = g;
		return 0;
	}
	if (k->n == KINDS_MAX)
		return error_set(err, ERR_LIMIT,
			"expected at most %d kinds of GPUs in one node", KINDS_MAX);
	memmove(&k->gpus[i + 1], &k->gpus[i], (k->n - i) * sizeof(struct mig_node_gpu *));
	k->gpus[i] = g;
	k->n++;
	return 0;
}

static int find_kinds(struct kinds *k, const struct mig_node *node, struct error *err)
{
	bool any = false;
	size_t kept = 0;

	for (uint32_t i = 0; i < node->n; i++) {
		const struct mig_node_gpu *g = &node->gpus[i];

		if (g->fault.code != ERR_NONE || !g->state.capable ||
			g->pci.device >> 16 == DEVICE_DGX_SCREEN)
			continue;
		any = true;
		if (add_gpu_kind(k, g, err) < 0)
			return -1;
	}
	if (!any)
		return error_set(err, ERR_NOT_FOUND,
			"no MIG-capable devices found on the system");
	for (size_t i = 0; i < k->n; i++) {
		if (k->gpus[i]->layout.n)
			k->gpus[kept++] = k->gpus[i];
	}
	k->n = kept;
	if (!kept)
		return error_set(err, ERR_NOT_FOUND,
			"no MIG profiles discovered for MIG-capable GPUs");
	return 0;
}

/* An entry for all GPUs. On a node with several kinds the caller adds filters. */
static int add_all_gpus_entry(struct mig_config *c, bool enabled, struct mig_entry **ret,
	struct error *err)
{
	if (mig_config_add_entry(c, ret, err) < 0)
		return -1;
	(*ret)->all = true;
	(*ret)->enabled = (*ret)->has_rows = enabled;
	return 0;
}

static int add_kind_filter(const struct kinds *k, struct mig_entry *e,
	const struct mig_node_gpu *g, struct error *err)
{
	struct mig_filter f = { .device = g->pci.device, .any_subsystem = true };

	if (k->n == 1)
		return 0;
	(void)snprintf(f.text, sizeof(f.text), "0x%08X", g->pci.device);
	return mig_entry_add_filter(e, &f, err);
}

static int add_profile_row(struct mig_entry *e, const struct mig_profile *p, uint32_t count,
	struct error *err)
{
	const struct mig_device_row row = { .profile = *p,
		.count = count,
		.start = MIG_START_ANY };

	return mig_entry_add_row(e, &row, err);
}

static int add_plain(struct mig_configs *all, const char *name, bool enabled, struct error *err)
{
	struct mig_config *c = NULL;
	struct mig_entry *e = NULL;

	if (mig_configs_add(all, name, &c, err) < 0)
		return -1;
	return add_all_gpus_entry(c, enabled, &e, err);
}

/* How many instances of @p fit on @g; 0: @g does not have the profile. */
static uint32_t max_on(const struct mig_node_gpu *g, const struct mig_profile *p)
{
	for (uint32_t i = g->layout.n; i > 0; i--) {
		if (mig_profile_equal(&g->layout.profiles[i - 1].name, p))
			return max_of(g, &g->layout.profiles[i - 1]);
	}
	return 0;
}

/* The smallest maximum of @p on any kind of GPU that is greater than @above; 0: none. */
static uint32_t next_count(const struct kinds *k, const struct mig_profile *p, uint32_t above)
{
	uint32_t next = 0;

	for (size_t i = 0; i < k->n; i++) {
		uint32_t n = max_on(k->gpus[i], p);

		if (n > above && (!next || n < next))
			next = n;
	}
	return next;
}

/* `all-<profile>`: as many as fit, with one entry for each different maximum. */
static int add_profile_config(struct mig_configs *all, const struct kinds *k,
	const struct mig_profile *p, struct error *err)
{
	char name[MIG_NAME_MAX] = "all-", word[MIG_PROFILE_NAME_MAX];
	struct mig_config *c = NULL;
	struct mig_entry *e = NULL;

	mig_profile_word(p, word);
	(void)snprintf(name, sizeof(name), "all-%s", word);
	if (mig_configs_find(all, name) || !next_count(k, p, 0))
		return 0;
	if (mig_configs_add(all, name, &c, err) < 0)
		return -1;
	for (uint32_t n = next_count(k, p, 0); n; n = next_count(k, p, n)) {
		if (add_all_gpus_entry(c, true, &e, err) < 0 ||
			add_profile_row(e, p, n, err) < 0)
			return -1;
		for (size_t i = 0; i < k->n; i++) {
			if (max_on(k->gpus[i], p) == n &&
				add_kind_filter(k, e, k->gpus[i], err) < 0)
				return -1;
		}
	}
	return 0;
}

/* Counts of the profiles of 1, 2 and 3 slices on a balanced GPU with .slices. */
static const struct balance {
	uint32_t slices, counts[3];
} balances[] = {
	{ 7, { 2, 1, 1 } },
	{ 4, { 2, 1, 0 } },
};

/* The profile of @slices without attributes that fits most often; NULL: none. */
static const struct mig_gi_profile *find_plain_profile(const struct mig_node_gpu *g,
	uint32_t slices)
{
	const struct mig_gi_profile *best = NULL;

	for (uint32_t i = 0; i < g->layout.n; i++) {
		const struct mig_gi_profile *p = &g->layout.profiles[i];

		if (!*p->name.attributes && p->name.g == slices &&
			(!best || max_of(g, p) > max_of(g, best)))
			best = p;
	}
	return best;
}

/* The balance of @g; NULL: none. The largest profile without attributes gives the slices of @g. */
static const struct balance *balance_of(const struct mig_node_gpu *g)
{
	const struct balance *found = NULL;
	uint32_t slices = 0;

	for (uint32_t i = 0; i < g->layout.n; i++) {
		const struct mig_profile *p = &g->layout.profiles[i].name;

		if (!*p->attributes && p->g > slices)
			slices = p->g;
	}
	for (size_t i = 0; i < ARRAY_LEN(balances); i++) {
		if (balances[i].slices == slices)
			found = &balances[i];
	}
	for (uint32_t i = 0; found && i < ARRAY_LEN(found->counts); i++) {
		if (found->counts[i] && !find_plain_profile(g, i + 1))
			return NULL;
	}
	return found;
}

static int add_balanced(struct mig_configs *all, const struct kinds *k, struct error *err)
{
	struct mig_config *c = NULL;
	struct mig_entry *e = NULL;

	for (size_t i = 0; i < k->n; i++) {
		const struct balance *b = balance_of(k->gpus[i]);

		if (!b)
			continue;
		if (!c && mig_configs_add(all, "all-balanced", &c, err) < 0)
			return -1;
		if (add_all_gpus_entry(c, true, &e, err) < 0 ||
			add_kind_filter(k, e, k->gpus[i], err) < 0)
			return -1;
		for (uint32_t s = 0; s < ARRAY_LEN(b->counts); s++) {
			if (b->counts[s] &&
				add_profile_row(e, &find_plain_profile(k->gpus[i], s + 1)->name,
					b->counts[s], err) < 0)
				return -1;
		}
	}
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	const struct mig_config *x = a, *y = b;

	return strcmp(x->name, y->name);
}

int mig_config_generate(struct mig_configs **ret, const struct mig_node *node,
	struct error *err)
{
	CLEANUP(mig_configs_freep) struct mig_configs *all = NULL;
	struct kinds k = { .n = 0 };

	if (find_kinds(&k, node, err) < 0 || mig_configs_new(&all, err) < 0 ||
		add_plain(all, "all-disabled", false, err) < 0 ||
		add_plain(all, "all-enabled", true, err) < 0 || add_balanced(all, &k, err) < 0)
		return -1;
	for (size_t i = 0; i < k.n; i++) {
		const struct mig_layout *l = &k.gpus[i]->layout;

		for (uint32_t p = 0; p < l->n; p++) {
			if (add_profile_config(all, &k, &l->profiles[p].name, err) < 0)
				return -1;
		}
	}
	qsort(all->configs, all->n, sizeof(*all->configs), compare_names);
	*ret = STEAL_PTR(all);
	return 0;
}
