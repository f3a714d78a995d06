/* SPDX-License-Identifier: Apache-2.0 */
/* The families of the node and of the resources that it offers (own.h). */
#include "node/metrics/own/own.h"

#include <string.h>

/* --- the node, its config and its price --- */

static const struct metrics_row node_rows[] = {
	{ .family = { "gpuslice_view_timestamp_seconds", "seconds",
		  "When the figures were taken, in seconds since 1970", METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view, wall_ns, METRICS_NANO) },
	{ .family = { "gpuslice_counters_since_timestamp_seconds", "seconds",
		  "When the counters of GPUs and containers began, in seconds since 1970",
		  METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view, since_wall_ns, METRICS_NANO) },
	{ .family = { "gpuslice_interval_seconds", "seconds",
		  "Time from one look at the GPUs to the next, as configured", METRICS_GAUGE,
		  NULL },
		METRICS_MEMBER(struct view, interval_ns, METRICS_NANO) },
	{ .family = { "gpuslice_nvml_up", NULL, "Whether NVML answers", METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view, nvml_up, METRICS_COUNT) },
	{ .family = { "gpuslice_holders_known", NULL,
		  "Whether the kubelet has said which container holds which slice",
		  METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view, allocations_known, METRICS_COUNT) },
	{ .family = { "gpuslice_ready", NULL, "Whether all resources are registered",
		  METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view, ready, METRICS_COUNT) },
	{ .family = { "gpuslice_config_generation", NULL,
		  "Number of the config that is in force", METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view, config_generation, METRICS_COUNT) },
	{ .family = { "gpuslice_config_change_timestamp_seconds", "seconds",
		  "Since when it is in force, in seconds since 1970", METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view, config_since_wall_ns, METRICS_NANO),
		METRICS_KNOWN(struct view, config_decided) },
	{ .family = { "gpuslice_config_warnings", NULL,
		  "How many warnings there are about the config in force", METRICS_GAUGE,
		  NULL },
		METRICS_MEMBER(struct view, n_warnings, METRICS_COUNT) },
	{ .family = { "gpuslice_node_hourly_cost", NULL, "Price of the node per hour",
		  METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view, price_nano_per_hour, METRICS_NANO),
		METRICS_KNOWN(struct view, priced) },
};

enum { BUILD, NODE, CONFIG, CONFIG_ERROR, PRICE, COST, OTHER_COST };

static const struct metrics_family node_families[] = {
	[BUILD] = { "gpuslice_build", NULL, "Version of the agent", METRICS_INFO, "version" },
	[NODE] = { "gpuslice_node", NULL, "Versions and kind of the node", METRICS_INFO,
		"driver_version, nvml_version, cuda_version, instance_type, region" },
	[CONFIG] = { "gpuslice_config", NULL,
		"Where the config in force is from, and its sharing", METRICS_INFO,
		"source, sharing" },
	[CONFIG_ERROR] = { "gpuslice_config_error", NULL,
		"Whether a newer config was refused, so that the one before stays",
		METRICS_GAUGE, NULL },
	[PRICE] = { "gpuslice_price", NULL,
		"Currency of all costs, and where the price is from", METRICS_INFO,
		"currency, source" },
	[COST] = { "gpuslice_node_cost", NULL,
		"What the node has cost; the sum of its GPUs and of what is not offered",
		METRICS_COUNTER, "currency" },
	[OTHER_COST] = { "gpuslice_node_other_cost", NULL,
		"Part of the node's cost that is of what is not offered, or of time for which it is not known who held "
		"what",
		METRICS_COUNTER, "currency" },
};

const struct metrics_table metrics_node_tables[2] = {
	{ .families = node_families, .n = ARRAY_LEN(node_families) },
	{ .rows = node_rows, .n = ARRAY_LEN(node_rows) },
};

struct label_pair {
	const char *name, *value;
};

static void write_info_family(struct metrics_own *own, size_t family,
	const struct label_pair *pairs, size_t n)
{
	struct metrics_writer *w = own->w;
	uint32_t start = metrics_labels_from(w, own->node);

	for (size_t i = 0; i < n; i++)
		metrics_label(w, start, pairs[i].name, pairs[i].value);
	metrics_begin(w, &node_families[family]);
	metrics_line(w, metrics_labels_end(w, start), METRICS_COUNT, 1);
	metrics_labels_drop(w, start);
}

/* Without a price: costs counted under an earlier price. */
static void write_node_cost(struct metrics_own *own, size_t family, uint64_t nano)
{
	metrics_begin(own->w, &node_families[family]);
	if (own->w->v->priced || nano)
		metrics_line_cost(own, own->node, nano);
}

void metrics_own_node(struct metrics_own *own)
{
	const struct view *v = own->w->v;

	write_info_family(own, BUILD, (struct label_pair[]){ { "version", v->agent.version } },
		1);
	write_info_family(own, NODE,
		(struct label_pair[]){ { "driver_version", v->driver_version },
			{ "nvml_version", v->nvml_version },
			{ "cuda_version", v->cuda_version },
			{ "instance_type", v->instance_type }, { "region", v->region } },
		5);
	write_info_family(own, CONFIG,
		(struct label_pair[]){ { "source", v->config_source },
			{ "sharing", v->config_sharing } },
		2);
	metrics_begin(own->w, &node_families[CONFIG_ERROR]);
	metrics_line(own->w, own->node, METRICS_COUNT, *metrics_str(v->config_error) != '\0');
	if (v->priced)
		write_info_family(own, PRICE,
			(struct label_pair[]){ { "currency", v->currency },
				{ "source", v->price_source } },
			2);
	metrics_own_rows(own, node_rows, ARRAY_LEN(node_rows), v, 0, 1, &own->node);
	write_node_cost(own, COST, v->cost_nano);
	write_node_cost(own, OTHER_COST, v->other_cost_nano);
}

/* --- resources: what the agent offers to the kubelet --- */

static const struct metrics_row resource_rows[] = {
	{ .family = { "gpuslice_slices_offered", NULL,
		  "Slices of a resource that the kubelet is offered", METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view_resource, capacity, METRICS_COUNT) },
	{ .family = { "gpuslice_slices_allocatable", NULL, "Of these, those that are healthy",
		  METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view_resource, allocatable, METRICS_COUNT) },
	{ .family = { "gpuslice_slices_held", NULL, "Of these, those that containers hold",
		  METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view_resource, used, METRICS_COUNT),
		METRICS_KNOWN(struct view_resource, allocated_known) },
	{ .family = { "gpuslice_resource_replicas", NULL,
		  "Into how many slices the config cuts each unit of the resource",
		  METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view_resource, replicas, METRICS_COUNT) },
	{ .family = { "gpuslice_slices_idle", NULL, "Healthy slices that no container holds",
		  METRICS_GAUGE, NULL },
		METRICS_MEMBER(struct view_resource, idle, METRICS_COUNT),
		METRICS_KNOWN(struct view_resource, allocated_known) },
};

enum { BUSY, REGISTERED, STATE };

static const struct metrics_family resource_families[] = {
	[BUSY] = { "gpuslice_slices_used", NULL,
		"Held slices whose container used the GPU in the last interval", METRICS_GAUGE,
		NULL },
	[REGISTERED] = { "gpuslice_resource_registered", NULL,
		"Whether the kubelet knows the resource", METRICS_GAUGE, NULL },
	[STATE] = { "gpuslice_resource_state", NULL,
		"How far registration is, and why not further", METRICS_INFO, "state, reason" },
};

const struct metrics_table metrics_resource_tables[2] = {
	{ .rows = resource_rows, .n = ARRAY_LEN(resource_rows) },
	{ .families = resource_families, .n = ARRAY_LEN(resource_families) },
};

/* Counts the replicas with work; false: not known of one of them. */
static bool count_busy(const struct view *v, const struct view_resource *r, uint64_t *ret)
{
	*ret = 0;
	if (!r->allocated_known)
		return false;
	for (uint32_t i = 0; i < v->n_uses; i++) {
		const struct view_use *use = &v->uses[i];

		if (!use->live || strcmp(use->resource, r->name) != 0)
			continue;
		if (use->received == VIEW_NONE)
			return false;
		*ret += use->received ? use->n_replicas : 0;
	}
	return true;
}

static void write_resource_state(struct metrics_own *own, uint32_t i)
{
	const struct view_resource *r = &own->w->v->resources[i];
	uint32_t start = metrics_labels_from(own->w, own->resources[i]);

	metrics_label(own->w, start, "state", r->state);
	metrics_label(own->w, start, "reason", r->reason);
	metrics_line(own->w, metrics_labels_end(own->w, start), METRICS_COUNT, 1);
	metrics_labels_drop(own->w, start);
}

void metrics_own_resources(struct metrics_own *own)
{
	struct metrics_writer *w = own->w;
	const struct view *v = w->v;
	uint64_t busy;

	metrics_own_rows(own, resource_rows, ARRAY_LEN(resource_rows), v->resources,
		sizeof(*v->resources), v->n_resources, own->resources);
	metrics_begin(w, &resource_families[BUSY]);
	for (uint32_t i = 0; i < v->n_resources; i++)
		if (count_busy(v, &v->resources[i], &busy))
			metrics_line(w, own->resources[i], METRICS_COUNT, busy);
	metrics_begin(w, &resource_families[REGISTERED]);
	for (uint32_t i = 0; i < v->n_resources; i++)
		metrics_line(w, own->resources[i], METRICS_COUNT,
			!strcmp(metrics_str(v->resources[i].state), "registered"));
	metrics_begin(w, &resource_families[STATE]);
	for (uint32_t i = 0; i < v->n_resources; i++)
		write_resource_state(own, i);
}
