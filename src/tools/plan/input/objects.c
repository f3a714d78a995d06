/* SPDX-License-Identifier: Apache-2.0 */
/* Kubernetes manifests: which objects are read, and the conclusions from all of them. */
#include "model/offer/offer.h"

#include "io/config/config.h"
#include "model/config/config.h"
#include "tools/plan/input/internal.h"
#include "lib/base/array.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- sharing configs, in ConfigMaps or as separate files: how GPUs are shared today --- */

static int add_sharing_config(const struct input_reader *r, const struct yaml_node *n,
	const char *key, enum plan_mode mode, uint32_t slices)
{
	struct plan_input *in = r->in;
	struct plan_sharing s = { .line = n->line, .mode = mode, .slices = slices };

	if (in->n_sharings == PLAN_FOUND_MAX)
		return yaml_fail(r->src, n->line, n->column, ERR_LIMIT, r->err,
			"expected at most %d sharing configs", PLAN_FOUND_MAX);
	s.key = input_store_text(r, key);
	s.file = input_store_text(r, r->src->name);
	if (!s.key || !s.file ||
		!ARRAY_GROW(&in->sharings, in->n_sharings, &in->room_sharings, PLAN_FOUND_MAX))
		return error_nomem(r->err);
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

static int object_config_map(const struct input_reader *r, const struct yaml_node *o,
	const char *kind)
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

/* --- notes --- */

#define TEXT_MAX 1024

const char *object_clean(const char *text, char *buf, size_t size)
{
	size_t n = 0;

	for (; *text && n + 1 < size; text++)
		buf[n++] = input_is_control(text) ? '?' : *text;
	buf[n] = '\0';
	return buf;
}

int input_add_note(const struct input_reader *r, const struct yaml_node *n, const char *code,
	const char *fmt, ...)
{
	struct plan_input *in = r->in;
	struct plan_note note = { .line = n->line, .code = code };
	char line[TEXT_MAX], clean[TEXT_MAX];
	va_list ap;

	if (in->n_notes == PLAN_NOTES_MAX)
		return 0;
	va_start(ap, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	note.text = input_store_text(r, object_clean(line, clean, sizeof(clean)));
	note.file = input_store_text(r, r->src->name);
	if (!note.text || !note.file ||
		!ARRAY_EXTEND(&in->notes, in->n_notes, 1, PLAN_NOTES_MAX))
		return error_nomem(r->err);
	in->notes[in->n_notes++] = note;
	return 0;
}

/* --- places in objects --- */

const struct yaml_node *object_at(const struct yaml_node *n, const char *path)
{
	while (n && *path) {
		size_t len = strcspn(path, ".");
		char key[64];

		if (n->type != YAML_OBJECT || len >= sizeof(key))
			return NULL;
		memcpy(key, path, len);
		key[len] = '\0';
		n = yaml_get(n, key, false);
		path += len + (path[len] == '.');
	}
	return n;
}

const char *object_get_text(const struct yaml_node *n, const char *path)
{
	const struct yaml_node *at = object_at(n, path);

	if (!at || at->type == YAML_LIST || at->type == YAML_OBJECT || at->type == YAML_NULL)
		return NULL;
	return at->text;
}

size_t object_list(const struct yaml_node *n, const char *path, struct yaml_node ***items)
{
	const struct yaml_node *at = object_at(n, path);

	if (!at || at->type != YAML_LIST)
		return 0;
	*items = at->items;
	return at->n;
}

/* --- kinds --- */

static const struct {
	const char *kind;
	int (*read)(const struct input_reader *r, const struct yaml_node *o, const char *kind);
} kinds[] = {
	{ "Pod", object_workload },
	{ "Deployment", object_workload },
	{ "ReplicaSet", object_workload },
	{ "ReplicationController", object_workload },
	{ "StatefulSet", object_workload },
	{ "Job", object_workload },
	{ "CronJob", object_workload },
	{ "DaemonSet", object_workload },
	{ "ConfigMap", object_config_map },
	{ "Provisioner", object_node_pool },
	{ "NodePool", object_node_pool },
	{ "AWSNodeTemplate", object_node_template },
	{ "ClusterConfig", object_eksctl },
};

int objects_read(const struct input_reader *r, const struct yaml_node *doc)
{
	const char *kind = object_get_text(doc, "kind");
	struct yaml_node **items = NULL;
	char clean[64];

	if (!kind)
		return input_add_note(r, doc, "no-kind", "no kind: no API server takes it");
	if (!object_get_text(doc, "apiVersion") &&
		input_add_note(r, doc, "no-api-version",
			"%s without apiVersion: every API server refuses it ('apiVersion not set')",
			object_clean(kind, clean, sizeof(clean))) < 0)
		return -1;
	if (!strcmp(kind, "List")) {
		size_t n = object_list(doc, "items", &items);

		for (size_t i = 0; i < n; i++)
			if (items[i]->type == YAML_OBJECT &&
				strcmp(object_get_text(items[i], "kind")
						? object_get_text(items[i], "kind")
						: "",
					"List") != 0 &&
				objects_read(r, items[i]) < 0)
				return -1;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (!strcmp(kind, kinds[i].kind))
			return kinds[i].read(r, doc, kind);
	if (object_at(doc, "spec.template.spec.containers"))
		return object_workload(r, doc, kind);
	return input_add_note(r, doc, "not-read", "%s: nothing that a plan needs, not read",
		object_clean(kind, clean, sizeof(clean)));
}

/* --- all together --- */

static struct plan_workload *workload_named(struct plan_input *in, const char *name)
{
	for (size_t i = 0; i < in->n_workloads; i++)
		if (!strcmp(in->workloads[i].name, name))
			return &in->workloads[i];
	return NULL;
}

/* The manifest supplies what the plan file does not set. */
static void merge_workload_object(struct plan_workload *w, const struct plan_workload *o)
{
	if (w->replicas == INPUT_UNSET)
		w->replicas = o->replicas;
	if (w->cpu_milli == INPUT_UNSET)
		w->cpu_milli = o->cpu_milli;
	if (w->memory_mib == INPUT_UNSET)
		w->memory_mib = o->memory_mib;
	if (w->gpus == INPUT_UNSET)
		w->gpus = o->gpus;
	if (!w->mem_peak_mib.known)
		w->mem_peak_mib = o->mem_peak_mib;
	if (w->gpus_allowed == UINT64_MAX)
		w->gpus_allowed = o->gpus_allowed;
	if (w->isolation < o->isolation)
		w->isolation = o->isolation;
	if (w->kind == PLAN_OPEN && !w->rate.known)
		w->kind = o->kind;
	w->anti_affinity |= o->anti_affinity;
	w->object_apart = o->object_apart;
	w->object_kind = o->object_kind;
	w->object_container = o->object_container;
	w->object_resource = o->object_resource;
	w->object_space = o->object_space;
}

static int join_all(struct plan_input *in, struct error *err)
{
	for (size_t i = 0; i < in->n_objects; i++) {
		struct plan_workload *w = workload_named(in, in->objects[i].name);

		if (w) {
			merge_workload_object(w, &in->objects[i]);
			continue;
		}
		if (in->n_workloads == PLAN_WORKLOADS_MAX)
			return error_set(err, ERR_LIMIT, "expected at most %d workloads",
				PLAN_WORKLOADS_MAX);
		if (!ARRAY_GROW(&in->workloads, in->n_workloads, &in->room_workloads,
			    PLAN_WORKLOADS_MAX))
			return error_nomem(err);
		in->workloads[in->n_workloads++] = in->objects[i];
	}
	in->n_objects = 0;
	return 0;
}

static void set_defaults(struct plan_workload *w)
{
	if (w->replicas == INPUT_UNSET)
		w->replicas = 1;
	if (w->cpu_milli == INPUT_UNSET)
		w->cpu_milli = 0;
	if (w->memory_mib == INPUT_UNSET)
		w->memory_mib = 0;
	if (w->gpus == INPUT_UNSET)
		w->gpus = 1;
}

static const struct plan_sharing *sharing_named(const struct plan_input *in, const char *key)
{
	for (size_t i = 0; key && i < in->n_sharings; i++)
		if (!strcmp(in->sharings[i].key, key))
			return &in->sharings[i];
	return NULL;
}

/* "p3.2xlarge": a key that is an instance type itself. */
static bool is_instance_type(const char *key)
{
	const char *dot = strchr(key, '.');

	return dot && dot > key && (strstr(dot, "large") || strstr(dot, "metal"));
}

static int add_no_config_note(struct plan_input *in, const struct plan_machine *m,
	struct error *err)
{
	const struct yaml_source src = { .name = m->file };
	const struct input_reader r = { in, &src, err };
	const struct yaml_node at = { .line = m->line };

	return input_add_note(&r, &at, "no-such-config",
		"nodes choose the sharing config '%s', and no ConfigMap here has that key",
		m->sharing);
}

/* Takes the first layout found; adds a note for each one on another instance type. */
static int add_found_layout(struct plan_input *in, const struct plan_layout *l,
	const char *file, uint32_t line, struct error *err)
{
	const struct yaml_source src = { .name = file };
	const struct input_reader r = { in, &src, err };
	const struct yaml_node at = { .line = line };

	if (!in->layout.instance) {
		in->layout = *l;
		in->layout_found = true;
	}
	if (!strcmp(in->layout.instance, l->instance))
		return 0;
	return input_add_note(&r, &at, "other-layout",
		"one layout is costed at a time; for the one on %s write layout: into a plan file",
		l->instance);
}

/* The first machine with a sharing config is the user's layout, unless a plan file has one. */
static int find_layout(struct plan_input *in, struct error *err)
{
	for (size_t i = 0; i < in->n_machines; i++) {
		const struct plan_machine *m = &in->machines[i];
		const struct plan_sharing *s = sharing_named(in, m->sharing);

		if (m->sharing && !s && in->n_sharings && add_no_config_note(in, m, err) < 0)
			return -1;
		if (s && add_found_layout(in,
				 &(struct plan_layout){ m->instance, m->capacity, s->mode,
					 s->slices },
				 m->file, m->line, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < in->n_sharings; i++) {
		const struct plan_sharing *s = &in->sharings[i];

		if (is_instance_type(s->key) &&
			add_found_layout(in,
				&(struct plan_layout){ s->key, PLAN_ON_DEMAND, s->mode,
					s->slices },
				s->file, s->line, err) < 0)
			return -1;
	}
	/* Without a layout, the first machine is the baseline. With one, plan_input_end() takes the layout's
	 * own type, so that the difference is only the sharing. */
	if (!in->baseline && !in->layout.instance && in->n_machines) {
		in->baseline = in->machines[0].instance;
		in->baseline_found = true;
	}
	return 0;
}

/* The memory of the requested slot is unknown: the plan gives the workload a whole GPU. */
static int add_no_profile_note(struct plan_input *in, const struct plan_workload *w,
	struct error *err)
{
	const struct yaml_source src = { .name = w->file };
	const struct input_reader r = { in, &src, err };
	const struct yaml_node at = { .line = w->line };

	if (!w->object_resource || !strcmp(w->object_resource, OFFER_GPU) ||
		w->mem_peak_mib.known)
		return 0;
	return input_add_note(&r, &at, "no-profile",
		"'%s' asks for %.80s, and no profile says how much memory it needs (mem_peak_mib): it is "
		"planned with a GPU of its own",
		w->name, w->object_resource);
}

/* Figures that a plan does not use, though a user may expect it. */
static int add_unused_notes(struct plan_input *in, const struct plan_workload *w,
	struct error *err)
{
	const struct yaml_source src = { .name = w->file };
	const struct input_reader r = { in, &src, err };
	const struct yaml_node at = { .line = w->line };

	if ((w->burst.known || w->arrival_cv.known || w->power_w.known) &&
		input_add_note(&r, &at, "field-not-used",
			"'%s': burst, cv_arrival and power_w are not reckoned with yet",
			w->name) < 0)
		return -1;
	if (w->spot_ok && !w->checkpointable &&
		(w->kind == PLAN_TRAIN || w->kind == PLAN_BATCH))
		return input_add_note(&r, &at, "no-checkpoint",
			"'%s' may be on spot instances and is not checkpointable: an interruption takes all "
			"that it has done since its start, which no figure here has",
			w->name);
	return 0;
}

int objects_end(struct plan_input *in, struct error *err)
{
	if (join_all(in, err) < 0)
		return -1;
	for (size_t i = 0; i < in->n_workloads; i++)
		set_defaults(&in->workloads[i]);
	for (size_t i = 0; i < in->n_workloads; i++)
		if (add_no_profile_note(in, &in->workloads[i], err) < 0 ||
			add_unused_notes(in, &in->workloads[i], err) < 0)
			return -1;
	return find_layout(in, err);
}
