/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kube-api/stream.h"

#include <string.h>

void api_stream_fini(struct api_stream *s)
{
	buf_fini(&s->bytes);
	s->taken = s->searched = 0;
}

void stream_clear(struct api_stream *s)
{
	buf_clear(&s->bytes);
	s->taken = s->searched = 0;
}

/* Moves the rest to the front, so that the buffer holds one line and not the whole stream. */
static void compact_stream(struct api_stream *s)
{
	if (s->taken == 0)
		return;
	memmove(s->bytes.data, s->bytes.data + s->taken, s->bytes.len - s->taken + 1);
	s->bytes.len -= s->taken;
	s->searched -= s->taken;
	s->taken = 0;
}

int stream_next(struct api_stream *s, const char **ret, size_t *ret_len, struct error *err)
{
	while (s->searched < s->bytes.len) {
		char *from = s->bytes.data + s->searched, *line = s->bytes.data + s->taken;
		char *end = memchr(from, '\n', s->bytes.len - s->searched);
		size_t len = end ? (size_t)(end - line) : s->bytes.len - s->taken;

		if (len > s->line_max)
			return error_set(err, ERR_LIMIT,
				"an event of the watch is longer than %zu bytes", s->line_max);
		if (!end) {
			s->searched = s->bytes.len;
			break;
		}
		s->taken = s->searched = (size_t)(end - s->bytes.data) + 1;
		if (len > 0 && line[len - 1] == '\r')
			len--;
		if (len == 0)
			continue;
		line[len] = '\0';
		*ret = line;
		*ret_len = len;
		return STREAM_LINE;
	}
	compact_stream(s);
	return 0;
}

bool stream_is_inside(const struct api_stream *s)
{
	return s->bytes.len > s->taken;
}

/* --- events --- */

int watch_event_parse(struct watch_event *ret, const char *line, size_t len, struct error *err)
{
	static const struct {
		const char *name;
		enum watch_event_type type;
	} types[] = {
		{ "ADDED", WATCH_EVENT_OBJECT },
		{ "MODIFIED", WATCH_EVENT_OBJECT },
		{ "DELETED", WATCH_EVENT_DELETED },
		{ "BOOKMARK", WATCH_EVENT_BOOKMARK },
		{ "ERROR", WATCH_EVENT_ERROR },
	};
	json_error_t why;
	json_t *document = json_loadb(line, len, 0, &why);
	json_t *object = json_object_get(document, "object");
	const char *type = json_string_value(json_object_get(document, "type"));

	for (size_t i = 0; type && json_is_object(object) && i < ARRAY_LEN(types); i++) {
		if (strcmp(types[i].name, type) != 0)
			continue;
		*ret = (struct watch_event){ types[i].type, object, document };
		return 0;
	}
	json_decref(document);
	return error_set(err, ERR_INVALID, "a line of the watch is no event: %s",
		!document ? "it is no JSON" : "expected a known \"type\" and an \"object\"");
}

void watch_event_fini(struct watch_event *e)
{
	json_decref(e->document);
	*e = (struct watch_event){ .document = NULL };
}

static const char *metadata_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(json_object_get(object, "metadata"), key));
}

const char *object_version(const json_t *object)
{
	const char *v = metadata_text(object, "resourceVersion");

	return v && *v && strlen(v) < RESOURCE_VERSION_MAX ? v : NULL;
}

const char *object_name(const json_t *object)
{
	const char *name = metadata_text(object, "name");

	return name ? name : "";
}
