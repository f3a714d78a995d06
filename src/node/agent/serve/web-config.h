/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The file of --web-config-file: the YAML of Prometheus' exporter-toolkit, as used by dcgm-exporter. The agent's
 * web server supports the certificate and the key.
 *
 * A setting that the server does not follow is an error that says what to use instead. The server ignores a
 * setting only if that gives no client access without permission. The agent reads the file at the start and
 * checks it again while it runs. The certificate and the key are read again when they change.
 * Thread: any.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define WEB_CONFIG_MAX (64U << 10) /* bytes of the file */

struct web_config {
	char *cert_file, *key_file; /* owned; both or none */
};

/*
 * Relative paths start at the file's own directory. Errors: "file:line:column: key: ...", or those of
 * file_read().
 */
int web_config_read(struct web_config *ret, const char *path, struct error *err) MUST_USE;

/* The same from text. */
int web_config_parse(struct web_config *ret, const char *path, const char *text, size_t len,
	struct error *err) MUST_USE;

/* Whether both have the same paths, or none. */
bool web_config_same(const struct web_config *a, const struct web_config *b);

void web_config_fini(struct web_config *c);
