/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The text of a kubeconfig file; for api_config_kubeconfig() and the fuzzer. Thread: any. */
#include "io/kube-api/api.h"

#define KUBECONFIG_MAX (4U << 20) /* bytes */

/* @path names the text in messages. Relative paths in the text begin at the directory of @path. */
int kubeconfig_parse(struct api_config *ret, const char *path, const char *text, size_t len,
	struct error *err) MUST_USE;

/* Decodes standard base64 (RFC 4648 section 4), which may have line breaks, into text; free(). NULL:
 * no base64, bytes with a NUL, or no memory. */
char *base64_text(const char *text, size_t len);
