/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* UTF-8 as the Unicode standard has it (table 3-7): no overlong form, no surrogate, nothing beyond
 * U+10FFFF. Thread: any (pure). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
