/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the parts of the API client. Inside src/io/kube-api and its tests only.
 *
 * Layers, lowest first: loop.c (libcurl, its sockets and timer on the loop), transfer.c
 * (one exchange: address, TLS, token), api.c (calls), watch.c.
 *
 * Callbacks. libcurl forbids most of its calls inside its callbacks. So no callback of a user runs
 * inside libcurl:
 *	1. libcurl's callbacks store bytes, and queue the transfer that has news.
 *	2. libcurl returns to loop.c.
 *	3. loop.c calls api_settle(), which delivers the news to calls and watches.
 *	4. Calls and watches call the user. The user may do anything there, api_free() included.
 *
 * Lifetime. A call or a watch that the user ends leaves its list at once. The functions below the
 * user's callback still read struct api and struct api_watch. Their memory is freed when libuv reports
 * their timer as closed, in a later iteration of the loop.
 * Thread: loop; the functions of config.c: any.
 */
#include "io/kube-api/api.h"
#include "lib/base/backoff.h"

/* libcurl's type checks are macros on the function's name. Calls through the table do not use that
 * name. */
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <sys/queue.h>

/* --- loop.c: libcurl --- */

/*
 * libcurl, opened at its first use. A linked libcurl costs every start of the program about 5 ms and 7
 * MB, also on a node without an API server. So libcurl's header gives types and constants, and this
 * table the functions.
 *
 *	curl->easy_setopt(c, CURLOPT_URL, url);
 *
 * The library stays open for the life of the process: what it sets up in TLS libraries cannot be
 * undone.
 */
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

/* --- the client --- */

#define API_TOKEN_MAX          (64U << 10)
#define API_CA_MAX             (1U << 20) /* bytes of PEM */
#define API_RETRY_AFTER_MAX_NS (3600 * UINT64_C(1000000000))

/* All intervals, so that tests need not wait. Nanoseconds, except where the name ends with _s. */
struct api_intervals {
	uint64_t token_ns;   /* the client reads an older token again */
	uint64_t ca_ns;      /* the client reads an older CA again */
	uint64_t call_ns;    /* default time-out of a call, time-out of a list */
	uint64_t connect_ns; /* TCP and TLS */
	uint64_t jitter_ns;  /* maximum, before a watch without a failure requests again */
	uint64_t quick_ns;   /* a watch that ends earlier than this is a failure */
	uint64_t idle_ns;    /* silence beyond the requested time: the connection is dead */
	uint32_t watch_min_s, watch_max_s;
	struct backoff backoff;
};

/* The content of a file when the client read it last. */
struct api_secret {
	char *text; /* NULL: not read yet */
	uint64_t read_ns;
	unsigned generation; /* number of changes */
};

struct api {
	uv_loop_t *loop;
	const struct curl_table *curl;
	struct api_config config;
	struct api_intervals intervals;
	struct api_secret token, ca;
	char *user_agent;
	char *url;        /* prefix of all URLs */
	char *connect_to; /* CURLOPT_CONNECT_TO; NULL: connect to the host of .url */
	char *host;       /* Host header, if .connect_to is set */
	uint64_t requests;

	/* loop.c */
	CURLM *multi;
	uv_timer_t timer; /* libcurl's */
	LIST_HEAD(, api_socket) sockets;
	TAILQ_HEAD(, api_transfer) news; /* transfers with something to deliver */

	LIST_HEAD(, api_call) calls;
	LIST_HEAD(, api_watch) watches;
};

/* --- loop.c --- */

/* Prepares libcurl's handle and the timer of @a. Needs .loop and .curl. After an error there is nothing for
 * api_loop_fini() to do. */
int api_loop_init(struct api *a, struct error *err) MUST_USE;
/* Closes connections and sockets. Frees @a (api_free_memory()) when libuv has closed the timer. */
void api_loop_fini(struct api *a);
void api_free_memory(struct api *a); /* strings, secrets and @a itself */

/* --- config.c --- */

/* Checks what a person or the environment wrote: among others the address, and that no credentials
 * go over a network in clear text. */
int api_config_check(const struct api_config *c, struct error *err) MUST_USE;
/* Reads the token in a file, without the blanks around it. *ret is the caller's: free(). */
int api_token_read(const char *path, char **ret, struct error *err) MUST_USE;
/* The text between "//" and the path: "host:6443". Length in *ret. */
const char *api_server_host(const char *server, size_t *ret);

/* --- transfer.c --- */

enum api_news { API_NEWS_HEAD = 1, API_NEWS_DATA = 2, API_NEWS_END = 4 };

/*
 * One exchange. Part of a call or a watch, which zeroes the struct and sets the first four members.
 * The owner may start the exchange again after its end.
 */
struct api_transfer {
	struct api *api;
	struct buf *body; /* received bytes, up to .max of the buffer */
	void *owner;
	/* api_settle() calls this with the news since the last call. The callback may end the
	 * transfer. */
	void (*deliver)(struct api_transfer *t, unsigned news);

	TAILQ_ENTRY(api_transfer) link; /* in api->news */
	unsigned news;
	CURL *easy; /* NULL: not in progress */
	struct curl_slist *headers, *connect_to;
	CURLcode result; /* valid with API_NEWS_END */
	int status;      /* HTTP; 0: no answer */
	uint64_t retry_after_ns;
	unsigned token_generation, ca_generation; /* credentials of the request */
	bool retried;                             /* already repeated with new credentials */
	int sys;                                  /* errno of connect(), 0: none */
	char why[CURL_ERROR_SIZE];                /* libcurl's error text */
};

/* Starts the exchange. No callback runs before the next iteration of the loop. @timeout_ns 0: no
 * limit. */
int api_transfer_start(struct api_transfer *t, const struct api_request *req,
	uint64_t timeout_ns, struct error *err) MUST_USE;
/* Ends the exchange without a callback; allowed if none is in progress. */
void api_transfer_stop(struct api_transfer *t);
/* Delivers the news of all transfers to their owners. Call it outside of libcurl. @a may have been freed by
 * api_free() afterwards, but stays readable until a later iteration of the loop. */
void api_settle(struct api *a);
/*
 * After API_NEWS_END. True if the answer shows that the credentials or the CA are old, and the files
 * have newer ones. The caller then repeats the exchange. The function notes the repetition, so that a
 * second one does not follow.
 */
bool api_transfer_refresh(struct api_transfer *t);

/* The result as an error: no answer, or @status with the server's words in @body. Returns 0 for 2xx. */
int api_transfer_error(const struct api_transfer *t, const char *method, const char *path,
	const json_t *body, struct error *err);

/* --- transfer.c: errors of the server --- */

/* The error code for an HTTP status; ERR_NONE for 2xx. api_done has the usual ones. */
enum error_code api_code_of_status(int status);
/* Copies at most API_TEXT_MAX bytes of foreign text; unprintable characters become '?'. */
void api_printable(char *ret, size_t cap, const char *text);
/* api_printable() for a name or an address in a message. Returns @ret. */
#define API_SHOWN_MAX 101
const char *api_shown(char ret[API_SHOWN_MAX], const char *text);
