/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/own/own.h"

#include <string.h>

/* What the agent offers to the kubelet, by resource. */

static const struct metrics_row rows[] = {
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

static const struct metrics_family families[] = {
	[BUSY] = { "gpuslice_slices_used", NULL,
		"Held slices whose container used the GPU in the last interval", METRICS_GAUGE,
		NULL },
	[REGISTERED] = { "gpuslice_resource_registered", NULL,
		"Whether the kubelet knows the resource", METRICS_GAUGE, NULL },
	[STATE] = { "gpuslice_resource_state", NULL,
		"How far registration is, and why not further", METRICS_INFO, "state, reason" },
};

const struct metrics_table metrics_resource_tables[2] = {
	{ .rows = rows, .n = ARRAY_LEN(rows) },
	{ .families = families, .n = ARRAY_LEN(families) },
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

	metrics_own_rows(own, rows, ARRAY_LEN(rows), v->resources, sizeof(*v->resources),
		v->n_resources, own->resources);
	metrics_begin(w, &families[BUSY]);
	for (uint32_t i = 0; i < v->n_resources; i++)
		if (count_busy(v, &v->resources[i], &busy))
			metrics_line(w, own->resources[i], METRICS_COUNT, busy);
	metrics_begin(w, &families[REGISTERED]);
	for (uint32_t i = 0; i < v->n_resources; i++)
		metrics_line(w, own->resources[i], METRICS_COUNT,
			!strcmp(metrics_str(v->resources[i].state), "registered"));
	metrics_begin(w, &families[STATE]);
	for (uint32_t i = 0; i < v->n_resources; i++)
		write_resource_state(own, i);
}
