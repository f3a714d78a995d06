/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "io/kube-api/stream.h"

#define LINE_MAX_BYTES 300

/* Takes all lines and events that are there; the sum of their lengths, or -1 for the limit. */
static int drain_stream(struct api_stream *s, size_t *ret_bytes)
{
	struct error err = ERROR_INIT;
	const char *line;
	size_t len;
	int r;

	while ((r = stream_next(s, &line, &len, &err)) == STREAM_LINE) {
		struct watch_event e;

		if (len == 0 || len > LINE_MAX_BYTES || line[len] != '\0' ||
			memchr(line, '\n', len))
			abort();
		*ret_bytes += len;
		if (watch_event_parse(&e, line, len, &err) < 0)
			continue;
		if (!e.object || strlen(object_name(e.object)) > len)
			abort();
		(void)object_version(e.object);
		watch_event_fini(&e);
	}
	if (r < 0 && err.code != ERR_LIMIT)
		abort();
	return r;
}

/* The body of a watch comes from the server, cut by the network: the lines are the same however it
 * is cut. The first byte says into how large pieces. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct api_stream whole = STREAM_INIT(LINE_MAX_BYTES),
			  parts = STREAM_INIT(LINE_MAX_BYTES);
	size_t n_whole = 0, n_parts = 0, step;
	int r_whole, r_parts = 0;

	if (size == 0)
		return 0;
	step = (size_t)data[0] + 1;
	data++;
	size--;
	buf_add(&whole.bytes, data, size);
	r_whole = drain_stream(&whole, &n_whole);
	for (size_t at = 0; at < size && r_parts == 0; at += step) {
		buf_add(&parts.bytes, data + at, size - at < step ? size - at : step);
		r_parts = drain_stream(&parts, &n_parts);
	}
	if (r_whole != r_parts || n_whole != n_parts ||
		(r_whole == 0 && stream_is_inside(&whole) != stream_is_inside(&parts)))
		abort();
	api_stream_fini(&whole);
	api_stream_fini(&parts);
	return 0;
}
