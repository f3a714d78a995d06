/* SPDX-License-Identifier: Apache-2.0 */

/* A node as JSON and as a table. */
#include "testbed/sim/control/control.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/time.h"
#include "abi/nvml-api.h"
#include "testbed/sim/catalogue/catalogue.h"
#include "testbed/sim/derive.h"
#include "testbed/sim/mig.h"

static struct sim_node *read_node_snapshot(const struct sim_control *c, struct error *err)
{
	struct sim_node *n = calloc(1, sizeof(*n));
	struct sim_part all = { 0, sizeof(*n), n };

	if (!n) {
		(void)error_nomem(err);
		return NULL;
	}
	sim_state_read(c->state, &all, 1);
	if (n->head.info.slot_count > SIM_MAX_GPUS)
		n->head.info.slot_count = SIM_MAX_GPUS;
	return n;
}

/* The value of a key of any width. */
static json_t *key_json(const struct sim_keys *keys, const struct sim_key *key)
{
	const char *at = (const char *)keys + key->offset;
	char text[128];
	uint64_t u64;
	uint32_t u32;

	switch (key->type) {
	case SIM_KEY_U32:
		memcpy(&u32, at, 4);
		return json_integer(u32);
	case SIM_KEY_I32:
		memcpy(&u32, at, 4);
		return json_integer((int32_t)u32);
	case SIM_KEY_BYTES:
	case SIM_KEY_COUNTER:
		memcpy(&u64, at, 8);
		return json_integer((json_int_t)u64);
	case SIM_KEY_TEXT:
		break;
	}
	sim_key_format(keys, key, text, sizeof(text));
	return json_string(text);
}

static json_t *fail_json(const struct sim_gpu *g)
{
	json_t *o = json_object();

	for (int i = 0; i < SIM_GROUP_COUNT; i++)
		if (g->fail[i])
			(void)json_object_set_new(o, sim_group_name((enum sim_group)i),
				json_integer(g->fail[i]));
	return o;
}

static json_t *render_sim_processes_json(const struct sim_gpu *g)
{
	static const char *const kinds[] = { "compute", "graphics", "mps" };
	json_t *a = json_array();

	for (uint32_t i = 0; i < g->process_count && i < SIM_MAX_PROCESSES; i++) {
		const struct sim_process *p = &g->processes[i];

		json_t *o = json_pack("{s:I s:s s:s s:I s:I}", "pid", (json_int_t)p->pid,
			"kind", kinds[p->kind % 3], "name", p->name, "memory_bytes",
			(json_int_t)p->memory_bytes, "sm_percent", (json_int_t)p->sm_percent);

		if (p->gi != SIM_NO_INSTANCE) {
			(void)json_object_set_new(o, "gi", json_integer(p->gi));
			(void)json_object_set_new(o, "ci", json_integer(p->ci));
		}
		(void)json_array_append_new(a, o);
	}
	return a;
}

/* Armed faults. */
static json_t *cuda_faults_json(const struct sim_control *c, uint32_t slot)
{
	static const char *const names[SIM_CUDA_FAULTS] = { "oom", "error", "hang" };
	json_t *o = json_object();

	for (int i = 0; i < SIM_CUDA_FAULTS; i++) {
		uint32_t value, times;
		uint64_t at;

		times = sim_cuda_fault_armed(c->state, slot, (enum sim_cuda_fault)i, &at,
			&value);
		if (times)
			(void)json_object_set_new(o, names[i],
				json_pack("{s:I s:I s:I}", "at", (json_int_t)at, "calls",
					(json_int_t)times, "value", (json_int_t)value));
	}
	return o;
}

static json_t *cis_json(const struct sim_gpu *g, const struct sim_gi *gi)
{
	json_t *a = json_array();
	char name[SIM_NAME_MAX], uuid[SIM_MIG_UUID_MAX];

	for (uint32_t i = 0; i < gi->ci_count && i < SIM_MAX_CIS; i++) {
		const struct sim_ci *ci = &gi->cis[i];

		sim_mig_name(sim_gi_profile(g, gi), ci->size, name);
		sim_mig_uuid(&g->keys, gi->id, ci->id, uuid);
		(void)json_array_append_new(a,
			json_pack("{s:I s:s s:I s:I s:I s:s}", "ci", (json_int_t)ci->id, "name",
				name, "profile_id", (json_int_t)ci->number, "start",
				(json_int_t)ci->start, "size", (json_int_t)ci->size, "uuid",
				uuid));
	}
	return a;
}

/* Null for a GPU without MIG. */
static json_t *mig_json(const struct sim_gpu *g)
{
	json_t *a;

	if (!sim_mig_table(&g->keys))
		return json_null();
	a = json_array();
	for (uint32_t i = 0; i < g->mig.gi_count && i < SIM_MAX_GIS; i++) {
		const struct sim_gi *gi = &g->mig.gis[i];
		const struct sim_mig_profile *p = sim_gi_profile(g, gi);

		(void)json_array_append_new(a,
			json_pack("{s:I s:s s:I s:I s:I s:o}", "gi", (json_int_t)gi->id, "name",
				p->name, "profile_id", (json_int_t)p->id, "start",
				(json_int_t)gi->start, "size", (json_int_t)p->size,
				"compute_instances", cis_json(g, gi)));
	}
	return json_pack("{s:b s:b s:o}", "enabled", g->mig.enabled, "pending", g->mig.pending,
		"gpu_instances", a);
}

static json_t *links_json(const struct sim_node *n, const struct sim_gpu *g)
{
	json_t *a = json_array();

	for (uint32_t i = 0; i < SIM_MAX_LINKS; i++) {
		const struct sim_link *l = &g->links[i];

		if (!l->active)
			continue;
		if (l->remote_type == NVML_NVLINK_DEVICE_TYPE_GPU)
			(void)json_array_append_new(a,
				json_pack("{s:i s:i}", "link", i, "gpu",
					sim_node_index_of_slot(&n->head, l->remote_slot)));
		else
			(void)json_array_append_new(a,
				json_pack("{s:i s:i}", "link", i, "switch", l->remote_bus));
	}
	return a;
}

static json_t *render_sim_gpu_json(const struct sim_control *c, const struct sim_node *n,
	uint32_t slot)
{
	const struct sim_gpu *g = &n->gpus[slot];
	uint64_t hang_ns = sim_hang_ns(c->state, slot);
	char bus_id[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
	json_t *o = json_object();

	sim_bus_id(&g->keys, bus_id);
	(void)json_object_set_new(o, "index",
		json_integer(sim_node_index_of_slot(&n->head, slot)));
	(void)json_object_set_new(o, "bus_id", json_string(bus_id));
	(void)json_object_set_new(o, "lost", json_boolean(n->head.slots[slot].lost));
	(void)json_object_set_new(o, "hang_ms",
		json_integer(
			hang_ns == SIM_HANG_FOREVER ? -1 : (json_int_t)(hang_ns / NS_PER_MS)));
	for (size_t i = 0; i < sim_key_count; i++)
		(void)json_object_set_new(o, sim_key_table[i].name,
			key_json(&g->keys, &sim_key_table[i]));
	(void)json_object_set_new(o, "memory_used",
		json_integer((json_int_t)sim_memory_used_bytes(g)));
	(void)json_object_set_new(o, "fail", fail_json(g));
	(void)json_object_set_new(o, "cuda_faults", cuda_faults_json(c, slot));
	(void)json_object_set_new(o, "links", links_json(n, g));
	(void)json_object_set_new(o, "mig", mig_json(g));
	(void)json_object_set_new(o, "processes", render_sim_processes_json(g));
	return o;
}

int sim_control_show_json(const struct sim_control *c, struct buf *b, struct error *err)
{
	CLEANUP(freep) struct sim_node *n = read_node_snapshot(c, err);
	CLEANUP(freep) char *text = NULL;
	json_t *root, *gpus;

	if (!n)
		return -1;
	gpus = json_array();
	for (uint32_t i = 0; i < n->head.info.slot_count; i++)
		if (n->head.slots[i].present)
			(void)json_array_append_new(gpus, render_sim_gpu_json(c, n, i));
	root = json_pack("{s:s s:s s:s s:s s:s s:I s:I s:I s:I s:o}", "name", n->head.name,
		"node", n->head.spec, "directory", c->dir, "driver",
		sim_driver_name(n->head.info.driver), "driver_version", n->head.driver_version,
		"cuda_version", (json_int_t)n->head.info.cuda_version, "generation",
		(json_int_t)sim_state_generation(c->state), "calls",
		(json_int_t)sim_count_read(c->state, SIM_COUNT_CALLS), "mig_changes",
		(json_int_t)sim_count_read(c->state, SIM_COUNT_CHANGES), "gpus", gpus);
	text = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
	json_decref(root);
	if (!text)
		return error_nomem(err);
	buf_puts(b, text);
	buf_putc(b, '\n');
	return 0;
}

/* One line for each MIG device; a GI without a compute instance has one too. */
static void describe_mig(const struct sim_gpu *g, struct buf *b)
{
	char name[SIM_NAME_MAX], uuid[SIM_MIG_UUID_MAX];

	for (uint32_t i = 0; i < g->mig.gi_count && i < SIM_MAX_GIS; i++) {
		const struct sim_gi *gi = &g->mig.gis[i];
		const struct sim_mig_profile *p = sim_gi_profile(g, gi);

		if (!gi->ci_count)
			buf_printf(b, "     gi %u at %u:%u  %s  no compute instance\n", gi->id,
				gi->start, p->size, p->name);
		for (uint32_t k = 0; k < gi->ci_count && k < SIM_MAX_CIS; k++) {
			const struct sim_ci *ci = &gi->cis[k];

			sim_mig_name(p, ci->size, name);
			sim_mig_uuid(&g->keys, gi->id, ci->id, uuid);
			buf_printf(b, "     gi %u at %u:%u  ci %u at %u:%u  %s  %s\n", gi->id,
				gi->start, p->size, ci->id, ci->start, ci->size, uuid, name);
		}
	}
}

static void describe_trouble(const struct sim_control *c, const struct sim_node *n,
	uint32_t slot, struct buf *b)
{
	uint64_t hang_ns = sim_hang_ns(c->state, slot);

	if (n->head.slots[slot].lost)
		buf_puts(b, " lost");
	if (hang_ns == SIM_HANG_FOREVER)
		buf_puts(b, " hangs");
	else if (hang_ns)
		buf_printf(b, " hangs %" PRIu64 " ms", hang_ns / NS_PER_MS);
	for (int i = 0; i < SIM_CUDA_FAULTS; i++) {
		uint64_t at;
		uint32_t value;

		if (sim_cuda_fault_armed(c->state, slot, (enum sim_cuda_fault)i, &at, &value))
			buf_puts(b, " cuda-fault");
	}
	for (int i = 0; i < SIM_GROUP_COUNT; i++)
		if (n->gpus[slot].fail[i] != n->gpus[slot].born_fail[i])
			buf_printf(b, " %s:%s", sim_group_name((enum sim_group)i),
				n->gpus[slot].fail[i] ? sim_code_name(n->gpus[slot].fail[i])
						      : "ok");
}

int sim_control_show(const struct sim_control *c, struct buf *b, struct error *err)
{
	CLEANUP(freep) struct sim_node *n = read_node_snapshot(c, err);

	if (!n)
		return -1;
	buf_printf(b, "%s in %s: driver %s (%s), CUDA %u.%u\n", n->head.name, c->dir,
		n->head.driver_version, sim_driver_name(n->head.info.driver),
		n->head.info.cuda_version / 1000, n->head.info.cuda_version % 1000 / 10);
	for (uint32_t i = 0; i < n->head.info.slot_count; i++) {
		const struct sim_gpu *g = &n->gpus[i];
		char bus_id[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];

		if (!n->head.slots[i].present)
			continue;
		sim_bus_id(&g->keys, bus_id);
		buf_printf(b,
			"%3u  %s  %s  %s  %" PRIu64 "/%" PRIu64
			" MiB  %u%%  %u W  %u C  %u processes",
			sim_node_index_of_slot(&n->head, i), bus_id, g->keys.uuid, g->keys.name,
			(sim_memory_used_bytes(g) + g->keys.memory_reserved) >> 20,
			g->keys.memory_total >> 20, sim_load_percent(g), sim_power_mw(g) / 1000,
			sim_temperature_c(g), g->process_count);
		if (g->mig.enabled || g->mig.pending)
			buf_printf(b, "  MIG %s%s", g->mig.enabled ? "on" : "off",
				g->mig.enabled == g->mig.pending ? ""
				: g->mig.pending                 ? " (on after a reset)"
								 : " (off after a reset)");
		describe_trouble(c, n, i, b);
		buf_putc(b, '\n');
		describe_mig(g, b);
	}
	return buf_ok(b) ? 0 : error_nomem(err);
}

/* --- lists --- */

void sim_list_models(struct buf *b)
{
	buf_puts(b, "Nodes (GPUSLICE_SIM_NODE, gpuslice sim create):\n");
	for (size_t i = 0; i < sim_node_model_count; i++) {
		const struct sim_node_model *m = &sim_node_models[i];

		buf_printf(b, "  %-20s %u x %s\n", m->name, sim_layouts[m->layout].count,
			sim_products[m->product].keys.product);
	}
	buf_puts(b, "\nProducts (gpuslice sim add, node files):\n");
	for (size_t i = 0; i < sim_product_count; i++) {
		const struct sim_keys *k = &sim_products[i].keys;

		buf_printf(b, "  %-18s %-44s %6" PRIu64 " MiB  %u.%u  %s%s\n", k->product,
			k->name, k->memory_total >> 20, k->cc_major, k->cc_minor,
			sim_products[i].evidence, sim_mig_table(k) ? ", MIG" : "");
	}
}

void sim_list_mig(struct buf *b)
{
	buf_puts(b,
		"Profile, enumerator, id, slices, most, SMs, copy/decode/encode/jpeg/ofa engines, MiB,\n"
		"starts:size in memory slots; M measured, S listed, D documented, I inferred\n");
	for (size_t i = 0; i < sim_mig_table_count; i++) {
		const struct sim_mig_table *t = &sim_mig_tables[i];

		buf_printf(b, "\n%s: %u memory slots, %u compute slices\n", t->product,
			t->layout->slots, t->layout->slices);
		for (uint32_t k = 0; k < t->profile_count; k++) {
			const struct sim_mig_profile *p = &t->profiles[k];
			const char *comma = "";

			buf_printf(b, "  %-16s %2u %2u  %u %u  %3u  %u/%u/%u/%u/%u  %6u  {",
				p->name, p->number, p->id, p->slices, p->max, p->sms,
				p->engines[0], p->engines[1], p->engines[2], p->engines[3],
				p->engines[4], p->memory_mib);
			for (uint32_t s = 0; s < SIM_MIG_SLOTS_MAX; s++)
				if (p->starts >> s & 1) {
					buf_printf(b, "%s%u", comma, s);
					comma = ",";
				}
			buf_printf(b, "}:%u  %c\n", p->size, p->evidence);
		}
	}
}

void sim_list_keys(struct buf *b)
{
	static const char *const types[] = { "text", "number", "number", "bytes", "counter" };

	for (size_t i = 0; i < sim_key_count; i++) {
		const struct sim_key *k = &sim_key_table[i];

		buf_printf(b, "  %-26s %-8s %s", k->name, types[k->type], k->help);
		if (k->type == SIM_KEY_U32 || k->type == SIM_KEY_I32)
			buf_printf(b, " (%" PRId64 " to %" PRId64 ")", k->min, k->max);
		buf_putc(b, '\n');
	}
}

void sim_list_groups(struct buf *b)
{
	for (int i = 0; i < SIM_GROUP_COUNT; i++)
		buf_printf(b, "  %s\n", sim_group_name((enum sim_group)i));
}
