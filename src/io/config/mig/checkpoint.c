/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/mig/internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/*
 * mig-parted's checkpoint (its api/checkpoint/v1). The format is JSON. Our YAML reader reads JSON too and
 * knows the positions. Go's decoder ignores the case of keys, and mig-parted's releases wrote ProfileID and
 * ProfileId. So this reader also ignores the case.
 */

/* A number up to @max at @key of the object @n; absent means 0, as in Go. */
static int read_checkpoint_number(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *up, const char *key, uint32_t max, uint32_t *ret)
{
	const struct config_value_path path = { up, key, 0 };
	const struct yaml_node *v = yaml_get(n, key, true);
	int64_t number = 0;
	char found[YAML_SHOW_MAX];

	if (v && v->type != YAML_NULL &&
		(!yaml_integer(v, &number) || number < 0 || number > max))
		return read_fail(r, v, &path, ERR_INVALID,
			"expected a number from 0 to %u, found %s", max,
			yaml_show(v, found, sizeof(found)));
	*ret = (uint32_t)number;
	return 0;
}

/* The list at the last key of @path; NULL: absent or null. */
static int read_checkpoint_list(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, size_t max, const struct yaml_node **ret)
{
	const struct yaml_node *v = yaml_get(n, path->key, true);
	char found[YAML_SHOW_MAX];

	*ret = v && v->type == YAML_LIST ? v : NULL;
	if (!v || v->type == YAML_NULL)
		return 0;
	if (v->type != YAML_LIST)
		return read_fail(r, v, path, ERR_INVALID, "expected a list or null, found %s",
			yaml_show(v, found, sizeof(found)));
	if (v->n > max)
		return read_fail(r, v, path, ERR_LIMIT,
			"expected at most %zu elements, found %zu", max, v->n);
	return 0;
}

/* Checks that all keys of @n are in @keys, which ends with NULL. */
static int check_checkpoint_keys(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, const char *const keys[])
{
	char found[YAML_SHOW_MAX];

	if (n->type != YAML_OBJECT)
		return read_fail(r, n, path, ERR_INVALID, "expected an object, found %s",
			yaml_show(n, found, sizeof(found)));
	for (size_t i = 0; i < n->n; i++) {
		size_t k = 0;

		while (keys[k] && strcasecmp(keys[k], n->pairs[i].key->text) != 0)
			k++;
		if (!keys[k])
			return read_fail(r, n->pairs[i].key, path, ERR_INVALID,
				"unexpected field: %.80s", n->pairs[i].key->text);
	}
	return 0;
}

static int read_ci(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_saved_ci *ci)
{
	static const char *const keys[] = { "ProfileID", "EngProfileID", NULL };

	if (check_checkpoint_keys(r, n, path, keys) < 0 ||
		read_checkpoint_number(r, n, path, keys[0], INT32_MAX, &ci->profile) < 0)
		return -1;
	return read_checkpoint_number(r, n, path, keys[1], INT32_MAX, &ci->engine);
}

static int read_gi(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_saved_gi *gi)
{
	static const char *const keys[] = { "ProfileID", "Placement", "ComputeInstances",
		NULL };
	static const char *const place_keys[] = { "Start", "Size", NULL };
	const struct config_value_path place = { path, keys[1], 0 }, cis = { path, keys[2], 0 };
	const struct yaml_node *at, *list;

	if (check_checkpoint_keys(r, n, path, keys) < 0 ||
		read_checkpoint_number(r, n, path, keys[0], INT32_MAX, &gi->profile) < 0)
		return -1;
	at = yaml_get(n, place.key, true);
	if (!at)
		return read_fail(r, n, path, ERR_INVALID, "missing required field: Placement");
	if (check_checkpoint_keys(r, at, &place, place_keys) < 0 ||
		read_checkpoint_number(r, at, &place, "Start", MIG_SLOTS_MAX - 1, &gi->start) <
			0 ||
		read_checkpoint_number(r, at, &place, "Size", MIG_SLOTS_MAX, &gi->size) < 0 ||
		read_checkpoint_list(r, n, &cis, MIG_CIS_MAX, &list) < 0)
		return -1;
	for (size_t i = 0; list && i < list->n; i++) {
		struct config_value_path item = { &cis, NULL, i };

		if (read_ci(r, list->items[i], &item, &gi->ci[i]) < 0)
			return -1;
		gi->n_ci++;
	}
	return 0;
}

static int read_saved_gpu(struct config_reader *r, const struct yaml_node *n,
	const struct config_value_path *path, struct mig_checkpoint *c)
{
	static const char *const keys[] = { "UUID", "MigMode", "GpuInstances", NULL };
	const struct config_value_path uuid = { path, keys[0], 0 }, gis = { path, keys[2], 0 };
	struct mig_saved_gpu *s = &c->gpus[c->n];
	const struct yaml_node *v, *list;
	uint32_t mode = 0;

	if (check_checkpoint_keys(r, n, path, keys) < 0)
		return -1;
	v = yaml_get(n, uuid.key, true);
	if (!v || v->type != YAML_STR || !*v->text || v->len >= sizeof(s->uuid))
		return read_fail(r, v ? v : n, &uuid, ERR_INVALID,
			"expected the UUID of a GPU, of at most %zu bytes",
			sizeof(s->uuid) - 1);
	if (mig_checkpoint_find(c, v->text))
		return read_fail(r, v, &uuid, ERR_INVALID, "%s is there already", v->text);
	memcpy(s->uuid, v->text, v->len + 1);
	if (read_checkpoint_number(r, n, path, keys[1], 1, &mode) < 0 ||
		read_checkpoint_list(r, n, &gis, MIG_GIS_MAX, &list) < 0)
		return -1;
	s->enabled = mode;
	if (!s->enabled && list && list->n)
		return read_fail(r, list, &gis, ERR_INVALID,
			"expected no instances where MigMode is 0, found %zu", list->n);
	for (size_t i = 0; list && i < list->n; i++) {
		struct config_value_path item = { &gis, NULL, i };

		if (read_gi(r, list->items[i], &item, &s->gi[i]) < 0)
			return -1;
		s->n++;
	}
	c->n++;
	return 0;
}

static int read_mig_checkpoint(struct config_reader *r, const struct yaml_node *top,
	struct mig_checkpoint *c)
{
	static const char *const keys[] = { "Version", "MigState", NULL };
	static const char *const state_keys[] = { "Devices", NULL };
	const struct config_value_path state = { NULL, keys[1], 0 };
	const struct config_value_path devices = { &state, state_keys[0], 0 };
	const struct yaml_node *version, *n, *list;
	char found[YAML_SHOW_MAX];

	if (check_checkpoint_keys(r, top, NULL, keys) < 0)
		return -1;
	version = yaml_get(top, keys[0], true);
	n = yaml_get(top, keys[1], true);
	if (!version || version->type != YAML_STR || strcmp(version->text, "v1") != 0)
		return read_fail(r, version ? version : top, NULL, ERR_INVALID,
			"unknown version: %s; expected v1",
			version ? yaml_show(version, found, sizeof(found)) : "none");
	if (!n)
		return read_fail(r, top, NULL, ERR_INVALID, "missing required field: MigState");
	if (check_checkpoint_keys(r, n, &state, state_keys) < 0 ||
		read_checkpoint_list(r, n, &devices, MIG_CHECKPOINT_GPUS_MAX, &list) < 0)
		return -1;
	if (!list)
		return 0;
	if (mig_array(&c->gpus, list->n, sizeof(*c->gpus), r->err) < 0)
		return -1;
	for (size_t i = 0; i < list->n; i++) {
		struct config_value_path item = { &devices, NULL, i };

		if (read_saved_gpu(r, list->items[i], &item, c) < 0)
			return -1;
	}
	return 0;
}

int mig_checkpoint_parse(struct mig_checkpoint **ret, const char *name, const char *text,
	size_t len, struct error *err)
{
	const struct yaml_source src = { .name = name, .text = text, .len = len };
	struct error why = ERROR_INIT;
	struct config_reader r = { .src = &src, .err = &why };
	CLEANUP(yaml_freep) struct yaml *tree = NULL;
	CLEANUP(mig_checkpoint_freep) struct mig_checkpoint *c = calloc(1, sizeof(*c));
	int bad;

	if (!c)
		return error_nomem(err);
	if (len > MIG_FILE_MAX)
		bad = error_set(&why, ERR_LIMIT, "%s: expected at most %u bytes, found %zu",
			name, MIG_FILE_MAX, len);
	else
		bad = yaml_parse(&tree, &src, &why);
	if (bad == 0 && tree->n != 1)
		bad = read_fail(&r, NULL, NULL, ERR_INVALID,
			"expected the one object of a checkpoint, found %s",
			tree->n ? "several" : "nothing");
	if (bad < 0 || read_mig_checkpoint(&r, tree->docs[0], c) < 0) {
		error_copy(err, &why);
		return -1;
	}
	*ret = STEAL_PTR(c);
	return 0;
}

int mig_checkpoint_load(struct mig_checkpoint **ret, const char *path, struct error *err)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIG_FILE_MAX);
	struct yaml_source src;

	if (mig_file_read(path, &b, &src, err) < 0)
		return -1;
	if (mig_checkpoint_parse(ret, src.name, src.text, src.len, err) < 0)
		return error_prefix(err, "unmarshal error");
	return 0;
}

static void print_gi(struct buf *b, const struct mig_saved_gi *gi)
{
	buf_printf(b,
		"{\"ProfileID\":%u,\"Placement\":{\"Start\":%u,\"Size\":%u},"
		"\"ComputeInstances\":",
		gi->profile, gi->start, gi->size);
	for (uint32_t i = 0; i < gi->n_ci; i++)
		buf_printf(b, "%s{\"ProfileID\":%u,\"EngProfileID\":%u}", i ? "," : "[",
			gi->ci[i].profile, gi->ci[i].engine);
	buf_puts(b, gi->n_ci ? "]}" : "null}");
}

/* An empty list is null, as Go prints a nil slice. */
char *mig_checkpoint_to_json(const struct mig_checkpoint *c)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(MIG_PRINT_MAX);

	buf_puts(&b, "{\"Version\":\"v1\",\"MigState\":{\"Devices\":");
	for (size_t i = 0; i < c->n; i++) {
		const struct mig_saved_gpu *s = &c->gpus[i];

		buf_puts(&b, i ? ",{\"UUID\":" : "[{\"UUID\":");
		mig_json_text(&b, s->uuid);
		buf_printf(&b, ",\"MigMode\":%d,\"GpuInstances\":", s->enabled);
		for (uint32_t k = 0; k < s->n; k++) {
			buf_putc(&b, k ? ',' : '[');
			print_gi(&b, &s->gi[k]);
		}
		buf_puts(&b, s->n ? "]}" : "null}");
	}
	buf_puts(&b, c->n ? "]}}" : "null}}");
	return buf_steal(&b);
}
