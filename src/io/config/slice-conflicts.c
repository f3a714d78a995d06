/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/offer/offer.h"

/* Conflicts that the file alone shows: devices that two entries claim, and names with two meanings. Only
 * the node can show that an index and a UUID, or a product, are one GPU (model/offer/slices.h). */

#define ROW         "sharing.slices[]"
#define PROFILE_ROW ROW ".profiles[]"

/* --- devices --- */

enum claim_kind {
	CLAIM_ALL, /* also a count: its devices are unknown here */
	CLAIM_REF,
	CLAIM_PRODUCT,
};

/* A claim on devices of a resource by a set of slices or a sharing entry. */
struct claim {
	const char *name, *what; /* resource; index, UUID or product */
	enum claim_kind kind;
	bool is_set;
	size_t at; /* position of the set or entry */
	uint32_t line;
};

struct claims {
	struct claim *v;
	size_t n;
};

static int claim_cmp(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	if (!r)
		r = (x->kind > y->kind) - (x->kind < y->kind);
	if (!r)
		r = strcmp(x->what, y->what);
	if (!r)
		r = (x->is_set < y->is_set) - (x->is_set > y->is_set);
	return r ? r : (x->at > y->at) - (x->at < y->at);
}

static void add_list(struct claims *c, struct claim one, const struct strv *list)
{
	one.kind = CLAIM_REF;
	for (size_t i = 0; i < list->n; i++) {
		one.what = list->v[i];
		c->v[c->n++] = one;
	}
}

static int collect_claims(struct claims *ret, const struct config *c, struct error *err)
{
	size_t room = c->n_slices + c->sharing.n_entries;

	for (size_t i = 0; i < c->n_slices; i++)
		room += c->slices[i].list.n;
	for (size_t i = 0; i < c->sharing.n_entries; i++)
		room += c->sharing.entries[i].list.n;
	ret->v = calloc(room + 1, sizeof(*ret->v));
	if (!ret->v)
		return error_nomem(err);
	for (size_t i = 0; i < c->n_slices; i++) {
		const struct slice_set *s = &c->slices[i];
		struct claim one = { s->name, "all", CLAIM_ALL, true, i, s->pos.line };

		if (s->product) {
			one.kind = CLAIM_PRODUCT;
			one.what = s->product;
		}
		if (s->devices == DEVICES_LIST)
			add_list(ret, one, &s->list);
		else
			ret->v[ret->n++] = one;
	}
	for (size_t i = 0; i < c->sharing.n_entries; i++) {
		const struct replicated *e = &c->sharing.entries[i];
		const struct claim one = { e->name,
			e->devices == DEVICES_COUNT ? "a count" : "all", CLAIM_ALL, false, i,
			e->pos.line };

		if (e->devices == DEVICES_LIST)
			add_list(ret, one, &e->list);
		else
			ret->v[ret->n++] = one;
	}
	qsort(ret->v, ret->n, sizeof(*ret->v), claim_cmp);
	return 0;
}

static bool is_clash(const struct claim *a, const struct claim *b)
{
	if (strcmp(a->name, b->name) != 0 || (!a->is_set && !b->is_set) ||
		(a->is_set == b->is_set && a->at == b->at))
		return false;
	return a->kind == CLAIM_ALL || b->kind == CLAIM_ALL ||
	       (a->kind == b->kind && strcmp(a->what, b->what) == 0);
}

static int set_clash_error(struct config_reader *r, const struct yaml_node *slices,
	const struct config_value_path *path, const struct claim *a, const struct claim *b)
{
	/* The error names a set, the later one of two sets. */
	bool swap = !a->is_set || (b->is_set && b->at > a->at);
	const struct claim *mine = swap ? b : a, *other = swap ? a : b;
	const struct config_value_path item = { path, NULL, mine->at },
				       devices = { &item, "devices", 0 };
	const struct yaml_node *n = slices->items[mine->at];
	const struct yaml_node *v = read_find_key(n, ROW, "devices");
	const char *which = other->is_set ? "sharing.slices"
			    : r->c->sharing.entries[other->at].strategy == SHARING_MPS
				    ? "sharing.mps"
				    : "sharing.timeSlicing";

	if (mine->kind == CLAIM_ALL || other->kind == CLAIM_ALL)
		return read_fail(r, v ? v : n, &devices, ERR_INVALID,
			"expected a list of GPUs here and another one in %s (line %u), found %.60s "
			"of %s here and %.60s there",
			which, other->line, mine->what, mine->name, other->what);
	return read_fail(r, v ? v : n, &devices, ERR_INVALID,
		"expected GPUs that %s (line %u) does not divide, found %.60s, which is there too",
		which, other->line, mine->what);
}

/* Claims are sorted: for each resource CLAIM_ALL comes first, and equal devices are adjacent. */
static int check_devices(struct config_reader *r, const struct yaml_node *slices,
	const struct config_value_path *path, const struct claims *c)
{
	size_t first = 0;

	for (size_t i = 1; i < c->n; i++) {
		const struct claim *one = &c->v[i], *before = &c->v[i - 1];

		if (strcmp(before->name, one->name) != 0)
			first = i;
		if (is_clash(&c->v[first], one))
			return set_clash_error(r, slices, path, &c->v[first], one);
		if (is_clash(before, one))
			return set_clash_error(r, slices, path, before, one);
	}
	return 0;
}

/* --- names --- */

/* Another use of a profile's name; NULL: none. */
static const char *other_use(const struct config *c, const char *name)
{
	const struct sharing *s = &c->sharing;
	char renamed[RESOURCE_NAME_MAX + sizeof(".shared")];

	if (!strcmp(name, OFFER_GPU))
		return "whole GPUs";
	if (!strncmp(name, OFFER_MIG, strlen(OFFER_MIG)))
		return "MIG devices";
	for (size_t i = 0; i < c->n_slices; i++)
		if (!strcmp(name, c->slices[i].name))
			return "the devices that are cut";
	for (size_t i = 0; i < c->n_gpu_patterns; i++)
		if (!strcmp(name, c->gpu_patterns[i].name))
			return "whole GPUs, by resources.gpus";
	for (size_t i = 0; i < c->n_mig_patterns; i++)
		if (!strcmp(name, c->mig_patterns[i].name))
			return "MIG devices, by resources.mig";
	for (size_t i = 0; i < s->n_entries; i++) {
		const struct replicated *e = &s->entries[i];

		(void)snprintf(renamed, sizeof(renamed), "%s%s",
			e->rename[0] ? e->rename : e->name,
			!e->rename[0] && s->kinds[e->strategy].rename_by_default ? ".shared"
										 : "");
		if (!strcmp(name, e->name) || !strcmp(name, renamed))
			return "replicas";
	}
	return NULL;
}

/* A profile with the position of its name. */
struct named_profile {
	const struct slice_profile *p;
	size_t set, at;
};

static int named_cmp(const void *a, const void *b)
{
	const struct named_profile *x = a, *y = b;
	int r = strcmp(x->p->name, y->p->name);

	if (!r)
		r = (x->set > y->set) - (x->set < y->set);
	return r ? r : (x->at > y->at) - (x->at < y->at);
}

static const struct yaml_node *profile_node(const struct yaml_node *slices,
	const struct named_profile *which)
{
	return read_find_key(slices->items[which->set], ROW, "profiles")->items[which->at];
}

/* The value of @key in a profile as written, or the default. */
static const char *profile_value(const struct yaml_node *slices,
	const struct named_profile *which, const char *key)
{
	const struct yaml_node *v =
		read_find_key(profile_node(slices, which), PROFILE_ROW, key);
	char path[sizeof(PROFILE_ROW) + 16];
	const struct config_field *f;

	if (v && v->type != YAML_NULL)
		return yaml_as_text(v);
	(void)snprintf(path, sizeof(path), PROFILE_ROW ".%s", key);
	f = field_by_path(path);
	return f && f->def ? f->def : "none";
}

static int fail_profile(struct config_reader *r, const struct yaml_node *slices,
	const struct config_value_path *path, const struct named_profile *which,
	const char *key, const char *text)
{
	const struct config_value_path set = { path, NULL, which->set },
				       profiles = { &set, "profiles", 0 };
	const struct config_value_path item = { &profiles, NULL, which->at },
				       place = { &item, key, 0 };
	const struct yaml_node *n = profile_node(slices, which);
	const struct yaml_node *v = read_find_key(n, PROFILE_ROW, key);

	return read_fail(r, v ? v : n, &place, ERR_INVALID, "%s", text);
}

/* All profiles of one resource must be equal, on every device. Returns the key in which they differ, or
 * NULL. */
static const char *find_profile_difference(const struct slice_profile *a,
	const struct slice_profile *b)
{
	const struct isolation *x = &a->isolation, *y = &b->isolation;

	return x->memory != y->memory || x->memory_value != y->memory_value ? "memory"
	       : a->weight != b->weight                                     ? "weight"
	       : x->compute != y->compute                                   ? "compute"
	       : x->class_ != y->class_                                     ? "class"
	       : x->unhooked != y->unhooked                                 ? "unhooked"
									    : NULL;
}

static int check_names(struct config_reader *r, const struct yaml_node *slices,
	const struct config_value_path *path, const struct named_profile *v, size_t n)
{
	char text[240];

	for (size_t i = 0; i < n; i++) {
		const char *name = v[i].p->name, *use = other_use(r->c, name), *key = NULL;

		if (use) {
			(void)snprintf(text, sizeof(text),
				"expected a name of its own, found %s, which is the name of %s",
				name, use);
			return fail_profile(r, slices, path, &v[i], "name", text);
		}
		if (i > 0 && !strcmp(v[i - 1].p->name, name))
			key = find_profile_difference(v[i - 1].p, v[i].p);
		if (!key)
			continue;
		(void)snprintf(text, sizeof(text),
			"expected the same as in line %u, where %s is given too: %.40s, found %.40s",
			v[i - 1].p->pos.line, name, profile_value(slices, &v[i - 1], key),
			profile_value(slices, &v[i], key));
		return fail_profile(r, slices, path, &v[i], key, text);
	}
	return 0;
}

int check_slices(struct config_reader *r, const struct yaml_node *slices,
	const struct config_value_path *path)
{
	const struct config *c = r->c;
	struct claims claims = { .n = 0 };
	struct named_profile *v;
	size_t n = 0, room = 0;
	int ret;

	for (size_t i = 0; i < c->n_slices; i++)
		room += c->slices[i].n_profiles;
	v = calloc(room + 1, sizeof(*v));
	if (!v)
		return error_nomem(r->err);
	for (size_t i = 0; i < c->n_slices; i++)
		for (size_t k = 0; k < c->slices[i].n_profiles; k++)
			v[n++] = (struct named_profile){ &c->slices[i].profiles[k], i, k };
	qsort(v, n, sizeof(*v), named_cmp);
	ret = check_names(r, slices, path, v, n);
	free(v);
	if (ret == 0)
		ret = collect_claims(&claims, c, r->err);
	if (ret == 0)
		ret = check_devices(r, slices, path, &claims);
	free(claims.v);
	return ret;
}
