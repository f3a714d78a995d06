/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/base/report.h"

#include "lib/base/log.h"
#include "lib/base/time.h"
#include "lib/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- reports --- */

static void emit_report_event(const struct reporter *r, const struct event_about *about,
	enum event_type type, const char *reason, const char *fmt, va_list ap) PRINTF(5, 0);

static void emit_report_event(const struct reporter *r, const struct event_about *about,
	enum event_type type, const char *reason, const char *fmt, va_list ap)
{
	char message[ERROR_MSG_MAX + 64];

	(void)vsnprintf(message, sizeof(message), fmt, ap);
	utf8_make_valid(message);
	r->event(r->arg, about, type, reason, message);
}

void report_event(const struct reporter *r, enum event_type type, const char *reason,
	const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit_report_event(r, NULL, type, reason, fmt, ap);
	va_end(ap);
}

void report_pod_event(const struct reporter *r, const struct event_about *pod,
	enum event_type type, const char *reason, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit_report_event(r, pod, type, reason, fmt, ap);
	va_end(ap);
}

void report_component(const struct reporter *r, enum component c, const struct error *why)
{
	r->component(r->arg, c, why);
}

/* --- components --- */

static const struct {
	const char *name;
	bool logs; /* its own code logs the failure */
	bool needed; /* by some devices, which are unhealthy without it (node/agent/kubelet/kubelet.c) */
} rows[] = {
	[COMPONENT_OPTIONS] = { .name = "options", .logs = true },
	[COMPONENT_RUN_DIR] = { .name = "run-directory" },
	[COMPONENT_STATUS_SOCKET] = { .name = "status-socket" },
	[COMPONENT_HEALTH_TCP] = { .name = "health-tcp" },
	[COMPONENT_WEB_SERVER] = { .name = "web-server", .logs = true },
	[COMPONENT_COUNTERS] = { .name = "counters", .logs = true },
	[COMPONENT_USAGE_RECORDS] = { .name = "usage-records", .logs = true },
	[COMPONENT_PRICES] = { .name = "prices", .logs = true },
	[COMPONENT_CDI] = { .name = "cdi", .logs = true, .needed = true },
	[COMPONENT_API_SERVER] = { .name = "api-server", .logs = true },
	[COMPONENT_LABELS] = { .name = "labels", .logs = true },
	[COMPONENT_XID_EVENTS] = { .name = "xid-events" },
	[COMPONENT_POD_USAGE] = { .name = "pod-usage" },
	[COMPONENT_MIG_MANAGER] = { .name = "mig-manager" },
	[COMPONENT_SLICES] = { .name = "slices", .needed = true },
	[COMPONENT_NODE_CONDITION] = { .name = "node-condition", .logs = true },
	[COMPONENT_STARTUP_TAINT] = { .name = "startup-taint", .logs = true },
	[COMPONENT_SAVED_CONFIG] = { .name = "kept-config" },
	[COMPONENT_SAVED_HEALTH] = { .name = "kept-health" },
};

const char *component_name(enum component c)
{
	return rows[c].name;
}

bool component_set(struct component_state *s, const struct error *why, uint64_t wall_ns)
{
	if (!why || why->code == ERR_NONE) {
		bool news = s->why.code != ERR_NONE;

		*s = (struct component_state){ .since_wall_ns = 0 };
		return news;
	}
	if (s->why.code != ERR_NONE && !strcmp(s->why.msg, why->msg))
		return false;
	if (s->why.code == ERR_NONE)
		s->since_wall_ns = wall_ns;
	s->why = *why;
	return true;
}

void components_report(struct components *all, enum component c, const struct error *why)
{
	struct component_state *s = &all->v[c];
	const char *name = rows[c].name;

	if (!component_set(s, why, time_wall_ns()))
		return;
	if (s->why.code == ERR_NONE) {
		log_info("component recovered", LOG_STR("component", name));
		report_event(all->reporter, EVENT_NORMAL, "ComponentRecovered",
			"%s works again", name);
		return;
	}
	if (!rows[c].logs)
		log_warn(rows[c].needed ? "component degraded"
					: "component degraded, devices are not affected",
			LOG_STR("component", name), LOG_STR("reason", s->why.msg));
	report_event(all->reporter, EVENT_WARNING, "ComponentDegraded", "%s: %s%s", name,
		s->why.msg, rows[c].needed ? "" : "; devices are not affected");
}
