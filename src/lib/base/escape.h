/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Puts foreign text into a format so that it stays text. Nothing in it ends an element, a cell or a word, and
 * no control character reaches a terminal.
 * Thread: the owner of the buffer.
 */
#include "lib/base/buf.h"

/* HTML, within an element or an attribute in quotes of either kind. Control characters become U+FFFD. */
void escape_html(struct buf *b, const char *text);

/* A cell of CSV (RFC 4180), in quotes if necessary. Control characters become \xNN; bytes that are not UTF-8
 * become "?". A ' comes before text that a spreadsheet takes for a formula. */
void escape_csv(struct buf *b, const char *text);

/* One word of a POSIX shell, in single quotes. */
void escape_shell(struct buf *b, const char *word);

/* A line of a message: replaces each control character in @text with a blank, in place. Returns @text. */
char *escape_line(char *text);

/* Bytes of the control character at @text, in ASCII or (C1) in UTF-8; 0: there is none. */
size_t escape_control_len(const char *text);
