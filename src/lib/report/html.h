/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text within HTML and SVG. All functions append to a buffer. Texts may come from outside and are escaped; names of
 * elements and attributes are not, so they are the caller's own. What is written is well-formed XML.
 *
 * Pure. Thread: the owner of the buffer.
 */
#include "lib/base/buf.h"

#include <stdarg.h>

/* Appends @text, also for use between quotes of either kind: no character of it ends an element or an attribute.
 * Control characters become U+FFFD. */
void html_text(struct buf *b, const char *text);
/* Formats @fmt, cuts the text after some hundred bytes, at the end of a character, and escapes it. */
void html_textf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);
void html_vtextf(struct buf *b, const char *fmt, va_list ap) PRINTF(2, 0);

/* Appends <@name>@text</@name>. @attributes: "" or such as " class=\"text\"", with the blank. */
void html_span(struct buf *b, const char *name, const char *attributes, const char *text);
/* Like html_span() without attributes, with a line feed at the end. */
void html_element(struct buf *b, const char *name, const char *text);
