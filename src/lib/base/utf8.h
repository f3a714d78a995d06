/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* UTF-8 as the Unicode standard has it (table 3-7): no overlong form, no surrogate, nothing beyond
 * U+10FFFF. Thread: any (pure). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool utf8_is_valid(const char *text);

/* For words of others, and what was cut within a character: each byte that is part of no character becomes '?'. */
void utf8_make_valid(char *text);

/* A byte of a text; line and column count from 1, columns in characters. */
struct utf8_position {
	uint32_t line, column;
	uint8_t byte;
};

/*
 * Whether @text is something that people write: UTF-8 and no control characters but tab, line feed
 * and carriage return. Else false, and the first byte that is not goes to *ret.
 */
bool utf8_is_text(const char *text, size_t len, struct utf8_position *ret);
