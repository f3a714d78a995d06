/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The web server for remote clients: scrapers, browsers and everything else that can reach the port. Read-only:
 * GET and HEAD.
 *
 * Process. The server runs in a process of its own, gpuslice-web, so that the agent parses no byte of a client of
 * this server. The process yields the CPU to all others, and uses at most a configured part of one processor. When
 * it ends or hangs, the agent restarts it on the same port. The agent itself parses the requests of a port for
 * health checks (lib/http/health/health.h).
 *
 * Routes. The server serves routes. The agent's web thread calls their functions, one at a time. They answer at
 * once from data that does not change under them (snapshots with a reference count), and never wait.
 *
 * Limits. Each has a name in struct web_limits. The process cuts a connection that is over a limit, and counts
 * it. It is never logged: a peer could fill the log.
 *
 * Thread: any for web_start(), web_stop(), web_port(), web_state() and web_counts().
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEB_HEADERS_MAX (16U << 10) /* bytes of the request line and the headers */
#define WEB_BODY_MAX    (64U << 20) /* bytes of a reply's body */
#define WEB_QUERY_MAX   16          /* arguments of a query; more are refused with 400 */
#define WEB_ETAG_MAX    64          /* bytes, with the NUL */
#define WEB_EXTRA_MAX   4           /* headers of a reply besides the server's own */

#define WEB_OTHERS_FDS      256 /* descriptors left for everything but connections */
#define WEB_CONNECTIONS_MIN 8   /* even where descriptors are few */

struct web;

/* 0 means the default. */
struct web_limits {
	unsigned connections;  /* open at the same time; 512, or as many as descriptors allow */
	unsigned per_address;  /* open from one address; 64 */
	unsigned cpu_permille; /* of one processor, for the server and its routes; 500 */
	uint64_t request_ns;   /* from accept to the end of the first request's headers; 10 s */
	/* From a reply to the end of the next request's headers; 20 s. This is longer than the usual
	 * interval of a scraper. Otherwise its next request would meet a closed connection. */
	uint64_t idle_ns;
	uint64_t reply_ns; /* to send a reply; 30 s */
	uint64_t check_ns; /* between checks whether a file has changed; 1 s */
	uint64_t hang_ns;  /* without progress, before the agent kills a process; 30 s */
	/* From the end of a process to the start of the next; 1 s. The delay doubles with each process that
	 * lasts less than 60 times this (a minute), up to 60 times this. */
	uint64_t restart_ns;
};

struct web_options {
	const char *listen; /* "host:port", ":port", "[v6]:port" */
	/* A file with the token that requests must carry, read again when it changes; NULL: none. A server
	 * without a token that listens on a loopback address accepts only requests with a loopback Host or
	 * the configured one. A web site thus cannot read the server through a local user's browser. */
	const char *token_file;
	/* PEM files, both or none: TLS 1.2 and later only. Read again when they change. */
	const char *cert_file, *key_file;
	const char *worker_path; /* of gpuslice-web; NULL: the installed program */
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
	const char *name, *value; /* decoded; value "" if absent */
};

/* Borrowed for the call. All text is a peer's: bounded by WEB_HEADERS_MAX, of any bytes but NUL. */
struct web_request {
	const char *path;   /* decoded, without the query */
	const char *rest;   /* what follows the route's path; "" for an exact path */
	const char *accept; /* the header; "" if absent */
	struct web_argument query[WEB_QUERY_MAX];
	size_t n_query;
	bool head; /* the server sends the length of the body, but no body */
};

/* A route fills it. All zero is an empty reply. */
struct web_reply {
	const char *type; /* content type; NULL: text/plain. Must outlive the reply */
	const void *body; /* valid until release(); at most WEB_BODY_MAX bytes */
	size_t len;
	/* The web thread calls it exactly once, when the body has been copied. NULL: not needed. */
	void (*release)(void *owner);
	void *owner;
	/* Without quotes; "": none. A request that names this version gets 304 without a body. */
	char etag[WEB_ETAG_MAX];
	/* Static text, or text of the body's owner. */
	struct {
		const char *name, *value;
	} extra[WEB_EXTRA_MAX];
	size_t n_extra;
};

/* Fills a reply with a copy of @body and returns @status, for `return web_reply_copy(...)`. Without memory
 * the reply is empty, and the function returns WEB_INTERNAL. */
enum web_status web_reply_copy(struct web_reply *reply, enum web_status status,
	const char *type, const void *body, size_t len);

struct web_route {
	/* "/metrics", or "/api/v1/gpus/" + "*" for all paths below. The first route that fits serves the
	 * request. */
	const char *path;
	bool open; /* without the token, for any Host: nothing in it is secret */
	enum web_status (
		*get)(void *arg, const struct web_request *req, struct web_reply *reply);
};

struct web_ops {
	const struct web_route *routes; /* valid as long as the server */
	size_t n_routes;
	/* The web thread calls both. NULL: not needed. */

	/* Called once, when the server serves for the first time. */
	void (*serving)(void *arg, unsigned port);
	/*
	 * Reports, once for each message, what an operator must know:
	 *  1. what prevents serving, such as a missing token file or an address in use; the web thread retries;
	 *  2. that a file became invalid; its last valid content stays in use;
	 *  3. the end of the process.
	 */
	void (*notice)(void *arg, const struct error *err);

	/* Called once, after all else: the server no longer uses @arg, which may be freed. Runs in
	 * web_stop(), or later on a thread that web_stop() left behind. Never runs if web_start() failed.
	 * NULL: not needed. */
	void (*released)(void *arg);
};

/* Since web_start(). A process that ends loses none of it. */
struct web_counts {
	uint64_t requests[5]; /* by class of the status: [0] is 1xx, [1] is 2xx, ... */
	uint64_t refused_full, refused_address; /* connections refused at a limit */
	uint64_t displaced; /* waiting connections closed for new ones, at the limit */
	uint64_t timeouts;  /* connections cut: request or reply took too long */
	uint64_t malformed; /* connections that ended without a readable request */
	uint64_t throttled; /* pauses because the server had used its CPU limit */
	unsigned open;      /* connections now */
};

/*
 * Starts the thread, which starts the process and listens. Waits for neither: notice() and web_state() report
 * what prevents serving, and the thread retries, later each time (web_limits.restart_ns). @options and @ops are
 * copied; @arg is for the functions of @ops. ERR_INVALID: the address is malformed. ERR_LIMIT: too many routes,
 * or too long paths.
 */
int web_start(struct web **ret, const struct web_options *options, const struct web_ops *ops,
	void *arg, struct error *err) MUST_USE;

/* The port in use, for ":0". 0: the server has never served. */
unsigned web_port(const struct web *w);

enum web_state {
	WEB_STARTING, /* first start, and no failure yet */
	WEB_SERVING,
	WEB_DOWN, /* the thread retries by itself */
};

/* @ret_why: the reason for WEB_DOWN. With WEB_SERVING: which file has become invalid, so that its last valid
 * content is in use, or ERR_NONE. */
enum web_state web_state(struct web *w, struct error *ret_why);

struct web_counts web_counts(const struct web *w); /* now; each figure is read on its own */

/*
 * Ends all connections, the process and the thread. The thread calls no function of @ops afterwards but
 * .released(). If the kernel holds the thread up for more than 8 s, web_stop() leaves the thread behind with
 * what it uses, @arg included. NULL is fine.
 */
struct web *web_stop(struct web *w);

DEFINE_CLEANUP(struct web *, web_stop)
