/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/serve/internal.h"

#include <stdlib.h>

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

/* Renders the text of this kind, in place of the text of an earlier view. */
static struct serve_text *replace_serve_text(struct serve *s, size_t kind)
{
	struct serve_text *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->refs = 1;
	t->seq = s->view->seq;
	t->counters = s->counters_seq;
	if (render_serve_text(s, kind, s->view, s->counters, t) < 0) {
		serve_text_unref(t);
		return NULL;
	}
	if (s->texts[kind])
		serve_text_unref(s->texts[kind]);
	s->texts[kind] = t;
	return t;
}

struct serve_text *serve_text(struct serve *s, size_t kind, enum web_status *ret_status)
{
	struct serve_text *t = s->texts[kind];

	(void)pthread_mutex_lock(&s->lock);
	if (!s->view) {
		*ret_status = WEB_UNAVAILABLE;
		t = NULL;
	} else if (!t || t->seq != s->view->seq || t->counters != s->counters_seq) {
		*ret_status = WEB_INTERNAL;
		t = replace_serve_text(s, kind);
	}
	(void)pthread_mutex_unlock(&s->lock);
	if (t)
		t->refs++;
	return t;
}
