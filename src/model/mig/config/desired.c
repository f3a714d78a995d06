/* SPDX-License-Identifier: Apache-2.0 */
#include "model/mig/config/config.h"

#include <stdio.h>
#include <string.h>

/*
 * From an entry to the instances of one GPU. mig-parted creates the instances one by one, in a fixed order
 * of names. It puts a compute instance into the previous GPU instance while there is room. This module
 * computes the same order without a GPU. model/mig/geometry/geometry.h then places the result as a whole.
 */

#define WANTED_MAX (MIG_GIS_MAX * MIG_CIS_MAX)

/* One row on one GPU: the GI profile and the slices of each CI. */
struct mig_row_kind {
	int profile; /* position in the layout; -1: not a profile of this GPU */
	uint32_t slices, start;
	uint64_t count; /* of this row */
	bool guessed;
};

static struct mig_row_kind resolve_row_kind(const struct mig_layout *l,
	const struct mig_device_row *row)
{
	struct mig_row_kind k = { .start = row->start, .count = row->count };

	k.profile = row->profile.c == row->profile.g ||
				    mig_profile_shape_ok(row->profile.c, row->profile.g)
			    ? mig_layout_find(l, &row->profile, &k.guessed)
			    : -1;
	if (k.profile >= 0)
		k.slices = row->profile.c == row->profile.g ? l->profiles[k.profile].slices
							    : row->profile.c;
	return k;
}

static bool is_same_row_kind(const struct mig_row_kind *a, const struct mig_row_kind *b)
{
	return a->profile == b->profile && a->slices == b->slices;
}

/* Number of existing CIs of the kind @k; @at_start: only in a GI at slot k->start. */
static uint64_t count_now(const struct mig_state *s, const struct mig_row_kind *k,
	bool at_start)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		const struct mig_gi *gi = &s->gi[i];

		if ((int)gi->profile != k->profile || (at_start && gi->start != k->start))
			continue;
		for (uint32_t c = 0; c < gi->n_ci; c++)
			n += gi->ci[c].slices == k->slices;
	}
	return n;
}

/* Number of CIs of the kind @k that all rows require; @at_start: only at slot k->start. */
static uint64_t count_wanted(const struct mig_entry *e, const struct mig_layout *l,
	const struct mig_row_kind *k, bool at_start)
{
	uint64_t n = 0;

	for (size_t i = 0; i < e->n_rows; i++) {
		struct mig_row_kind other = resolve_row_kind(l, &e->rows[i]);

		if (is_same_row_kind(k, &other) && (!at_start || other.start == k->start))
			n += other.count;
	}
	return n;
}

static bool report_gpu_mismatch(const struct mig_node_gpu *g, struct error *why,
	const char *text)
{
	(void)error_set(why, ERR_NOT_FOUND, "GPU %u: %s", g->index, text);
	return false;
}

/* Whether the GPU has as many CIs of the kind of @row as the whole entry requires. */
static bool row_applied(const struct mig_entry *e, const struct mig_node_gpu *g,
	const struct mig_device_row *row, struct error *why)
{
	struct mig_row_kind k = resolve_row_kind(&g->layout, row);
	bool placed = row->start != MIG_START_ANY;
	char name[MIG_PROFILE_NAME_MAX], text[160];
	uint64_t want, have;

	mig_profile_format(&row->profile, name);
	if (k.profile < 0) {
		(void)snprintf(text, sizeof(text), "it has no MIG profile %s", name);
		return report_gpu_mismatch(g, why, text);
	}
	want = count_wanted(e, &g->layout, &k, false);
	have = count_now(&g->state, &k, false);
	if (row->count && have == want &&
		(!placed || count_now(&g->state, &k, true) >=
				    count_wanted(e, &g->layout, &k, true)))
		return true;
	if (!row->count)
		(void)snprintf(text, sizeof(text), "%s with the count 0 can never be applied",
			name);
	else if (have == want)
		(void)snprintf(text, sizeof(text), "expected a %s at slot %u", name,
			row->start);
	else
		(void)snprintf(text, sizeof(text), "expected %llu of %s, found %llu",
			(unsigned long long)want, name, (unsigned long long)have);
	return report_gpu_mismatch(g, why, text);
}

/* Whether no instance exists that no row requires. Call only after row_applied() of each row. */
static bool nothing_else(const struct mig_entry *e, const struct mig_node_gpu *g,
	struct error *why)
{
	char name[MIG_PROFILE_NAME_MAX], text[160];

	for (uint32_t i = 0; i < g->state.n; i++) {
		const struct mig_gi *gi = &g->state.gi[i];

		if (!gi->n_ci) {
			(void)snprintf(text, sizeof(text),
				"GPU instance %u has no compute instance", gi->id);
			return report_gpu_mismatch(g, why, text);
		}
		for (uint32_t c = 0; c < gi->n_ci; c++) {
			struct mig_row_kind k = { .profile = (int)gi->profile,
				.slices = gi->ci[c].slices };

			if (count_wanted(e, &g->layout, &k, false))
				continue;
			mig_layout_name(&g->layout, gi->profile, k.slices, name);
			(void)snprintf(text, sizeof(text), "expected no %s, found %llu", name,
				(unsigned long long)count_now(&g->state, &k, false));
			return report_gpu_mismatch(g, why, text);
		}
	}
	return true;
}

bool mig_entry_mode_applied(const struct mig_entry *e, const struct mig_node_gpu *g,
	struct error *why)
{
	if (!g->state.capable)
		return !e->enabled || report_gpu_mismatch(g, why, "it has no MIG");
	return g->state.enabled == e->enabled ||
	       report_gpu_mismatch(g, why,
		       e->enabled ? "MIG mode is disabled, expected enabled"
				  : "MIG mode is enabled, expected disabled");
}

bool mig_entry_applied(const struct mig_entry *e, const struct mig_node_gpu *g,
	struct error *why)
{
	if (!mig_entry_mode_applied(e, g, why))
		return false;
	for (size_t i = 0; e->enabled && i < e->n_rows; i++) {
		if (!row_applied(e, g, &e->rows[i], why))
			return false;
	}
	return !e->enabled || nothing_else(e, g, why);
}

/* One desired instance with mig-parted's sort keys. */
struct desired_instance {
	struct mig_row_kind kind;
	const struct mig_profile *name;
};

/* mig-parted's order: more slices first, then the larger CI, then attributes in descending order. The other
 * keys keep together what can share a GPU instance. */
static int compare_items(const void *a, const void *b)
{
	const struct desired_instance *x = a, *y = b;
	int r;

	if (x->name->g != y->name->g)
		return x->name->g > y->name->g ? -1 : 1;
	if (x->name->c != y->name->c)
		return x->name->c > y->name->c ? -1 : 1;
	r = strcmp(y->name->attributes, x->name->attributes);
	if (r)
		return r;
	if (x->kind.profile != y->kind.profile)
		return x->kind.profile < y->kind.profile ? -1 : 1;
	return x->kind.start < y->kind.start ? -1 : x->kind.start > y->kind.start;
}

static uint32_t count_desired_ci_slices(const struct mig_desired_gi *gi)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < gi->n_ci; i++)
		n += gi->ci[i];
	return n;
}

/* Puts the CI of @it into the last GI if that GI has the same kind and room. */
static bool add_ci_to_last_gi(const struct mig_layout *l, struct mig_desired *desired,
	const struct desired_instance *it)
{
	struct mig_desired_gi *last = desired->n ? &desired->gi[desired->n - 1] : NULL;

	if (!last || (int)last->profile != it->kind.profile || last->start != it->kind.start ||
		last->n_ci == MIG_CIS_MAX ||
		count_desired_ci_slices(last) + it->kind.slices >
			l->profiles[last->profile].slices)
		return false;
	last->ci[last->n_ci++] = it->kind.slices;
	return true;
}

static int set_too_many_gis_error(const struct mig_node_gpu *g, struct error *err)
{
	return error_set(err, ERR_LIMIT,
		"GPU %u: expected at most %d GPU instances with at most %d compute instances each, "
		"found more in the config",
		g->index, MIG_GIS_MAX, MIG_CIS_MAX);
}

static int set_profile_missing_error(const struct mig_node_gpu *g, const struct mig_profile *p,
	struct error *err)
{
	char name[MIG_PROFILE_NAME_MAX], has[256] = "";
	size_t len = 0;

	for (uint32_t i = 0; i < g->layout.n && len < sizeof(has); i++) {
		mig_profile_format(&g->layout.profiles[i].name, name);
		len += (size_t)snprintf(has + len, sizeof(has) - len, "%s%s", i ? ", " : "",
			name);
	}
	mig_profile_format(p, name);
	return error_set(err, ERR_INVALID,
		"GPU %u: MIG profile \"%s\" not found on this GPU%s%s", g->index, name,
		*has ? ", which has " : "", has);
}

static int add_guess_note(const struct mig_node_gpu *g, const struct mig_device_row *row,
	const struct mig_row_kind *k, struct strv *notes, struct error *err)
{
	char asked[MIG_PROFILE_NAME_MAX], taken[MIG_PROFILE_NAME_MAX], text[256];

	if (!k->guessed || !notes)
		return 0;
	mig_profile_format(&row->profile, asked);
	mig_layout_name(&g->layout, (uint32_t)k->profile, k->slices, taken);
	(void)snprintf(text, sizeof(text),
		"GPU %u: %s is taken as %s, which has the same slices and share of the memory",
		g->index, asked, taken);
	return strv_add(notes, text, err);
}

static int expand_mig_entry(const struct mig_entry *e, const struct mig_node_gpu *g,
	struct mig_desired *ret, struct strv *notes, struct error *err)
{
	struct desired_instance items[WANTED_MAX] = { 0 };
	struct mig_desired desired = { .enabled = true };
	size_t n = 0;

	for (size_t i = 0; i < e->n_rows; i++) {
		struct mig_row_kind k = resolve_row_kind(&g->layout, &e->rows[i]);

		if (k.profile < 0)
			return set_profile_missing_error(g, &e->rows[i].profile, err);
		if (add_guess_note(g, &e->rows[i], &k, notes, err) < 0)
			return -1;
		if (k.count > WANTED_MAX - n)
			return set_too_many_gis_error(g, err);
		for (; k.count; k.count--)
			items[n++] = (struct desired_instance){ k, &e->rows[i].profile };
	}
	qsort(items, n, sizeof(*items), compare_items);
	for (size_t i = 0; i < n; i++) {
		if (add_ci_to_last_gi(&g->layout, &desired, &items[i]))
			continue;
		if (desired.n == MIG_GIS_MAX)
			return set_too_many_gis_error(g, err);
		desired.gi[desired.n++] =
			(struct mig_desired_gi){ .profile = (uint32_t)items[i].kind.profile,
				.start = items[i].kind.start,
				.n_ci = 1,
				.ci = { items[i].kind.slices } };
	}
	*ret = desired;
	return 0;
}

int mig_entry_want(const struct mig_entry *e, const struct mig_node_gpu *g,
	struct mig_desired *ret, struct strv *notes, struct error *err)
{
	if (!g->state.capable) {
		if (e->all || !e->enabled)
			return 1;
		return error_set(err, ERR_UNSUPPORTED,
			"GPU %u: cannot set MIG config on non MIG-capable GPU", g->index);
	}
	if (!e->enabled) {
		*ret = (struct mig_desired){ .enabled = false };
		return 0;
	}
	if (mig_entry_applied(e, g, NULL)) {
		mig_desired_from_state(&g->state, ret);
		return 0;
	}
	return expand_mig_entry(e, g, ret, notes, err);
}
