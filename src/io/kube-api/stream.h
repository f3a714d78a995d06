/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The body of a watch: JSON documents, one on each line, however the network cuts them. Bytes in,
 * lines and events out; no I/O.
 *
 *	buf_add(&s->bytes, data, len);
 *	while ((r = stream_next(s, &line, &len, err)) == STREAM_LINE)
 *		...
 *
 * Thread: whoever owns it.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <jansson.h>

struct api_stream {
	struct buf bytes; /* received, not all taken yet */
	size_t taken;     /* of these, handed out as lines */
	size_t searched;  /* of these, known to have no end of line behind @taken */
	size_t line_max;
};

/* Beside the longest line, room for what libcurl reads in one go. */
#define STREAM_INIT(max_bytes)                                                          \
	{                                                                               \
		.bytes = BUF_INIT((max_bytes) + (4U << 20)), .taken = 0, .searched = 0, \
		.line_max = (max_bytes)                                                 \
	}

void api_stream_fini(struct api_stream *s);
void stream_clear(struct api_stream *s);

/*
 * Returns STREAM_LINE with the next line that is not empty, without its end and NUL-terminated,
 * borrowed until bytes are added; 0: more bytes are needed; < 0: ERR_LIMIT, the line is longer than
 * .line_max.
 */
#define STREAM_LINE 1
int stream_next(struct api_stream *s, const char **ret, size_t *ret_len,
	struct error *err) MUST_USE;

/* Is there a line that has begun and not ended? */
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

/* One line as an event. ERR_INVALID: it is none. ADDED and MODIFIED are WATCH_EVENT_OBJECT. */
int watch_event_parse(struct watch_event *ret, const char *line, size_t len,
	struct error *err) MUST_USE;
void watch_event_fini(struct watch_event *e);

/* The object's .metadata.resourceVersion, NULL without one that could go into a query. Borrowed. */
#define RESOURCE_VERSION_MAX 128
const char *object_version(const json_t *object);
const char *object_name(const json_t *object); /* "" without */
