/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the parts of the API client share. Inside src/io/kube-api and its tests only.
 *
 * Layers, lowest first: curl (the library), loop.c (its sockets and timer on the loop), transfer.c
 * (one exchange: address, TLS, token), api.c (calls), watch.c.
 *
 * No callback of ours runs inside libcurl, which forbids most calls there: libcurl's callbacks only
 * store bytes and note which transfers have news; api_settle() delivers them afterwards. So the
 * user's callbacks may do anything, api_free() too. What they free is unlinked at once, while the
 * memory that the code above them still looks at (struct api, struct api_watch) goes with the
 * closing of its timer, which libuv reports from a later turn of the loop.
 */
#include "io/kube-api/api.h"
#include "io/kube-api/backoff.h"
#include "io/kube-api/curl.h"

#include <sys/queue.h>

#define API_TOKEN_MAX          (64U << 10)
#define API_CA_MAX             (1U << 20) /* bytes of PEM */
#define API_RETRY_AFTER_MAX_NS (3600 * UINT64_C(1000000000))

/* All that takes time, so that tests need not wait. Nanoseconds but for the seconds. */
struct api_intervals {
	uint64_t token_ns;   /* a token that is older is read again */
	uint64_t ca_ns;      /* and so is a CA */
	uint64_t call_ns;    /* default time-out of a call, and of a list */
	uint64_t connect_ns; /* TCP and TLS */
	uint64_t jitter_ns;  /* most, before a watch asks again where nothing is wrong */
	uint64_t quick_ns;   /* a watch that ends earlier than this is a failure */
	uint64_t idle_ns;    /* silence over the time that was asked for: the peer is dead */
	uint32_t watch_min_s, watch_max_s;
	struct backoff backoff;
};

/* A file's content as it was last read. */
struct api_secret {
	char *text; /* NULL: not read yet */
	uint64_t read_ns;
	unsigned generation; /* counts its changes */
};

struct api {
	uv_loop_t *loop;
	const struct curl_table *curl;
	struct api_config config;
	struct api_intervals intervals;
	struct api_secret token, ca;
	char *user_agent;
	char *url;        /* that requests begin with */
	char *connect_to; /* where that is, if not where it says; NULL: it is there */
	char *host;       /* and what to call it */
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

int api_loop_init(struct api *a, struct error *err) MUST_USE;
/* Drops connections and sockets; frees @a (api_free_memory()) when the loop has let go. */
void api_loop_fini(struct api *a);
void api_free_memory(struct api *a);

/* --- config.c --- */

/* The checks on what a person or the environment wrote: the address, and no credentials in clear
 * text over a network. */
int api_config_check(const struct api_config *c, struct error *err) MUST_USE;
/* Is it free of blanks, control characters and of what is not ASCII? */
bool api_token_valid(const char *token);
/* The token in a file, without the blanks around it; yours. */
int api_token_read(const char *path, char **ret, struct error *err) MUST_USE;
/* The text between "//" and the path: "host:6443". Length in *ret. */
const char *api_server_host(const char *server, size_t *ret);

/* --- transfer.c --- */

enum api_news { API_NEWS_HEAD = 1, API_NEWS_DATA = 2, API_NEWS_END = 4 };

/*
 * One exchange. Lives inside a call or a watch, which zeroes it, sets the first four members, and
 * may start it again after an end.
 */
struct api_transfer {
	struct api *api;
	struct buf *body; /* what arrives; its ceiling is the limit */
	void *owner;
	/* Called by api_settle() with what is new since the last time; may end the transfer. */
	void (*deliver)(struct api_transfer *t, unsigned news);

	TAILQ_ENTRY(api_transfer) link; /* in api->news */
	unsigned news;
	CURL *easy; /* NULL: not under way */
	struct curl_slist *headers, *connect_to;
	CURLcode result; /* with API_NEWS_END */
	int status;      /* HTTP; 0: no answer */
	uint64_t retry_after_ns;
	unsigned token_generation, ca_generation; /* it was sent with */
	bool retried;                             /* with new credentials, already */
	int sys;                                  /* errno of connect(), 0: none */
	char why[CURL_ERROR_SIZE];                /* libcurl's words */
};

/* Begins; nothing is called before the loop's next turn. @timeout_ns: 0: for ever. */
int api_transfer_start(struct api_transfer *t, const struct api_request *req,
	uint64_t timeout_ns, struct error *err) MUST_USE;
/* Ends it without a word; fine if it is not under way. */
void api_transfer_stop(struct api_transfer *t);
void api_settle(struct api *a);
void api_transfer_queue_news(struct api_transfer *t, unsigned news);

/*
 * After API_NEWS_END: true if the answer says that our credentials or CA are old, and newer ones
 * are there. The exchange is worth one repetition, which this notes.
 */
bool api_transfer_refresh(struct api_transfer *t);

/* The end as an error: no answer, or @status with the server's words in @body. 2xx: 0. */
int api_transfer_error(const struct api_transfer *t, const char *method, const char *path,
	const json_t *body, struct error *err);

/* --- errors of the server (status.c) --- */

enum error_code api_code_of_status(int status);
/* Copies at most API_TEXT_MAX bytes of foreign text with nothing unprintable. */
void api_printable(char *ret, size_t cap, const char *text);
/* The same for a name or an address in a message. Returns @ret. */
#define API_SHOWN_MAX 101
const char *api_shown(char ret[API_SHOWN_MAX], const char *text);
