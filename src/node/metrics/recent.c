/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/recent.h"

#include "lib/base/array.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* --- clocks --- */

struct clock_sample {
	uint64_t at_ns; /* time of the view, slightly before that of the sample */
	uint64_t reasons;
};

struct clock_gpu {
	char uuid[GPU_UUID_MAX];
	uint64_t total[METRICS_CLOCK_EVENTS];
	uint64_t sample_ns; /* of the newest sample */
	uint64_t n;         /* samples ever; the newest is ring[(n - 1) % room] */
	size_t room;
	struct clock_sample *ring;
};

struct metrics_clocks {
	pthread_mutex_t lock;
	size_t n;
	struct clock_gpu gpus[METRICS_CLOCK_GPUS];
};

/* dcgm-exporter's names, which dcgmi has too. */
const char *metrics_clock_event(size_t bit)
{
	static const char *const names[METRICS_CLOCK_EVENTS] = { "gpu_idle", "clocks_setting",
		"power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal",
		"hw_power_brake", "display_clocks" };

	return names[bit];
}

int metrics_clocks_new(struct metrics_clocks **ret, struct error *err)
{
	struct metrics_clocks *c = calloc(1, sizeof(*c));

	if (!c)
		return error_nomem(err);
	if (pthread_mutex_init(&c->lock, NULL)) {
		free(c);
		return error_nomem(err);
	}
	*ret = c;
	return 0;
}

void metrics_clocks_forget(struct metrics_clocks *c)
{
	(void)pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < c->n; i++)
		free(c->gpus[i].ring);
	c->n = 0;
	(void)pthread_mutex_unlock(&c->lock);
}

struct metrics_clocks *metrics_clocks_free(struct metrics_clocks *c)
{
	if (!c)
		return NULL;
	metrics_clocks_forget(c);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
	return NULL;
}

/* --- samples --- */

static struct clock_gpu *find_clock_gpu(struct metrics_clocks *c, const char *uuid)
{
	for (size_t i = 0; i < c->n; i++)
		if (!strcmp(c->gpus[i].uuid, uuid))
			return &c->gpus[i];
	return NULL;
}

static const struct clock_sample *get_newest_clock_sample(const struct clock_gpu *gpu)
{
	return gpu->n ? &gpu->ring[(gpu->n - 1) % gpu->room] : NULL;
}

/* Adds a GPU. If all places are taken, the GPU with the oldest last sample is dropped. */
static struct clock_gpu *add_clock_gpu(struct metrics_clocks *c, const char *uuid)
{
	struct clock_gpu *gpu = &c->gpus[0];

	if (c->n < METRICS_CLOCK_GPUS) {
		gpu = &c->gpus[c->n++];
	} else {
		for (size_t i = 1; i < c->n; i++)
			if (c->gpus[i].sample_ns < gpu->sample_ns)
				gpu = &c->gpus[i];
		free(gpu->ring);
	}
	*gpu = (struct clock_gpu){ .n = 0 };
	memcpy(gpu->uuid, uuid, strnlen(uuid, sizeof(gpu->uuid) - 1));
	return gpu;
}

/* Makes room for one more sample; false: out of memory, and the sample is not counted. */
static bool grow_clock_ring(struct clock_gpu *gpu)
{
	if (gpu->room == METRICS_CLOCK_SAMPLES)
		return true;
	/* A ring below its final size has not wrapped around, so it can grow in place. */
	return ARRAY_GROW(&gpu->ring, gpu->n, &gpu->room, METRICS_CLOCK_SAMPLES);
}

static void add_clock_sample(struct clock_gpu *gpu, struct clock_sample sample)
{
	const struct clock_sample *last = get_newest_clock_sample(gpu);

	for (size_t i = 0; gpu->n > 0 && i < METRICS_CLOCK_EVENTS; i++)
		gpu->total[i] += sample.reasons >> i & ~(last->reasons >> i) & 1;
	gpu->ring[gpu->n++ % gpu->room] = sample;
}

/* --- from views --- */

static void update_clock_gpu(struct metrics_clocks *c, const struct view_gpu *g, uint16_t field,
	uint64_t now_ns)
{
	const struct sample_value *value = g->sample ? sample_value(g->sample, field) : NULL;
	struct clock_gpu *gpu = value ? find_clock_gpu(c, g->uuid) : NULL;

	if (!value)
		return;
	if (!gpu)
		gpu = add_clock_gpu(c, g->uuid);
	if ((gpu->n && g->sample->at_ns <= gpu->sample_ns) || !grow_clock_ring(gpu))
		return;
	add_clock_sample(gpu,
		(struct clock_sample){ .at_ns = now_ns, .reasons = (uint64_t)value->i });
	gpu->sample_ns = g->sample->at_ns;
}

void metrics_clocks_update(struct metrics_clocks *c, const struct view *v)
{
	int field = field_position("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS");

	(void)pthread_mutex_lock(&c->lock);
	for (uint32_t i = 0; field >= 0 && i < v->n_gpus; i++)
		update_clock_gpu(c, &v->gpus[i], (uint16_t)field, v->mono_ns);
	(void)pthread_mutex_unlock(&c->lock);
}

/* --- counts --- */

static void count_clock_events(const struct clock_gpu *gpu, uint64_t from, uint64_t to,
	uint64_t ret[METRICS_CLOCK_EVENTS])
{
	for (uint64_t n = gpu->n; n && n + gpu->room > gpu->n; n--) {
		const struct clock_sample *sample = &gpu->ring[(n - 1) % gpu->room];

		if (sample->at_ns < from)
			return;
		for (size_t i = 0; sample->at_ns <= to && i < METRICS_CLOCK_EVENTS; i++)
			ret[i] += sample->reasons >> i & 1;
	}
}

void metrics_clocks_within(struct metrics_clocks *c, const char *uuid, uint64_t now_ns,
	uint64_t window_ns, uint64_t ret[METRICS_CLOCK_EVENTS])
{
	const struct clock_gpu *gpu;

	memset(ret, 0, METRICS_CLOCK_EVENTS * sizeof(*ret));
	(void)pthread_mutex_lock(&c->lock);
	gpu = find_clock_gpu(c, uuid);
	if (gpu)
		count_clock_events(gpu, now_ns > window_ns ? now_ns - window_ns : 0, now_ns,
			ret);
	(void)pthread_mutex_unlock(&c->lock);
}

void metrics_clocks_total(struct metrics_clocks *c, const char *uuid,
	uint64_t ret[METRICS_CLOCK_EVENTS])
{
	const struct clock_gpu *gpu;

	memset(ret, 0, METRICS_CLOCK_EVENTS * sizeof(*ret));
	(void)pthread_mutex_lock(&c->lock);
	gpu = find_clock_gpu(c, uuid);
	if (gpu)
		memcpy(ret, gpu->total, sizeof(gpu->total));
	(void)pthread_mutex_unlock(&c->lock);
}

/* --- XIDs --- */

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
