/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kubelet/messages/codec.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"
#include "io/kubelet/messages/messages.h"

#define CHUNK_BYTES 4096U

struct codec_chunk {
	struct codec_chunk *next;
	max_align_t data[];
};

struct arena {
	struct codec_chunk *chunks;
	char *free; /* in the newest small chunk */
	size_t n_free;
	size_t left; /* until the limit */
	bool full;   /* an allocation met the limit */
};

struct arena *arena_new(size_t max_bytes)
{
	struct arena *a = calloc(1, sizeof(*a));

	if (a)
		a->left = max_bytes;
	return a;
}

struct arena *arena_free(struct arena *a)
{
	struct codec_chunk *c, *next;

	if (!a)
		return NULL;
	for (c = a->chunks; c; c = next) {
		next = c->next;
		free(c);
	}
	free(a);
	return NULL;
}

static char *new_chunk(struct arena *a, size_t bytes)
{
	struct codec_chunk *c;

	if (bytes > a->left) {
		a->full = true;
		return NULL;
	}
	c = calloc(1, sizeof(*c) + bytes);
	if (!c)
		return NULL;
	a->left -= bytes;
	c->next = a->chunks;
	a->chunks = c;
	return (char *)c->data;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
	const size_t align = sizeof(void *); /* suffices for all members of messages */
	char *p;

	if (bytes > a->left) {
		a->full = true;
		return NULL;
	}
	bytes = bytes ? (bytes + align - 1) & ~(align - 1) : align;
	if (bytes > CHUNK_BYTES / 4)
		return new_chunk(a, bytes);
	if (bytes > a->n_free) {
		p = new_chunk(a, CHUNK_BYTES);
		if (!p)
			return NULL;
		a->free = p;
		a->n_free = CHUNK_BYTES;
	}
	p = a->free;
	a->free += bytes;
	a->n_free -= bytes;
	return p;
}

void *arena_array(struct arena *a, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	return arena_alloc(a, bytes);
}

/* For protobuf-c, which frees only arrays that it outgrows: the arena's limit bounds them. */
static void *allocator_alloc(void *arena, size_t bytes)
{
	return arena_alloc(arena, bytes);
}

static void allocator_free(void *arena, void *p)
{
	(void)arena;
	(void)p;
}

static int check_strings(const ProtobufCMessage *m, const char *what, struct error *err);

/* One value of one field: a pointer to a string or to a message. */
static int check_value(const ProtobufCFieldDescriptor *f, const void *value, const char *what,
	struct error *err)
{
	if (!value)
		return 0;
	if (f->type == PROTOBUF_C_TYPE_MESSAGE)
		return check_strings(value, what, err);
	if (!utf8_is_valid(value))
		return error_set(err, ERR_INVALID, "%s: field '%s' is not UTF-8", what,
			f->name);
	return 0;
}

/* Recurses as deep as the message types nest; no type contains itself. */
static int check_strings(const ProtobufCMessage *m, const char *what, struct error *err)
{
	unsigned i;
	size_t j;

	for (i = 0; i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
		const char *at = (const char *)m + f->offset;

		if (f->type != PROTOBUF_C_TYPE_MESSAGE && f->type != PROTOBUF_C_TYPE_STRING)
			continue;
		if (f->label != PROTOBUF_C_LABEL_REPEATED) {
			if (check_value(f, *(void *const *)(const void *)at, what, err) < 0)
				return -1;
			continue;
		}
		size_t n =
			*(const size_t *)(const void *)((const char *)m + f->quantifier_offset);
		void *const *values = *(void *const *const *)(const void *)at;

		for (j = 0; j < n; j++)
			if (check_value(f, values[j], what, err) < 0)
				return -1;
	}
	return 0;
}

int message_decode(const ProtobufCMessageDescriptor *type, const char *what,
	const uint8_t *data, size_t len, ProtobufCMessage **ret, struct arena **ret_arena,
	struct error *err)
{
	CLEANUP(arena_freep) struct arena *a = arena_new(MESSAGE_MEMORY_MAX);
	ProtobufCAllocator allocator = { allocator_alloc, allocator_free, a };
	ProtobufCMessage *m;

	if (!a)
		return error_nomem(err);
	m = protobuf_c_message_unpack(type, &allocator, len, data);
	if (!m) {
		if (a->full)
			return error_set(err, ERR_LIMIT,
				"%s needs more than %u bytes of memory", what,
				MESSAGE_MEMORY_MAX);
		return error_set(err, ERR_INVALID, "%s of %zu bytes is malformed", what, len);
	}
	if (check_strings(m, what, err) < 0)
		return -1;
	*ret = m;
	*ret_arena = STEAL_PTR(a);
	return 0;
}

int message_encode(struct buf *b, const char *what, const ProtobufCMessage *m,
	struct error *err)
{
	CLEANUP(freep) uint8_t *packed = NULL;
	size_t len;

	if (check_strings(m, what, err) < 0)
		return -1;
	len = protobuf_c_message_get_packed_size(m);
	if (len > b->max || b->len > b->max - len)
		return error_set(err, ERR_LIMIT, "%s has %zu bytes; at most %zu", what, len,
			b->max - b->len);
	if (len == 0)
		return 0;
	packed = malloc(len);
	if (!packed)
		return error_nomem(err);
	buf_add(b, packed, protobuf_c_message_pack(m, packed));
	return buf_ok(b) ? 0 : error_nomem(err);
}

int message_too_many(struct error *err, const char *what, const char *things, size_t n,
	size_t max)
{
	return error_set(err, ERR_LIMIT, "%s has %zu %s; at most %zu", what, n, things, max);
}
