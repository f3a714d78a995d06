/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Positions in a YAML text, the same with libfyaml 0.7 and 0.8. Part of yaml.c. Thread: any. */
#include <libfyaml.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The token of @e. NULL for what is not in the text: an empty value, or the start of a document without "---".
 * For those libfyaml 0.7 has NULL. libfyaml 0.8 has a token of length 0 behind the token that it read last.
 */
struct fy_token *yaml_event_token(struct fy_event *e);

/* Line and column, from 1, of the error @e in the @len bytes at @text. */
void yaml_error_position(const char *text, size_t len, const struct fy_diag_error *e,
	uint32_t *ret_line, uint32_t *ret_column);
