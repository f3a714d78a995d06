/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Makes room for @more bytes and the NUL. */
static bool reserve_buf_space(struct buf *b, size_t more)
{
	size_t need, cap;
	char *p;

	if (b->failed)
		return false;
	if (more > b->max || b->len > b->max - more)
		goto fail;
	need = b->len + more + 1;
	if (need <= b->cap)
		return true;
	cap = b->cap ? b->cap : 64;
	while (cap < need)
		cap *= 2;
	p = realloc(b->data, cap);
	if (!p)
		goto fail;
	b->data = p;
	b->cap = cap;
	return true;
fail:
	b->failed = true;
	return false;
}

void buf_fini(struct buf *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->cap = 0;
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->data)
		b->data[0] = '\0';
}

void buf_add(struct buf *b, const void *data, size_t len)
{
	if (!reserve_buf_space(b, len))
		return;
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = '\0';
}

void buf_puts(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void buf_putc(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		b->failed = true;
	else if (reserve_buf_space(b, (size_t)n)) {
		(void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	va_end(again);
}

char *buf_steal(struct buf *b)
{
	char *p;

	if (b->failed || !reserve_buf_space(b, 0)) {
		buf_fini(b);
		return NULL;
	}
	b->data[b->len] = '\0';
	p = STEAL_PTR(b->data);
	b->len = b->cap = 0;
	return p;
}
