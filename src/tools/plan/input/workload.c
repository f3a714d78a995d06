/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/gpus/gpus.h"
#include "tools/plan/input/internal.h"
#include "lib/base/array.h"

#include <stdlib.h>
#include <string.h>

/* Workloads: the profile's figures, and the objectives. */

#define DISTURBED_MAX 1000 /* bytes, with the NUL */

static const char *const kinds[] = { "inference-open", "inference-closed", "batch", "train",
	NULL };
static const char *const isolations[] = { "none", "memory", "fault", "hardware", NULL };
static const char *const origins[] = { "measured", "derived", "default", NULL };

static const struct input_key slo_keys[] = {
	{ "p50_ms", input_milliseconds, offsetof(struct plan_slo, p50_s), 0, 1e9, NULL, true },
	{ "p95_ms", input_milliseconds, offsetof(struct plan_slo, p95_s), 0, 1e9, NULL, true },
	{ "p99_ms", input_milliseconds, offsetof(struct plan_slo, p99_s), 0, 1e9, NULL, true },
	{ "min_rate", input_real, offsetof(struct plan_slo, min_rate), 0, 1e9, NULL, true },
	{ "max_slowdown", input_real, offsetof(struct plan_slo, max_slowdown), 1, 1e6, NULL,
		false },
};

static int read_slo(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	return input_object(r, n, key->key, slo_keys, ARRAY_LEN(slo_keys), to);
}

static int read_models(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	uint64_t models = 0;

	if (n->type != YAML_LIST || !n->n)
		return input_fail(r, n, key->key, "a list of GPUs, such as [L4, T4]");
	for (size_t i = 0; i < n->n; i++) {
		const struct plan_gpu *g = NULL;

		if (input_gpu(r, n->items[i], key, &g) < 0)
			return -1;
		models |= UINT64_C(1) << (g - plan_gpus);
	}
	*(uint64_t *)to = models;
	return 0;
}

/* A text of gpuslice profile, longer than a name. */
static int read_disturbed(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	char clean[DISTURBED_MAX];

	if (n->type != YAML_STR || !n->len || n->len >= sizeof(clean))
		return input_fail(r, n, key->key, "a text of 1 to 999 characters");
	*(const char **)to = input_store_text(r, object_clean(n->text, clean, sizeof(clean)));
	return *(const char **)to ? 0 : -1;
}

#define AT(field) offsetof(struct plan_workload, field)

/* set_origins() has set the numbers' origins before, from the workload's own. */
static const struct input_key keys[] = {
	{ "origin", NULL, 0, 0, 0, NULL, false },
	{ "name", input_text, AT(name), 0, 0, NULL, false },
	{ "replicas", input_count, AT(replicas), 0, PLAN_REPLICAS_MAX, NULL, false },
	{ "kind", input_word, AT(kind), 0, 0, kinds, false },
	{ "gpu_ref", input_gpu, AT(ref), 0, 0, NULL, false },
	{ "disturbed", read_disturbed, AT(disturbed), 0, 0, NULL, false },
	{ "t_solo", input_time, AT(solo_s), 0, 1e6, NULL, true },
	{ "busy", input_number, AT(busy), 0, 1, NULL, false },
	{ "sm_active", input_number, AT(sm_active), 0, 1, NULL, false },
	{ "sm_occ", input_number, AT(sm_occupancy), 0, 1, NULL, false },
	{ "dram", input_number, AT(dram), 0, 1, NULL, false },
	{ "u", input_number, AT(u), 0, 1, NULL, false },
	{ "u_bw", input_number, AT(u_bw), 0, 1, NULL, false },
	{ "mem_peak_mib", input_number, AT(mem_peak_mib), 0, 1e7, NULL, false },
	{ "context_mib", input_number, AT(context_mib), 0, 1e6, NULL, false },
	{ "rate", input_number, AT(rate), 0, 1e9, NULL, true },
	{ "cv_arrival", input_number, AT(arrival_cv), 0, 1e3, NULL, false },
	{ "burst", input_number, AT(burst), 1, 1e3, NULL, false },
	{ "power_w", input_number, AT(power_w), 0, 1e4, NULL, false },
	{ "cpu", input_cpu, AT(cpu_milli), 0, 1e4, NULL, false },
	{ "memory", input_mib, AT(memory_mib), 0, 1e8, NULL, false },
	{ "gpus", input_count, AT(gpus), 1, PLAN_NODE_GPUS_MAX, NULL, false },
	{ "slo", read_slo, AT(slo), 0, 0, NULL, false },
	{ "isolation", input_word, AT(isolation), 0, 0, isolations, false },
	{ "checkpointable", input_bool, AT(checkpointable), 0, 0, NULL, false },
	{ "spot_ok", input_bool, AT(spot_ok), 0, 0, NULL, false },
	{ "anti_affinity", input_bool, AT(anti_affinity), 0, 0, NULL, false },
	{ "t_restart", input_seconds, AT(restart_s), 0, 1e6, NULL, false },
	{ "t_warmup", input_seconds, AT(warmup_s), 0, 1e6, NULL, false },
	{ "gpu_models_allowed", read_models, AT(gpus_allowed), 0, 0, NULL, false },
};

static const size_t numbers[] = { AT(solo_s), AT(busy), AT(sm_active), AT(sm_occupancy),
	AT(dram), AT(u), AT(u_bw), AT(mem_peak_mib), AT(context_mib), AT(rate), AT(arrival_cv),
	AT(burst), AT(power_w) };

static struct plan_number *get_workload_number(struct plan_workload *w, size_t i)
{
	return (struct plan_number *)((char *)w + numbers[i]);
}

/* "origin: derived" of a workload holds for all its numbers without their own origin. */
static int set_origins(const struct input_reader *r, const struct yaml_node *n,
	struct plan_workload *w)
{
	static const struct input_key key = { .key = "origin", .words = origins };
	const struct yaml_node *origin = yaml_get(n, "origin", false);
	unsigned which = PLAN_MEASURED;

	if (origin && input_word(r, origin, &key, &which) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		get_workload_number(w, i)->origin = (enum plan_origin)which;
	return 0;
}

/* The numbers of a disturbed measurement are derived at best. */
static void lower_origins(struct plan_workload *w)
{
	for (size_t i = 0; w->disturbed && i < ARRAY_LEN(numbers); i++)
		if (get_workload_number(w, i)->origin == PLAN_MEASURED)
			get_workload_number(w, i)->origin = PLAN_DERIVED;
}

/* Checks that need several values. */
static int check_workload(const struct input_reader *r, const struct yaml_node *n,
	const struct plan_workload *w)
{
	if (!w->name)
		return input_fail(r, n, "workloads", "a name");
	for (size_t i = 0; i < r->in->n_workloads; i++)
		if (!strcmp(r->in->workloads[i].name, w->name))
			return yaml_fail(r->src, n->line, n->column, ERR_INVALID, r->err,
				"workload '%s': given already, in %s:%u", w->name,
				r->in->workloads[i].file, r->in->workloads[i].line);
	if (w->u.known && w->u_bw.known && w->u.v + w->u_bw.v > 1)
		return yaml_fail(r->src, n->line, n->column, ERR_INVALID, r->err,
			"workload '%s': expected u and u_bw to be 1 at most together, found %g",
			w->name, w->u.v + w->u_bw.v);
	return 0;
}

static int read_one(const struct input_reader *r, const struct yaml_node *n)
{
	struct plan_input *in = r->in;
	struct plan_workload w = { .replicas = INPUT_UNSET,
		.cpu_milli = INPUT_UNSET,
		.memory_mib = INPUT_UNSET,
		.gpus = INPUT_UNSET,
		.gpus_allowed = UINT64_MAX };

	if (n->type != YAML_OBJECT)
		return input_fail(r, n, "workloads", "an object with a name");
	if (set_origins(r, n, &w) < 0 ||
		input_object(r, n, "workload", keys, ARRAY_LEN(keys), &w) < 0 ||
		check_workload(r, n, &w) < 0)
		return -1;
	lower_origins(&w);
	w.line = n->line;
	w.file = input_store_text(r, r->src->name);
	if (!w.file)
		return -1;
	if (in->n_workloads == PLAN_WORKLOADS_MAX)
		return yaml_fail(r->src, n->line, n->column, ERR_LIMIT, r->err,
			"expected at most %d workloads", PLAN_WORKLOADS_MAX);
	if (!ARRAY_GROW(&in->workloads, in->n_workloads, &in->room_workloads,
		    PLAN_WORKLOADS_MAX))
		return error_nomem(r->err);
	in->workloads[in->n_workloads++] = w;
	return 0;
}

int input_workloads(const struct input_reader *r, const struct yaml_node *n,
	const struct input_key *key, void *to)
{
	(void)to;
	if (n->type != YAML_LIST)
		return input_fail(r, n, key->key, "a list of workloads");
	for (size_t i = 0; i < n->n; i++)
		if (read_one(r, n->items[i]) < 0)
			return -1;
	return 0;
}
