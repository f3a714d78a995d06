/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of the status page, which are part of the program (src/node/view/page). They hold no figures and no secrets, so
 * they are served without a token; the page's script asks for /api/v1/node and /api/v1/history, and asks its
 * reader for the token when those answer with 401.
 *
 * The page's paths are relative, so it works behind a proxy that puts something in front of them. It keeps to
 *	Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self';
 *		img-src 'self' data:
 * Thread: any (constant).
 */
#include <stdbool.h>
#include <stddef.h>

/* False: there is no such file. @path: "/", "/page/style.css". What is given is static. */
bool page_find(const char *path, const char **ret_body, size_t *ret_len,
	const char **ret_content_type);

/* The paths, for tests: NULL behind the last. */
const char *page_path(size_t i);
