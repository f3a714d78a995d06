/* SPDX-License-Identifier: Apache-2.0 */
#include "node/view/view.h"

#include "lib/base/utf8.h"

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
