/* SPDX-License-Identifier: Apache-2.0 */
#include "io/config/config.h"
#include "model/config/config.h"
#include "tools/plan/input/internal.h"

#include <stdlib.h>
#include <string.h>

/* Sharing configs, in ConfigMaps or as separate files: how GPUs are shared today. */

static int add_sharing_config(const struct input_reader *r, const struct yaml_node *n,
	const char *key, enum plan_mode mode, uint32_t slices)
{
	struct plan_input *in = r->in;
	struct plan_sharing s = { .line = n->line, .mode = mode, .slices = slices }, *more;

	if (in->n_sharings == PLAN_FOUND_MAX)
		return yaml_fail(r->src, n->line, n->column, ERR_LIMIT, r->err,
			"expected at most %d sharing configs", PLAN_FOUND_MAX);
	s.key = input_store_text(r, key);
	s.file = input_store_text(r, r->src->name);
	more = reallocarray(in->sharings, in->n_sharings + 1, sizeof(*more));
	if (!s.key || !s.file || !more)
		return error_nomem(r->err);
	in->sharings = more;
	in->sharings[in->n_sharings++] = s;
	return 0;
}

/* Reads the first entry, which holds for most of the node's GPUs: a layout has one way of sharing. */
static int read_sharing_config(const struct input_reader *r, const struct yaml_node *n,
	const char *key, const struct config *c)
{
	const struct replicated *e = c->sharing.n_entries ? &c->sharing.entries[0] : NULL;
	const struct sharing_kind *k;
	enum plan_mode mode;

	if (!e)
		return 0;
	k = &c->sharing.kinds[e->strategy];
	mode = e->strategy == SHARING_MPS ? PLAN_MPS
	       : e->isolation.present     ? PLAN_SLICES
					  : PLAN_TIME_SLICING;
	if (e->replicas > PLAN_PODS_MAX)
		return input_add_note(r, n, "many-replicas",
			"'%s' has %u replicas of each GPU; at most %d are planned with", key,
			e->replicas, PLAN_PODS_MAX);
	if (!k->rename_by_default && !*e->rename &&
		input_add_note(r, n, "no-rename",
			"'%s': slots are called nvidia.com/gpu like whole GPUs, so pods that want a whole "
			"one get a slot: set renameByDefault",
			key) < 0)
		return -1;
	if (!k->fail_requests_greater_than_one &&
		input_add_note(r, n, "more-than-one",
			"'%s': a pod that asks for two slots gets no more of a GPU than with one: set "
			"failRequestsGreaterThanOne",
			key) < 0)
		return -1;
	return add_sharing_config(r, n, key, mode, e->replicas);
}

static int read_config_map_entry(const struct input_reader *r, const struct yaml_node *n,
	const char *key)
{
	const struct config_sources none = { 0 };
	CLEANUP(config_freep) struct config *c = NULL;
	struct error err = ERROR_INIT;
	char clean[128];

	/* ConfigMaps hold all sorts of data; one with the word sharing is a sharing config. */
	if (n->type != YAML_STR || !strstr(n->text, "sharing"))
		return 0;
	if (config_parse_any(&c, r->src->name, n->line ? n->line - 1 : 0, n->text, n->len,
		    &none, NULL, &err) < 0)
		return input_add_note(r, n, "bad-config", "'%s' is no sharing config: %s",
			object_clean(key, clean, sizeof(clean)), err.msg);
	return read_sharing_config(r, n, object_clean(key, clean, sizeof(clean)), c);
}

/* "dir/shared.yaml" is the config that a node names "shared". */
static void format_config_name(const char *path, char ret[static PLAN_NAME_MAX])
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *dot = strrchr(name, '.');
	size_t len = dot && dot > name ? (size_t)(dot - name) : strlen(name);

	if (len >= PLAN_NAME_MAX)
		len = PLAN_NAME_MAX - 1;
	memcpy(ret, name, len);
	ret[len] = '\0';
}

bool sharing_is_file(const struct yaml_node *doc)
{
	return doc->type == YAML_OBJECT &&
	       (yaml_get(doc, "sharing", false) || yaml_get(doc, "flags", false) ||
		       yaml_get(doc, "mig-configs", false));
}

int sharing_read_file(const struct input_reader *r, const struct yaml_node *doc)
{
	const struct config_sources none = { 0 };
	CLEANUP(config_freep) struct config *c = NULL;
	char name[PLAN_NAME_MAX], clean[PLAN_NAME_MAX];

	if (yaml_get(doc, "mig-configs", false))
		return input_add_note(r, doc, "not-read",
			"a config of MIG devices: the plan chooses its own, see policy.modes");
	if (config_parse_any(&c, r->src->name, 0, r->src->text, r->src->len, &none, NULL,
		    r->err) < 0)
		return -1;
	format_config_name(r->src->name, name);
	return read_sharing_config(r, doc, object_clean(name, clean, sizeof(clean)), c);
}

int object_config_map(const struct input_reader *r, const struct yaml_node *o, const char *kind)
{
	const struct yaml_node *data = object_at(o, "data");

	(void)kind;
	if (!data || data->type != YAML_OBJECT)
		return 0;
	for (size_t i = 0; i < data->n; i++)
		if (read_config_map_entry(r, data->pairs[i].value,
			    yaml_as_text(data->pairs[i].key)) < 0)
			return -1;
	return 0;
}
