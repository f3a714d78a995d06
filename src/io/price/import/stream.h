/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads JSON of any length in pieces, as values with the keys of their path. Keeps nothing of it.
 * Inside src/io/price/import only. Thread: the owner's.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <yajl/yajl_parse.h>

#define STREAM_DEPTH_MAX 16
#define STREAM_WORD_MAX  96 /* bytes of a key or value, with NUL; longer ones are "" */

#define STREAM_QUIET_MAX (1U << 20) /* limit of one text, or of blanks, bytes */
#define STREAM_PIECE     65536

struct price_stream {
	char path[STREAM_DEPTH_MAX][STREAM_WORD_MAX]; /* keys; "" in a list */
	unsigned depth;                               /* number of keys */
	const char *name;                             /* file name, for messages */
	/* All may be NULL. < 0 with @err set stops the reader. */
	int (*value)(void *arg, const char *text, struct error *err); /* a text or a number */
	int (*begin)(void *arg, struct error *err); /* an object or a list begins */
	int (*end)(void *arg, struct error *err);   /* an object or a list ends */
	void *arg;
	yajl_handle yajl;
	struct error *err; /* of the present call */
	size_t line;
	size_t quiet; /* bytes since the last value, key, start or end */
	bool heard;
};

/* The caller sets .name, the callbacks and .arg before. ERR_NOMEM: there is nothing to free. */
int stream_init(struct price_stream *s, struct error *err) MUST_USE;
void import_stream_fini(struct price_stream *s); /* frees the parser; twice is fine */
/* Parses the next @len bytes, and runs the callbacks. ERR_INVALID: no JSON. ERR_LIMIT: nested too deep, or a
 * text is too long. Else the error of a callback. */
int stream_feed(struct price_stream *s, const char *text, size_t len,
	struct error *err) MUST_USE;
/* Call it after the last byte. ERR_INVALID: the text is cut off. */
int stream_end(struct price_stream *s, struct error *err) MUST_USE;

/* Whether the reader is at this depth below these first keys; NULL: any key. */
bool stream_at(const struct price_stream *s, unsigned depth, const char *first,
	const char *second);

/* The last key of the path; "" in a list. */
const char *stream_key(const struct price_stream *s);
