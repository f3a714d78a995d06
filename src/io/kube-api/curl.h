/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libcurl, opened when it is first needed. Linking it costs every start of the program about 5 ms
 * and 7 MB, for a node that may have no API server to talk to; so its header gives types and
 * constants, and this table the functions.
 *
 *	curl->easy_setopt(c, CURLOPT_URL, url);
 *
 * The library stays open for the life of the process: what it sets up in TLS libraries cannot be
 * undone.
 * Thread: loop.
 */
#include "lib/base/error.h"

/* The checks are macros around the function's name, which we do not call by that name. */
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

/* The one table of the process. ERR_UNSUPPORTED, with the package to install, if there is no
 * libcurl, or only one that is too old; the next call looks again. */
int curl_get(const struct curl_table **ret, struct error *err) MUST_USE;

/* What curl_get() does, for tests: fills @ret from the library @soname. */
int curl_open(struct curl_table *ret, const char *soname, struct error *err) MUST_USE;
