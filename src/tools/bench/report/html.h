/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text within markup. Thread: the owner of the buffer. */
#include "lib/base/buf.h"

/* Adds @text so that it is text, also between quotes: nothing in it ends an element or an attribute. */
void html_text(struct buf *b, const char *text);
/* What @fmt makes is cut after some hundred bytes, then escaped. */
void html_textf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);
/* <@name>@text</@name>; @name is ours. */
void html_element(struct buf *b, const char *name, const char *text);
