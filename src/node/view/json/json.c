/* SPDX-License-Identifier: Apache-2.0 */
#include "node/view/json/internal.h"

#include <stdlib.h>

const char *view_part_path(enum view_part part)
{
	static const char *const paths[] = {
		[VIEW_PART_NODE] = "/api/v1/node",
		[VIEW_PART_GPUS] = "/api/v1/gpus",
		[VIEW_PART_PODS] = "/api/v1/pods",
		[VIEW_PART_RESOURCES] = "/api/v1/resources",
		[VIEW_PART_HISTORY] = "/api/v1/history",
	};

	return paths[part];
}

/* --- GPUs --- */

static void add_sample_json(struct json_maker *m, json_t *object, const struct sample_device *s)
{
	json_t *o;

	if (!s) {
		json_set_value(m, object, "sample", json_null());
		return;
	}
	json_set_value(m, object, "sample", json_object());
	o = json_object_get(object, "sample");
	for (uint32_t i = 0; i < s->n_values; i++) {
		const struct sample_value *x = &s->values[i];
		const struct field *f = &fields[x->field];

		json_set_value(m, o, f->name,
			f->kind == FIELD_REAL ? json_real(x->real) : json_integer(x->i));
	}
	for (uint32_t i = 0; i < s->n_texts; i++)
		json_set_value(m, o, fields[s->texts[i].field].name,
			json_string(s->texts[i].text));
}

void json_set_use(struct json_maker *m, json_t *object, const struct view_use *use)
{
	json_set_rows(m, object, json_rows_use, use);
	json_set_cost(m, object, "costNano", use->cost_nano);
	if (!use->slice) {
		json_set_value(m, object, "slice", json_null());
		return;
	}
	json_set_value(m, object, "slice", json_object());
	json_set_rows(m, json_object_get(object, "slice"), json_rows_slice, use->slice);
}

static void add_replicas_json(struct json_maker *m, json_t *object, const struct view_device *u)
{
	json_t *list = json_set_array(m, object, "seats");

	for (uint32_t i = u->first_replica; i < u->first_replica + u->n_replicas; i++) {
		const struct view_replica *s = &m->v->replicas[i];
		json_t *o = json_add_object(m, list);

		json_set_rows(m, o, json_rows_replica, s);
		json_set_value(m, o, "use",
			s->use == VIEW_NONE ? json_null()
					    : json_integer(s->use - u->first_use));
	}
}

static void add_device_json(struct json_maker *m, json_t *o, const struct view_device *u)
{
	json_t *past, *list;

	json_set_rows(m, o, json_rows_device, u);
	json_set_rows(m, o, json_rows_place, u);
	json_set_cost(m, o, "costNano", u->counted ? u->cost_nano : JSON_COST_UNKNOWN);
	json_set_cost(m, o, "idleCostNano", u->counted ? u->idle_cost_nano : JSON_COST_UNKNOWN);
	json_set_value(m, o, "past", json_object());
	past = json_object_get(o, "past");
	json_set_value(m, past, "busyNs",
		u->busy_known ? json_u64(u->past.busy_ns) : json_null());
	json_set_value(m, past, "gpuNs", u->counted ? json_u64(u->past.gpu_ns) : json_null());
	json_set_cost(m, past, "costNano", u->counted ? u->past.cost_nano : JSON_COST_UNKNOWN);
	/* A whole GPU shows the sample of the board. */
	add_sample_json(m, o, u->mig ? u->sample : NULL);
	add_replicas_json(m, o, u);
	list = json_set_array(m, o, "uses");
	for (uint32_t i = u->first_use; i < u->first_use + u->n_uses; i++)
		json_set_use(m, json_add_object(m, list), &m->v->uses[i]);
}

static void add_xids_json(struct json_maker *m, json_t *object, const struct view_gpu *g)
{
	json_t *list;

	if (!g->xids_known) {
		json_set_value(m, object, "xids", json_null());
		return;
	}
	list = json_set_array(m, object, "xids");
	for (uint32_t i = 0; i < g->n_xids; i++)
		json_set_rows(m, json_add_object(m, list), json_rows_xid, &g->xids[i]);
}

static void add_gpu_json(struct json_maker *m, json_t *o, const struct view_gpu *g)
{
	json_t *list;

	json_set_rows(m, o, json_rows_gpu, g);
	json_set_cost(m, o, "costNanoPerHour", g->cost_nano_per_hour);
	list = json_set_array(m, o, "signals");
	for (uint32_t i = 0; i < g->n_signals; i++)
		json_set_rows(m, json_add_object(m, list), json_rows_signal, &g->signals[i]);
	add_xids_json(m, o, g);
	add_sample_json(m, o, g->sample);
	json_set_value(m, o, "sampleAgeNs",
		g->sampled ? json_u64(g->sample_age_ns) : json_null());
	list = json_set_array(m, o, "units");
	for (uint32_t i = g->first_device; i < g->first_device + g->n_devices; i++)
		add_device_json(m, json_add_object(m, list), &m->v->devices[i]);
}

static void add_gpu_list_json(struct json_maker *m, json_t *root)
{
	json_t *list = json_set_array(m, root, "gpus");

	for (uint32_t i = 0; i < m->v->n_gpus; i++)
		add_gpu_json(m, json_add_object(m, list), &m->v->gpus[i]);
}

/* --- the rest --- */

static void add_resources_json(struct json_maker *m, json_t *root)
{
	json_t *list = json_set_array(m, root, "resources");

	for (uint32_t i = 0; i < m->v->n_resources; i++)
		json_set_rows(m, json_add_object(m, list), json_rows_resource,
			&m->v->resources[i]);
}

static void add_agent_json(struct json_maker *m, json_t *root)
{
	const struct view_agent *a = &m->v->agent;
	json_t *o, *list;

	json_set_value(m, root, "agent", json_object());
	o = json_object_get(root, "agent");
	json_set_rows(m, o, json_rows_agent, a);
	list = json_set_array(m, o, "components");
	for (uint32_t i = 0; i < a->n_components; i++)
		json_set_rows(m, json_add_object(m, list), json_rows_component,
			&a->components[i]);
}

static void add_node_json(struct json_maker *m, json_t *root)
{
	json_t *list;

	json_set_rows(m, root, json_rows_node, m->v);
	list = json_set_array(m, root, "warnings");
	for (uint32_t i = 0; i < m->v->n_warnings; i++)
		json_add(m, list, json_string(m->v->warnings[i]));
	add_gpu_list_json(m, root);
	add_resources_json(m, root);
	add_agent_json(m, root);
}

/* An array for each member: objects would consist mostly of keys. */
static void add_points_json(struct json_maker *m, json_t *o, uint32_t n,
	const struct view_point *p)
{
	json_t *wall = json_set_array(m, o, "wallS"), *busy = json_set_array(m, o, "busy");
	json_t *held = json_set_array(m, o, "held"),
	       *memory = json_set_array(m, o, "memoryUsed");

	for (uint32_t i = 0; i < n; i++) {
		json_add(m, wall, json_integer(p[i].wall_s));
		json_add(m, busy,
			p[i].busy == VIEW_NONE ? json_null() : json_integer(p[i].busy));
		json_add(m, held,
			p[i].allocated == VIEW_NONE ? json_null()
						    : json_integer(p[i].allocated));
		json_add(m, memory,
			p[i].memory_used == UINT64_MAX ? json_null()
						       : json_u64(p[i].memory_used));
	}
}

static void add_history_json(struct json_maker *m, json_t *root)
{
	json_t *gpus, *devices, *o;

	json_set_value(m, root, "pointS", json_integer(VIEW_POINT_S));
	gpus = json_set_array(m, root, "gpus");
	for (uint32_t i = 0; i < m->v->n_gpus; i++) {
		const struct view_gpu *g = &m->v->gpus[i];

		o = json_add_object(m, gpus);
		json_set_value(m, o, "index", json_integer(g->index));
		json_set_value(m, o, "uuid", json_string(g->uuid));
		add_points_json(m, o, g->n_points, g->points);
		devices = json_set_array(m, o, "units");
		for (uint32_t k = g->first_device; k < g->first_device + g->n_devices; k++) {
			const struct view_device *u = &m->v->devices[k];
			json_t *of = json_add_object(m, devices);

			json_set_value(m, of, "label", json_string(u->label));
			json_set_value(m, of, "uuid", json_string(u->uuid));
			add_points_json(m, of, u->n_points, u->points);
		}
	}
}

static void add_pods_json(struct json_maker *m, json_t *root)
{
	json_set_value(m, root, "holdersKnown", json_boolean(m->v->allocations_known));
	json_set_value(m, root, "holdersError", json_string(m->v->allocations_error));
	json_set_pods(m, root);
}

static char *format_view_json(const json_t *root, size_t *ret_len)
{
	const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(9);
	size_t n = json_dumpb(root, NULL, 0, flags);
	CLEANUP(freep) char *text = n ? malloc(n + 2) : NULL;

	if (!text || json_dumpb(root, text, n, flags) != n)
		return NULL;
	text[n] = '\n';
	text[n + 1] = '\0';
	*ret_len = n + 1;
	return STEAL_PTR(text);
}

char *view_json(const struct view *v, enum view_part part, size_t *ret_len)
{
	static void (*const put[])(struct json_maker *, json_t *) = {
		[VIEW_PART_NODE] = add_node_json,
		[VIEW_PART_GPUS] = add_gpu_list_json,
		[VIEW_PART_PODS] = add_pods_json,
		[VIEW_PART_RESOURCES] = add_resources_json,
		[VIEW_PART_HISTORY] = add_history_json,
	};
	struct json_maker m = { .v = v };
	json_t *root = json_object();
	char *text = NULL;

	json_set_rows(&m, root, json_rows_head, v);
	put[part](&m, root);
	if (!m.failed)
		text = format_view_json(root, ret_len);
	json_decref(root);
	return text;
}
