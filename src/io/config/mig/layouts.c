/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/mig/internal.h"

#include "model/mig/config/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * Named layouts: mig-parted's grammar and texts (its api/spec/v1) with the position before them, and our
 * list form of `mig-devices`. Input that mig-parted accepts silently, but that can never have an effect,
 * gives a warning here.
 */

#define VENDOR_NVIDIA 0x10DEU

static const char bad_devices[] = "error validating values in 'mig-devices' field: ";

static int warn_filter(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const struct mig_filter *f)
{
	if (f->never)
		return read_warn(r, n, path,
			"'%.60s' matches no GPU: expected a PCI id such as 0x20B010DE (device and "
			"vendor), with or without a subsystem (0x20B010DE:0x134F10DE); names of "
			"products do not count",
			n->text);
	if ((f->device & 0xffff) != VENDOR_NVIDIA)
		return read_warn(r, n, path,
			"'%.60s' matches no GPU: its last four digits are the vendor, which is "
			"10DE",
			n->text);
	return 0;
}

static int add_device_filter(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_entry *e)
{
	struct mig_filter f;

	mig_filter_parse(&f, n->text);
	if (mig_entry_add_filter(e, &f, r->err) < 0)
		return mig_at(r, n, path);
	return warn_filter(r, n, path, &f);
}

/* The node has neither type: sets both errors of the decoder, joined as in mig-parted. */
static int set_two_type_error(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *list_type, const char *element_type,
	const char *expected)
{
	const struct yaml_node *bad = n;
	char first[MIG_GO_TEXT_MAX], second[MIG_GO_TEXT_MAX];

	mig_go_text(n, "string", first, sizeof(first));
	mig_go_text(n, list_type, second, sizeof(second));
	for (size_t i = 0; n->type == YAML_LIST && bad == n && i < n->n; i++) {
		int64_t number;
		bool good = n->items[i]->type == YAML_NULL ||
			    (strcmp(element_type, "int") ? n->items[i]->type == YAML_STR
							 : yaml_integer(n->items[i], &number));

		if (!good)
			bad = n->items[i];
	}
	if (bad != n)
		mig_go_text(bad, element_type, second, sizeof(second));
	return read_fail(r, bad, path, ERR_INVALID, "(%s, %s); expected %s", first, second,
		expected);
}

static int read_filter(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_entry *e)
{
	static const char expected[] = "a text in quotes or a list of them";

	if (!n || n->type == YAML_NULL || (n->type == YAML_STR && !*n->text))
		return 0;
	e->filter_text = n->type == YAML_STR;
	if (n->type == YAML_STR)
		return add_device_filter(r, n, path, e);
	if (n->type != YAML_LIST)
		return set_two_type_error(r, n, path, "[]string", "string", expected);
	for (size_t i = 0; i < n->n; i++) {
		struct config_value_path item = { path, NULL, i };

		if (n->items[i]->type != YAML_STR && n->items[i]->type != YAML_NULL)
			return set_two_type_error(r, n, path, "[]string", "string", expected);
		if (add_device_filter(r, n->items[i], &item, e) < 0)
			return -1;
	}
	return 0;
}

static int add_index(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_entry *e, int64_t index)
{
	if (index < 0 || index > UINT32_MAX)
		return read_warn(r, n, path, "no GPU has the index %" PRId64, index);
	for (size_t i = 0; i < e->n_devices; i++) {
		if (e->devices[i] == (uint32_t)index)
			return read_warn(r, n, path, "%" PRId64 " is in the list already",
				index);
	}
	if (mig_entry_add_device(e, (uint32_t)index, r->err) < 0)
		return mig_at(r, n, path);
	return 0;
}

static int read_indexes(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_entry *e)
{
	static const char expected[] = "all or a list of GPU indexes";

	if (n->type == YAML_STR || n->type == YAML_NULL) {
		e->all = n->type == YAML_STR && !strcmp(n->text, "all");
		if (e->all)
			return 0;
		return read_fail(r, n, path, ERR_INVALID,
			"invalid string input for 'devices': %.80s; expected %s",
			n->type == YAML_STR ? n->text : "", expected);
	}
	if (n->type != YAML_LIST)
		return set_two_type_error(r, n, path, "[]int", "int", expected);
	for (size_t i = 0; i < n->n; i++) {
		struct config_value_path item = { path, NULL, i };
		int64_t index = 0; /* the value of null in the decoder */

		if (n->items[i]->type != YAML_NULL && !yaml_integer(n->items[i], &index))
			return set_two_type_error(r, n, path, "[]int", "int", expected);
		if (add_index(r, n->items[i], &item, e, index) < 0)
			return -1;
	}
	if (!n->n)
		return read_warn(r, n, path, "an empty list is about no GPU");
	return 0;
}

static int read_layout_profile(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_profile *ret)
{
	struct error why = ERROR_INIT;

	if (mig_profile_parse(ret, n->text, &why) < 0)
		return read_fail(r, n, path, ERR_INVALID,
			"%sinvalid format for '%.80s': %.300s", bad_devices, n->text, why.msg);
	return 0;
}

static int read_layout_count(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, uint32_t *ret)
{
	int64_t count = 0; /* the value of null in the decoder */

	if (n->type != YAML_NULL && !yaml_integer(n, &count))
		return mig_type_error(r, n, path, "a count", "int");
	if (count < 0)
		return read_fail(r, n, path, ERR_INVALID,
			"%sinvalid count for '%" PRId64 "': expected 0 or more", bad_devices,
			count);
	if (count > MIG_COUNT_MAX)
		return read_fail(r, n, path, ERR_LIMIT,
			"expected a count of at most %d, found %" PRId64, MIG_COUNT_MAX, count);
	*ret = (uint32_t)count;
	return 0;
}

static int add_layout_row(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_entry *e,
	const struct mig_device_row *row)
{
	if (mig_entry_add_row(e, row, r->err) < 0)
		return mig_at(r, n, path);
	return 0;
}

/* {1g.5gb: 2, 2g.10gb: 1} */
static int read_counts(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_entry *e)
{
	for (size_t i = 0; i < n->n; i++) {
		const struct yaml_pair *p = &n->pairs[i];
		const struct config_value_path item = { path, p->key->text, 0 };
		struct mig_device_row row = { .start = MIG_START_ANY };

		if (read_layout_profile(r, p->key, path, &row.profile) < 0 ||
			read_layout_count(r, p->value, &item, &row.count) < 0 ||
			add_layout_row(r, p->key, path, e, &row) < 0)
			return -1;
	}
	return 0;
}

static int read_start(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, uint32_t *ret)
{
	int64_t start;
	char found[YAML_SHOW_MAX];

	if (!yaml_integer(n, &start) || start < 0 || start >= MIG_SLOTS_MAX)
		return read_fail(r, n, path, ERR_INVALID,
			"%sexpected a slot of the GPU's memory from 0 to %d, found %s",
			bad_devices, MIG_SLOTS_MAX - 1, yaml_show(n, found, sizeof(found)));
	*ret = (uint32_t)start;
	return 0;
}

/* {profile: 3g.20gb, start: 4} or {profile: 1g.5gb, count: 2} */
static int read_placed_devices(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_entry *e)
{
	const struct yaml_node *profile = yaml_get(n, "profile", false);
	struct mig_device_row row = { .count = 1, .start = MIG_START_ANY };

	if (n->type != YAML_OBJECT)
		return mig_type_error(r, n, path,
			"an object such as {profile: 3g.20gb, start: 4}", "int");
	for (size_t i = 0; i < n->n; i++) {
		const struct yaml_pair *p = &n->pairs[i];
		const struct config_value_path item = { path, p->key->text, 0 };
		int bad = 0;

		if (!strcmp(p->key->text, "count"))
			bad = read_layout_count(r, p->value, &item, &row.count);
		else if (!strcmp(p->key->text, "start"))
			bad = read_start(r, p->value, &item, &row.start);
		else if (strcmp(p->key->text, "profile") != 0)
			bad = mig_unexpected(r, p->key, path, "profile, start or count");
		if (bad < 0)
			return -1;
	}
	if (!profile)
		return read_fail(r, n, path, ERR_INVALID, "missing required field: profile");
	if (profile->type != YAML_STR)
		return mig_type_error(r, profile, path, "a name such as 3g.20gb", "string");
	if (read_layout_profile(r, profile, path, &row.profile) < 0)
		return -1;
	if (row.start != MIG_START_ANY && row.count != 1)
		return read_fail(r, n, path, ERR_INVALID,
			"%sexpected one instance at one start, found the count %u", bad_devices,
			row.count);
	return add_layout_row(r, n, path, e, &row);
}

static int read_layout_rows(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_entry *e)
{
	bool any = false;

	if (!n || n->type == YAML_NULL)
		return 0;
	e->has_rows = true;
	if (n->type != YAML_LIST && n->type != YAML_OBJECT)
		return mig_type_error(r, n, path,
			"counts such as {1g.5gb: 7}, or a list of {profile, start}",
			"types.MigConfig");
	if (n->type == YAML_OBJECT && read_counts(r, n, path, e) < 0)
		return -1;
	for (size_t i = 0; n->type == YAML_LIST && i < n->n; i++) {
		struct config_value_path item = { path, NULL, i };

		if (read_placed_devices(r, n->items[i], &item, e) < 0)
			return -1;
	}
	for (size_t i = 0; i < e->n_rows; i++)
		any |= e->rows[i].count > 0;
	if (e->n_rows && !any)
		return read_fail(r, n, path, ERR_INVALID,
			"%sall counts for all MigProfiles are 0", bad_devices);
	for (size_t i = 0; i < e->n_rows; i++) {
		if (!e->rows[i].count &&
			read_warn(r, n, path,
				"a count of 0 beside others never counts as applied; leave the "
				"profile out") < 0)
			return -1;
	}
	return 0;
}

static int check_layout_keys(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path)
{
	static const char *const keys[] = { "device-filter", "devices", "mig-enabled",
		"mig-devices" };
	const struct yaml_node *other = NULL;

	if (n->type != YAML_OBJECT && n->type != YAML_NULL)
		return mig_type_error(r, n, path, "an object with `devices` and `mig-enabled`",
			"map[string]json.RawMessage");
	for (size_t i = 0; i < n->n && !other; i++) {
		bool known = false;

		for (size_t k = 0; k < ARRAY_LEN(keys); k++)
			known |= !strcmp(n->pairs[i].key->text, keys[k]);
		if (!known)
			other = n->pairs[i].key;
	}
	/* A misspelled key is both missing and unexpected: NVIDIA's text, plus the unexpected key. */
	for (size_t i = 1; i <= 2; i++) {
		if (yaml_get(n, keys[i], false))
			continue;
		if (other)
			return read_fail(r, other, path, ERR_INVALID,
				"missing required field: %s; unexpected field: %.80s", keys[i],
				other->text);
		return read_fail(r, n, path, ERR_INVALID, "missing required field: %s",
			keys[i]);
	}
	if (other)
		return mig_unexpected(r, other, path,
			"device-filter, devices, mig-enabled or mig-devices");
	return 0;
}

static int read_layout_entry(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_entry *e)
{
	const struct config_value_path filter = { path, "device-filter", 0 },
				       devices = { path, "devices", 0 };
	const struct config_value_path enabled = { path, "mig-enabled", 0 },
				       rows = { path, "mig-devices", 0 };
	const struct yaml_node *mode, *list;

	if (check_layout_keys(r, n, path) < 0)
		return -1;
	mode = yaml_get(n, enabled.key, false);
	list = yaml_get(n, rows.key, false);
	e->line = n->line;
	if (read_filter(r, yaml_get(n, filter.key, false), &filter, e) < 0 ||
		read_indexes(r, yaml_get(n, devices.key, false), &devices, e) < 0)
		return -1;
	if (mode->type != YAML_BOOL && mode->type != YAML_NULL)
		return mig_type_error(r, mode, &enabled, "true or false", "bool");
	e->enabled = mode->b;
	if (read_layout_rows(r, list, &rows, e) < 0)
		return -1;
	if (e->enabled && !e->has_rows)
		return read_fail(r, n, path, ERR_INVALID,
			"missing required field 'mig-devices' when 'mig-enabled' is true");
	if (!e->enabled && e->n_rows)
		return read_fail(r, list, path, ERR_INVALID,
			"MIG devices included when 'mig-enabled' is false");
	return 0;
}

static int read_config(struct config_reader *r, const struct yaml_pair *p,
	const struct config_value_path *up, struct mig_configs *all)
{
	const struct config_value_path path = { up, p->key->text, 0 };
	const struct yaml_node *n = p->value;
	struct mig_config *c = NULL;
	struct mig_entry *e = NULL;

	if (n->type != YAML_LIST && n->type != YAML_NULL)
		return mig_type_error(r, n, &path, "a list of entries",
			"v1.MigConfigSpecSlice");
	if (!n->n)
		return read_fail(r, n, up, ERR_INVALID,
			"at least one entry in '%.127s' is required", p->key->text);
	if (mig_configs_add(all, p->key->text, &c, r->err) < 0)
		return mig_at(r, p->key, up);
	c->line = p->key->line;
	for (size_t i = 0; i < n->n; i++) {
		struct config_value_path item = { &path, NULL, i };

		if (mig_config_add_entry(c, &e, r->err) < 0)
			return mig_at(r, n->items[i], &path);
		if (read_layout_entry(r, n->items[i], &item, e) < 0)
			return -1;
	}
	return 0;
}

static int read_configs(struct config_reader *r, const struct yaml_node *n,
	struct mig_configs *all)
{
	const struct config_value_path path = { NULL, "mig-configs", 0 };

	if (n->type != YAML_OBJECT && n->type != YAML_NULL)
		return mig_type_error(r, n, &path, "an object with one list for each name",
			"map[string]v1.MigConfigSpecSlice");
	if (!n->n)
		return read_fail(r, n, NULL, ERR_INVALID,
			"at least one entry in 'mig-configs' is required");
	for (size_t i = 0; i < n->n; i++) {
		if (read_config(r, &n->pairs[i], &path, all) < 0)
			return -1;
	}
	return 0;
}

int mig_configs_parse(struct mig_configs **ret, const struct yaml_source *src,
	struct strv *warnings, struct error *err)
{
	struct error why = ERROR_INIT;
	struct config_reader r = { .src = src, .warnings = warnings, .err = err ? err : &why };
	CLEANUP(yaml_freep) struct yaml *tree = NULL;
	CLEANUP(mig_configs_freep) struct mig_configs *all = NULL;
	const struct yaml_node *top = NULL;

	if (mig_configs_new(&all, r.err) < 0 || mig_top(&r, &tree, &top) < 0)
		return -1;
	for (size_t i = 0; top && i < top->n; i++) {
		const struct yaml_pair *p = &top->pairs[i];

		if (!strcmp(p->key->text, "version"))
			continue;
		if (strcmp(p->key->text, "mig-configs") != 0)
			return mig_unexpected(&r, p->key, NULL, "version or mig-configs");
		if (read_configs(&r, p->value, all) < 0)
			return -1;
	}
	*ret = STEAL_PTR(all);
	return 0;
}

int mig_configs_load(struct mig_configs **ret, const char *path, struct strv *warnings,
	struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIG_FILE_MAX);
	struct yaml_source src;

	if (mig_file_read(path, &b, &src, err) < 0)
		return -1;
	if (mig_configs_parse(ret, &src, warnings, err) < 0)
		return error_prefix(err, "unmarshal error");
	return 0;
}

/* --- layouts without a file --- */

int mig_default_configs(struct mig_configs **ret, struct error *err)
{
	const struct yaml_source src = { .name = "mig-default.yaml",
		.text = mig_default_yaml,
		.len = mig_default_yaml_len };

	return mig_configs_parse(ret, &src, NULL, err);
}

int mig_builtin_configs(struct mig_configs **ret, const struct mig_node *node,
	struct error *err)
{
	CLEANUP(mig_configs_freep) struct mig_configs *defaults = NULL, *all = NULL;
	struct error why = ERROR_INIT;

	if (mig_default_configs(&defaults, err) < 0)
		return -1;
	if (mig_config_generate(&all, node, &why) == 0) {
		if (mig_configs_add_missing(all, defaults, err) < 0)
			return -1;
		*ret = STEAL_PTR(all);
		return 0;
	}
	if (why.code != ERR_NOT_FOUND) { /* a node without MIG gets the defaults */
		error_copy(err, &why);
		return -1;
	}
	*ret = STEAL_PTR(defaults);
	return 0;
}
