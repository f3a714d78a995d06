/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/base/report.h"

#include "lib/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

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
