/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libcurl, opened at its first use. A linked libcurl costs every start of the program about 5 ms and 7
 * MB, also on a node without an API server. So libcurl's header gives types and constants, and this
 * table the functions.
 *
 *	curl->easy_setopt(c, CURLOPT_URL, url);
 *
 * The library stays open for the life of the process: what it sets up in TLS libraries cannot be
 * undone.
 * Thread: loop.
 */
#include "lib/base/error.h"

/* libcurl's type checks are macros on the function's name. Calls through the table do not use that
 * name. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#define CURL_SONAME    "libcurl.so.4"
#define CURL_OLDEST    0x075500 /* 7.85: CURLOPT_PROTOCOLS_STR */
#define CURL_OLDEST_AS "7.85"

/* clang-format off */
#define CURL_FUNCTIONS(X)     \
	X(easy_cleanup)       \
	X(easy_getinfo)       \
	X(easy_init)          \
	X(easy_setopt)        \
	X(easy_strerror)      \
	X(global_init)        \
	X(multi_add_handle)   \
	X(multi_cleanup)      \
	X(multi_info_read)    \
	X(multi_init)         \
	X(multi_remove_handle) \
	X(multi_setopt)       \
	X(multi_socket_action) \
	X(slist_append)       \
	X(slist_free_all)     \
	X(version_info)
/* clang-format on */

#define X(name) __typeof__(curl_##name) *name;
struct curl_table {
	CURL_FUNCTIONS(X)
};
#undef X

/* The only table of the process. ERR_UNSUPPORTED, with the package to install: there is no libcurl,
 * or only one that is too old. The next call tries again. */
int curl_get(const struct curl_table **ret, struct error *err) MUST_USE;

/* curl_get() without the process's table, for tests: fills @ret from the library @soname. */
int curl_open(struct curl_table *ret, const char *soname, struct error *err) MUST_USE;
