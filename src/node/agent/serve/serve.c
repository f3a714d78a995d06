/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/serve/internal.h"

#include "lib/base/log.h"

#include <stdlib.h>
#include <string.h>

/* The built-in counters serve until the file can be read. */
static int read_counters(struct serve *s, struct strv *warnings, struct error *err)
{
	struct error why = ERROR_INIT;

	if (metrics_counters_read(&s->counters, s->options.metrics.collectors, warnings,
		    &why) == 0)
		return 0;
	s->file_needed = true;
	s->file_error = why;
	return metrics_counters_read(&s->counters, NULL, warnings, err);
}

static void free_serve_state(struct serve *s)
{
	web_config_fini(&s->web_config);
	for (size_t i = 0; i < SERVE_TEXT_COUNT; i++)
		if (s->texts[i])
			serve_text_unref(s->texts[i]);
	(void)view_unref(s->view);
	(void)metrics_counters_unref(s->counters);
	(void)metrics_xids_free(s->xids);
	(void)metrics_clocks_free(s->clocks);
	(void)pthread_mutex_destroy(&s->lock);
	free(s);
}

int serve_new(struct serve **ret, const struct serve_options *options, struct strv *warnings,
	struct error *err)
{
	struct serve *s = calloc(1, sizeof(*s));

	if (!s)
		return error_nomem(err);
	if (pthread_mutex_init(&s->lock, NULL)) {
		free(s);
		return error_nomem(err);
	}
	s->options = *options;
	s->counters_seq = 1;
	if (read_counters(s, warnings, err) < 0 || metrics_xids_new(&s->xids, err) < 0 ||
		metrics_clocks_new(&s->clocks, err) < 0) {
		(void)serve_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

/* --- the web server. Thread: web, both --- */

static void on_serving(void *arg, unsigned port)
{
	const struct serve *s = arg;
	const struct web_options *o = &s->options.web;

	log_info("serving metrics and the status page", LOG_STR("address", o->listen),
		LOG_UINT("port", port), LOG_STR("token", o->token_file ? "yes" : "no"),
		LOG_STR("tls", o->cert_file || s->web_config.cert_file ? "yes" : "no"));
}

static void on_notice(void *arg, const struct error *err)
{
	(void)arg;
	log_warn("web server", LOG_STR("reason", err->msg));
}

/*
 * An invalid file is an error, and nothing is served: the operator may protect the page with the file. Caller's:
 * web_config_fini().
 */
static int read_web_config(const struct serve *s, struct web_config *ret, struct error *err)
{
	const char *path = s->options.web_config_file;
	const struct web_options *web = &s->options.web;

	*ret = (struct web_config){ .cert_file = NULL };
	if (!path)
		return 0;
	if (web_config_read(ret, path, err) < 0)
		return error_prefix(err, "--web-config-file");
	if (!ret->cert_file || !(web->cert_file || web->key_file))
		return 0;
	web_config_fini(ret);
	return error_set(err, ERR_INVALID,
		"--web-config-file: '%s' has a certificate, and so has --metrics-cert-file; "
		"expected one of the two",
		path);
}

static int start_web(struct serve *s, const struct web_ops *ops, struct error *err)
{
	struct web_options web = s->options.web;

	web_config_fini(&s->web_config);
	if (read_web_config(s, &s->web_config, err) < 0)
		return -1;
	if (s->web_config.cert_file) {
		web.cert_file = s->web_config.cert_file;
		web.key_file = s->web_config.key_file;
	}
	return web_start(&s->web, &web, ops, s, err);
}

/* Logs @why, unless the last logged reason is the same. */
static void set_web_error(struct serve *s, const struct error *why)
{
	if (why->code != ERR_NONE && strcmp(s->web_error.msg, why->msg) != 0)
		on_notice(s, why);
	s->web_error = *why;
}

/* The server keeps the files that the web config file named at the start. */
static void check_web_config(struct serve *s)
{
	CLEANUP(web_config_fini) struct web_config now = { .cert_file = NULL };
	struct error why = ERROR_INIT;

	if (read_web_config(s, &now, &why) < 0)
		error_suffix(&why, LAST_VALID "serve nothing");
	else if (!web_config_same(&now, &s->web_config))
		(void)error_set(&why, ERR_INVALID,
			"--web-config-file: '%s' names another certificate or key than the one in "
			"use; a restart of the agent uses it",
			s->options.web_config_file);
	set_web_error(s, &why);
}

/* web_stop() calls this, or later a web thread that web_stop() left behind. */
static void on_released(void *arg)
{
	free_serve_state(arg);
}

void serve_start(struct serve *s)
{
	const struct web_ops ops = { .routes = serve_routes,
		.n_routes = serve_n_routes,
		.serving = on_serving,
		.notice = on_notice,
		.released = on_released };
	const char *listen = s->options.web.listen;
	struct error err = ERROR_INIT;

	if (!listen || !*listen)
		return;
	(void)start_web(s, &ops, &err);
	set_web_error(s, &err);
}

void serve_retry(struct serve *s)
{
	if (s->web)
		check_web_config(s);
	else
		serve_start(s);
}

enum web_state serve_web_state(const struct serve *s, struct error *ret_why)
{
	enum web_state state;

	*ret_why = s->web_error;
	if (!s->web)
		return s->web_error.code == ERR_NONE ? WEB_STARTING : WEB_DOWN;
	state = web_state(s->web, ret_why);
	if (state != WEB_SERVING)
		return state;
	if (ret_why->code == ERR_NONE)
		*ret_why = s->web_error;
	else
		error_suffix(ret_why, LAST_VALID "serve nothing");
	return state;
}

bool serve_counters_down(const struct serve *s, struct error *ret_why)
{
	*ret_why = s->other_error.code != ERR_NONE ? s->other_error : s->file_error;
	return ret_why->code != ERR_NONE;
}

/* Updates the clocks only for counters that need them: values for a window of hours take much memory. */
static void update_serve_clocks(struct serve *s, const struct view *v)
{
	if (serve_has_source(s, METRICS_FROM_CLOCKS) ||
		serve_has_source(s, METRICS_FROM_CLOCKS_TOTAL))
		metrics_clocks_update(s->clocks, v);
	else
		metrics_clocks_forget(s->clocks);
}

void serve_show(struct serve *s, struct view *v)
{
	struct view *old;

	metrics_xids_update(s->xids, v);
	update_serve_clocks(s, v);
	(void)pthread_mutex_lock(&s->lock);
	old = s->view;
	s->view = view_ref(v);
	(void)pthread_mutex_unlock(&s->lock);
	(void)view_unref(old);
}

struct view *serve_view(struct serve *s)
{
	struct view *v;

	(void)pthread_mutex_lock(&s->lock);
	v = s->view ? view_ref(s->view) : NULL;
	(void)pthread_mutex_unlock(&s->lock);
	return v;
}

static void log_counters_warnings(const struct strv *warnings)
{
	for (size_t i = 0; i < warnings->n; i++)
		log_warn("metrics", LOG_STR("reason", warnings->v[i]));
}

/* Logs each message once. */
static void log_counters_refused(struct error *last, const struct error *err)
{
	if (strcmp(last->msg, err->msg) != 0)
		log_warn("counters refused, the last ones stay", LOG_STR("reason", err->msg));
	*last = *err;
}

static void replace_counters(struct serve *s, struct metrics_counters *new,
	const struct strv *warnings, const char *from)
{
	struct metrics_counters *old;

	error_clear(&s->file_error);
	log_counters_warnings(warnings);
	(void)pthread_mutex_lock(&s->lock);
	old = s->counters;
	s->counters = new;
	s->counters_seq++;
	(void)pthread_mutex_unlock(&s->lock);
	(void)metrics_counters_unref(old);
	log_info("counters read", LOG_STR("from", *from ? from : "the built-in set"));
}

static void read_counters_file(struct serve *s)
{
	CLEANUP(strv_fini) struct strv warnings = { 0 };
	struct metrics_counters *new = NULL;
	struct error err = ERROR_INIT;

	if (metrics_counters_read(&new, s->options.metrics.collectors, &warnings, &err) < 0) {
		if (!s->file_needed)
			error_suffix(&err, LAST_VALID "use the built-in counters");
		log_counters_refused(&s->file_error, &err);
		return;
	}
	s->from_other = s->file_needed = false;
	replace_counters(s, new, &warnings, s->options.metrics.collectors);
}

/* Only the loop changes .counters, so the loop may read it without the lock. */
static bool file_is_news(const struct serve *s)
{
	return s->file_error.code != ERR_NONE || metrics_counters_changed(s->counters);
}

void serve_check_counters(struct serve *s)
{
	if (s->file_needed || (!s->from_other && file_is_news(s)))
		read_counters_file(s);
}

void serve_counters(struct serve *s, const char *name, const char *text, size_t len)
{
	CLEANUP(strv_fini) struct strv warnings = { 0 };
	struct metrics_counters *new = NULL;
	struct error err = ERROR_INIT;

	if (!text) {
		error_clear(&s->other_error);
		s->file_needed |= s->from_other;
		if (s->file_needed)
			read_counters_file(s);
		return;
	}
	if (metrics_counters_parse(&new, name, text, len, &warnings, &err) < 0) {
		log_counters_refused(&s->other_error, &err);
		return;
	}
	error_clear(&s->other_error);
	s->from_other = true;
	s->file_needed = false;
	replace_counters(s, new, &warnings, name);
}

void serve_fields(const struct serve *s, bool wanted[FIELDS_MAX])
{
	metrics_counters_fields(s->counters, wanted);
}

bool serve_has_source(const struct serve *s, enum metrics_source source)
{
	return metrics_counters_have(s->counters, source);
}

unsigned serve_port(const struct serve *s)
{
	return s->web ? web_port(s->web) : 0;
}

bool serve_counts(const struct serve *s, struct web_counts *ret)
{
	if (s->web)
		*ret = web_counts(s->web);
	return s->web != NULL;
}

struct serve *serve_free(struct serve *s)
{
	if (!s)
		return NULL;
	/* The web thread may be blocked within a route. on_released() frees @s when that route has ended. */
	if (s->web)
		(void)web_stop(s->web);
	else
		free_serve_state(s);
	return NULL;
}
