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

static void put_sample(struct json_maker *m, json_t *object, const struct sample_unit *s)
{
	json_t *o;

	if (!s) {
		json_put(m, object, "sample", json_null());
		return;
	}
	json_put(m, object, "sample", json_object());
	o = json_object_get(object, "sample");
	for (uint32_t i = 0; i < s->n_values; i++) {
		const struct sample_value *x = &s->values[i];
		const struct field *f = &fields[x->field];

		json_put(m, o, f->name,
			f->kind == FIELD_REAL ? json_real(x->real) : json_integer(x->i));
	}
	for (uint32_t i = 0; i < s->n_texts; i++)
		json_put(m, o, fields[s->texts[i].field].name, json_string(s->texts[i].text));
}

void json_put_use(struct json_maker *m, json_t *object, const struct view_use *use)
{
	json_put_rows(m, object, json_rows_use, use);
	json_put_cost(m, object, "costNano", use->cost_nano);
	if (!use->slice) {
		json_put(m, object, "slice", json_null());
		return;
	}
	json_put(m, object, "slice", json_object());
	json_put_rows(m, json_object_get(object, "slice"), json_rows_slice, use->slice);
}

static void put_seats(struct json_maker *m, json_t *object, const struct view_unit *u)
{
	json_t *list = json_put_array(m, object, "seats");

	for (uint32_t i = u->first_seat; i < u->first_seat + u->n_seats; i++) {
		const struct view_seat *s = &m->v->seats[i];
		json_t *o = json_add_object(m, list);

		json_put_rows(m, o, json_rows_seat, s);
		json_put(m, o, "use",
			s->use == VIEW_NONE ? json_null()
					    : json_integer(s->use - u->first_use));
	}
}

static void put_unit(struct json_maker *m, json_t *o, const struct view_unit *u)
{
	json_t *past, *list;

	json_put_rows(m, o, json_rows_unit, u);
	json_put_rows(m, o, json_rows_place, u);
	json_put_cost(m, o, "costNano", u->counted ? u->cost_nano : JSON_COST_UNKNOWN);
	json_put_cost(m, o, "idleCostNano", u->counted ? u->idle_cost_nano : JSON_COST_UNKNOWN);
	json_put(m, o, "past", json_object());
	past = json_object_get(o, "past");
	json_put(m, past, "busyNs", u->busy_known ? json_u64(u->past.busy_ns) : json_null());
	json_put(m, past, "gpuNs", u->counted ? json_u64(u->past.gpu_ns) : json_null());
	json_put_cost(m, past, "costNano", u->counted ? u->past.cost_nano : JSON_COST_UNKNOWN);
	/* A whole GPU's is the board's. */
	put_sample(m, o, u->mig ? u->sample : NULL);
	put_seats(m, o, u);
	list = json_put_array(m, o, "uses");
	for (uint32_t i = u->first_use; i < u->first_use + u->n_uses; i++)
		json_put_use(m, json_add_object(m, list), &m->v->uses[i]);
}

static void put_xids(struct json_maker *m, json_t *object, const struct view_gpu *g)
{
	json_t *list;

	if (!g->xids_known) {
		json_put(m, object, "xids", json_null());
		return;
	}
	list = json_put_array(m, object, "xids");
	for (uint32_t i = 0; i < g->n_xids; i++)
		json_put_rows(m, json_add_object(m, list), json_rows_xid, &g->xids[i]);
}

static void put_gpu(struct json_maker *m, json_t *o, const struct view_gpu *g)
{
	json_t *list;

	json_put_rows(m, o, json_rows_gpu, g);
	json_put_cost(m, o, "costNanoPerHour", g->cost_nano_per_hour);
	list = json_put_array(m, o, "signals");
	for (uint32_t i = 0; i < g->n_signals; i++)
		json_put_rows(m, json_add_object(m, list), json_rows_signal, &g->signals[i]);
	put_xids(m, o, g);
	put_sample(m, o, g->sample);
	json_put(m, o, "sampleAgeNs", g->sampled ? json_u64(g->sample_age_ns) : json_null());
	list = json_put_array(m, o, "units");
	for (uint32_t i = g->first_unit; i < g->first_unit + g->n_units; i++)
		put_unit(m, json_add_object(m, list), &m->v->units[i]);
}

static void put_gpus(struct json_maker *m, json_t *root)
{
	json_t *list = json_put_array(m, root, "gpus");

	for (uint32_t i = 0; i < m->v->n_gpus; i++)
		put_gpu(m, json_add_object(m, list), &m->v->gpus[i]);
}

/* --- the rest --- */

static void put_resources(struct json_maker *m, json_t *root)
{
	json_t *list = json_put_array(m, root, "resources");

	for (uint32_t i = 0; i < m->v->n_resources; i++)
		json_put_rows(m, json_add_object(m, list), json_rows_resource,
			&m->v->resources[i]);
}

static void put_agent(struct json_maker *m, json_t *root)
{
	const struct view_agent *a = &m->v->agent;
	json_t *o, *list;

	json_put(m, root, "agent", json_object());
	o = json_object_get(root, "agent");
	json_put_rows(m, o, json_rows_agent, a);
	list = json_put_array(m, o, "components");
	for (uint32_t i = 0; i < a->n_components; i++)
		json_put_rows(m, json_add_object(m, list), json_rows_component,
			&a->components[i]);
}

static void put_node(struct json_maker *m, json_t *root)
{
	json_t *list;

	json_put_rows(m, root, json_rows_node, m->v);
	list = json_put_array(m, root, "warnings");
	for (uint32_t i = 0; i < m->v->n_warnings; i++)
		json_add(m, list, json_string(m->v->warnings[i]));
	put_gpus(m, root);
	put_resources(m, root);
	put_agent(m, root);
}

/* Columns, as a point of its own would mostly be keys. */
static void put_points(struct json_maker *m, json_t *o, uint32_t n, const struct view_point *p)
{
	json_t *wall = json_put_array(m, o, "wallS"), *busy = json_put_array(m, o, "busy");
	json_t *held = json_put_array(m, o, "held"),
	       *memory = json_put_array(m, o, "memoryUsed");

	for (uint32_t i = 0; i < n; i++) {
		json_add(m, wall, json_integer(p[i].wall_s));
		json_add(m, busy,
			p[i].busy == VIEW_NONE ? json_null() : json_integer(p[i].busy));
		json_add(m, held,
			p[i].held == VIEW_NONE ? json_null() : json_integer(p[i].held));
		json_add(m, memory,
			p[i].memory_used == UINT64_MAX ? json_null()
						       : json_u64(p[i].memory_used));
	}
}

static void put_history(struct json_maker *m, json_t *root)
{
	json_t *gpus, *units, *o;

	json_put(m, root, "pointS", json_integer(VIEW_POINT_S));
	gpus = json_put_array(m, root, "gpus");
	for (uint32_t i = 0; i < m->v->n_gpus; i++) {
		const struct view_gpu *g = &m->v->gpus[i];

		o = json_add_object(m, gpus);
		json_put(m, o, "index", json_integer(g->index));
		json_put(m, o, "uuid", json_string(g->uuid));
		put_points(m, o, g->n_points, g->points);
		units = json_put_array(m, o, "units");
		for (uint32_t k = g->first_unit; k < g->first_unit + g->n_units; k++) {
			const struct view_unit *u = &m->v->units[k];
			json_t *of = json_add_object(m, units);

			json_put(m, of, "label", json_string(u->label));
			json_put(m, of, "uuid", json_string(u->uuid));
			put_points(m, of, u->n_points, u->points);
		}
	}
}

static void put_pods(struct json_maker *m, json_t *root)
{
	json_put(m, root, "holdersKnown", json_boolean(m->v->holders_known));
	json_put(m, root, "holdersError", json_string(m->v->holders_error));
	json_put_pods(m, root);
}

static char *dump(const json_t *root, size_t *ret_len)
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
		[VIEW_PART_NODE] = put_node,
		[VIEW_PART_GPUS] = put_gpus,
		[VIEW_PART_PODS] = put_pods,
		[VIEW_PART_RESOURCES] = put_resources,
		[VIEW_PART_HISTORY] = put_history,
	};
	struct json_maker m = { .v = v };
	json_t *root = json_object();
	char *text = NULL;

	json_put_rows(&m, root, json_rows_head, v);
	put[part](&m, root);
	if (!m.failed)
		text = dump(root, ret_len);
	json_decref(root);
	return text;
}
