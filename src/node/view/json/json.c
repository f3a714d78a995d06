/* SPDX-License-Identifier: Apache-2.0 */
#include "node/view/json/rows.h"

#include "lib/base/time.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/*
 * How the JSON is built. After a lack of memory all functions go on, and .failed reports it at the end. So no
 * function here has a result to check.
 */

struct json_maker {
	const struct view *v;
	bool failed;
};

/* --- values --- */

/* Takes @value; NULL: out of memory. */
static void json_set_value(struct json_maker *m, json_t *object, const char *key, json_t *value)
{
	if (json_object_set_new_nocheck(object, key, value) != 0)
		m->failed = true;
}

static void json_add(struct json_maker *m, json_t *array, json_t *value)
{
	if (json_array_append_new(array, value) != 0)
		m->failed = true;
}

/* Adds an empty array to @object. Borrowed; NULL: out of memory, which all functions accept. */
static json_t *json_set_array(struct json_maker *m, json_t *object, const char *key)
{
	json_set_value(m, object, key, json_array());
	return json_object_get(object, key);
}

static json_t *json_add_object(struct json_maker *m, json_t *array)
{
	json_add(m, array, json_object());
	return json_array_get(array, json_array_size(array) - 1);
}

/* No counter comes near INT64_MAX. A wrong figure must not become negative. */
static json_t *json_u64(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

/* Money is null without a price, and for this value. */
#define JSON_COST_UNKNOWN UINT64_MAX

static void json_set_cost(struct json_maker *m, json_t *object, const char *key, uint64_t nano)
{
	bool known = m->v->priced && nano != JSON_COST_UNKNOWN;

	json_set_value(m, object, key, known ? json_u64(nano) : json_null());
}

static json_t *build_json_text(const char *s, bool empty_is_unknown)
{
	return s && (*s || !empty_is_unknown) ? json_string(s) : json_null();
}

static json_t *build_json_time(uint64_t wall_ns)
{
	char s[TIME_RFC3339_MAX];

	if (wall_ns == 0)
		return json_null();
	time_rfc3339(wall_ns, s);
	return json_string(s);
}

static json_t *build_json_u32(uint32_t n, uint32_t unknown)
{
	return n == unknown ? json_null() : json_integer(n);
}

static json_t *build_json_u64(uint64_t n, uint64_t unknown)
{
	return n == unknown ? json_null() : json_u64(n);
}

static json_t *build_json_value(enum json_kind kind, const void *at)
{
	switch (kind) {
	case JSON_KIND_TEXT:
	case JSON_KIND_TEXT_KNOWN:
		return build_json_text(*(const char *const *)at, kind == JSON_KIND_TEXT_KNOWN);
	case JSON_KIND_BOOL:
		return json_boolean(*(const bool *)at);
	case JSON_KIND_U32:
		return json_integer(*(const uint32_t *)at);
	case JSON_KIND_U32_NONE:
		return build_json_u32(*(const uint32_t *)at, VIEW_NONE);
	case JSON_KIND_U32_ZERO:
		return build_json_u32(*(const uint32_t *)at, 0);
	case JSON_KIND_NUMA:
		return *(const int32_t *)at < 0 ? json_null()
						: json_integer(*(const int32_t *)at);
	case JSON_KIND_INT:
		return json_integer(*(const int *)at);
	case JSON_KIND_U64:
		return json_u64(*(const uint64_t *)at);
	case JSON_KIND_U64_MAX:
		return build_json_u64(*(const uint64_t *)at, UINT64_MAX);
	case JSON_KIND_U64_ZERO:
		return build_json_u64(*(const uint64_t *)at, 0);
	case JSON_KIND_TIME:
		return build_json_time(*(const uint64_t *)at);
	case JSON_KIND_MODE:
		return json_string(view_mode_name(*(const enum view_mode *)at));
	case JSON_KIND_HEALTH:
		return json_string(view_health_name(*(const enum view_health *)at));
	case JSON_KIND_SOURCE:
		return build_json_text(view_source_name(*(const enum view_source *)at), true);
	}
	return NULL;
}

static bool is_json_row_known(const struct json_row *r, const unsigned char *of)
{
	return r->known == JSON_ALWAYS || *(const bool *)(of + r->known);
}

static void json_set_rows(struct json_maker *m, json_t *object, const struct json_row *rows,
	const void *of)
{
	for (const struct json_row *r = rows; r->key; r++) {
		const void *at = (const unsigned char *)of + r->at;

		json_set_value(m, object, r->key,
			is_json_row_known(r, of) ? build_json_value(r->kind, at) : json_null());
	}
}

/* --- parts --- */

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

static void json_set_use(struct json_maker *m, json_t *object, const struct view_use *use)
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

static void add_replicas_json(struct json_maker *m, json_t *object,
	const struct view_device *device)
{
	json_t *list = json_set_array(m, object, "seats");

	for (uint32_t i = device->first_replica; i < device->first_replica + device->n_replicas;
		i++) {
		const struct view_replica *s = &m->v->replicas[i];
		json_t *o = json_add_object(m, list);

		json_set_rows(m, o, json_rows_replica, s);
		json_set_value(m, o, "use",
			s->use == VIEW_NONE ? json_null()
					    : json_integer(s->use - device->first_use));
	}
}

static void add_device_json(struct json_maker *m, json_t *o, const struct view_device *device)
{
	json_t *past, *list;

	json_set_rows(m, o, json_rows_device, device);
	json_set_rows(m, o, json_rows_place, device);
	json_set_cost(m, o, "costNano",
		device->counted ? device->cost_nano : JSON_COST_UNKNOWN);
	json_set_cost(m, o, "idleCostNano",
		device->counted ? device->idle_cost_nano : JSON_COST_UNKNOWN);
	json_set_value(m, o, "past", json_object());
	past = json_object_get(o, "past");
	json_set_value(m, past, "busyNs",
		device->busy_known ? json_u64(device->past.busy_ns) : json_null());
	json_set_value(m, past, "gpuNs",
		device->counted ? json_u64(device->past.gpu_ns) : json_null());
	json_set_cost(m, past, "costNano",
		device->counted ? device->past.cost_nano : JSON_COST_UNKNOWN);
	/* A whole GPU shows the sample of the board. */
	add_sample_json(m, o, device->mig ? device->sample : NULL);
	add_replicas_json(m, o, device);
	list = json_set_array(m, o, "uses");
	for (uint32_t i = device->first_use; i < device->first_use + device->n_uses; i++)
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

/* --- pods: uses on several devices, put together --- */

static int compare_uses_by_pod(const void *a, const void *b)
{
	const struct view_use *x = *(const struct view_use *const *)a,
			      *y = *(const struct view_use *const *)b;
	int order = strcmp(x->namespace_, y->namespace_);

	if (order == 0)
		order = strcmp(x->pod, y->pod);
	if (order == 0)
		order = strcmp(x->uid, y->uid);
	if (order == 0) /* as in the view */
		order = x < y ? -1 : x > y;
	return order;
}

static bool is_same_use_pod(const struct view_use *x, const struct view_use *y)
{
	return !strcmp(x->namespace_, y->namespace_) && !strcmp(x->pod, y->pod) &&
	       !strcmp(x->uid, y->uid);
}

struct pod_sum {
	bool live, received_known, memory_known, busy_known, memory_counted;
	uint64_t replicas, share, received, memory, gpu_ns, busy_ns, memory_byte_s, cost;
};

/*
 * Figures of now are sums of the live uses; without a live use they are not known. Counters are sums of all uses.
 * A sum with an unknown part is not known.
 */
static void add_use_to_pod_sum(struct pod_sum *s, const struct view_use *use)
{
	if (use->live) {
		s->live = true;
		s->replicas += use->n_replicas;
		s->share += use->share;
		s->received_known &= use->received != VIEW_NONE;
		s->received += use->received != VIEW_NONE ? use->received : 0;
		s->memory_known &= use->memory_known;
		s->memory += use->memory_used;
	}
	s->busy_known &= use->busy_known;
	s->memory_counted &= use->memory_counted;
	s->busy_ns += use->busy_ns;
	s->gpu_ns += use->gpu_ns;
	s->memory_byte_s += use->memory_byte_s;
	s->cost += use->cost_nano;
}

static void add_pod_sum_json(struct json_maker *m, json_t *o, const struct pod_sum *s)
{
	json_set_value(m, o, "live", json_boolean(s->live));
	json_set_value(m, o, "nSeats", json_u64(s->replicas));
	json_set_value(m, o, "share", json_u64(s->share));
	json_set_value(m, o, "received",
		s->live && s->received_known ? json_u64(s->received) : json_null());
	json_set_value(m, o, "memoryUsed",
		s->live && s->memory_known ? json_u64(s->memory) : json_null());
	json_set_value(m, o, "gpuNs", json_u64(s->gpu_ns));
	json_set_value(m, o, "busyNs", s->busy_known ? json_u64(s->busy_ns) : json_null());
	json_set_value(m, o, "memoryByteS",
		s->memory_counted ? json_u64(s->memory_byte_s) : json_null());
	json_set_cost(m, o, "costNano", s->cost);
}

/* Adds the pod of the first use in @uses. Returns how many of the @n uses belong to that pod. */
static size_t add_pod_json(struct json_maker *m, json_t *pod, const struct view_use **uses,
	size_t n)
{
	struct pod_sum sum = { .received_known = true,
		.memory_known = true,
		.busy_known = true,
		.memory_counted = true };
	json_t *list;
	size_t i;

	json_set_value(m, pod, "namespace", json_string(uses[0]->namespace_));
	json_set_value(m, pod, "pod", json_string(uses[0]->pod));
	json_set_value(m, pod, "uid", *uses[0]->uid ? json_string(uses[0]->uid) : json_null());
	list = json_set_array(m, pod, "uses");
	for (i = 0; i < n && is_same_use_pod(uses[0], uses[i]); i++) {
		const struct view_device *device = &m->v->devices[uses[i]->device];
		json_t *o = json_add_object(m, list);

		json_set_value(m, o, "gpu", json_integer(m->v->gpus[device->gpu].index));
		json_set_value(m, o, "unit", json_string(device->label));
		json_set_value(m, o, "unitUuid", json_string(device->uuid));
		json_set_use(m, o, uses[i]);
		add_use_to_pod_sum(&sum, uses[i]);
	}
	add_pod_sum_json(m, pod, &sum);
	return i;
}

static void json_set_pods(struct json_maker *m, json_t *root)
{
	size_t n = m->v->n_uses;
	CLEANUP(freep)
	const struct view_use **uses = calloc(n + 1, sizeof(const struct view_use *));
	json_t *list = json_set_array(m, root, "pods");

	if (!uses) {
		m->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		uses[i] = &m->v->uses[i];
	qsort(uses, n, sizeof(const struct view_use *),
		compare_uses_by_pod); /* not stable; compare_uses_by_pod() leaves no ties */
	for (size_t i = 0; i < n;)
		i += add_pod_json(m, json_add_object(m, list), uses + i, n - i);
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
			const struct view_device *device = &m->v->devices[k];
			json_t *of = json_add_object(m, devices);

			json_set_value(m, of, "label", json_string(device->label));
			json_set_value(m, of, "uuid", json_string(device->uuid));
			add_points_json(m, of, device->n_points, device->points);
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
