/* SPDX-License-Identifier: Apache-2.0 */
#include "io/web/worker/file.h"

#include "lib/base/fd.h"

#include <string.h>

static bool is_token_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void free_secret(char *secret, size_t len)
{
	if (secret)
		explicit_bzero(secret, len);
	free(secret);
}

void web_forget_buf(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_fini(b);
}

static int token_load(struct web_token *t, struct error *err)
{
	CLEANUP(web_forget_buf) struct buf b = BUF_INIT(WEB_TOKEN_MAX);
	size_t from = 0, to;
	char *text;

	if (file_read(t->path, &b, err) < 0)
		return -1;
	for (to = b.len; to > 0 && is_token_blank(b.data[to - 1]); to--)
		;
	while (from < to && is_token_blank(b.data[from]))
		from++;
	/* Without the text: it may be a token with one wrong character. */
	for (size_t i = from; i < to; i++)
		if (b.data[i] <= ' ' || b.data[i] > '~')
			return error_set(err, ERR_INVALID,
				"read '%s': expected a token of printable characters without "
				"blanks, found other characters",
				t->path);
	if (from == to)
		return error_set(err, ERR_INVALID,
			"read '%s': expected a token of printable characters, found nothing",
			t->path);
	text = strndup(b.data + from, to - from);
	if (!text)
		return error_nomem(err);
	free_secret(t->text, t->len);
	t->text = text;
	t->len = to - from;
	return 0;
}

int web_token_refresh(struct web_token *t, struct error *err)
{
	struct file_stamp now;

	if (!t->path)
		return 0;
	now = file_stamp_of(t->path);
	if (t->text && !t->failed && file_stamp_same(&now, &t->stamp))
		return 0;
	t->stamp = now;
	t->failed = true;
	if (token_load(t, err) < 0)
		return -1;
	t->failed = false;
	return 0;
}

bool web_token_is(const struct web_token *t, const char *text, size_t len)
{
	return len == t->len && gnutls_memcmp(text, t->text, len) == 0;
}

void web_token_fini(struct web_token *t)
{
	free_secret(t->text, t->len);
	t->text = NULL;
}
