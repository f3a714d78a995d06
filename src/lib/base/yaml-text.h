/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What may reach libfyaml. Version 0.7.12 does not return from some bytes that are no text. It frees a key twice where a
 * '?' begins one and what follows a tab behind a ':' is wrong. Which '?' begins a key depends on all that is before it, so
 * no text with any '?' and such a tab may reach it; nobody needs the two together. Pure. Thread: any.
 */
#include "lib/base/utf8.h"

#define YAML_TEXT_WHY_MAX 96

/* Else false, where that is, and what was expected there and found. */
bool yaml_text_is_safe(const char *text, size_t len, struct utf8_position *at,
	char why[static YAML_TEXT_WHY_MAX]);
