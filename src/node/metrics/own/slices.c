/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/own/own.h"

/* Containers in a slice that the arbiter enforces: quanta, memory and refusals. */

#define SLICE(member, kind) METRICS_MEMBER(struct view_slice, member, kind)
#define SLICE_KNOWN(member) METRICS_KNOWN(struct view_slice, member)

static const struct metrics_row counters[] = {
	{ .family = { "gpuslice_container_charged_seconds", "seconds",
		  "GPU time that the arbiter charged to the slice", METRICS_COUNTER, NULL },
		SLICE(charged_ns, METRICS_NANO),
		SLICE_KNOWN(time_known) },
	{ .family = { "gpuslice_container_queue_seconds", "seconds",
		  "Time in which the slice was in the queue for a turn", METRICS_COUNTER,
		  NULL },
		SLICE(queue_ns, METRICS_NANO),
		SLICE_KNOWN(time_known) },
	{ .family = { "gpuslice_container_wait_seconds", "seconds",
		  "Time for which calls of its programs waited for a turn", METRICS_COUNTER,
		  NULL },
		SLICE(wait_ns, METRICS_NANO),
		SLICE_KNOWN(time_known) },
	{ .family = { "gpuslice_container_turns", NULL, "Turns on the GPU that the slice had",
		  METRICS_COUNTER, NULL },
		SLICE(quanta, METRICS_COUNT),
		SLICE_KNOWN(time_known) },
	{ .family = { "gpuslice_container_waits", NULL, "Calls that waited for a turn",
		  METRICS_COUNTER, NULL },
		SLICE(waits, METRICS_COUNT),
		SLICE_KNOWN(time_known) },
	{ .family = { "gpuslice_container_revocations", NULL,
		  "Turns that were taken back while the slice had more to do", METRICS_COUNTER,
		  NULL },
		SLICE(revocations, METRICS_COUNT),
		SLICE_KNOWN(revocations_known) },
	{ .family = { "gpuslice_container_memory_refusals", NULL,
		  "Allocations that the slice's memory limit refused", METRICS_COUNTER, NULL },
		SLICE(refusals, METRICS_COUNT),
		SLICE_KNOWN(refusals_known) },
	{ .family = { "gpuslice_container_launches", NULL, "Kernels and graphs launched",
		  METRICS_COUNTER, NULL },
		SLICE(launches, METRICS_COUNT),
		SLICE_KNOWN(time_known) },
	{ .family = { "gpuslice_container_copies", NULL, "Copies of memory", METRICS_COUNTER,
		  NULL },
		SLICE(copies, METRICS_COUNT),
		SLICE_KNOWN(time_known) },
	{ .family = { "gpuslice_container_copied_bytes", "bytes", "Bytes that these copied",
		  METRICS_COUNTER, NULL },
		SLICE(copied_bytes, METRICS_COUNT),
		SLICE_KNOWN(time_known) },
	{ .family = { "gpuslice_container_stopped_processes", NULL,
		  "Processes without the slice's libraries that were stopped for the memory they "
		  "took",
		  METRICS_COUNTER, NULL },
		SLICE(stopped, METRICS_COUNT),
		SLICE_KNOWN(reported) },
};

static const struct metrics_row gauges[] = {
	{ .family = { "gpuslice_container_weight", NULL,
		  "Weight of the slice among those of the GPU; 0: it takes no turns",
		  METRICS_GAUGE, NULL },
		SLICE(weight, METRICS_COUNT) },
	{ .family = { "gpuslice_container_turn", NULL, "Whether the slice has the turn now",
		  METRICS_GAUGE, NULL },
		SLICE(has_quantum, METRICS_COUNT),
		SLICE_KNOWN(reported) },
	{ .family = { "gpuslice_container_demoted", NULL,
		  "Whether a slice of class latency is served as batch, since it uses too much",
		  METRICS_GAUGE, NULL },
		SLICE(demoted, METRICS_COUNT),
		SLICE_KNOWN(reported) },
	{ .family = { "gpuslice_container_stuck", NULL,
		  "Whether the slice does not end its turn", METRICS_GAUGE, NULL },
		SLICE(stuck, METRICS_COUNT),
		SLICE_KNOWN(reported) },
	{ .family = { "gpuslice_container_over_limit", NULL,
		  "Whether it uses more memory than its limit", METRICS_GAUGE, NULL },
		SLICE(over_limit, METRICS_COUNT),
		SLICE_KNOWN(reported) },
	{ .family = { "gpuslice_container_unhooked_bytes", "bytes",
		  "GPU memory of processes without the slice's libraries", METRICS_GAUGE,
		  NULL },
		SLICE(unhooked, METRICS_COUNT),
		SLICE_KNOWN(unhooked_known) },
};

enum { ABOUT, CAP, ENDS };

static const struct metrics_family families[] = {
	[ABOUT] = { "gpuslice_container_slice", NULL, "How the slice is served", METRICS_INFO,
		"slice, compute, class" },
	[CAP] = { "gpuslice_container_cap_ratio", "ratio",
		"The most of the unit's time that the slice can have, where there is a cap",
		METRICS_GAUGE, NULL },
	[ENDS] = { "gpuslice_container_quantum_ends", NULL,
		"Quanta of the slice on the GPU that ended, by the reason", METRICS_COUNTER,
		"reason" },
};

const struct metrics_table metrics_slice_tables[3] = {
	{ .rows = counters, .n = ARRAY_LEN(counters) },
	{ .rows = gauges, .n = ARRAY_LEN(gauges) },
	{ .families = families, .n = ARRAY_LEN(families) },
};

static void write_slice_info(struct metrics_own *own, uint32_t i)
{
	const struct view_slice *s = own->w->v->uses[i].slice;
	uint32_t start = metrics_labels_from(own->w, own->live[i]);

	metrics_label(own->w, start, "slice", s->id);
	metrics_label(own->w, start, "compute", s->compute);
	metrics_label(own->w, start, "class", s->class_);
	metrics_line(own->w, metrics_labels_end(own->w, start), METRICS_COUNT, 1);
	metrics_labels_drop(own->w, start);
}

/* Only reasons that occurred: of ten mostly two or three do, and a node may have hundreds of slices. */
static void write_quantum_ends(struct metrics_own *own, uint32_t i)
{
	const struct view_slice *s = own->w->v->uses[i].slice;

	for (unsigned int k = 0; k < SCHED_ENDS; k++) {
		uint32_t start;

		if (!s->quantum_ends[k])
			continue;
		start = metrics_labels_from(own->w, own->uses[i]);
		metrics_label(own->w, start, "reason", sched_end_reason_names[k]);
		metrics_line(own->w, metrics_labels_end(own->w, start), METRICS_COUNT,
			s->quantum_ends[k]);
		metrics_labels_drop(own->w, start);
	}
}

void metrics_own_slices(struct metrics_own *own)
{
	const struct view *v = own->w->v;
	struct metrics_objects objects = { .object = own->objects, .n = v->n_uses };

	for (uint32_t i = 0; i < v->n_uses; i++)
		own->objects[i] = v->uses[i].slice;
	objects.labels = own->uses;
	metrics_rows(own->w, counters, ARRAY_LEN(counters), &objects);
	objects.labels = own->live;
	metrics_rows(own->w, gauges, ARRAY_LEN(gauges), &objects);
	metrics_begin(own->w, &families[ABOUT]);
	for (uint32_t i = 0; i < v->n_uses; i++)
		if (v->uses[i].slice && own->live[i].len)
			write_slice_info(own, i);
	metrics_begin(own->w, &families[CAP]);
	for (uint32_t i = 0; i < v->n_uses; i++)
		if (v->uses[i].slice && v->uses[i].slice->cap)
			metrics_line(own->w, own->live[i], METRICS_MICRO,
				v->uses[i].slice->cap);
	metrics_begin(own->w, &families[ENDS]);
	for (uint32_t i = 0; i < v->n_uses; i++)
		if (v->uses[i].slice && v->uses[i].slice->quantum_ends_known &&
			own->uses[i].len)
			write_quantum_ends(own, i);
}
