/* SPDX-License-Identifier: Apache-2.0 */
#include "io/price/import/stream.h"

#include <string.h>

bool stream_at(const struct price_stream *s, unsigned depth, const char *first,
	const char *second)
{
	return s->depth == depth && (!first || !strcmp(s->path[0], first)) &&
	       (!second || !strcmp(s->path[1], second));
}

const char *stream_key(const struct price_stream *s)
{
	return s->depth ? s->path[s->depth - 1] : "";
}

static void copy_word(char ret[static STREAM_WORD_MAX], const unsigned char *text, size_t len)
{
	ret[0] = '\0';
	if (len >= STREAM_WORD_MAX || memchr(text, 0, len))
		return;
	memcpy(ret, text, len);
	ret[len] = '\0';
}

static int on_string(void *arg, const unsigned char *text, size_t len)
{
	struct price_stream *s = arg;
	char word[STREAM_WORD_MAX];

	s->heard = true;
	copy_word(word, text, len);
	return !s->value || s->value(s->arg, word, s->err) == 0;
}

static int on_number(void *arg, const char *text, size_t len)
{
	return on_string(arg, (const unsigned char *)text, len);
}

static int on_null(void *arg)
{
	(void)arg;
	return 1;
}

static int on_boolean(void *arg, int value)
{
	(void)arg;
	(void)value;
	return 1;
}

static int on_json_key(void *arg, const unsigned char *text, size_t len)
{
	struct price_stream *s = arg;

	s->heard = true;
	copy_word(s->path[s->depth - 1], text, len);
	return 1;
}

static int on_json_begin(void *arg)
{
	struct price_stream *s = arg;

	s->heard = true;
	if (s->depth == STREAM_DEPTH_MAX) {
		(void)error_set(s->err, ERR_LIMIT, "%s: nested more than %d deep", s->name,
			STREAM_DEPTH_MAX);
		return 0;
	}
	if (s->begin && s->begin(s->arg, s->err) < 0)
		return 0;
	s->path[s->depth++][0] = '\0';
	return 1;
}

static int on_json_end(void *arg)
{
	struct price_stream *s = arg;

	s->heard = true;
	s->depth--;
	return !s->end || s->end(s->arg, s->err) == 0;
}

static const yajl_callbacks callbacks = {
	.yajl_null = on_null,
	.yajl_boolean = on_boolean,
	.yajl_number = on_number,
	.yajl_string = on_string,
	.yajl_start_map = on_json_begin,
	.yajl_map_key = on_json_key,
	.yajl_end_map = on_json_end,
	.yajl_start_array = on_json_begin,
	.yajl_end_array = on_json_end,
};

int stream_init(struct price_stream *s, struct error *err)
{
	s->depth = 0;
	s->line = s->quiet = 0;
	s->yajl = yajl_alloc(&callbacks, NULL, s);
	return s->yajl ? 0 : error_nomem(err);
}

void import_stream_fini(struct price_stream *s)
{
	if (s->yajl)
		yajl_free(s->yajl);
	s->yajl = NULL;
}

static int check_yajl_status(const struct price_stream *s, yajl_status status)
{
	if (status == yajl_status_ok)
		return 0;
	if (status == yajl_status_client_canceled)
		return -1; /* the error is set */
	return error_set(s->err, ERR_INVALID, "%s: no JSON, or cut off, in line %zu", s->name,
		s->line + 1);
}

/* yajl copies an unfinished text again with each piece, so a text has a limit. */
static int feed_piece(struct price_stream *s, const char *text, size_t len)
{
	yajl_status status;

	s->heard = false;
	status = yajl_parse(s->yajl, (const unsigned char *)text, len);
	if (status != yajl_status_ok)
		len = yajl_get_bytes_consumed(s->yajl);
	for (const char *c = text; c < text + len; c++)
		s->line += *c == '\n';
	if (check_yajl_status(s, status) < 0)
		return -1;
	s->quiet = s->heard ? 0 : s->quiet + len;
	if (s->quiet > STREAM_QUIET_MAX)
		return error_set(s->err, ERR_LIMIT,
			"%s: a text of more than %u bytes in line %zu", s->name,
			STREAM_QUIET_MAX, s->line + 1);
	return 0;
}

int stream_feed(struct price_stream *s, const char *text, size_t len, struct error *err)
{
	s->err = err;
	for (size_t at = 0; at < len; at += STREAM_PIECE) {
		size_t n = len - at < STREAM_PIECE ? len - at : STREAM_PIECE;

		if (feed_piece(s, text + at, n) < 0)
			return -1;
	}
	return 0;
}

int stream_end(struct price_stream *s, struct error *err)
{
	s->err = err;
	return check_yajl_status(s, yajl_complete_parse(s->yajl));
}
