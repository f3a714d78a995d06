/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/xids.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct xid_record {
	char uuid[GPU_UUID_MAX];
	uint32_t xid;
	uint64_t count, mono_ns;
};

struct metrics_xids {
	pthread_mutex_t lock;
	struct view *last; /* a reference; NULL: no view yet */
	uint64_t n;        /* records ever; the newest is ring[(n - 1) % METRICS_XIDS_MAX] */
	struct xid_record ring[METRICS_XIDS_MAX];
};

int metrics_xids_new(struct metrics_xids **ret, struct error *err)
{
	struct metrics_xids *x = calloc(1, sizeof(*x));

	if (!x)
		return error_nomem(err);
	if (pthread_mutex_init(&x->lock, NULL)) {
		free(x);
		return error_nomem(err);
	}
	*ret = x;
	return 0;
}

struct metrics_xids *metrics_xids_free(struct metrics_xids *x)
{
	if (!x)
		return NULL;
	(void)view_unref(x->last);
	(void)pthread_mutex_destroy(&x->lock);
	free(x);
	return NULL;
}

static uint64_t count_before(const struct view *v, const char *uuid, uint32_t xid)
{
	for (uint32_t i = 0; i < v->n_gpus; i++) {
		const struct view_gpu *g = &v->gpus[i];

		for (uint32_t k = 0; k < g->n_xids && !strcmp(g->uuid, uuid); k++)
			if (g->xids[k].xid == xid)
				return g->xids[k].count;
	}
	return 0;
}

static void add_new_xids(struct metrics_xids *x, const struct view *v, const struct view_gpu *g)
{
	for (uint32_t k = 0; k < g->n_xids; k++) {
		uint64_t before = count_before(x->last, g->uuid, g->xids[k].xid);
		struct xid_record *s = &x->ring[x->n % METRICS_XIDS_MAX];
		size_t len = strnlen(g->uuid, sizeof(s->uuid) - 1);

		if (g->xids[k].count <= before)
			continue;
		*s = (struct xid_record){ .xid = g->xids[k].xid,
			.count = g->xids[k].count - before,
			.mono_ns = v->mono_ns };
		memcpy(s->uuid, g->uuid, len);
		x->n++;
	}
}

void metrics_xids_update(struct metrics_xids *x, struct view *v)
{
	struct view *old;

	(void)pthread_mutex_lock(&x->lock);
	old = x->last;
	for (uint32_t i = 0; old && i < v->n_gpus; i++)
		add_new_xids(x, v, &v->gpus[i]);
	x->last = view_ref(v);
	(void)pthread_mutex_unlock(&x->lock);
	(void)view_unref(old);
}

/* Adds to the row of this XID, or inserts a row, by number. */
static size_t merge_xid_row(struct metrics_xid *rows, size_t n, size_t max,
	const struct xid_record *s)
{
	size_t at = 0;

	while (at < n && rows[at].xid < s->xid)
		at++;
	if (at < n && rows[at].xid == s->xid) {
		rows[at].count += s->count;
		return n;
	}
	if (n == max)
		return n;
	memmove(&rows[at + 1], &rows[at], (n - at) * sizeof(*rows));
	rows[at] = (struct metrics_xid){ .xid = s->xid, .count = s->count };
	return n + 1;
}

size_t metrics_xids_within(struct metrics_xids *x, const char *uuid, uint64_t now_ns,
	uint64_t window_ns, struct metrics_xid *ret, size_t max)
{
	uint64_t from = now_ns > window_ns ? now_ns - window_ns : 0;
	size_t n = 0;

	(void)pthread_mutex_lock(&x->lock);
	for (size_t i = 0; i < METRICS_XIDS_MAX && i < x->n; i++) {
		const struct xid_record *s = &x->ring[i];

		if (s->mono_ns >= from && s->mono_ns <= now_ns && !strcmp(s->uuid, uuid))
			n = merge_xid_row(ret, n, max, s);
	}
	(void)pthread_mutex_unlock(&x->lock);
	return n;
}
