/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/plan/view/view.h"

#include "io/price/price.h"
#include "lib/base/time.h"
#include "tools/plan/answer/answer.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A plan as one JSON document: gpuslice/plan-result/v1. Amounts are in the currency of the plan,
 * whatever the keys say. */

static double get_nano_as_usd(int64_t nano)
{
	return (double)nano / (double)PRICE_NANO;
}

static double get_saving_percent(int64_t less, int64_t than)
{
	return than ? 100.0 * (double)(than - less) / (double)than : 0;
}

static const char *get_capacity_name(const struct plan_offer *o)
{
	return o->capacity == PLAN_SPOT ? "spot" : "on-demand";
}

static json_t *render_plan_line_json(const struct plan_answer *a, const struct answer_line *l)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:I, s:s, s:i, s:f, s:f, s:s}", "type",
		l->offer->type, "capacity", get_capacity_name(l->offer), "region",
		l->offer->region, "count", (json_int_t)l->nodes, "mode",
		plan_mode_names[l->mode], "slices", (int)l->slices, "usd_h",
		get_nano_as_usd(l->nano_per_hour), "pct",
		get_saving_percent(l->nano_per_hour, a->baseline.nano_per_hour), "reason",
		plan_reason_names[l->reason]);

	if (l->reason != PLAN_FITS) {
		CLEANUP(buf_fini) struct buf why = BUF_INIT(1024);

		plan_format_reason(&why, a, l);
		(void)json_object_set_new(o, "why_not", json_string(buf_str(&why)));
	}
	return o;
}

static json_t *tenant_json(const struct plan_answer *a, const struct plan_node *n,
	const struct plan_tenant *t)
{
	json_t *o = json_pack("{s:s}", "workload", a->in->workloads[t->workload].name);

	if (t->memory_mib)
		(void)json_object_set_new(o, "memory_mib", json_integer(t->memory_mib));
	if (n->mode == PLAN_MIG) {
		char name[MIG_PROFILE_NAME_MAX];

		mig_layout_name(n->offer->gpu->mig, t->profile, 0, name);
		(void)json_object_set_new(o, "profile", json_string(name));
	}
	return o;
}

static json_t *node_json(const struct plan_answer *a, const struct plan_node *n)
{
	json_t *gpus = json_array();

	for (uint32_t g = 0; g < n->offer->gpus; g++) {
		json_t *tenants = json_array();

		for (uint32_t i = 0; i < n->n; i++)
			if (outcome_has_gpu(a, &n->tenants[i], g))
				(void)json_array_append_new(tenants,
					tenant_json(a, n, &n->tenants[i]));
		(void)json_array_append_new(gpus,
			json_pack("{s:i, s:s, s:i, s:o}", "index", (int)g, "mode",
				plan_mode_names[n->mode], "slices",
				(int)(n->slots ? n->slots : json_array_size(tenants)),
				"tenants", tenants));
	}
	return json_pack("{s:s, s:i, s:s, s:s, s:s, s:f, s:[f, f], s:o}", "type",
		n->offer->type, "count", 1, "capacity", get_capacity_name(n->offer), "region",
		n->offer->region, "gpu", n->offer->gpu->name, "usd_h",
		get_nano_as_usd(n->offer->nano_per_hour), "zone_prices",
		get_nano_as_usd(n->offer->low), get_nano_as_usd(n->offer->high), "gpus", gpus);
}

/* One row for each workload on each node: a row for each replica would only repeat it. */
static json_t *predictions_json(const struct plan_answer *a)
{
	json_t *rows = json_array();
	CLEANUP(freep)
	const struct plan_node **seen =
		calloc(a->in->n_workloads + 1, sizeof(struct plan_node *));

	for (size_t i = 0; seen && i < a->plan.n_nodes; i++) {
		const struct plan_node *n = &a->plan.nodes[i];

		for (uint32_t k = 0; k < n->n; k++) {
			uint32_t w = n->tenants[k].workload;
			const struct plan_workload *workload = &a->in->workloads[w];
			struct fit_times t;
			json_t *row;

			if (seen[w] == n || !plan_times(a, n, k, &t))
				continue;
			seen[w] = n;
			row = json_pack("{s:s, s:I, s:s, s:s, s:s, s:s, s:f}", "workload",
				workload->name, "node", (json_int_t)i, "mode",
				plan_mode_names[n->mode], "origin", plan_origin_names[t.origin],
				"model", t.model, "slo",
				!plan_has_slo(&workload->slo) ? "none"
				: t.known                     ? "pass"
							      : "unknown",
				"band", t.band);
			if (t.known) {
				(void)json_object_set_new(row, "mean_s",
					json_real(t.times.mean_s));
				(void)json_object_set_new(row, "p50_s",
					json_real(t.times.p50_s));
				(void)json_object_set_new(row, "p95_s",
					json_real(t.times.p95_s));
				(void)json_object_set_new(row, "p99_s",
					json_real(t.times.p99_s));
				(void)json_object_set_new(row, "slowdown",
					json_real(t.slowdown));
				(void)json_object_set_new(row, "throughput",
					json_real(t.times.rate));
			}
			if (t.missing)
				(void)json_object_set_new(row, "missing",
					json_string(t.missing));
			(void)json_array_append_new(rows, row);
		}
	}
	return rows;
}

static json_t *unplaced_json(const struct plan_answer *a)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < a->plan.n_unplaced; i++) {
		const struct pack_unplaced *l = &a->plan.unplaced[i];

		(void)json_array_append_new(rows,
			json_pack("{s:s, s:i, s:s}", "workload",
				a->in->workloads[l->workload].name, "replicas",
				(int)l->replicas, "reason", plan_reason_names[l->reason]));
	}
	return rows;
}

static json_t *warnings_json(const struct plan_answer *a)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < a->in->n_notes; i++) {
		const struct plan_note *n = &a->in->notes[i];

		(void)json_array_append_new(rows,
			json_pack("{s:s, s:s, s:I, s:s}", "code", n->code, "file", n->file,
				"line", (json_int_t)n->line, "text", n->text));
	}
	return rows;
}

static void set_rejected(json_t *root, const struct plan_answer *a)
{
	CLEANUP(freep)
	struct rejection *list = calloc(REJECTIONS_MAX, sizeof(*list));
	size_t n = list ? reject_list(a, list, REJECTIONS_MAX) : 0;
	json_t *rows = json_array();

	for (size_t i = 0; i < n && i < REJECTIONS_MAX; i++)
		(void)json_array_append_new(rows,
			json_pack("{s:s, s:s, s:s, s:s}", "workload",
				a->in->workloads[list[i].workload].name, "gpu",
				list[i].gpu->name, "mode", plan_mode_names[list[i].mode],
				"reason", plan_reason_names[list[i].reason]));
	(void)json_object_set_new(root, "rejected", rows);
	if (n > REJECTIONS_MAX)
		(void)json_object_set_new(root, "rejected_total", json_integer((json_int_t)n));
}

/* An amount; < 0: not known. */
static json_t *amount_json(int64_t nano)
{
	return nano >= 0 ? json_real(get_nano_as_usd(nano)) : json_null();
}

static json_t *workloads_json(const struct plan_answer *a)
{
	json_t *rows = json_array();

	for (size_t w = 0; w < a->in->n_workloads; w++) {
		const struct plan_outcome *o = &a->outcomes[w];
		json_t *row = json_pack("{s:s, s:I, s:I, s:f, s:o, s:o, s:o}", "workload",
			a->in->workloads[w].name, "replicas", (json_int_t)o->replicas, "nodes",
			(json_int_t)o->nodes, "usd_h", get_nano_as_usd(o->nano_per_hour),
			"usd_h_before", amount_json(o->before_nano ? o->before_nano : -1),
			"usd_per_million_after",
			amount_json(outcome_million(o->nano_per_hour, o->rate)),
			"usd_per_million_before",
			amount_json(outcome_million(o->before_nano, o->before_rate)));

		/* Share of the time that interruptions take; null: the frequency of interruptions is
		 * not known. */
		(void)json_object_set_new(row, "lost_to_interruptions",
			o->lost_high < 0 ? json_null()
					 : json_pack("[f, f]", o->lost_low, o->lost_high));
		if (a->in->workloads[w].disturbed)
			(void)json_object_set_new(row, "disturbed",
				json_string(a->in->workloads[w].disturbed));
		(void)json_array_append_new(rows, row);
	}
	return rows;
}

static void set_money(json_t *root, const struct plan_answer *a)
{
	const struct outcome_money *m = &a->money;

	(void)json_object_set_new(root, "workloads", workloads_json(a));
	(void)json_object_set_new(root, "idle",
		json_pack("{s:f, s:f}", "usd_h", get_nano_as_usd(m->idle_nano), "pct",
			a->plan.nano_per_hour
				? 100.0 * (double)m->idle_nano / (double)a->plan.nano_per_hour
				: 0));
	if (m->spot_nodes)
		(void)json_object_set_new(root, "spot",
			json_pack("{s:I, s:f, s:{s:i, s:i}}", "nodes",
				(json_int_t)m->spot_nodes, "usd_h",
				get_nano_as_usd(m->spot_nano), "blast_radius", "replicas",
				(int)m->blast_replicas, "workloads", (int)m->blast_workloads));
}

static json_t *extras_json(const struct extras *e)
{
	return json_pack("{s:f, s:f, s:f, s:f, s:f}", "cluster_usd_h",
		get_nano_as_usd(e->cluster), "nodes_usd_h", get_nano_as_usd(e->each_node),
		"share_usd_h", get_nano_as_usd(e->share), "all_usd_h", get_nano_as_usd(e->all),
		"all_usd_month", get_nano_as_usd(e->all * ANSWER_HOURS_A_MONTH));
}

/* Called only if policy.extras has entries. */
static void set_extras(json_t *root, const struct plan_answer *a)
{
	struct extras plan, baseline;
	json_t *all = json_object();

	extras_of_plan(a, &a->plan, &plan);
	(void)json_object_set_new(all, "plan", extras_json(&plan));
	if (a->baseline.offer) {
		extras_of_line(a, &a->baseline, &baseline);
		(void)json_object_set_new(all, "baseline", extras_json(&baseline));
	}
	(void)json_object_set_new(root, "extras", all);
}

static void set_comparisons(json_t *root, const struct plan_answer *a)
{
	json_t *lines = json_array();

	if (a->baseline.offer)
		(void)json_object_set_new(root, "baseline",
			render_plan_line_json(a, &a->baseline));
	if (a->baseline.offer && a->baseline.reason == PLAN_FITS && !a->plan.n_unplaced) {
		(void)json_object_set_new(root, "savings",
			json_pack("{s:f, s:f, s:f, s:o, s:o}", "usd_h",
				get_nano_as_usd(
					a->baseline.nano_per_hour - a->plan.nano_per_hour),
				"pct",
				get_saving_percent(a->plan.nano_per_hour,
					a->baseline.nano_per_hour),
				"usd_month",
				get_nano_as_usd(
					(a->baseline.nano_per_hour - a->plan.nano_per_hour) *
					ANSWER_HOURS_A_MONTH),
				"usd_per_million_before",
				amount_json(outcome_million(a->baseline.nano_per_hour,
					a->money.before_rate)),
				"usd_per_million_after",
				amount_json(outcome_million(a->plan.nano_per_hour,
					a->money.rate))));
	}
	if (a->layout.offer)
		(void)json_object_set_new(root, "layout", render_plan_line_json(a, &a->layout));
	for (size_t i = 0; i < a->n_lines; i++)
		(void)json_array_append_new(lines, render_plan_line_json(a, &a->lines[i]));
	(void)json_object_set_new(root, "alternatives", lines);
	if (!a->unsliced.n_unplaced && a->unsliced.n_nodes)
		(void)json_object_set_new(root, "unsliced",
			json_pack("{s:f, s:I}", "usd_h",
				get_nano_as_usd(a->unsliced.nano_per_hour), "nodes",
				(json_int_t)a->unsliced.n_nodes));
}

int plan_json(struct buf *b, const struct plan_answer *a, uint64_t seed, struct error *err)
{
	const struct plan_offer *first = a->n_offers ? &a->offers[0] : NULL;
	json_t *nodes = json_array(), *root;
	char created[TIME_RFC3339_MAX], *text;

	time_rfc3339(time_wall_ns(), created);
	for (size_t i = 0; i < a->plan.n_nodes; i++)
		(void)json_array_append_new(nodes, node_json(a, &a->plan.nodes[i]));
	root = json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:I, s:{s:f, s:f, s:o}, s:{s:f, s:f, s:b}, s:o, s:o, s:b}",
		"schema", "gpuslice/plan-result/v1", "created", created, "catalogue_stamp",
		first ? first->stamp : "", "region", a->in->regions.v[0], "currency",
		a->currency ? a->currency : "", "seed", (json_int_t)seed, "plan", "usd_h",
		get_nano_as_usd(a->plan.nano_per_hour), "usd_month",
		get_nano_as_usd(a->plan.nano_per_hour * ANSWER_HOURS_A_MONTH), "instances",
		nodes, "bound", "usd_h", get_nano_as_usd(a->plan.bound_nano), "gap_pct",
		get_saving_percent(a->plan.bound_nano, a->plan.nano_per_hour), "exact",
		a->plan.exact, "predictions", predictions_json(a), "unplaced", unplaced_json(a),
		"complete", !a->plan.stopped);
	if (root) {
		(void)json_object_set_new(root, "origin",
			json_string(plan_origin_names[outcome_origin(a, NULL)]));
		set_comparisons(root, a);
		set_money(root, a);
		set_rejected(root, a);
		if (extras_any(a))
			set_extras(root, a);
		(void)json_object_set_new(root, "warnings", warnings_json(a));
	}
	text = root ? json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) : NULL;
	json_decref(root);
	if (!text)
		return error_nomem(err);
	buf_printf(b, "%s\n", text);
	free(text);
	return 0;
}
