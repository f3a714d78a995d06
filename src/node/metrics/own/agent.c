/* SPDX-License-Identifier: Apache-2.0 */
/* The families of the agent itself and of its web server (own.h). */
#include "node/metrics/own/own.h"

#include <stddef.h>

/* --- what the agent itself consumes, and its failures --- */

#define AGENT(member, kind) METRICS_MEMBER(struct view_agent, member, kind)

static const struct metrics_row agent_rows[] = {
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

enum { USAGE_RECORDS, COMPONENT, AGENT_FAMILIES };

static const struct metrics_family agent_families[AGENT_FAMILIES] = {
	[USAGE_RECORDS] = { "gpuslice_agent_usage_records_failing", NULL,
		"Whether the usage records cannot be written now", METRICS_GAUGE, NULL },
	[COMPONENT] = { "gpuslice_agent_component_degraded", NULL,
		"Whether a component besides the device plugin does not work now",
		METRICS_GAUGE, "component" },
};

const struct metrics_table metrics_agent_tables[2] = {
	{ .rows = agent_rows, .n = ARRAY_LEN(agent_rows) },
	{ .families = agent_families, .n = ARRAY_LEN(agent_families) },
};

static void write_components(struct metrics_own *own, const struct view_agent *a)
{
	if (!a->n_components)
		return;
	metrics_begin(own->w, &agent_families[COMPONENT]);
	for (uint32_t i = 0; i < a->n_components; i++)
		metrics_line_with(own->w, own->node, "component", a->components[i].name,
			METRICS_COUNT, *metrics_str(a->components[i].reason) != '\0');
}

void metrics_own_agent(struct metrics_own *own)
{
	const struct view_agent *a = &own->w->v->agent;

	metrics_own_rows(own, agent_rows, ARRAY_LEN(agent_rows), a, 0, 1, &own->node);
	metrics_begin(own->w, &agent_families[USAGE_RECORDS]);
	metrics_line(own->w, own->node, METRICS_COUNT, *metrics_str(a->usage_db_error) != '\0');
	write_components(own, a);
}

/* --- requests and connections of its web server, and those that it refused --- */

enum { CONNECTIONS, REQUESTS, REFUSED, CLOSED, PAUSES, WEB_FAMILIES };

static const struct metrics_family web_families[WEB_FAMILIES] = {
	[CONNECTIONS] = { "gpuslice_web_connections", NULL,
		"Connections to the agent's port that are open", METRICS_GAUGE, NULL },
	[REQUESTS] = { "gpuslice_web_requests", NULL, "Requests that were answered",
		METRICS_COUNTER, "class" },
	[REFUSED] = { "gpuslice_web_refused", NULL,
		"Connections that were not taken: full, or address for too many from one",
		METRICS_COUNTER, "reason" },
	[CLOSED] = { "gpuslice_web_closed", NULL,
		"Connections that were closed without an answer: displaced by new ones, timeout, or malformed for no request that could be read",
		METRICS_COUNTER, "reason" },
	[PAUSES] = { "gpuslice_web_pauses", NULL,
		"Pauses, as the web server had used its part of a processor", METRICS_COUNTER,
		NULL },
};

const struct metrics_table metrics_web_tables[1] = {
	{ .families = web_families, .n = ARRAY_LEN(web_families) },
};

/* Lines of one family, which differ in a label. */
static const struct web_metric_row {
	size_t family;
	const char *label, *value; /* NULL: none */
	size_t at;                 /* in struct view_web */
} web_rows[] = {
#define ROW(family, label, value, member)                               \
	{                                                               \
		family, label, value, offsetof(struct view_web, member) \
	}
	ROW(REQUESTS, "class", "2xx", requests[1]),
	ROW(REQUESTS, "class", "3xx", requests[2]),
	ROW(REQUESTS, "class", "4xx", requests[3]),
	ROW(REQUESTS, "class", "5xx", requests[4]),
	ROW(REFUSED, "reason", "address", refused_address),
	ROW(REFUSED, "reason", "full", refused_full),
	ROW(CLOSED, "reason", "displaced", displaced),
	ROW(CLOSED, "reason", "malformed", malformed),
	ROW(CLOSED, "reason", "timeout", timeouts),
	ROW(PAUSES, NULL, NULL, pauses),
#undef ROW
};

static void write_web_row(struct metrics_own *own, const struct web_metric_row *r)
{
	const char *web = (const char *)&own->w->v->agent.web;
	uint64_t value = *(const uint64_t *)(const void *)(web + r->at);

	if (r->label)
		metrics_line_with(own->w, own->node, r->label, r->value, METRICS_COUNT, value);
	else
		metrics_line(own->w, own->node, METRICS_COUNT, value);
}

void metrics_own_web(struct metrics_own *own)
{
	const struct view_web *web = &own->w->v->agent.web;

	if (!web->known)
		return;
	metrics_begin(own->w, &web_families[CONNECTIONS]);
	metrics_line(own->w, own->node, METRICS_COUNT, web->connections);
	for (size_t f = REQUESTS; f < WEB_FAMILIES; f++) {
		metrics_begin(own->w, &web_families[f]);
		for (size_t i = 0; i < ARRAY_LEN(web_rows); i++)
			if (web_rows[i].family == f)
				write_web_row(own, &web_rows[i]);
	}
}
