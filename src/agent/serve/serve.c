/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/serve/internal.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

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
	if (metrics_counters_read(&s->counters, options->metrics.collectors, warnings, err) <
			0 ||
		metrics_xids_new(&s->xids, err) < 0) {
		(void)serve_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

/* On the web thread: a file that it reads again has become unreadable. */
static void on_notice(void *arg, const struct error *err)
{
	(void)arg;
	log_warn("web server", LOG_STR("reason", err->msg));
}

int serve_start(struct serve *s, struct error *err)
{
	const struct web_ops ops = { .routes = serve_routes,
		.n_routes = serve_n_routes,
		.notice = on_notice };
	const char *listen = s->options.web.listen;

	if (!listen || !*listen)
		return 0;
	if (web_start(&s->web, &s->options.web, &ops, s, err) < 0)
		return -1;
	log_info("serving metrics and the status page", LOG_STR("address", listen),
		LOG_UINT("port", web_port(s->web)),
		LOG_STR("token", s->options.web.token_file ? "yes" : "no"),
		LOG_STR("tls", s->options.web.cert_file ? "yes" : "no"));
	return 0;
}

void serve_show(struct serve *s, struct view *v)
{
	struct view *old;

	metrics_xids_see(s->xids, v);
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

static void log_warnings(const struct strv *warnings)
{
	for (size_t i = 0; i < warnings->n; i++)
		log_warn("metrics", LOG_STR("reason", warnings->v[i]));
}

/* Says what is wrong with the file, once for each message. */
static void tell(struct serve *s, const struct error *err)
{
	if (s->told && !strcmp(s->told, err->msg))
		return;
	log_warn("counters file refused, keeping the last one", LOG_STR("reason", err->msg));
	free(s->told);
	s->told = strdup(err->msg);
}

void serve_look(struct serve *s)
{
	CLEANUP(strv_fini) struct strv warnings = { 0 };
	struct metrics_counters *new = NULL, *old;
	struct error err = ERROR_INIT;

	/* This thread alone changes .counters, so it may look without the lock. */
	if (!metrics_counters_changed(s->counters))
		return;
	if (metrics_counters_read(&new, s->options.metrics.collectors, &warnings, &err) < 0) {
		tell(s, &err);
		return;
	}
	free(STEAL_PTR(s->told));
	log_warnings(&warnings);
	(void)pthread_mutex_lock(&s->lock);
	old = s->counters;
	s->counters = new;
	s->counters_seq++;
	(void)pthread_mutex_unlock(&s->lock);
	(void)metrics_counters_free(old);
	log_info("counters file read", LOG_STR("file", s->options.metrics.collectors));
}

void serve_fields(const struct serve *s, bool wanted[FIELDS_MAX])
{
	metrics_counters_fields(s->counters, wanted);
}

unsigned serve_port(const struct serve *s)
{
	return s->web ? web_port(s->web) : 0;
}

struct serve *serve_free(struct serve *s)
{
	if (!s)
		return NULL;
	s->web = web_stop(s->web);
	for (size_t i = 0; i < SERVE_TEXT_COUNT; i++)
		if (s->texts[i])
			serve_text_unref(s->texts[i]);
	(void)view_unref(s->view);
	(void)metrics_counters_free(s->counters);
	(void)metrics_xids_free(s->xids);
	(void)pthread_mutex_destroy(&s->lock);
	free(s->told);
	free(s);
	return NULL;
}
