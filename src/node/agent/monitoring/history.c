/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/monitoring/history.h"

#include "lib/base/array.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINT_NS (VIEW_POINT_S * NS_PER_SEC)

static struct monitoring_history_track *find_history_track(const struct monitoring_history *h,
	const char *uuid)
{
	for (size_t i = 0; i < h->n; i++)
		if (!strcmp(h->v[i]->uuid, uuid))
			return h->v[i];
	return NULL;
}

static struct monitoring_history_track *track_of(struct monitoring_history *h, const char *uuid)
{
	struct monitoring_history_track *t = find_history_track(h, uuid);

	if (t)
		return t;
	if (!ARRAY_GROW(&h->v, h->n, &h->room, ARRAY_NO_LIMIT))
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	(void)snprintf(t->uuid, sizeof(t->uuid), "%s", uuid);
	t->memory = UINT64_MAX;
	h->v[h->n++] = t;
	return t;
}

void monitoring_history_begin(struct monitoring_history *h)
{
	for (size_t i = 0; i < h->n; i++)
		h->v[i]->present = false;
}

static uint32_t compute_millionths(uint64_t part, uint64_t whole)
{
	double share = whole ? (double)part / (double)whole : 0;

	return share >= 1 ? VIEW_MILLION : (uint32_t)(share * VIEW_MILLION + 0.5);
}

static void push_history_point(struct monitoring_history_track *t, uint64_t wall_ns)
{
	struct view_point *p = &t->points[(t->first + t->n) % VIEW_POINTS_MAX];

	if (t->n == VIEW_POINTS_MAX)
		t->first = (t->first + 1) % VIEW_POINTS_MAX;
	else
		t->n++;
	*p = (struct view_point){ .wall_s = (uint32_t)(wall_ns / NS_PER_SEC),
		.busy = t->busy_of_ns ? compute_millionths(t->busy_ns, t->busy_of_ns)
				      : VIEW_NONE,
		.allocated = t->allocated_of_ns
				     ? (uint32_t)(t->allocated_ns / t->allocated_of_ns)
				     : VIEW_NONE,
		.memory_used = t->memory };
	t->ns = t->allocated_ns = t->allocated_of_ns = t->busy_ns = t->busy_of_ns = 0;
	t->memory = UINT64_MAX;
}

void monitoring_history_add(struct monitoring_history *h, const char *uuid,
	const struct monitoring_history_sample *m)
{
	struct monitoring_history_track *t = track_of(h, uuid);

	if (!t)
		return;
	t->present = true;
	t->ns += m->dt_ns;
	if (m->allocated_known) {
		t->allocated_ns += m->dt_ns * m->allocated;
		t->allocated_of_ns += m->dt_ns;
	}
	if (m->busy_known) {
		t->busy_ns += m->busy_ns;
		t->busy_of_ns += m->busy_of_ns;
	}
	if (m->memory != UINT64_MAX)
		t->memory = m->memory;
	if (m->sampled_ns)
		t->sampled_ns = m->sampled_ns;
	if (t->ns >= POINT_NS)
		push_history_point(t, m->wall_ns);
}

void monitoring_history_end(struct monitoring_history *h)
{
	size_t kept = 0;

	for (size_t i = 0; i < h->n; i++) {
		if (h->v[i]->present)
			h->v[kept++] = h->v[i];
		else
			free(h->v[i]);
	}
	h->n = kept;
}

void monitoring_history_fini(struct monitoring_history *h)
{
	for (size_t i = 0; i < h->n; i++)
		free(h->v[i]);
	free(h->v);
	*h = (struct monitoring_history){ .n = 0 };
}

uint64_t monitoring_history_sampled(const struct monitoring_history *h, const char *uuid)
{
	const struct monitoring_history_track *t = find_history_track(h, uuid);

	return t ? t->sampled_ns : 0;
}

void monitoring_history_copy(const struct monitoring_history *h, struct view *v,
	const char *uuid, uint32_t *ret_n, struct view_point **ret)
{
	const struct monitoring_history_track *t = find_history_track(h, uuid);
	struct view_point *points = t ? view_array(v, t->n, sizeof(*points)) : NULL;

	*ret_n = 0;
	*ret = NULL;
	if (!points)
		return;
	for (uint32_t i = 0; i < t->n; i++)
		points[i] = t->points[(t->first + i) % VIEW_POINTS_MAX];
	*ret_n = t->n;
	*ret = points;
}
