/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/attempt.h"

#include "lib/base/time.h"
#include "io/config/json.h"

#define SET(object, key, value) (void)json_object_set_new((object), (key), (value))

static json_t *format_mig_text(const char *text)
{
	return text && *text ? json_any_text(text) : json_null();
}

static json_t *format_mig_wall_time(uint64_t wall_ns)
{
	char text[TIME_RFC3339_MAX];

	if (wall_ns == 0)
		return json_null();
	time_rfc3339(wall_ns, text);
	return json_any_text(text);
}

static json_t *format_mig_gpus_status(const struct mig_report *r)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < r->n; i++)
		(void)json_array_append_new(list,
			json_pack("{s:I, s:s, s:I, s:s, s:s}", "index",
				(json_int_t)r->gpus[i].index, "uuid", r->gpus[i].uuid, "steps",
				(json_int_t)r->gpus[i].steps, "result", r->gpus[i].result,
				"reason", r->gpus[i].reason));
	return list;
}

static json_t *retry_time(const struct mig *m)
{
	uint64_t now = time_mono_ns();

	if (m->phase != MIG_REST || m->succeeded || !m->retry_at_ns)
		return json_null();
	return format_mig_wall_time(
		time_wall_ns() + (m->retry_at_ns > now ? m->retry_at_ns - now : 0));
}

static const char *source_text(const struct mig *m)
{
	if (m->source)
		return config_source_text(m->source);
	return *m->map ? m->map : "built-in";
}

json_t *mig_status(const struct mig *m)
{
	json_t *o = json_object();

	SET(o, "enabled", json_boolean(m->c.options.enabled));
	if (!m->c.options.enabled)
		return o;
	SET(o, "state", json_any_text(m->state));
	SET(o, "config", format_mig_text(m->name));
	SET(o, "chosenBy",
		m->tried_by == MIG_DESIRED_LABEL     ? json_string("node label")
		: m->tried_by == MIG_DESIRED_DEFAULT ? json_string("default")
						     : json_null());
	SET(o, "source", json_any_text(source_text(m)));
	SET(o, "waiting", json_any_text(m->waiting));
	SET(o, "phase", json_string(m->phases[m->phase].text));
	SET(o, "step", json_any_text(m->phase == MIG_APPLY ? m->report.current_step : ""));
	SET(o, "reason", json_any_text(m->reason));
	SET(o, "since", format_mig_wall_time(m->since_wall_ns));
	SET(o, "retry", retry_time(m));
	SET(o, "nvmlCalls", json_integer((json_int_t)m->report.nvml_calls));
	SET(o, "gpus", format_mig_gpus_status(&m->report));
	return o;
}
