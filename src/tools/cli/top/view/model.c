/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the agent's JSON into the model of `gpuslice top` (view.h). */
#include "tools/cli/top/view/view.h"

#include "lib/json/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MILLION       1000000U
#define PLACE_MAX     64
#define BOARD_MIB_MAX (1U << 30)

/* --- the fields --- */

static const struct record_field node_fields[] = {
	RECORD(struct top_model, wall_time, "wall"),
	RECORD(struct top_model, node, "node"),
	RECORD(struct top_model, hostname, "hostname"),
	RECORD(struct top_model, driver_version, "driverVersion"),
	RECORD(struct top_model, cuda_version, "cudaVersion"),
	RECORD(struct top_model, nvml_up, "nvmlUp"),
	RECORD(struct top_model, nvml_error, "nvmlError"),
	RECORD(struct top_model, holders_known, "holdersKnown"),
	RECORD(struct top_model, holders_error, "holdersError"),
	RECORD(struct top_model, priced, "priced"),
	RECORD(struct top_model, price_nano_per_hour, "priceNanoPerHour"),
	RECORD(struct top_model, currency, "currency"),
	RECORD(struct top_model, config_generation, "configGeneration"),
	RECORD(struct top_model, config_sharing, "configSharing"),
	RECORD(struct top_model, config_error, "configError"),
};

static const struct record_field agent_fields[] = {
	RECORD(struct top_model, agent_version, "version"),
};

static const struct record_field gpu_fields[] = {
	RECORD(struct top_gpu, index, "index"),
	RECORD(struct top_gpu, uuid, "uuid"),
	RECORD(struct top_gpu, name, "name"),
	RECORD(struct top_gpu, bus_id, "busId"),
	RECORD(struct top_gpu, health, "health"),
	RECORD(struct top_gpu, reason, "reason"),
	RECORD(struct top_gpu, refused, "refused"),
	RECORD(struct top_gpu, present, "present"),
	RECORD(struct top_gpu, mig_enabled, "migEnabled"),
	RECORD(struct top_gpu, last_xid, "lastXid"),
	RECORD(struct top_gpu, cost_nano_per_hour, "costNanoPerHour"),
};

static const struct record_field sample_fields[] = {
	RECORD(struct top_gpu, temperature, "DCGM_FI_DEV_GPU_TEMP"),
	RECORD(struct top_gpu, power_watts, "DCGM_FI_DEV_POWER_USAGE"),
	RECORD(struct top_gpu, power_limit_watts, "DCGM_FI_DEV_POWER_MGMT_LIMIT"),
	RECORD(struct top_gpu, board_mib, "DCGM_FI_DEV_FB_TOTAL"),
	RECORD(struct top_gpu, board_used_mib, "DCGM_FI_DEV_FB_USED"),
};

static const struct record_field device_fields[] = {
	RECORD(struct top_device, mig, "mig"),
	RECORD(struct top_device, uuid, "uuid"),
	RECORD(struct top_device, label, "label"),
	RECORD(struct top_device, profile, "profile"),
	RECORD(struct top_device, mode, "mode"),
	RECORD(struct top_device, resource, "resource"),
	RECORD(struct top_device, health, "health"),
	RECORD(struct top_device, reason, "reason"),
	RECORD(struct top_device, refused, "refused"),
	RECORD(struct top_device, share, "part"),
	RECORD(struct top_device, allocated, "held"),
	RECORD(struct top_device, busy, "busy"),
	RECORD(struct top_device, replicas_used, "replicasUsed"),
	RECORD(struct top_device, memory_total, "memoryTotal"),
	RECORD(struct top_device, memory_used, "memoryUsed"),
};

static const struct record_field replica_fields[] = {
	RECORD(struct top_replica, id, "id"),
	RECORD(struct top_replica, resource, "resource"),
	RECORD(struct top_replica, replica, "replica"),
	RECORD(struct top_replica, share, "share"),
	RECORD(struct top_replica, memory_limit, "memoryLimit"),
	RECORD(struct top_replica, healthy, "healthy"),
	RECORD(struct top_replica, usage, "use"),
};

static const struct record_field usage_fields[] = {
	RECORD(struct top_usage, namespace_, "namespace"),
	RECORD(struct top_usage, pod, "pod"),
	RECORD(struct top_usage, container, "container"),
	RECORD(struct top_usage, uid, "uid"),
	RECORD(struct top_usage, resource, "resource"),
	RECORD(struct top_usage, mode, "mode"),
	RECORD(struct top_usage, live, "live"),
	RECORD(struct top_usage, offered_now, "offeredNow"),
	RECORD(struct top_usage, share, "share"),
	RECORD(struct top_usage, received, "received"),
	RECORD(struct top_usage, memory_used, "memoryUsed"),
	RECORD(struct top_usage, memory_peak, "memoryPeak"),
	RECORD(struct top_usage, memory_limit, "memoryLimit"),
};

static const struct record_field slice_fields[] = {
	RECORD(struct top_usage, quanta, "turns"),
	RECORD(struct top_usage, waits, "waits"),
	RECORD(struct top_usage, has_quantum, "turn"),
	RECORD(struct top_usage, demoted, "demoted"),
	RECORD(struct top_usage, stuck, "stuck"),
	RECORD(struct top_usage, over, "over"),
};

#define READ(to, object, fields, where, err) \
	record_read(to, object, fields, ARRAY_LEN(fields), where, err)

/* --- counting --- */

/* Two passes over the document: the first counts and checks lists, the second fills the arrays. */
struct counts {
	size_t gpus, devices, replicas, usages;
};

static int count_device_records(struct counts *n, const json_t *device, const char *where,
	struct error *err)
{
	const json_t *replicas, *uses;

	if (record_list(&replicas, device, "seats", TOP_REPLICAS_MAX, where, err) < 0 ||
		record_list(&uses, device, "uses", TOP_REPLICAS_MAX, where, err) < 0)
		return -1;
	n->replicas += json_array_size(replicas);
	n->usages += json_array_size(uses);
	if (n->replicas > TOP_ALL_MAX || n->usages > TOP_ALL_MAX)
		return error_set(err, ERR_LIMIT, "%s: more than %u seats or containers in all",
			where, TOP_ALL_MAX);
	return 0;
}

static int count_gpu(struct counts *n, const json_t *gpu, size_t at, struct error *err)
{
	char where[PLACE_MAX];
	const json_t *devices;

	(void)snprintf(where, sizeof(where), "gpus[%zu]", at);
	if (record_list(&devices, gpu, "units", TOP_DEVICES_MAX, where, err) < 0)
		return -1;
	n->devices += json_array_size(devices);
	for (size_t i = 0; i < json_array_size(devices); i++) {
		(void)snprintf(where, sizeof(where), "gpus[%zu].units[%zu]", at, i);
		if (count_device_records(n, json_array_get(devices, i), where, err) < 0)
			return -1;
	}
	return 0;
}

static int count_all(struct counts *n, const json_t *gpus, struct error *err)
{
	n->gpus = json_array_size(gpus);
	for (size_t i = 0; i < n->gpus; i++) {
		if (count_gpu(n, json_array_get(gpus, i), i, err) < 0)
			return -1;
	}
	return 0;
}

static int alloc_model_arrays(struct top_model *m, const struct counts *n, struct error *err)
{
	m->gpus = calloc(n->gpus + 1, sizeof(*m->gpus));
	m->devices = calloc(n->devices + 1, sizeof(*m->devices));
	m->replicas = calloc(n->replicas + 1, sizeof(*m->replicas));
	m->usages = calloc(n->usages + 1, sizeof(*m->usages));
	if (!m->gpus || !m->devices || !m->replicas || !m->usages)
		return error_nomem(err);
	return 0;
}

/* --- filling --- */

/* Unknown is not false: a device with unknown presence, life or health does not count as gone, ended
 * or unhealthy. */
static bool not_false(const json_t *o, const char *key)
{
	return !json_is_false(json_object_get(o, key));
}

static int read_model_usage(struct top_model *m, const json_t *o, const char *where,
	struct error *err)
{
	struct top_usage *u = &m->usages[m->n_usages];
	const json_t *slice = json_object_get(o, "slice");
	char place[3 * PLACE_MAX];

	if (READ(u, o, usage_fields, where, err) < 0)
		return -1;
	(void)snprintf(place, sizeof(place), "%s.slice", where);
	if (READ(u, slice, slice_fields, place, err) < 0)
		return -1;
	u->live = not_false(o, "live");
	u->offered_now = not_false(o, "offeredNow");
	u->device = (uint32_t)m->n_devices;
	m->n_usages++;
	return 0;
}

/* A replica names its user by the position in the device's list of usage. */
static int read_model_replica(struct top_model *m, const json_t *o, size_t first_use,
	const char *where, struct error *err)
{
	struct top_replica *s = &m->replicas[m->n_replicas];

	if (READ(s, o, replica_fields, where, err) < 0)
		return -1;
	s->healthy = not_false(o, "healthy");
	if (s->usage != TOP_NONE && s->usage >= m->n_usages - first_use)
		return error_set(err, ERR_INVALID,
			"%s.use: expected less than the %zu uses of the unit, found %" PRIu32,
			where, m->n_usages - first_use, s->usage);
	if (s->usage != TOP_NONE) {
		s->usage += (uint32_t)first_use;
		s->first = !m->usages[s->usage].has_replica;
		m->usages[s->usage].has_replica = true;
	}
	s->device = (uint32_t)m->n_devices;
	m->n_replicas++;
	return 0;
}

static int read_model_device(struct top_model *m, const json_t *o, const char *where,
	struct error *err)
{
	struct top_device *u = &m->devices[m->n_devices];
	const json_t *replicas = json_object_get(o, "seats"),
		     *uses = json_object_get(o, "uses");
	size_t first_use = m->n_usages;
	char place[2 * PLACE_MAX];

	if (READ(u, o, device_fields, where, err) < 0)
		return -1;
	u->gpu = (uint32_t)m->n_gpus;
	u->n_replicas = (uint32_t)json_array_size(replicas);
	for (size_t i = 0; i < json_array_size(uses); i++) {
		(void)snprintf(place, sizeof(place), "%s.uses[%zu]", where, i);
		if (read_model_usage(m, json_array_get(uses, i), place, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < json_array_size(replicas); i++) {
		(void)snprintf(place, sizeof(place), "%s.seats[%zu]", where, i);
		if (read_model_replica(m, json_array_get(replicas, i), first_use, place, err) <
			0)
			return -1;
	}
	m->n_devices++;
	return 0;
}

static uint32_t limit_to_million(uint64_t v)
{
	return v > MILLION ? MILLION : (uint32_t)v;
}

/* Sums a GPU's figures over its devices. If a figure of one device is unknown, the sum is unknown. */
static void sum_gpu_figures(struct top_gpu *g, const struct top_device *devices)
{
	uint64_t total = 0, used = 0, busy = 0, held = 0;
	bool memory = g->n_devices > 0, time = g->n_devices > 0, holders = g->n_devices > 0;

	for (uint32_t i = 0; i < g->n_devices; i++) {
		const struct top_device *u = &devices[i];
		uint64_t part = limit_to_million(u->share);

		if (u->memory_total == TOP_UNKNOWN || u->memory_used == TOP_UNKNOWN)
			memory = false;
		else if (__builtin_add_overflow(total, u->memory_total, &total) ||
			 __builtin_add_overflow(used, u->memory_used, &used))
			memory = false;
		time = time && u->busy != TOP_NONE;
		busy += (uint64_t)limit_to_million(u->busy) * part / MILLION;
		holders = holders && u->allocated != TOP_NONE;
		held += (uint64_t)limit_to_million(u->allocated) * part / MILLION;
	}
	g->memory_total = memory ? total : TOP_UNKNOWN;
	g->memory_used = memory ? used : TOP_UNKNOWN;
	g->busy = time ? limit_to_million(busy) : TOP_NONE;
	g->allocated = holders ? limit_to_million(held) : TOP_NONE;
}

/* The MIG devices need not cover the whole GPU, so the board's figures are used. */
static void set_board_memory(struct top_gpu *g)
{
	if (g->board_mib >= 0 && g->board_mib < BOARD_MIB_MAX && g->board_used_mib >= 0 &&
		g->board_used_mib < BOARD_MIB_MAX) {
		g->memory_total = (uint64_t)g->board_mib << 20;
		g->memory_used = (uint64_t)g->board_used_mib << 20;
	}
}

static int read_model_gpu(struct top_model *m, const json_t *o, struct error *err)
{
	struct top_gpu *g = &m->gpus[m->n_gpus];
	const json_t *devices = json_object_get(o, "units");
	char where[PLACE_MAX];

	(void)snprintf(where, sizeof(where), "gpus[%zu]", m->n_gpus);
	if (READ(g, o, gpu_fields, where, err) < 0)
		return -1;
	(void)snprintf(where, sizeof(where), "gpus[%zu].sample", m->n_gpus);
	if (READ(g, json_object_get(o, "sample"), sample_fields, where, err) < 0)
		return -1;
	g->present = not_false(o, "present");
	g->mig_known = json_is_boolean(json_object_get(o, "migEnabled"));
	if (g->index == TOP_NONE)
		g->index = (uint32_t)m->n_gpus;
	g->first_device = (uint32_t)m->n_devices;
	g->n_devices = (uint32_t)json_array_size(devices);
	for (size_t i = 0; i < g->n_devices; i++) {
		(void)snprintf(where, sizeof(where), "gpus[%zu].units[%zu]", m->n_gpus, i);
		if (read_model_device(m, json_array_get(devices, i), where, err) < 0)
			return -1;
	}
	sum_gpu_figures(g, &m->devices[g->first_device]);
	if (g->mig_enabled)
		set_board_memory(g);
	m->n_gpus++;
	return 0;
}

static int read_warnings(struct top_model *m, struct error *err)
{
	const json_t *list;

	if (record_list(&list, m->document, "warnings", TOP_ALL_MAX, "", err) < 0)
		return -1;
	m->n_warnings = json_array_size(list);
	m->warning = json_string_value(json_array_get(list, 0));
	if (m->n_warnings > 0 && !m->warning)
		return error_set(err, ERR_INVALID, "warnings[0]: expected a text");
	return 0;
}

/* Finds the first component that does not work, and counts all. */
static int read_agent_components(struct top_model *m, struct error *err)
{
	const json_t *list;

	if (record_list(&list, json_object_get(m->document, "agent"), "components", TOP_ALL_MAX,
		    "agent", err) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);
		const char *name = json_string_value(json_object_get(o, "name"));
		const char *reason = json_string_value(json_object_get(o, "reason"));

		if (!name || !reason)
			return error_set(err, ERR_INVALID,
				"agent.components[%zu]: expected a name and a reason", i);
		if (*reason && !m->n_degraded++) {
			m->degraded = name;
			m->degraded_reason = reason;
		}
	}
	return 0;
}

/* The agent reports a GPU that is gone with its last index. NVML may have given that index to
 * another GPU. */
static void free_taken_indexes(struct top_model *m)
{
	for (size_t i = 0; i < m->n_gpus; i++)
		for (size_t k = 0; !m->gpus[i].present && k < m->n_gpus; k++)
			if (m->gpus[k].present && m->gpus[k].index == m->gpus[i].index)
				m->gpus[i].index = TOP_NONE;
}

static int read_model_document(struct top_model *m, struct error *err)
{
	struct counts n = { .gpus = 0 };
	const json_t *gpus;

	if (READ(m, m->document, node_fields, "", err) < 0 ||
		READ(m, json_object_get(m->document, "agent"), agent_fields, "agent", err) <
			0 ||
		read_warnings(m, err) < 0 || read_agent_components(m, err) < 0 ||
		record_list(&gpus, m->document, "gpus", TOP_GPUS_MAX, "", err) < 0)
		return -1;
	if (!gpus)
		return error_set(err, ERR_INVALID, "gpus: expected a list, found nothing");
	if (count_all(&n, gpus, err) < 0 || alloc_model_arrays(m, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n.gpus; i++) {
		if (read_model_gpu(m, json_array_get(gpus, i), err) < 0)
			return -1;
	}
	free_taken_indexes(m);
	return 0;
}

int top_model_read(struct top_model **ret, const char *json, size_t len, struct error *err)
{
	CLEANUP(top_model_freep) struct top_model *m = NULL;
	json_error_t at;

	if (len > TOP_DOCUMENT_MAX)
		return error_set(err, ERR_LIMIT, "expected at most %u bytes of JSON, found %zu",
			TOP_DOCUMENT_MAX, len);
	m = calloc(1, sizeof(*m));
	if (!m)
		return error_nomem(err);
	m->document = json_loadb(json, len, 0, &at);
	if (!m->document)
		return error_set(err, ERR_INVALID, "line %d, column %d: %s", at.line, at.column,
			at.text);
	if (read_model_document(m, err) < 0)
		return -1;
	*ret = STEAL_PTR(m);
	return 0;
}

const char *top_mig_mode(const struct top_gpu *g)
{
	if (!g->mig_known)
		return "-";
	return g->mig_enabled ? "On" : "Off";
}

struct top_model *top_model_free(struct top_model *m)
{
	if (m) {
		json_decref(m->document);
		free(m->gpus);
		free(m->devices);
		free(m->replicas);
		free(m->usages);
		free(m);
	}
	return NULL;
}
