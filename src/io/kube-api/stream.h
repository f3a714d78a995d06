/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The body of a watch: one JSON document on each line, in any fragments of the network. Bytes in,
 * lines and events out; no I/O.
 *
 *	buf_add(&s->bytes, data, len);
 *	while ((r = stream_next(s, &line, &len, err)) == STREAM_LINE)
 *		...
 *
 * Thread: the owner's.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <jansson.h>

struct api_stream {
	struct buf bytes; /* received bytes that are not all taken yet */
	size_t taken;     /* bytes of these that were returned as lines */
	size_t searched;  /* bytes of these without an end of line after .taken */
	size_t line_max;
};

/* Room for the longest line and for one read of libcurl. */
#define STREAM_INIT(max_bytes)                                                          \
	{                                                                               \
		.bytes = BUF_INIT((max_bytes) + (4U << 20)), .taken = 0, .searched = 0, \
		.line_max = (max_bytes)                                                 \
	}

/* Both empty the stream; api_stream_fini() also frees the memory. The stream stays usable. */
void api_stream_fini(struct api_stream *s);
void stream_clear(struct api_stream *s);

/*
 * Returns STREAM_LINE with the next line that is not empty: without its end, NUL-terminated, borrowed
 * until the caller adds bytes. 0: more bytes are needed. < 0: ERR_LIMIT, the line is longer than
 * .line_max.
 */
#define STREAM_LINE 1
int stream_next(struct api_stream *s, const char **ret, size_t *ret_len,
	struct error *err) MUST_USE;

/* Whether the stream ends within a line. */
bool stream_is_inside(const struct api_stream *s);

enum watch_event_type {
	WATCH_EVENT_OBJECT,
	WATCH_EVENT_DELETED,
	WATCH_EVENT_BOOKMARK,
	WATCH_EVENT_ERROR
};

struct watch_event {
	enum watch_event_type type;
	json_t *object; /* owned by .document */
	json_t *document;
};

/* Parses one line as an event; ADDED and MODIFIED are WATCH_EVENT_OBJECT. ERR_INVALID: the line is
 * no event. */
int watch_event_parse(struct watch_event *ret, const char *line, size_t len,
	struct error *err) MUST_USE;
void watch_event_fini(struct watch_event *e); /* drops .document; a zeroed event is fine */

/* The object's .metadata.resourceVersion; NULL: missing, empty or too long for a query. Borrowed. */
#define RESOURCE_VERSION_MAX 128
const char *object_version(const json_t *object);
const char *object_name(const json_t *object); /* "" without */
