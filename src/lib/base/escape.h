/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text that somebody else wrote, put into a format so that it stays text: nothing in it ends an element, a cell or a
 * word, and no control character reaches a terminal. Thread: the owner of the buffer.
 */
#include "lib/base/buf.h"

/* HTML, within an element or an attribute in quotes of either kind. A control character becomes U+FFFD. */
void escape_html(struct buf *b, const char *text);

/*
 * A cell of CSV (RFC 4180), in quotes if it must be. Control characters become \xNN, what is no UTF-8 "?"; in front of what a spreadsheet
 * takes for a formula comes '.
 */
void escape_csv(struct buf *b, const char *text);

/* One word of a POSIX shell, in single quotes. */
void escape_shell(struct buf *b, const char *word);

/* A line of a message: each control character in @text becomes a blank, in place. Returns @text. */
char *escape_line(char *text);

/* Bytes of the control character at @text, in ASCII or (C1) in UTF-8; 0: it is none. */
size_t escape_control_len(const char *text);
