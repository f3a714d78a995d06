/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of the status page, which are part of the program (src/node/view/page). They hold no figures and no
 * secrets, so the agent serves them without a token. The page's script requests /api/v1/node and /api/v1/history.
 * It asks its reader for the token if the agent answers 401.
 *
 * The page's paths are relative, so the page works behind a proxy that adds a path prefix. The page obeys
 *	Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';
 *		img-src 'self' data:
 * Thread: any (constant).
 */
#include <stdbool.h>
#include <stddef.h>

/* False: no such file. @path: "/", "/page/style.css". The results are static. */
bool page_find(const char *path, const char **ret_body, size_t *ret_len,
	const char **ret_content_type);
