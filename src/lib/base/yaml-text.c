/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/yaml-text.h"

#include <stdio.h>
#include <string.h>

/* The first tab after a ':', with or without blanks between them. */
static bool find_tab(const char *text, size_t len, struct utf8_position *at)
{
	bool colon = false;

	*at = (struct utf8_position){ .line = 1, .column = 1, .byte = '\t' };
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\t' && colon)
			return true;
		colon = text[i] == ':' || (colon && text[i] == ' ');
		at->column++;
		if (text[i] == '\n') {
			at->line++;
			at->column = 1;
		}
	}
	return false;
}

bool yaml_text_is_safe(const char *text, size_t len, struct utf8_position *at,
	char why[static YAML_TEXT_WHY_MAX])
{
	if (!utf8_is_text(text, len, at)) {
		(void)snprintf(why, YAML_TEXT_WHY_MAX,
			"expected UTF-8 text, found the byte 0x%02x", at->byte);
		return false;
	}
	if (!memchr(text, '?', len) || !find_tab(text, len, at))
		return true;
	(void)snprintf(why, YAML_TEXT_WHY_MAX,
		"expected spaces behind the ':' in a text with a '?', found a tab");
	return false;
}
