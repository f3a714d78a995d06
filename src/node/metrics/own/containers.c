/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/own/own.h"

/* One series for each container and device. Counters stay for a while after the container's end. */

#define USE(member, kind)   METRICS_MEMBER(struct view_use, member, kind)
#define USE_KNOWN(member)   METRICS_KNOWN(struct view_use, member)
#define USE_CURRENT(member) METRICS_CURRENT(struct view_use, member)

static const struct metrics_row counters[] = {
	{ .family = { "gpuslice_container_gpu_held_seconds", "seconds",
		  "Time for which the container held its slices", METRICS_COUNTER, NULL },
		USE(allocated_ns, METRICS_NANO),
		USE_CURRENT(allocation_current) },
	{ .family = { "gpuslice_container_gpu_seconds", "seconds",
		  "GPU seconds that it held: time times its share of a GPU", METRICS_COUNTER,
		  NULL },
		USE(gpu_ns, METRICS_NANO),
		USE_CURRENT(allocation_current) },
	{ .family = { "gpuslice_container_gpu_busy_seconds", "seconds", "GPU time that it used",
		  METRICS_COUNTER, NULL },
		USE(busy_ns, METRICS_NANO),
		USE_CURRENT(busy_current) },
	{ .family = { "gpuslice_container_memory_byte_seconds", NULL,
		  "GPU memory that it used, in bytes times seconds", METRICS_COUNTER, NULL },
		USE(memory_byte_s, METRICS_COUNT),
		USE_CURRENT(memory_current) },
};

static const struct metrics_row gauges[] = {
	{ .family = { "gpuslice_container_slices", NULL, "Slices that the container holds",
		  METRICS_GAUGE, NULL },
		USE(n_replicas, METRICS_COUNT) },
	{ .family = { "gpuslice_container_share_ratio", "ratio",
		  "Share of a whole GPU that it is counted for", METRICS_GAUGE, NULL },
		USE(share, METRICS_MICRO) },
	{ .family = { "gpuslice_container_received_ratio", "ratio",
		  "Share of a whole GPU that it had in the last interval", METRICS_GAUGE,
		  NULL },
		USE(received, METRICS_MICRO) },
	{ .family = { "gpuslice_container_busy_exact", NULL,
		  "Whether its GPU time is measured exactly, by the slice runtime",
		  METRICS_GAUGE, NULL },
		USE(busy_exact, METRICS_COUNT),
		USE_KNOWN(busy_current) },
	{ .family = { "gpuslice_container_memory_used_bytes", "bytes",
		  "GPU memory that it uses", METRICS_GAUGE, NULL },
		USE(memory_used, METRICS_COUNT),
		USE_KNOWN(memory_known) },
	{ .family = { "gpuslice_container_memory_peak_bytes", "bytes",
		  "The most GPU memory that it has used", METRICS_GAUGE, NULL },
		USE(memory_peak, METRICS_COUNT),
		USE_KNOWN(peak_known) },
	{ .family = { "gpuslice_container_memory_limit_bytes", "bytes",
		  "GPU memory that it may use; none is written where there is no limit",
		  METRICS_GAUGE, NULL },
		USE(memory_limit, METRICS_COUNT) },
	{ .family = { "gpuslice_container_processes", NULL, "Its processes on the GPU",
		  METRICS_GAUGE, NULL },
		USE(n_processes, METRICS_COUNT),
		USE_KNOWN(processes_known) },
	{ .family = { "gpuslice_container_start_timestamp_seconds", "seconds",
		  "Since when it holds its slices, in seconds since 1970", METRICS_GAUGE,
		  NULL },
		USE(began_wall_ns, METRICS_NANO) },
};

enum { COST, HOURLY };

static const struct metrics_family costs[] = {
	[COST] = { "gpuslice_container_gpu_cost", NULL, "What its share has cost",
		METRICS_COUNTER, "currency" },
	[HOURLY] = { "gpuslice_container_gpu_hourly_cost", NULL,
		"What its share costs per hour now", METRICS_GAUGE, NULL },
};

const struct metrics_table metrics_container_tables[3] = {
	{ .rows = counters, .n = ARRAY_LEN(counters) },
	{ .rows = gauges, .n = ARRAY_LEN(gauges) },
	{ .families = costs, .n = ARRAY_LEN(costs) },
};

static void write_hourly(struct metrics_own *own)
{
	const struct view *v = own->w->v;

	metrics_begin(own->w, &costs[HOURLY]);
	for (uint32_t i = 0; i < v->n_uses; i++) {
		const struct view_use *use = &v->uses[i];
		const struct view_gpu *g = &v->gpus[v->devices[use->device].gpu];

		if (use->allocation_current)
			metrics_line(own->w, own->live[i], METRICS_NANO,
				metrics_scale_cost(g->cost_nano_per_hour, use->share));
	}
}

static void write_cost(struct metrics_own *own)
{
	const struct view *v = own->w->v;

	metrics_begin(own->w, &costs[COST]);
	for (uint32_t i = 0; i < v->n_uses; i++)
		if (own->uses[i].len && v->uses[i].allocation_current)
			metrics_line_cost(own, own->uses[i], v->uses[i].cost_nano);
}

/* Without a price: costs counted under an earlier price. */
static bool any_cost(const struct view *v)
{
	bool any = v->priced;

	for (uint32_t i = 0; i < v->n_uses && !any; i++)
		any = v->uses[i].cost_nano != 0;
	return any;
}

void metrics_own_containers(struct metrics_own *own)
{
	const struct view *v = own->w->v;

	metrics_own_rows(own, counters, ARRAY_LEN(counters), v->uses, sizeof(*v->uses),
		v->n_uses, own->uses);
	metrics_own_rows(own, gauges, ARRAY_LEN(gauges), v->uses, sizeof(*v->uses), v->n_uses,
		own->live);
	if (any_cost(v))
		write_cost(own);
	if (v->priced)
		write_hourly(own);
}
