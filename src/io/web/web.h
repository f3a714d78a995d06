/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The web server for remote clients: scrapers, browsers and all others that can reach the port. It runs
 * in a process of its own, gpuslice-web, so that no byte of a remote client is parsed in this one. That
 * process makes way for all others and may take a set part of one processor at most. When it ends or
 * hangs it is started again; the port stays. Read-only: GET and HEAD.
 *
 * What it serves are routes. Their functions are called on the web thread of this process, one at a
 * time, and answer at once from what does not change under them (snapshots with a reference count):
 * they never wait.
 *
 * Every limit has a name in struct web_limits. Who is over one is cut off and counted, never written to
 * a log: a peer could fill it.
 *
 * Thread: any for web_start(), web_stop(), web_port(), web_state() and web_counts().
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEB_HEADERS_MAX (16U << 10) /* bytes of the request line and the headers */
#define WEB_BODY_MAX    (64U << 20) /* bytes of a reply */
#define WEB_QUERY_MAX   16          /* arguments of a query; more are refused with 400 */
#define WEB_ETAG_MAX    64          /* bytes, with the end */
#define WEB_EXTRA_MAX   4           /* headers of a reply besides our own */

#define WEB_OTHERS_FDS      256 /* descriptors that are left to what is not a connection */
#define WEB_CONNECTIONS_MIN 8   /* however few there are */

struct web;

/* 0 is the default. */
struct web_limits {
	unsigned
		connections; /* open at the same time; 512, or what descriptors are there for */
	unsigned per_address;  /* of those, from one address; 64 */
	unsigned cpu_permille; /* of one processor, for the server and its routes; 500 */
	uint64_t request_ns;   /* from accept to the end of the first request's headers; 10 s */
	uint64_t
		idle_ns; /* from a reply to the end of the next request's headers; 20 s: longer than
			     the usual interval of a scraper, which would else meet the end of it */
	uint64_t reply_ns; /* until a reply has gone out; 30 s */
	uint64_t check_ns; /* between looks whether a file has changed; 1 s */
	uint64_t hang_ns;  /* of a process that does nothing, before it is killed; 30 s */
	uint64_t
		restart_ns; /* from the end of a process to the next one; 1 s. Twice as long each time
			     that one does not last for a minute, up to a minute */
};

struct web_options {
	const char *listen; /* "host:port", ":port", "[v6]:port" */
	/* A file with the token that requests must bring, read again when it changes; NULL: none.
	 * Without one, a server that listens on a loopback address takes only requests whose Host is
	 * one too, so that no web site can read it through the browser of somebody here. */
	const char *token_file;
	/* PEM files, both or none: TLS 1.2 and later only. Read again when they change. */
	const char *cert_file, *key_file;
	const char *worker_path; /* the program gpuslice-web; NULL: the installed one */
	struct web_limits limits;
};

enum web_status {
	WEB_OK = 200,
	WEB_BAD_REQUEST = 400,
	WEB_NOT_FOUND = 404,
	WEB_INTERNAL = 500,
	WEB_UNAVAILABLE = 503,
};

struct web_argument {
	const char *name, *value; /* decoded; value "" where there is none */
};

/* Borrowed for the call. All text is a peer's: bounded by WEB_HEADERS_MAX, of any bytes but NUL. */
struct web_request {
	const char *path;   /* decoded, without the query */
	const char *rest;   /* what followed the route's path, "" for an exact one */
	const char *accept; /* the header, "" if there is none: web_accept_permille() */
	struct web_argument query[WEB_QUERY_MAX];
	size_t n_query;
	bool head; /* the body will not be sent; its length will */
};

/* The value of a query argument, the first of several; NULL: there is none. */
const char *web_query(const struct web_request *req, const char *name);

/* How much a client that sent @accept wants @type ("text/plain"), 0 to 1000; 1000 for "". A version
 * that is asked for ("; version=1.0.0") is not looked at. */
unsigned web_accept_permille(const char *accept, const char *type);

/* Filled by a route. All zero is an empty reply. */
struct web_reply {
	const char *type; /* content type; NULL: text/plain. Must outlive the reply */
	const void *body; /* stays until release(); WEB_BODY_MAX bytes at most */
	size_t len;
	/* Called exactly once, on the web thread, when the body has been copied; NULL: it needs none. */
	void (*release)(void *owner);
	void *owner;
	/* Without quotes; "": none. A request that has this version already gets 304 without body. */
	char etag[WEB_ETAG_MAX];
	/* Static text, or of the body's owner. */
	struct {
		const char *name, *value;
	} extra[WEB_EXTRA_MAX];
	size_t n_extra;
};

/* Fills a reply with a copy of @body. Without memory it becomes WEB_INTERNAL; else it returns
 * @status, for `return web_reply_copy(...)`. */
enum web_status web_reply_copy(struct web_reply *reply, enum web_status status,
	const char *type, const void *body, size_t len);

struct web_route {
	/* "/metrics", or "/api/v1/gpus/" + "*": all below it. The first that fits is taken. */
	const char *path;
	bool open; /* without the token, and for any Host: nothing of it is secret */
	enum web_status (
		*get)(void *arg, const struct web_request *req, struct web_reply *reply);
};

struct web_ops {
	const struct web_route *routes; /* stay as long as the server */
	size_t n_routes;
	/* On the web thread, both; NULL: nobody wants it. */

	/* It serves, and did not before. */
	void (*serving)(void *arg, unsigned port);
	/* Something that an operator must know, once for each message: what stands in the way of serving
	 * (a token file that is not there, an address that another has), which is tried again; a file
	 * that became invalid, of which the last valid one stays in use; the end of the process. */
	void (*notice)(void *arg, const struct error *err);

	/* Once, after all else: @arg is not used any more and may be freed. From web_stop(), or later on a thread that it
	 * left behind; never where web_start() failed. NULL: nobody wants it. */
	void (*released)(void *arg);
};

/* How it goes, since web_start(): a process that ends loses none of it. */
struct web_counts {
	uint64_t requests[5]; /* by class of the answer: [0] is 1xx, [1] is 2xx, ... */
	uint64_t refused_full, refused_address; /* connections, at a limit */
	uint64_t displaced; /* waiting connections closed for new ones, at the limit */
	uint64_t timeouts;  /* connections cut: request or reply took too long */
	uint64_t malformed; /* connections that ended without any request that could be read */
	uint64_t throttled; /* pauses because the server had used its part of the processor */
	unsigned open;      /* connections now */
};

/*
 * Starts the thread, which starts the process and listens; @options and @ops are copied, @arg is for the
 * functions of @ops. Waits for neither: what is in the way is reported by notice() and web_state(), and
 * tried again, later each time (web_limits.again_ns). ERR_INVALID: an address that is none.
 */
int web_start(struct web **ret, const struct web_options *options, const struct web_ops *ops,
	void *arg, struct error *err) MUST_USE;

/* The port in use, for ":0". 0: it has never served. */
unsigned web_port(const struct web *w);

enum web_state {
	WEB_STARTING, /* for the first time, and nothing has failed yet */
	WEB_SERVING,
	WEB_DOWN, /* the next attempt follows by itself */
};

/* @ret_why: the reason of WEB_DOWN; of WEB_SERVING which file has become invalid, so that its last valid content is in
 * use, or ERR_NONE. */
enum web_state web_state(struct web *w, struct error *ret_why);

struct web_counts web_counts(const struct web *w);

/*
 * Ends all connections, the process and the thread: no function of @ops runs after it but .released(). A thread that the
 * kernel holds up for more than 8 s is left behind with what it uses, @arg included. NULL is fine.
 */
struct web *web_stop(struct web *w);

DEFINE_CLEANUP(struct web *, web_stop)
