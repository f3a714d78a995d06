/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The routes of the agent's web server, and the texts that they answer with (internal.h). A text is rendered
 * at its first request after a new view.
 */
#include "node/agent/serve/internal.h"

#include "lib/base/time.h"
#include "node/view/page/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- texts --- */

void serve_text_unref(void *text)
{
	struct serve_text *t = text;

	if (--t->refs > 0)
		return;
	free(t->data);
	free(t);
}

static int make_metrics(struct serve *s, size_t kind, const struct view *v,
	const struct metrics_counters *counters, struct serve_text *t)
{
	CLEANUP(buf_fini) struct buf out = BUF_INIT(METRICS_BYTES_MAX);
	const struct metrics_request rq = { .view = v,
		.counters = counters,
		.options = &s->options.metrics,
		.xids = s->xids,
		.clocks = s->clocks,
		.format = (enum metrics_format)kind };

	if (metrics_render(&out, &rq, NULL) < 0)
		return -1;
	t->len = out.len;
	t->data = buf_steal(&out);
	return t->data ? 0 : -1;
}

static int render_serve_text(struct serve *s, size_t kind, const struct view *v,
	const struct metrics_counters *counters, struct serve_text *t)
{
	if (kind < SERVE_METRICS_COUNT)
		return make_metrics(s, kind, v, counters, t);
	t->data = view_json(v, (enum view_part)(kind - SERVE_METRICS_COUNT), &t->len);
	return t->data ? 0 : -1;
}

/* What a text is rendered from: references to what is in force now. */
struct text_source {
	struct view *view; /* NULL: none yet */
	struct metrics_counters *counters;
	uint64_t counters_seq;
};

static struct text_source get_text_source(struct serve *s)
{
	struct text_source from;

	(void)pthread_mutex_lock(&s->lock);
	from = (struct text_source){ .view = s->view ? view_ref(s->view) : NULL,
		.counters = metrics_counters_ref(s->counters),
		.counters_seq = s->counters_seq };
	(void)pthread_mutex_unlock(&s->lock);
	return from;
}

/* Renders the text of this kind, in place of the text of an earlier view. */
static struct serve_text *replace_serve_text(struct serve *s, size_t kind,
	const struct text_source *from)
{
	struct serve_text *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->refs = 1;
	t->seq = from->view->seq;
	t->counters = from->counters_seq;
	if (render_serve_text(s, kind, from->view, from->counters, t) < 0) {
		serve_text_unref(t);
		return NULL;
	}
	if (s->texts[kind])
		serve_text_unref(s->texts[kind]);
	s->texts[kind] = t;
	return t;
}

/* A reference to the text of the last view. NULL: none, and *ret_status has the reason. */
static struct serve_text *serve_text(struct serve *s, size_t kind, enum web_status *ret_status)
{
	struct text_source from = get_text_source(s);
	struct serve_text *t = s->texts[kind];

	if (!from.view) {
		*ret_status = WEB_UNAVAILABLE;
		t = NULL;
	} else if (!t || t->seq != from.view->seq || t->counters != from.counters_seq) {
		*ret_status = WEB_INTERNAL;
		t = replace_serve_text(s, kind, &from);
	}
	if (t)
		t->refs++;
	(void)view_unref(from.view);
	(void)metrics_counters_unref(from.counters);
	return t;
}

/* --- routes --- */

/* Answers with the text of this kind. The reply keeps a reference until it has gone out. */
static enum web_status reply_text(struct serve *s, size_t kind, const char *type,
	struct web_reply *reply)
{
	static const char none[] = "nothing has been looked at yet; try again in a second\n";
	static const char broken[] = "no memory for this text\n";
	enum web_status status = WEB_OK;
	struct serve_text *t = serve_text(s, kind, &status);

	if (!t)
		return status == WEB_UNAVAILABLE
			       ? web_reply_copy(reply, status, NULL, none, sizeof(none) - 1)
			       : web_reply_copy(reply, status, NULL, broken,
					 sizeof(broken) - 1);
	reply->type = type;
	reply->body = t->data;
	reply->len = t->len;
	reply->release = serve_text_unref;
	reply->owner = t;
	return WEB_OK;
}

static enum web_status get_metrics(void *arg, const struct web_request *req,
	struct web_reply *reply)
{
	enum metrics_format format = metrics_format_of_accept(req->accept);

	return reply_text(arg, format, metrics_content_type(format), reply);
}

static enum web_status get_api(void *arg, const struct web_request *req,
	struct web_reply *reply)
{
	static const char text[] = "no such path; docs/api.md lists those below /api/v1\n";

	for (size_t i = 0; i < VIEW_PART_COUNT_; i++)
		if (!strcmp(req->path, view_part_path((enum view_part)i)))
			return reply_text(arg, SERVE_METRICS_COUNT + i, "application/json",
				reply);
	return web_reply_copy(reply, WEB_NOT_FOUND, NULL, text, sizeof(text) - 1);
}

static enum web_status get_page(void *arg, const struct web_request *req,
	struct web_reply *reply)
{
	static const char text[] = "no such page; the status page is at /\n";
	const char *body = NULL, *type = NULL;
	size_t len = 0;

	(void)arg;
	if (!page_find(req->path, &body, &len, &type))
		return web_reply_copy(reply, WEB_NOT_FOUND, NULL, text, sizeof(text) - 1);
	reply->type = type;
	reply->body = body;
	reply->len = len;
	return WEB_OK;
}

/* dcgm-exporter's path. The web thread answers, which proves that the program runs. */
static enum web_status get_health(void *arg, const struct web_request *req,
	struct web_reply *reply)
{
	(void)arg;
	(void)req;
	return web_reply_copy(reply, WEB_OK, NULL, "OK", 2);
}

/* A view older than this many intervals and ten seconds is stale. */
#define STALE_INTERVALS 3

/* The loop makes the views, so a new view proves that the loop runs. */
static enum web_status serve_healthz(void *arg, const struct web_request *req,
	struct web_reply *reply)
{
	CLEANUP(view_unrefp) struct view *v = serve_view(arg);
	uint64_t age_ns = v ? time_mono_ns() - v->mono_ns : 0;
	char text[96];

	(void)req;
	if (!v || age_ns <= STALE_INTERVALS * v->interval_ns + 10 * NS_PER_SEC)
		return web_reply_copy(reply, WEB_OK, NULL, "ok\n", 3);
	(void)snprintf(text, sizeof(text), "what is shown is %llu s old\n",
		(unsigned long long)(age_ns / NS_PER_SEC));
	return web_reply_copy(reply, WEB_UNAVAILABLE, NULL, text, strlen(text));
}

static enum web_status serve_readyz(void *arg, const struct web_request *req,
	struct web_reply *reply)
{
	static const char text[] = "not ready; `gpuslice status` says why\n";
	CLEANUP(view_unrefp) struct view *v = serve_view(arg);

	(void)req;
	if (v && v->ready)
		return web_reply_copy(reply, WEB_OK, NULL, "ok\n", 3);
	return web_reply_copy(reply, WEB_UNAVAILABLE, NULL, text, sizeof(text) - 1);
}

const struct web_route serve_routes[] = {
	{ .path = "/metrics", .get = get_metrics },
	{ .path = "/api/v1/*", .get = get_api },
	{ .path = "/", .open = true, .get = get_page },
	{ .path = "/page/*", .open = true, .get = get_page },
	{ .path = "/health", .open = true, .get = get_health },
	{ .path = "/healthz", .open = true, .get = serve_healthz },
	{ .path = "/readyz", .open = true, .get = serve_readyz },
};
const size_t serve_n_routes = ARRAY_LEN(serve_routes);
