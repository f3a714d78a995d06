/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/api/patch.h"

#include "lib/base/buf.h"

#include <string.h>

/* The agent never removes a key outside of these domains, whatever the annotation lists. */
static const char *const domains[] = { "nvidia.com/", "gpuslice.io/" };

#define RECORD_MAX (128U << 10) /* the API server accepts 256 KiB of annotations */

static const char *get_patch_label(const json_t *labels, const char *key)
{
	return json_string_value(json_object_get(labels, key));
}

static bool is_timestamp(const char *key)
{
	return !strcmp(key, LABEL_TIMESTAMP);
}

static bool has_node_label(const json_t *labels, const struct label *l)
{
	const char *value = get_patch_label(labels, l->key);

	return value && (is_timestamp(l->key) || !strcmp(value, l->value));
}

static bool has_all(const struct labels *desired, const json_t *have)
{
	for (size_t i = 0; i < desired->n; i++) {
		if (!has_node_label(have, &desired->v[i]))
			return false;
	}
	return true;
}

bool labels_same(const struct labels *desired, const json_t *have)
{
	return json_object_size(have) == desired->n && has_all(desired, have);
}

json_t *labels_json(const struct labels *desired, const json_t *have)
{
	const char *timestamp =
		labels_same(desired, have) ? get_patch_label(have, LABEL_TIMESTAMP) : NULL;
	json_t *o = json_object();
	int r = o ? 0 : -1;

	for (size_t i = 0; i < desired->n; i++)
		r |= json_object_set_new(o, desired->v[i].key,
			json_string(timestamp && is_timestamp(desired->v[i].key)
					    ? timestamp
					    : desired->v[i].value));
	if (r == 0)
		return o;
	json_decref(o);
	return NULL;
}

/* --- labels --- */

static bool is_removable_label(const char *key, const char *keep)
{
	if (!strcmp(key, keep))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(domains); i++) {
		if (!strncmp(key, domains[i], strlen(domains[i])))
			return true;
	}
	return false;
}

/* Adds "key: null" for each key of @record that the Node has and @desired lacks. */
static int remove_old(json_t *patch, const struct labels *desired, const char *keep,
	const json_t *labels, const char *record)
{
	char key[LABEL_KEY_MAX + 1];
	size_t len;
	int r = 0;

	for (const char *p = record; *p; p += len + (p[len] == ',')) {
		len = strcspn(p, ",");
		if (len == 0 || len >= sizeof(key))
			continue;
		memcpy(key, p, len);
		key[len] = '\0';
		if (!labels_get(desired, key) && get_patch_label(labels, key) &&
			is_removable_label(key, keep))
			r |= json_object_set_new(patch, key, json_null());
	}
	return r;
}

static int add_patch_labels(json_t *patch, const struct labels *desired, const json_t *labels)
{
	bool any = json_object_size(patch) > 0 || !has_all(desired, labels);
	int r = 0;

	for (size_t i = 0; i < desired->n; i++) {
		const struct label *l = &desired->v[i];
		const char *value = get_patch_label(labels, l->key);

		if (any && (!value || strcmp(value, l->value) != 0))
			r |= json_object_set_new(patch, l->key, json_string(l->value));
	}
	return r;
}

static void make_record(struct buf *b, const struct labels *desired)
{
	for (size_t i = 0; i < desired->n; i++)
		buf_printf(b, "%s%s", i ? "," : "", desired->v[i].key);
}

int label_patch(json_t **ret, const struct labels *desired, const char *keep,
	const json_t *labels, const char *record, struct error *err)
{
	CLEANUP(buf_fini) struct buf now = BUF_INIT(RECORD_MAX);
	json_t *patch = json_object(), *metadata;

	*ret = NULL;
	make_record(&now, desired);
	if (!buf_ok(&now) ||
		remove_old(patch, desired, keep, labels, record ? record : "") < 0 ||
		add_patch_labels(patch, desired, labels) < 0) {
		json_decref(patch);
		return error_nomem(err);
	}
	if (json_object_size(patch) == 0 && record && !strcmp(record, buf_str(&now))) {
		json_decref(patch);
		return 0;
	}
	metadata = json_pack("{s:o, s:{s:s}}", "labels", patch, "annotations", LABEL_RECORD,
		buf_str(&now));
	*ret = metadata ? json_pack("{s:o}", "metadata", metadata) : NULL;
	return *ret ? 0 : error_nomem(err);
}

/* --- taints --- */

static bool has_taint_key(const json_t *taint, const char *key)
{
	const char *k = json_string_value(json_object_get(taint, "key"));

	return k && !strcmp(k, key);
}

bool taint_is(const json_t *taints, const char *key)
{
	for (size_t i = 0; i < json_array_size(taints); i++) {
		if (has_taint_key(json_array_get(taints, i), key))
			return true;
	}
	return false;
}

int taint_patch(json_t **ret, const json_t *taints, const char *key, struct error *err)
{
	json_t *rest = json_array(), *was;
	size_t n = json_array_size(taints);
	int r = rest ? 0 : -1;

	*ret = NULL;
	for (size_t i = 0; i < n; i++) {
		json_t *taint = json_array_get(taints, i);

		if (!has_taint_key(taint, key))
			r |= json_array_append(rest, taint);
	}
	if (r == 0 && json_array_size(rest) == n) {
		json_decref(rest);
		return 0;
	}
	was = r == 0 ? json_deep_copy(taints) : NULL;
	if (was)
		*ret = json_pack("[{s:s, s:s, s:o}, {s:s, s:s, s:o}]", "op", "test", "path",
			"/spec/taints", "value", was, "op", "replace", "path", "/spec/taints",
			"value", rest);
	else
		json_decref(rest);
	return *ret ? 0 : error_nomem(err);
}
