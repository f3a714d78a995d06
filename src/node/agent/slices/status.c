/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slices in the agent's status, as JSON: what their files say, and what the arbiter reports of them
 * (slices.h).
 */
#include "node/agent/slices/slices.h"

#include "node/agent/slices/life.h"
#include "lib/base/time.h"
#include "model/sched/quantum-end.h"
#include "io/config/json.h"
#include "lib/json/record.h"

#include <string.h>

#define SET(object, key, value) (void)json_object_set_new((object), (key), (value))

static const char *const arbiter_states
	[] = { [ARBITER_OFF] = "off", [ARBITER_DOWN] = "away", [ARBITER_UP] = "up" };

static json_t *format_slices_error(const struct error *err)
{
	if (err->code == ERR_NONE)
		return json_null();
	return json_pack("{s:s, s:s}", "code", error_class(err->code)->name, "message",
		err->msg);
}

static json_t *arbiter_status(const struct slices *s)
{
	const char *why = "";
	int pid = 0;
	enum arbiter_state state =
		s->arbiter ? arbiter_link_state(s->arbiter, &pid, &why) : ARBITER_OFF;
	json_t *o = json_object();

	SET(o, "state", json_string(arbiter_states[state]));
	SET(o, "pid", pid ? json_integer(pid) : json_null());
	SET(o, "reason", json_any_text(state == ARBITER_UP ? s->arbiter_error.msg : why));
	return o;
}

/* The index of the GPU or MIG device with this UUID: 0 or "0:1"; null: it is not on the node now. */
static json_t *format_slice_gpu_index(const struct slices *s, const char *uuid)
{
	const struct inventory *inv = s->c.facts->node.inv;

	for (uint32_t i = 0; inv && i < inv->n; i++)
		if (!strcmp(inv->gpus[i].uuid, uuid))
			return json_integer(inv->gpus[i].index);
	for (uint32_t i = 0; inv && i < inv->n_mig; i++)
		if (!strcmp(inv->mig[i].uuid, uuid))
			return json_sprintf("%u:%u", inv->gpus[inv->mig[i].gpu].index,
				inv->mig[i].index);
	return json_null();
}

/* A number from the arbiter; null: it reports none. */
static json_t *copy_arbiter_number(const json_t *from, const char *key)
{
	json_t *v = json_object_get(from, key);

	return json_is_integer(v) ? json_incref(v) : json_null();
}

/* The arbiter's usage account of a slice or a process on one GPU; null: none. */
static json_t *time_status(const json_t *now)
{
	static const struct {
		const char *key, *from;
	} rows[] = {
		{ "chargedNs", "charged_ns" },
		{ "queueNs", "queue_ns" }, /* of slices only, as the next two */
		{ "turns", "turns" },
		{ "revocations", "revocations" },
		{ "launches", "launches" },
		{ "copies", "copies" },
		{ "copiedBytes", "bytes" },
		{ "waits", "waits" },
		{ "waitNs", "wait_ns" },
		{ "meterNs", "meter_ns" },
	};
	json_t *o;

	if (!json_is_integer(json_object_get(now, rows[0].from)))
		return json_null();
	o = json_object();
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (json_object_get(now, rows[i].from))
			SET(o, rows[i].key, copy_arbiter_number(now, rows[i].from));
	return o;
}

/* How many quanta of the slice ended for each reason; null: the arbiter does not report it. */
static json_t *format_quantum_ends(const json_t *now)
{
	const json_t *ends = json_object_get(now, "quantum_ends");
	json_t *o = json_is_object(ends) ? json_object() : json_null();

	for (size_t i = 0; json_is_object(ends) && i < SCHED_ENDS; i++)
		SET(o, sched_end_reason_names[i],
			copy_arbiter_number(ends, sched_end_reason_names[i]));
	return o;
}

/* null: the arbiter reports nothing. */
static json_t *format_arbiter_flag(const json_t *from, const char *key)
{
	return from ? json_boolean(json_is_true(json_object_get(from, key))) : json_null();
}

/* The container's peak as the API and the metrics show it, since the arbiter's own peak begins when the arbiter
 * starts. The larger of both. */
static json_t *peak_status(const struct slices *s, const char *uuid,
	const struct pod_device *pod_device, const json_t *now)
{
	json_int_t reported_peak = json_integer_value(json_object_get(now, "peak"));
	uint64_t peak;

	if (pod_device && s->c.ops->peak(s->c.arg, uuid, pod_device, &peak) &&
		(json_int_t)peak >= reported_peak)
		return json_integer((json_int_t)peak);
	return copy_arbiter_number(now, "peak");
}

static json_t *format_slice_gpus_status(const struct slices *s, const struct slice_file *f,
	const struct pod_device *pod_device, const json_t *seen)
{
	const bool compute = f->plan.compute != SLICE_COMPUTE_NONE;
	json_t *list = json_array();

	for (uint32_t i = 0; i < f->plan.n; i++) {
		const struct slice_gpu *g = &f->plan.gpus[i];
		const json_t *now = json_find_uuid(json_object_get(seen, "gpus"), g->uuid);
		json_t *o = json_object();

		SET(o, "uuid", json_any_text(g->uuid));
		SET(o, "index", format_slice_gpu_index(s, g->uuid));
		SET(o, "limitBytes",
			g->memory == SLICE_NO_LIMIT ? json_null()
						    : json_integer((json_int_t)g->memory));
		SET(o, "weight", compute ? json_integer(g->weight) : json_null());
		SET(o, "capMillionths", compute && g->cap ? json_integer(g->cap) : json_null());
		SET(o, "usedBytes", copy_arbiter_number(now, "used"));
		SET(o, "peakBytes", peak_status(s, g->uuid, pod_device, now));
		SET(o, "unhookedBytes", copy_arbiter_number(now, "unhooked_used"));
		SET(o, "refusals", copy_arbiter_number(now, "refusals"));
		SET(o, "over", format_arbiter_flag(now, "over"));
		SET(o, "time", time_status(now));
		SET(o, "quantumEnds", format_quantum_ends(now));
		SET(o, "turn", format_arbiter_flag(now, "turn"));
		SET(o, "demoted", format_arbiter_flag(now, "demoted"));
		SET(o, "stuck", format_arbiter_flag(now, "stuck"));
		(void)json_array_append_new(list, o);
	}
	return list;
}

static json_t *used_status(const struct slices *s, const json_t *gpus)
{
	json_t *list = json_array();

	for (size_t i = 0; i < json_array_size(gpus); i++) {
		const json_t *g = json_array_get(gpus, i);
		const char *uuid = json_string_value(json_object_get(g, "uuid"));

		if (uuid)
			(void)json_array_append_new(list,
				json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "uuid", uuid,
					"index", format_slice_gpu_index(s, uuid), "usedBytes",
					copy_arbiter_number(g, "used"), "peakBytes",
					copy_arbiter_number(g, "peak"), "time", time_status(g),
					"stuck", format_arbiter_flag(g, "stuck")));
	}
	return list;
}

/* The arbiter's processes, hooked or unhooked; null: it reports none. */
static json_t *processes_status(const struct slices *s, const json_t *from)
{
	json_t *list = json_is_array(from) ? json_array() : json_null();

	for (size_t i = 0; i < json_array_size(from); i++) {
		const json_t *p = json_array_get(from, i);
		const char *name = json_string_value(json_object_get(p, "name"));
		const json_t *mps = json_object_get(p, "mps");
		json_t *o = json_object();

		SET(o, "pid", copy_arbiter_number(p, "host_pid"));
		SET(o, "containerPid", copy_arbiter_number(p, "pid"));
		SET(o, "name", json_any_text(name ? name : ""));
		SET(o, "ended", json_boolean(json_is_true(json_object_get(p, "ended"))));
		SET(o, "mps",
			json_is_boolean(mps) ? json_boolean(json_is_true(mps)) : json_null());
		SET(o, "usedBytes", copy_arbiter_number(p, "used"));
		SET(o, "peakBytes", copy_arbiter_number(p, "peak"));
		SET(o, "gpus", used_status(s, json_object_get(p, "gpus")));
		(void)json_array_append_new(list, o);
	}
	return list;
}

static json_t *format_slice_created(uint64_t s)
{
	char text[TIME_RFC3339_MAX];

	if (!s)
		return json_null();
	time_rfc3339(s * NS_PER_SEC, text);
	return json_any_text(text);
}

/* As the config names it; "mps" if processes run concurrently. */
static const char *compute_of(const struct slice_plan *plan)
{
	if (plan->compute != SLICE_COMPUTE_FAIR_SHARE)
		return plan->compute == SLICE_COMPUTE_MPS ? "mps" : "none";
	for (uint32_t i = 0; i < plan->n; i++)
		if (plan->gpus[i].cap)
			return "capped";
	return "fair";
}

static json_t *format_slice_status(const struct slices *s, const struct stored_slice *slice,
	const json_t *seen, const struct pod_devices *pod_devices)
{
	const struct slice_file *f = &slice->file;
	const struct pod_device *pod_device =
		slice->superseded ? NULL : slice_holder(f, pod_devices);
	const char *error = json_string_value(json_object_get(seen, "error"));
	const char *no_turns = json_string_value(json_object_get(seen, "compute_error"));
	json_t *o = json_object(), *devices = json_array();

	for (size_t i = 0; i < f->devices.n; i++)
		(void)json_array_append_new(devices, json_any_text(f->devices.v[i]));
	SET(o, "id", json_any_text(f->id));
	SET(o, "resource", json_any_text(f->resource));
	SET(o, "devices", devices);
	SET(o, "created", format_slice_created(f->created_s));
	SET(o, "libraries", json_any_text(f->lib));
	SET(o, "compute", json_string(compute_of(&f->plan)));
	SET(o, "class",
		json_string(f->plan.class_ == SLICE_CLASS_LATENCY ? "latency" : "batch"));
	SET(o, "unhooked", json_string(f->plan.unhooked == UNHOOKED_STOP ? "stop" : "report"));
	SET(o, "holder",
		pod_device ? json_pack("{s:s, s:s, s:s}", "namespace", pod_device->namespace_,
				     "pod", pod_device->pod, "container", pod_device->container)
			   : json_null());
	SET(o, "superseded", json_boolean(slice->superseded));
	SET(o, "known", json_boolean(seen != NULL));
	SET(o, "error", error ? json_any_text(error) : json_null());
	SET(o, "computeError", no_turns ? json_any_text(no_turns) : json_null());
	SET(o, "gpus", format_slice_gpus_status(s, f, pod_device, seen));
	SET(o, "processes", processes_status(s, json_object_get(seen, "processes")));
	SET(o, "unhookedProcesses",
		processes_status(s, json_object_get(seen, "unhooked_processes")));
	SET(o, "stopped", copy_arbiter_number(seen, "stopped"));
	return o;
}

/* --- containers without a slice --- */

static bool in_a_slice(const struct slices *s, const struct pod_device *pod_device)
{
	for (size_t i = 0; i < s->store.n; i++) {
		const struct stored_slice *slice = s->store.v[i];

		if (!slice->superseded && !strcmp(slice->file.resource, pod_device->resource) &&
			strv_has(&slice->file.devices, pod_device->id))
			return true;
	}
	return false;
}

static bool is_isolated(const struct slices *s, const struct resource *r, const char *id)
{
	struct slice_plan plan;

	return slice_plan_make(&plan, r, s->c.facts->offered.inv, &id, 1, NULL) == 0 &&
	       plan.wanted;
}

/* For a device of an earlier config: whether its GPU has devices with slices in the present offer. */
static bool is_beside_slices(const struct slices *s, const char *id)
{
	size_t len = device_id_physical_len(id);

	for (uint32_t i = 0; i < s->c.facts->offered.offer->n; i++) {
		const struct resource *r = &s->c.facts->offered.offer->resources[i];

		for (uint32_t k = 0; k < r->n_devices; k++) {
			const char *other = r->devices[k].id;

			if (device_id_physical_len(other) == len && !memcmp(other, id, len) &&
				is_isolated(s, r, other))
				return true;
		}
	}
	return false;
}

/* Whether the device's container would have a slice under the present config, but has none. */
static bool lacks_slice(const struct slices *s, const struct pod_device *pod_device)
{
	const struct resource *r = offer_find(s->c.facts->offered.offer, pod_device->resource);

	if (in_a_slice(s, pod_device))
		return false;
	return r && resource_find(r, pod_device->id) ? is_isolated(s, r, pod_device->id)
						     : is_beside_slices(s, pod_device->id);
}

static bool is_same_slice_container(const struct pod_device *x, const struct pod_device *y)
{
	return !strcmp(x->pod, y->pod) && !strcmp(x->namespace_, y->namespace_) &&
	       !strcmp(x->container, y->container) && !strcmp(x->resource, y->resource);
}

/* Containers that started before their GPU was divided into slices: one row each. */
static json_t *unlimited_status(const struct slices *s, const struct pod_devices *pod_devices)
{
	json_t *list = json_array(), *devices = NULL;
	const struct pod_device *last = NULL;

	for (size_t i = 0; pod_devices && s->c.facts->offered.offer && i < pod_devices->n;
		i++) {
		const struct pod_device *pod_device = &pod_devices->v[i];

		if (!lacks_slice(s, pod_device))
			continue;
		if (!last || !is_same_slice_container(last, pod_device)) {
			json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:[]}", "namespace",
				pod_device->namespace_, "pod", pod_device->pod, "container",
				pod_device->container, "resource", pod_device->resource,
				"devices");

			devices = json_object_get(o, "devices");
			(void)json_array_append_new(list, o);
		}
		(void)json_array_append_new(devices, json_any_text(pod_device->id));
		last = pod_device;
	}
	return list;
}

/* GPUs with slices that have compute, and how long any of these slices had work there. */
static json_t *busy_status(const struct slices *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < json_array_size(s->arbiter_gpus); i++) {
		const json_t *g = json_array_get(s->arbiter_gpus, i);
		const char *uuid = json_string_value(json_object_get(g, "uuid"));

		if (uuid)
			(void)json_array_append_new(list,
				json_pack("{s:s, s:o, s:o, s:b}", "uuid", uuid, "index",
					format_slice_gpu_index(s, uuid), "busyNs",
					copy_arbiter_number(g, "busy_ns"), "together",
					json_is_true(json_object_get(g, "together"))));
	}
	return list;
}

json_t *slices_status(const struct slices *s, const struct pod_devices *pod_devices)
{
	json_t *o = json_object(), *list = json_array(), *broken = json_array();
	json_t *seen = json_by_id(s->arbiter_slices);

	for (size_t i = 0; i < s->store.n; i++)
		(void)json_array_append_new(list,
			format_slice_status(s, s->store.v[i],
				json_object_get(seen, s->store.v[i]->file.id), pod_devices));
	for (size_t i = 0; i < s->store.broken.n; i++)
		(void)json_array_append_new(broken, json_any_text(s->store.broken.v[i]));
	json_decref(seen);
	SET(o, "wanted", json_boolean(s->wanted));
	SET(o, "stateDir", json_any_text(s->store.state_dir));
	SET(o, "libraries", *s->lib ? json_any_text(s->lib) : json_null());
	SET(o, "error", s->wanted ? format_slices_error(&s->lib_error) : json_null());
	SET(o, "arbiter", arbiter_status(s));
	SET(o, "broken", broken);
	SET(o, "gpus", busy_status(s));
	SET(o, "list", list);
	SET(o, "unlimited", unlimited_status(s, pod_devices));
	return o;
}
