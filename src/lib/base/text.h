/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Foreign text: whether it is text, how it gets into a format so that it stays text, and the digits of figures.
 * Thread: any; a buffer belongs to its owner. Pure.
 */
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- UTF-8 --- */

/* As the Unicode standard has it (table 3-7): no overlong form, no surrogate, nothing beyond U+10FFFF. */

/* Bytes of the character at @text, where @left bytes remain; 0: the first byte begins no character. */
size_t utf8_char_len(const void *text, size_t left);

/* Whether the whole of @text, up to its NUL, is UTF-8. */
bool utf8_is_valid(const char *text);

/* For foreign text, and for text cut within a character: replaces each byte that is part of no character
 * with '?'. */
void utf8_make_valid(char *text);

/* A byte of a text. Line and column count from 1, columns in characters. */
struct utf8_position {
	uint32_t line, column;
	uint8_t byte;
};

/* Whether @text is text for people: UTF-8 without control characters but tab, line feed and carriage return.
 * False: *ret is the first byte that is not. */
bool utf8_is_text(const char *text, size_t len, struct utf8_position *ret);

/* --- escapes --- */

/* Foreign text stays text: nothing in it ends an element, a cell or a word, and no control character reaches a
 * terminal. */

/* A cell of CSV (RFC 4180), in quotes if necessary. Control characters become \xNN; bytes that are not UTF-8
 * become "?". A ' comes before text that a spreadsheet takes for a formula. */
void escape_csv(struct buf *b, const char *text);

/* One word of a POSIX shell, in single quotes. */
void escape_shell(struct buf *b, const char *word);

/* A line of a message: replaces each control character in @text with a blank, in place. Returns @text. */
char *escape_line(char *text);

/* Bytes of the control character at @text, in ASCII or (C1) in UTF-8; 0: there is none. */
size_t escape_control_len(const char *text);

/* --- figures next to the limits that judge them --- */

/* How many decimals, @min or more, the text of @v needs to differ from that of @limit, for "%.*f". Equal
 * values need no more, nor does a value that is not a number. */
int digits_to_differ(double v, double limit, int min);

/* --- text for libfyaml --- */

/*
 * Which text may reach libfyaml. Version 0.7.12 has two bugs:
 *  1. It does not return from some bytes that are not text.
 *  2. It frees a key twice if a '?' begins the key and malformed text follows a tab after a ':'.
 * Which '?' begins a key depends on all text before it. So this check rejects every text with both a '?' and
 * such a tab; valid files do not need both.
 */

#define YAML_TEXT_WHY_MAX 96

/* False: @at is the position, and @why has what was expected and found there. */
bool yaml_text_is_safe(const char *text, size_t len, struct utf8_position *at,
	char why[static YAML_TEXT_WHY_MAX]);
