/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON of any length in pieces, as values with the keys on the way to them. Nothing of it is kept. Inside
 * src/io/price/import only. Thread: whoever owns it.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <yajl/yajl_parse.h>

#define STREAM_DEPTH_MAX 16
#define STREAM_WORD_MAX  96 /* bytes of a key or a value, with the end; longer ones are "" */

#define STREAM_QUIET_MAX (1U << 20) /* bytes of a text, or of blanks */
#define STREAM_PIECE     65536

struct price_stream {
	char path[STREAM_DEPTH_MAX][STREAM_WORD_MAX]; /* keys; "" in a list */
	unsigned depth;                               /* of them */
	const char *name;                             /* of the file, for messages */
	/* All may be NULL; they return < 0 with @err set to stop. */
	int (*value)(void *arg, const char *text, struct error *err); /* a text or a number */
	int (*begin)(void *arg,
		struct error *err);               /* an object or a list begins at that place */
	int (*end)(void *arg, struct error *err); /* and ends */
	void *arg;
	yajl_handle yajl;
	struct error *err; /* of the call that is running */
	size_t line;
	size_t quiet; /* bytes since the last value, key, beginning or end */
	bool heard;
};

int stream_init(struct price_stream *s,
	struct error *err) MUST_USE; /* the rest is set already */
void import_stream_fini(struct price_stream *s);
int stream_feed(struct price_stream *s, const char *text, size_t len,
	struct error *err) MUST_USE;
int stream_end(struct price_stream *s, struct error *err) MUST_USE;

/* Whether it is at a place so deep, below such keys; NULL: any. */
bool stream_at(const struct price_stream *s, unsigned depth, const char *first,
	const char *second);

/* The last key on the way; "" in a list. */
const char *stream_key(const struct price_stream *s);
