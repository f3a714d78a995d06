/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/serve/internal.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/time.h"
#include "http/listen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SERVE_AGAIN_NS (10 * NS_PER_SEC)

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
		metrics_xids_new(&s->xids, err) < 0 ||
		metrics_clocks_new(&s->clocks, err) < 0) {
		(void)serve_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

/* On the web thread: a file that the server reads again has become unreadable, or its process has ended. */
static void on_notice(void *arg, const struct error *err)
{
	(void)arg;
	log_warn("web server", LOG_STR("reason", err->msg));
}

static int listen_now(struct serve *s, struct error *err)
{
	const struct web_ops ops = { .routes = serve_routes,
		.n_routes = serve_n_routes,
		.notice = on_notice };
	const char *listen = s->options.web.listen;

	if (web_start(&s->web, &s->options.web, &ops, s, err) < 0)
		return -1;
	log_info("serving metrics and the status page", LOG_STR("address", listen),
		LOG_UINT("port", web_port(s->web)),
		LOG_STR("token", s->options.web.token_file ? "yes" : "no"),
		LOG_STR("tls", s->options.web.cert_file ? "yes" : "no"));
	return 0;
}

/* Somebody has the address, or this machine has no such one now: nothing that is wrong with the options. */
static bool is_taken(const struct error *err)
{
	return err->sys == EADDRINUSE || err->sys == EADDRNOTAVAIL || err->sys == EAFNOSUPPORT;
}

int serve_start(struct serve *s, struct error *err)
{
	const char *listen = s->options.web.listen;

	if (!listen || !*listen || listen_now(s, err) == 0)
		return 0;
	if (!s->options.may_be_taken || !is_taken(err))
		return -1;
	log_warn("metrics and the status page are not served: the usual address cannot be had; "
		 "trying again, or name another with --metrics-listen",
		LOG_STR("reason", err->msg));
	error_clear(err);
	s->again_ns = time_mono_ns() + SERVE_AGAIN_NS;
	return 0;
}

/* A look that starts no process, which the loop would wait for. */
static bool is_free(const char *address)
{
	CLEANUP(closep) int fd = -1;
	struct error err = ERROR_INIT;
	unsigned port;

	return http_listen_tcp(address, &fd, &port, &err) == 0;
}

/* Logged once, at the start; what is in the way since then may be something else. */
static void try_again(struct serve *s)
{
	uint64_t now = time_mono_ns();
	struct error err = ERROR_INIT;

	if (!s->again_ns || now < s->again_ns)
		return;
	s->again_ns = now + SERVE_AGAIN_NS;
	if (is_free(s->options.web.listen) && listen_now(s, &err) == 0)
		s->again_ns = 0;
}

/* Only for who asks: what is kept for a window of hours is not little. */
static void see_clocks(struct serve *s, const struct view *v)
{
	if (serve_wants(s, METRICS_FROM_CLOCKS) || serve_wants(s, METRICS_FROM_CLOCKS_TOTAL))
		metrics_clocks_see(s->clocks, v);
	else
		metrics_clocks_forget(s->clocks);
}

void serve_show(struct serve *s, struct view *v)
{
	struct view *old;

	metrics_xids_see(s->xids, v);
	see_clocks(s, v);
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

/* Says what is wrong with them, once for each message. */
static void tell(struct serve *s, const struct error *err)
{
	if (s->told && !strcmp(s->told, err->msg))
		return;
	log_warn("counters refused, keeping the last ones", LOG_STR("reason", err->msg));
	free(s->told);
	s->told = strdup(err->msg);
}

static void replace(struct serve *s, struct metrics_counters *new, const struct strv *warnings,
	const char *from)
{
	struct metrics_counters *old;

	free(STEAL_PTR(s->told));
	log_warnings(warnings);
	(void)pthread_mutex_lock(&s->lock);
	old = s->counters;
	s->counters = new;
	s->counters_seq++;
	(void)pthread_mutex_unlock(&s->lock);
	(void)metrics_counters_free(old);
	log_info("counters read", LOG_STR("from", *from ? from : "the built-in set"));
}

static void read_file(struct serve *s)
{
	CLEANUP(strv_fini) struct strv warnings = { 0 };
	struct metrics_counters *new = NULL;
	struct error err = ERROR_INIT;

	if (metrics_counters_read(&new, s->options.metrics.collectors, &warnings, &err) < 0) {
		tell(s, &err);
		return;
	}
	s->from_other = s->file_wanted = false;
	replace(s, new, &warnings, s->options.metrics.collectors);
}

void serve_look(struct serve *s)
{
	try_again(s);
	/* This thread alone changes .counters, so it may look without the lock. */
	if (s->file_wanted || (!s->from_other && metrics_counters_changed(s->counters)))
		read_file(s);
}

void serve_counters(struct serve *s, const char *name, const char *text, size_t len)
{
	CLEANUP(strv_fini) struct strv warnings = { 0 };
	struct metrics_counters *new = NULL;
	struct error err = ERROR_INIT;

	if (!text) {
		s->file_wanted = s->from_other;
		if (s->file_wanted)
			read_file(s);
		return;
	}
	if (metrics_counters_parse(&new, name, text, len, &warnings, &err) < 0) {
		tell(s, &err);
		return;
	}
	s->from_other = true;
	s->file_wanted = false;
	replace(s, new, &warnings, name);
}

void serve_fields(const struct serve *s, bool wanted[FIELDS_MAX])
{
	metrics_counters_fields(s->counters, wanted);
}

bool serve_wants(const struct serve *s, enum metrics_source source)
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
	s->web = web_stop(s->web);
	for (size_t i = 0; i < SERVE_TEXT_COUNT; i++)
		if (s->texts[i])
			serve_text_unref(s->texts[i]);
	(void)view_unref(s->view);
	(void)metrics_counters_free(s->counters);
	(void)metrics_xids_free(s->xids);
	(void)metrics_clocks_free(s->clocks);
	(void)pthread_mutex_destroy(&s->lock);
	free(s->told);
	free(s);
	return NULL;
}
