/* SPDX-License-Identifier: Apache-2.0 */
#include "node/view/view.h"

#include "lib/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (64U << 10)

struct view_block {
	struct view_block *next;
	size_t used, size;
	_Alignas(max_align_t) unsigned char data[];
};

struct view_memory {
	struct view_block *blocks;
	size_t bytes; /* of all blocks */
	bool failed;
};

const char *view_mode_name(enum view_mode m)
{
	static const char *const names[] = {
		[VIEW_EXCLUSIVE] = "exclusive",
		[VIEW_TIME_SLICING] = "time-slicing",
		[VIEW_MPS] = "mps",
		[VIEW_SLICES] = "slices",
	};

	return names[m];
}

const char *view_source_name(enum view_source s)
{
	static const char *const names[] = {
		[VIEW_FROM_NOTHING] = NULL,
		[VIEW_FROM_PROCESSES] = "processes",
		[VIEW_FROM_DEVICE] = "device",
		[VIEW_FROM_SLICE] = "slice",
	};

	return names[s];
}

const char *view_health_name(enum view_health h)
{
	static const char *const names[] = {
		[VIEW_HEALTHY] = "healthy",
		[VIEW_UNHEALTHY] = "unhealthy",
		[VIEW_PROBATION] = "probation",
	};

	return names[h];
}

/* --- memory --- */

static struct view_block *block_new(struct view_memory *m, size_t need)
{
	size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
	struct view_block *b = NULL;

	if (m->bytes + size <= VIEW_BYTES_MAX)
		b = calloc(1, sizeof(*b) + size);
	if (!b) {
		m->failed = true;
		return NULL;
	}
	b->size = size;
	b->next = m->blocks;
	m->blocks = b;
	m->bytes += size;
	return b;
}

static void *alloc_view_memory(struct view_memory *m, size_t size, size_t align)
{
	struct view_block *b = m->blocks;
	size_t at = b ? (b->used + align - 1) / align * align : 0;

	if (!b || at > b->size || b->size - at < size) {
		b = block_new(m, size);
		at = 0;
		if (!b)
			return NULL;
	}
	b->used = at + size;
	return b->data + at;
}

void *view_array(struct view *v, size_t n, size_t size)
{
	if (size && n > VIEW_BYTES_MAX / size) {
		v->memory->failed = true;
		return NULL;
	}
	return alloc_view_memory(v->memory, n > 0 ? n * size : 1, _Alignof(max_align_t));
}

const char *view_text(struct view *v, const char *text)
{
	size_t len = text ? strlen(text) : 0;
	char *copy = alloc_view_memory(v->memory, len + 1, 1);

	if (!copy)
		return NULL;
	if (len)
		memcpy(copy, text, len);
	copy[len] = '\0';
	utf8_make_valid(copy);
	return copy;
}

const char *view_printf(struct view *v, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return view_text(v, text);
}

bool view_failed(const struct view *v)
{
	return v->memory->failed;
}

/* --- life --- */

int view_new(struct view **ret, struct error *err)
{
	struct view *v = calloc(1, sizeof(*v));

	if (!v)
		return error_nomem(err);
	v->memory = calloc(1, sizeof(*v->memory));
	if (!v->memory) {
		free(v);
		return error_nomem(err);
	}
	atomic_init(&v->refs, 1);
	*ret = v;
	return 0;
}

struct view *view_ref(struct view *v)
{
	(void)atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
	return v;
}

struct view *view_unref(struct view *v)
{
	if (!v || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) != 1)
		return NULL;
	for (struct view_block *b = v->memory->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	(void)sample_free(v->sample);
	free(v->memory);
	free(v);
	return NULL;
}

/* --- check: the first sum that does not hold --- */

static int set_difference_error(struct error *err, const struct view_device *device,
	const char *what, uint64_t sum, uint64_t whole)
{
	return error_set(err, ERR_INTERNAL,
		"view: %s: %s: the parts are %llu, the whole is %llu", device->uuid, what,
		(unsigned long long)sum, (unsigned long long)whole);
}

struct view_sums {
	uint64_t busy, memory, gpu, cost;
};

static int check_uses(const struct view *v, uint32_t device, struct view_sums *ret,
	struct error *err)
{
	const struct view_device *u = &v->devices[device];

	if (u->first_use > v->n_uses || u->n_uses > v->n_uses - u->first_use)
		return error_set(err, ERR_INTERNAL, "view: %s: uses out of range", u->uuid);
	for (uint32_t i = 0; i < u->n_uses; i++) {
		const struct view_use *use = &v->uses[u->first_use + i];

		if (use->device != device)
			return error_set(err, ERR_INTERNAL, "view: %s: a use of another unit",
				u->uuid);
		if (use->memory_known && use->live)
			ret->memory += use->memory_used;
		ret->busy += use->busy_ns;
		ret->gpu += use->gpu_ns;
		ret->cost += use->cost_nano;
	}
	return 0;
}

static int check_view_replicas(const struct view *v, uint32_t device, struct error *err)
{
	const struct view_device *u = &v->devices[device];

	if (u->first_replica > v->n_replicas ||
		u->n_replicas > v->n_replicas - u->first_replica)
		return error_set(err, ERR_INTERNAL, "view: %s: seats out of range", u->uuid);
	for (uint32_t i = 0; i < u->n_replicas; i++) {
		const struct view_replica *s = &v->replicas[u->first_replica + i];

		if (s->device != device || (s->use != VIEW_NONE && s->use >= v->n_uses) ||
			(s->use != VIEW_NONE && v->uses[s->use].device != device))
			return error_set(err, ERR_INTERNAL, "view: %s: seat %s: use %u",
				u->uuid, s->id, s->use);
	}
	return 0;
}

static int check_view_device(const struct view *v, uint32_t device, struct error *err)
{
	const struct view_device *u = &v->devices[device];
	struct view_sums sum = { .busy = u->past.busy_ns,
		.gpu = u->past.gpu_ns,
		.cost = u->past.cost_nano };

	if (u->gpu >= v->n_gpus)
		return error_set(err, ERR_INTERNAL, "view: unit %u of GPU %u", device, u->gpu);
	if (check_uses(v, device, &sum, err) < 0 || check_view_replicas(v, device, err) < 0)
		return -1;
	if (sum.busy + u->other_busy_ns != u->busy_ns)
		return set_difference_error(err, u, "busy time", sum.busy + u->other_busy_ns,
			u->busy_ns);
	if (u->memory_known && sum.memory + u->other_memory != u->memory_used)
		return set_difference_error(err, u, "memory", sum.memory + u->other_memory,
			u->memory_used);
	if (sum.gpu + u->idle_gpu_ns != u->present_ns)
		return set_difference_error(err, u, "time", sum.gpu + u->idle_gpu_ns,
			u->present_ns);
	if (sum.cost + u->idle_cost_nano != u->cost_nano)
		return set_difference_error(err, u, "cost", sum.cost + u->idle_cost_nano,
			u->cost_nano);
	return 0;
}

int view_check(const struct view *v, struct error *err)
{
	uint64_t cost = v->other_cost_nano;

	for (uint32_t i = 0; i < v->n_devices; i++) {
		if (check_view_device(v, i, err) < 0)
			return -1;
		cost += v->devices[i].cost_nano;
	}
	if (cost != v->cost_nano)
		return error_set(err, ERR_INTERNAL,
			"view: the cost of all units is %llu, of the node %llu",
			(unsigned long long)cost, (unsigned long long)v->cost_nano);
	return 0;
}
