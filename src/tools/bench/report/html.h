/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text within HTML. Thread: the owner of the buffer. */
#include "lib/base/buf.h"

/* Adds @text escaped, also for use between quotes: no character of it ends an element or an attribute. */
void html_text(struct buf *b, const char *text);
/* Formats @fmt, cuts the text after some hundred bytes, and escapes it. */
void html_textf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);
/* Adds <@name>@text</@name>. @name is not escaped. */
void html_element(struct buf *b, const char *name, const char *text);
