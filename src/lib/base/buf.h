/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A growable run of bytes with a limit from the start. A NUL always follows the last byte, so that text can be
 * used as a string. The first append that does not fit or finds no memory marks the buffer as failed. Later
 * appends do nothing, and one buf_ok() at the end reports it.
 *
 *	CLEANUP(buf_fini) struct buf b = BUF_INIT(64 * 1024);
 *	buf_printf(&b, "%s=%u", key, n);
 *	if (!buf_ok(&b))
 *		return error_nomem(err);
 *
 * Thread: the owner's.
 */
#include "lib/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

struct buf {
	char *data; /* NULL while empty; use buf_str() for text */
	size_t len, cap, max;
	bool failed;
};

#define BUF_INIT(max_bytes)                      \
	{                                        \
		.data = NULL, .max = (max_bytes) \
	}

/* Frees the memory. The buffer is empty afterwards; a failure stays. */
void buf_fini(struct buf *b);
void buf_clear(struct buf *b); /* empties, keeps the memory, clears the failure */
/* Append @len bytes, a string without its NUL, one character, or formatted text. An append that fails adds
 * nothing, and what the buffer had stays. */
void buf_add(struct buf *b, const void *data, size_t len);
void buf_puts(struct buf *b, const char *s);
void buf_putc(struct buf *b, char c);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);

static inline bool buf_ok(const struct buf *b)
{
	return !b->failed;
}

/* The text so far, "" when empty. Borrowed until the next append. */
static inline const char *buf_str(const struct buf *b)
{
	return b->data ? b->data : "";
}

/* The text as a malloc'ed string, owned by the caller; NULL if the buffer failed. Empties the buffer. */
char *buf_steal(struct buf *b) MUST_USE;
