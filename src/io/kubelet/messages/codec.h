/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the messages have in common, for messages*.c only: memory with a limit for decoding, and packing into a
 * buf.
 *
 * protobuf-c allocates what the bytes ask for: two bytes make an empty message of 50. An arena with a limit
 * bounds that. It is faster than one malloc for each string. It is freed as a whole, so decoded data needs no
 * code that frees its parts.
 * Thread: any (pure).
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <protobuf-c/protobuf-c.h>

struct arena;

struct arena *arena_new(size_t max_bytes); /* NULL: no memory */
/* Zeroed memory. NULL: no memory, or the limit is met. */
void *arena_alloc(struct arena *a, size_t bytes);
struct arena *arena_free(struct arena *a); /* returns NULL */
DEFINE_CLEANUP(struct arena *, arena_free)

/* Room for @n elements of @size bytes. Not NULL for @n 0. */
void *arena_array(struct arena *a, size_t n, size_t size);

/* Decodes @data into a message in a new arena, *ret_arena, and checks its strings. @what names the message
 * in errors. */
int message_decode(const ProtobufCMessageDescriptor *type, const char *what,
	const uint8_t *data, size_t len, ProtobufCMessage **ret, struct arena **ret_arena,
	struct error *err) MUST_USE;

/* Checks the strings of @m and appends it to @b. */
int message_encode(struct buf *b, const char *what, const ProtobufCMessage *m,
	struct error *err) MUST_USE;

/* "<what> has <n> <things>; at most <max>", ERR_LIMIT. Returns -1. */
int message_too_many(struct error *err, const char *what, const char *things, size_t n,
	size_t max);
