/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/own/own.h"

#include <stddef.h>

/* Requests and connections of the agent's web server, and those that it refused. */

enum { CONNECTIONS, REQUESTS, REFUSED, CLOSED, PAUSES, FAMILIES };

static const struct metrics_family families[FAMILIES] = {
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
	{ .families = families, .n = ARRAY_LEN(families) },
};

/* Lines of one family, which differ in a label. */
static const struct web_metric_row {
	size_t family;
	const char *label, *value; /* NULL: none */
	size_t at;                 /* in struct view_web */
} rows[] = {
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
	metrics_begin(own->w, &families[CONNECTIONS]);
	metrics_line(own->w, own->node, METRICS_COUNT, web->connections);
	for (size_t f = REQUESTS; f < FAMILIES; f++) {
		metrics_begin(own->w, &families[f]);
		for (size_t i = 0; i < ARRAY_LEN(rows); i++)
			if (rows[i].family == f)
				write_web_row(own, &rows[i]);
	}
}
