/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/read.h"

#include <stdio.h>
#include <string.h>

#include "model/offer/offer.h"

/* `sharing.slices`: software partitions of any size. */

#define ROW         "sharing.slices[]"
#define PROFILE_ROW ROW ".profiles[]"

static int read_slice_profile(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct slice_profile *p)
{
	const struct config_value_path name = { path, "name", 0 }, count = { path, "count", 0 };
	const struct config_value_path memory = { path, "memory", 0 },
				       weight = { path, "weight", 0 };
	const struct yaml_node *v;
	int set = read_object(r, n, path, PROFILE_ROW), limit;

	if (set < 0)
		return -1;
	p->pos = (struct config_pos){ n->line, n->column };
	p->isolation = (struct isolation){ .present = true,
		.compute = ISOLATION_COMPUTE_FAIR,
		.pos = p->pos };
	v = set ? read_find_key(n, PROFILE_ROW, "name") : NULL;
	if (!v)
		return read_fail(r, n, path, ERR_INVALID, "no resource name specified");
	if (read_on(r, read_resource_name(r, v, &name, p->name)) < 0)
		return -1;
	set = read_range(r, read_find_key(n, PROFILE_ROW, "count"), &count,
		field_range(PROFILE_ROW ".count"), &p->count);
	if (read_on(r, set) < 0)
		return -1;
	limit = read_isolation_memory(r, read_find_key(n, PROFILE_ROW, "memory"), &memory,
		/* replicas= */ 0, &p->isolation);
	if (read_on(r, limit) < 0)
		return -1;
	if (!set && limit >= 0 && p->isolation.memory == ISOLATION_MEMORY_NONE &&
		read_on(r,
			read_fail(r, n, path, ERR_INVALID,
				"expected a count, or memory by which as many are offered as fit, "
				"found neither")) < 0)
		return -1;
	p->weight = 1;
	if (read_on(r, read_range(r, read_find_key(n, PROFILE_ROW, "weight"), &weight,
			       field_range(PROFILE_ROW ".weight"), &p->weight)) < 0)
		return -1;
	return read_isolation_words(r, n, path, PROFILE_ROW, /* replicas= */ 0, &p->isolation);
}

static int read_slice_devices(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct slice_set *s)
{
	const struct config_value_path product = { path, "product", 0 };
	char shown[YAML_SHOW_MAX];
	const char *text = "";

	if (!n || (n->type == YAML_STR && !strcmp(n->text, "all")))
		return 0;
	if (n->type == YAML_OBJECT) {
		const struct yaml_node *v = read_find_key(n, ROW ".devices", "product");

		if (read_object(r, n, path, ROW ".devices") < 0 ||
			read_text_value(r, v, &product, /* strict= */ true, &text) < 0)
			return -1;
		if (!*text)
			return read_fail(r, v ? v : n, &product, ERR_INVALID,
				"expected a product name such as \"Tesla T4\", found nothing");
		s->product = strdup(text);
		return s->product ? 0 : error_nomem(r->err);
	}
	if (n->type != YAML_LIST)
		return read_fail(r, n, path, ERR_INVALID,
			"expected all, a list of GPUs, or {product: NAME}, found %s",
			yaml_show(n, shown, sizeof(shown)));
	if (n->n > CONFIG_ENTRIES_MAX)
		return read_fail(r, n, path, ERR_LIMIT,
			"expected at most %d devices, found %zu", CONFIG_ENTRIES_MAX, n->n);
	s->devices = DEVICES_LIST;
	for (size_t i = 0; i < n->n; i++) {
		struct config_value_path item = { path, NULL, i };

		if (read_device_ref(r, n->items[i], &item, &s->list) < 0)
			return -1;
	}
	return 0;
}

static int read_slice_profiles(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct slice_set *s)
{
	uint64_t total = 0;

	if (n && n->type != YAML_LIST && n->type != YAML_NULL)
		return read_fail(r, n, path, ERR_INVALID, "expected a list of profiles");
	if (!n || n->type == YAML_NULL || !n->n)
		return read_fail(r, n, path->parent, ERR_INVALID,
			"no profiles specified; expected a list with at least one entry");
	if (n->n > CONFIG_ENTRIES_MAX)
		return read_fail(r, n, path, ERR_LIMIT,
			"expected at most %d profiles, found %zu", CONFIG_ENTRIES_MAX, n->n);
	s->profiles = calloc(n->n, sizeof(*s->profiles));
	if (!s->profiles)
		return error_nomem(r->err);
	s->n_profiles = n->n;
	for (size_t i = 0; i < n->n; i++) {
		struct config_value_path item = { path, NULL, i };
		struct slice_profile *p = &s->profiles[i];

		if (read_on(r, read_slice_profile(r, n->items[i], &item, p)) < 0)
			return -1;
		for (size_t k = 0; k < i && *p->name; k++) {
			if (!strcmp(s->profiles[k].name, p->name))
				return read_fail(r, n->items[i], &item, ERR_INVALID,
					"the name %s is already given in line %u", p->name,
					s->profiles[k].pos.line);
		}
		total += p->count;
		if (total > OFFER_DEVICES_MAX)
			return read_fail(r, n->items[i], &item, ERR_LIMIT,
				"expected at most %d slices in all, found %llu",
				OFFER_DEVICES_MAX, (unsigned long long)total);
	}
	return 0;
}

static int read_set(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct slice_set *s)
{
	const struct config_value_path name = { path, "name", 0 },
				       devices = { path, "devices", 0 };
	const struct config_value_path profiles = { path, "profiles", 0 },
				       mps = { path, "mps", 0 };
	const struct yaml_node *v;
	int set = read_object(r, n, path, ROW);

	if (set < 0)
		return -1;
	s->pos = (struct config_pos){ n->line, n->column };
	v = set ? read_find_key(n, ROW, "name") : NULL;
	if (!v)
		return read_fail(r, n, path, ERR_INVALID, "no resource name specified");
	if (read_on(r, read_resource_name(r, v, &name, s->name)) < 0 ||
		(*s->name && warn_of_source(r, v, &name, s->name) < 0) ||
		read_on(r, read_slice_devices(r, read_find_key(n, ROW, "devices"), &devices,
				   s)) < 0 ||
		read_on(r, read_bool(r, read_find_key(n, ROW, "mps"), &mps, &s->mps)) < 0)
		return -1;
	v = read_find_key(n, ROW, "profiles");
	if (!v)
		return read_fail(r, n, path, ERR_INVALID, "no profiles specified");
	return read_slice_profiles(r, v, &profiles, s);
}

int read_slices(struct config_reader *r, const struct yaml_node *sharing,
	const struct config_value_path *up)
{
	const struct config_value_path path = { up, "slices", 0 };
	const struct yaml_node *n = read_find_key(sharing, "sharing", "slices");

	if (!n || n->type == YAML_NULL)
		return 0;
	if (n->type != YAML_LIST)
		return read_fail(r, n, &path, ERR_INVALID, "expected a list");
	if (n->n > CONFIG_ENTRIES_MAX)
		return read_fail(r, n, &path, ERR_LIMIT,
			"expected at most %d entries, found %zu", CONFIG_ENTRIES_MAX, n->n);
	if (!n->n)
		return 0;
	r->c->slices = calloc(n->n, sizeof(*r->c->slices));
	if (!r->c->slices)
		return error_nomem(r->err);
	r->c->n_slices = n->n;
	for (size_t i = 0; i < n->n; i++) {
		const struct config_value_path at = { &path, NULL, i };

		if (read_on(r, read_set(r, n->items[i], &at, &r->c->slices[i])) < 0)
			return -1;
	}
	return r->n_mistakes ? 0 : check_slices(r, n, &path);
}
