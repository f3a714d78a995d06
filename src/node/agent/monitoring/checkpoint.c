/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/checkpoint.h"

#include "lib/base/array.h"

#include <stdlib.h>
#include <string.h>

static int compare_checkpoint_entries(const void *a, const void *b)
{
	const struct monitoring_checkpoint_entry *x = a, *y = b;
	int r = strcmp(x->resource, y->resource);

	if (!r)
		r = strcmp(x->id, y->id);
	return r ? r : strcmp(x->container, y->container);
}

static int add_ids(struct monitoring_checkpoint *c, size_t *cap, const json_t *list,
	struct monitoring_checkpoint_entry e, struct error *err)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		e.id = json_string_value(json_array_get(list, i));
		if (!e.id)
			continue;
		if (c->n == MONITORING_CHECKPOINT_IDS_MAX)
			return error_set(err, ERR_LIMIT,
				"the kubelet's checkpoint has more than %u devices",
				MONITORING_CHECKPOINT_IDS_MAX);
		if (!ARRAY_GROW(&c->v, c->n, cap, MONITORING_CHECKPOINT_IDS_MAX))
			return error_nomem(err);
		c->v[c->n++] = e;
	}
	return 0;
}

static int add_checkpoint_entry(struct monitoring_checkpoint *c, size_t *cap, json_t *entry,
	struct error *err)
{
	const struct monitoring_checkpoint_entry e = {
		.uid = json_string_value(json_object_get(entry, "PodUID")),
		.container = json_string_value(json_object_get(entry, "ContainerName")),
		.resource = json_string_value(json_object_get(entry, "ResourceName")),
	};
	json_t *ids = json_object_get(entry, "DeviceIDs"), *list;
	const char *node;

	(void)json_object_del(entry, "AllocResp"); /* the largest part, and unused */
	if (!e.uid || !*e.uid || !e.container || !e.resource)
		return 0;
	if (json_is_array(ids))
		return add_ids(c, cap, ids, e, err);
	json_object_foreach(ids, node, list)
	{
		if (add_ids(c, cap, list, e, err) < 0)
			return -1;
	}
	return 0;
}

int monitoring_checkpoint_parse(struct monitoring_checkpoint *ret, const char *text, size_t len,
	struct error *err)
{
	struct monitoring_checkpoint c = { .v = NULL };
	json_error_t where;
	json_t *entries;
	size_t cap = 0;

	*ret = c;
	c.root = json_loadb(text, len, 0, &where);
	entries = json_object_get(json_object_get(c.root, "Data"), "PodDeviceEntries");
	/* null: no pod has a device */
	if (!json_is_array(entries) && !json_is_null(entries)) {
		monitoring_checkpoint_fini(&c);
		return error_set(err, ERR_INVALID,
			"the kubelet's checkpoint has no Data.PodDeviceEntries");
	}
	for (size_t i = 0; i < json_array_size(entries); i++) {
		if (add_checkpoint_entry(&c, &cap, json_array_get(entries, i), err) < 0) {
			monitoring_checkpoint_fini(&c);
			return -1;
		}
	}
	if (c.n)
		qsort(c.v, c.n, sizeof(*c.v), compare_checkpoint_entries);
	*ret = c;
	return 0;
}

void monitoring_checkpoint_fini(struct monitoring_checkpoint *c)
{
	json_decref(c->root);
	free(c->v);
	*c = (struct monitoring_checkpoint){ .v = NULL };
}

const char *monitoring_checkpoint_find_uid(const struct monitoring_checkpoint *c,
	const char *container, const char *resource, const char *id)
{
	const struct monitoring_checkpoint_entry key = { .container = container,
		.resource = resource,
		.id = id };
	size_t low = 0, high = c->n;
	const char *uid = "";

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (compare_checkpoint_entries(&c->v[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < c->n && compare_checkpoint_entries(&c->v[low], &key) == 0; low++) {
		if (*uid && strcmp(uid, c->v[low].uid) != 0)
			return "";
		uid = c->v[low].uid;
	}
	return uid;
}
