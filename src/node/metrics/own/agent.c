/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/own/own.h"

/* What the agent itself consumes, and its failures. */

#define AGENT(member, kind) METRICS_MEMBER(struct view_agent, member, kind)

static const struct metrics_row rows[] = {
	{ .family = { "gpuslice_agent_start_timestamp_seconds", "seconds",
		  "When the agent was started, in seconds since 1970", METRICS_GAUGE, NULL },
		AGENT(started_wall_ns, METRICS_NANO) },
	{ .family = { "gpuslice_agent_cpu_seconds", "seconds",
		  "CPU time that the agent has used, its workers included", METRICS_COUNTER,
		  NULL },
		AGENT(cpu_ns, METRICS_NANO) },
	{ .family = { "gpuslice_agent_resident_memory_bytes", "bytes", "Memory of the agent",
		  METRICS_GAUGE, NULL },
		AGENT(rss_bytes, METRICS_COUNT),
		METRICS_KNOWN(struct view_agent, proc_known) },
	{ .family = { "gpuslice_agent_threads", NULL, "Threads of the agent", METRICS_GAUGE,
		  NULL },
		AGENT(threads, METRICS_COUNT),
		METRICS_KNOWN(struct view_agent, proc_known) },
	{ .family = { "gpuslice_agent_open_fds", NULL, "Open file descriptors of the agent",
		  METRICS_GAUGE, NULL },
		AGENT(fds, METRICS_COUNT),
		METRICS_KNOWN(struct view_agent, proc_known) },
	{ .family = { "gpuslice_agent_rounds", NULL, "Looks at the GPUs that were finished",
		  METRICS_COUNTER, NULL },
		AGENT(rounds, METRICS_COUNT) },
	{ .family = { "gpuslice_agent_round_seconds", "seconds",
		  "How long the last look kept the agent's loop", METRICS_GAUGE, NULL },
		AGENT(round_ns, METRICS_NANO) },
	{ .family = { "gpuslice_agent_nvml_calls", NULL, "Calls of NVML for the figures",
		  METRICS_COUNTER, NULL },
		AGENT(nvml_calls, METRICS_COUNT) },
	{ .family = { "gpuslice_agent_nvml_seconds", "seconds", "Time that these calls took",
		  METRICS_COUNTER, NULL },
		AGENT(nvml_ns, METRICS_NANO) },
	{ .family = { "gpuslice_agent_nvml_errors", NULL, "Looks in which NVML did not answer",
		  METRICS_COUNTER, NULL },
		AGENT(nvml_errors, METRICS_COUNT) },
	{ .family = { "gpuslice_agent_kubelet_lists", NULL,
		  "Questions to the kubelet about who holds what", METRICS_COUNTER, NULL },
		AGENT(kubelet_lists, METRICS_COUNT) },
	{ .family = { "gpuslice_agent_kubelet_errors", NULL,
		  "Of these, those without an answer", METRICS_COUNTER, NULL },
		AGENT(kubelet_errors, METRICS_COUNT) },
	{ .family = { "gpuslice_agent_allocations", NULL,
		  "Allocations that the kubelet asked for", METRICS_COUNTER, NULL },
		AGENT(allocations, METRICS_COUNT) },
	{ .family = { "gpuslice_agent_allocation_errors", NULL,
		  "Of these, those that were refused", METRICS_COUNTER, NULL },
		AGENT(allocation_errors, METRICS_COUNT) },
	{ .family = { "gpuslice_agent_usage_records_bytes", "bytes",
		  "Size of the file of usage records", METRICS_GAUGE, NULL },
		AGENT(usage_db_bytes, METRICS_COUNT),
		METRICS_KNOWN(struct view_agent, usage_db_known) },
	{ .family = { "gpuslice_agent_usage_records_errors", NULL,
		  "Times that the usage records could not be written", METRICS_COUNTER, NULL },
		AGENT(usage_db_errors, METRICS_COUNT) },
};

enum { USAGE_RECORDS, COMPONENT, FAMILIES };

static const struct metrics_family families[FAMILIES] = {
	[USAGE_RECORDS] = { "gpuslice_agent_usage_records_failing", NULL,
		"Whether the usage records cannot be written now", METRICS_GAUGE, NULL },
	[COMPONENT] = { "gpuslice_agent_component_degraded", NULL,
		"Whether a component besides the device plugin does not work now",
		METRICS_GAUGE, "component" },
};

const struct metrics_table metrics_agent_tables[2] = {
	{ .rows = rows, .n = ARRAY_LEN(rows) },
	{ .families = families, .n = ARRAY_LEN(families) },
};

static void write_components(struct metrics_own *own, const struct view_agent *a)
{
	if (!a->n_components)
		return;
	metrics_begin(own->w, &families[COMPONENT]);
	for (uint32_t i = 0; i < a->n_components; i++)
		metrics_line_with(own->w, own->node, "component", a->components[i].name,
			METRICS_COUNT, *metrics_str(a->components[i].reason) != '\0');
}

void metrics_own_agent(struct metrics_own *own)
{
	const struct view_agent *a = &own->w->v->agent;

	metrics_own_rows(own, rows, ARRAY_LEN(rows), a, 0, 1, &own->node);
	metrics_begin(own->w, &families[USAGE_RECORDS]);
	metrics_line(own->w, own->node, METRICS_COUNT, *metrics_str(a->usage_db_error) != '\0');
	write_components(own, a);
}
