/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The file of --web-config-file: the YAML of Prometheus' exporter-toolkit, which dcgm-exporter has, as far as our web server
 * is made for it: certificate and key. What the file wants besides, and the server does not do, is an error that says what
 * to use instead; nothing of it is passed over if clients would then get in who should not. Used at the start
 * and checked again while the agent runs; the certificate and the key are read again when they change.
 * Thread: any.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define WEB_CONFIG_MAX (64U << 10) /* bytes of the file */

struct web_config {
	char *cert_file, *key_file; /* owned; both or none */
};

/* Relative paths in it begin at its own directory. Errors: "file:line:column: key: ...", or what file_read() says. */
int web_config_read(struct web_config *ret, const char *path, struct error *err) MUST_USE;

/* The same from text. */
int web_config_parse(struct web_config *ret, const char *path, const char *text, size_t len,
	struct error *err) MUST_USE;

/* The same paths, or none. */
bool web_config_same(const struct web_config *a, const struct web_config *b);

void web_config_fini(struct web_config *c);
