/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides which text may reach libfyaml. Version 0.7.12 has two bugs:
 *  1. It does not return from some bytes that are not text.
 *  2. It frees a key twice if a '?' begins the key and malformed text follows a tab after a ':'.
 * Which '?' begins a key depends on all text before it. So this check rejects every text with both a '?' and
 * such a tab; valid files do not need both.
 * Thread: any; pure.
 */
#include "lib/base/utf8.h"

#define YAML_TEXT_WHY_MAX 96

/* False: @at is the position, and @why has what was expected and found there. */
bool yaml_text_is_safe(const char *text, size_t len, struct utf8_position *at,
	char why[static YAML_TEXT_WHY_MAX]);
