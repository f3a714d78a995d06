/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include <string.h>

/*
 * The counters file from a ConfigMap (--configmap-data), as the API server reports it. Known counters stay while
 * the API server is unavailable. Without such a map, or such a key in it, the agent uses the file, as
 * dcgm-exporter does.
 */

#define KEY "metrics" /* dcgm-exporter's key */

/* 0: @text has the counters. CONFIG_SOURCE_WAIT: later. < 0: not available, @err says why. */
static int read_map(struct config_source *source, struct buf *text, struct error *err)
{
	CLEANUP(strv_fini) struct strv names = STRV_INIT;
	int r = config_source_names(source, &names, err);

	if (r)
		return r;
	if (!strv_has(&names, KEY))
		return error_set(err, ERR_NOT_FOUND, "%s has no key '%s'",
			config_source_text(source), KEY);
	return config_source_read(source, KEY, text, err);
}

static void use_counters_file(struct agent_counters *c, struct serve *serve,
	const struct error *why)
{
	if (strcmp(c->logged_error, why->msg) != 0)
		log_warn("counters of the ConfigMap not read, using the file",
			LOG_STR("reason", why->msg));
	(void)snprintf(c->logged_error, sizeof(c->logged_error), "%s", why->msg);
	serve_counters(serve, NULL, NULL, 0);
}

static void on_changed(void *arg)
{
	struct agent *a = arg;
	struct agent_counters *c = &a->counters;
	CLEANUP(buf_fini) struct buf text = BUF_INIT(METRICS_COUNTERS_FILE_MAX);
	struct error err = ERROR_INIT;
	int r = c->source && a->serve ? read_map(c->source, &text, &err) : CONFIG_SOURCE_WAIT;

	if (r == CONFIG_SOURCE_WAIT)
		return;
	if (r < 0) {
		use_counters_file(c, a->serve, &err);
		return;
	}
	c->logged_error[0] = '\0';
	serve_counters(a->serve, config_source_text(c->source), buf_str(&text), text.len);
}

static const struct config_source_ops source_ops = { .changed = on_changed };

void agent_counters_init(struct agent *a, const struct agent_options *o)
{
	if (o->monitoring.enabled && o->counters_map)
		a->counters.map = o->counters_map;
}

void agent_counters_with_api(struct agent *a, struct api *api)
{
	struct agent_counters *c = &a->counters;
	char namespace_[64];
	struct error err = ERROR_INIT;
	const char *colon = c->map ? strchr(c->map, ':') : NULL;

	if (!colon)
		return;
	(void)snprintf(namespace_, sizeof(namespace_), "%.*s", (int)(colon - c->map), c->map);
	if (config_source_map(&c->source, api, namespace_, colon + 1, &source_ops, a, &err) < 0)
		use_counters_file(c, a->serve, &err);
}

void agent_counters_without_api(struct agent *a, const struct error *why)
{
	if (a->counters.map && a->serve)
		use_counters_file(&a->counters, a->serve, why);
}

void agent_counters_stop(struct agent *a)
{
	if (a->counters.source)
		a->counters.source = config_source_stop(a->counters.source);
}
