/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One Kubernetes API server over HTTPS: requests on the loop, through libcurl's multi interface.
 *
 * Credentials. The kubelet rotates the token file and the CA file. The client reads the token again
 * when its copy is older than a minute, and after a 401. The client reads the CA again when its copy
 * is older than ten minutes, and after a failed handshake.
 *
 * Retries. The client does not repeat a request because the server is unavailable: only the caller
 * knows whether the request is still needed (backoff.h). A reply with 429 or 503 carries the server's
 * Retry-After.
 *
 * libcurl. The first api_new() opens libcurl (dlopen), so a node without an API server pays nothing
 * for libcurl.
 *
 * Callbacks. No callback runs before the call that asks for it has returned. A callback may call any
 * function of this header: send, start, cancel or stop its own or any other call and watch, and
 * api_free(). A call or a watch that ends this way gets no further callback, even if its answer has
 * arrived.
 *
 * Loop. Calls and watches keep the loop alive (uv_run() does not return); an idle client does not. The
 * process must ignore SIGPIPE.
 * Thread: loop.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define API_BODY_MAX  (8U << 20) /* limit of one answer, bytes */
#define API_EVENT_MAX (4U << 20) /* limit of one line of a watch, bytes */
#define API_TEXT_MAX  256        /* limit of a server's message in the client's errors, bytes */

/* The server's address and the client's identity. The struct owns all strings; api_config_fini(). */
struct api_config {
	char *server;               /* "https://10.0.0.1:443"; [v6] bracketed */
	char *ca_file, *ca_data;    /* PEM; both NULL: the system's CAs */
	char *token_file, *token;   /* the file has precedence: it can rotate */
	char *cert_file, *key_file; /* client certificate and its key: paths of PEM files */
	char *cert_data, *key_data; /* client certificate and its key: PEM */
	char *namespace_;           /* the client's namespace, a DNS label; NULL: unknown */
	bool insecure;              /* kubeconfig's insecure-skip-tls-verify */
	char *tls_server_name;      /* NULL: the host of .server */
	char *source;               /* for messages: "in-cluster" or the kubeconfig's path */
};

/*
 * Reads the environment (KUBERNETES_SERVICE_HOST, _PORT) and @dir (NULL: the service account's
 * directory). ERR_NOT_FOUND: the process does not run in a pod. ERR_INVALID: among others, the pod has
 * no token.
 */
int api_config_in_cluster(struct api_config *ret, const char *dir,
	const char *(*env)(const char *name), struct error *err) MUST_USE;

/*
 * Reads the current-context of a kubeconfig file. Errors name file:line:column where they can, and
 * show no secret. Relative paths begin at the directory of the file. The reader refuses, by name,
 * unsupported keys that change the server or the identity: exec and auth-provider plugins, passwords,
 * impersonation, proxies. The file may have several documents; exactly one must be a kubeconfig.
 */
int api_config_kubeconfig(struct api_config *ret, const char *path, struct error *err) MUST_USE;
/* Checks that the process can read the token, CA and certificate files now. Blocks on files. */
int api_config_probe(const struct api_config *c, struct error *err) MUST_USE;
/* Frees all strings, and makes all members NULL or false. */
void api_config_fini(struct api_config *c);

/* Whether @text is a valid name of a namespace: a DNS label. */
bool api_namespace_ok(const char *text);

struct api;

/*
 * Takes over *config (empty afterwards), also on an error. Reads no file and sends nothing.
 * ERR_INVALID: the address is malformed, or a token would go over a network in clear text.
 * ERR_UNSUPPORTED: no usable libcurl; the text names the package.
 */
int api_new(struct api **ret, uv_loop_t *loop, struct api_config *config,
	const char *user_agent, struct error *err) MUST_USE;

/* Ends calls and watches without a callback, and frees the client. Returns NULL; NULL is allowed.
 * The loop must run once more, so that libuv closes its handles. */
struct api *api_free(struct api *a);

const char *api_server(const struct api *a); /* for messages; borrowed */
uint64_t api_requests(const struct api *a);  /* sent since api_new(), watches included */

/* --- one request --- */

struct api_request {
	const char *method; /* "GET", "PATCH" */
	const char *path;   /* with the query; path segments and values are escaped already */
	const char *content_type; /* NULL without a body */
	const char *body;         /* NULL: none */
	uint64_t timeout_ns;      /* 0: 30 s */
};

#define API_MERGE_PATCH     "application/merge-patch+json"
#define API_STRATEGIC_PATCH "application/strategic-merge-patch+json"
#define API_JSON_PATCH      "application/json-patch+json"
#define API_JSON            "application/json"

struct api_reply {
	int status;              /* HTTP */
	json_t *body;            /* borrowed; NULL: no body, or no JSON */
	uint64_t retry_after_ns; /* 0: no Retry-After; at most an hour */
};

/*
 * The client calls this exactly once for each api_send() that returned 0, unless the caller cancels.
 * @err is NULL for 2xx. Otherwise the text names the request and has the server's own words. The code
 * follows from the status (transfer.c):
 *	401, 403     ERR_PERMISSION
 *	404, 410     ERR_NOT_FOUND; reply->status distinguishes them
 *	409          ERR_EXISTS
 *	400, 422     ERR_INVALID
 *	429, 5xx     ERR_UNAVAILABLE; 408, 504: ERR_TIMEOUT
 *	no answer    ERR_UNAVAILABLE or ERR_TIMEOUT; ERR_LIMIT: larger than API_BODY_MAX
 * @reply->status is 0 without an answer.
 */
typedef void api_done(void *arg, const struct api_reply *reply, const struct error *err);

struct api_call;

/* Copies the request. @ret_call may be NULL; *ret_call is valid until @done has returned. < 0:
 * nothing is sent, for example because the token or the CA cannot be read, or the path is not
 * escaped. */
int api_send(struct api *a, const struct api_request *req, api_done *done, void *arg,
	struct api_call **ret_call, struct error *err) MUST_USE;
/* No callback follows. NULL is allowed, and so is a call whose @done is running. Returns NULL. */
struct api_call *api_cancel(struct api_call *c);

/* --- one object, watched --- */

struct api_watch;

struct api_watch_ops {
	/* The present object; NULL: the object does not exist. Borrowed for the call. The watch does
	 * not report the same resourceVersion twice in a row. */
	void (*object)(void *arg, json_t *object);
	/* NULL: connected; otherwise why not. The watch calls this when the state or the reason
	 * changes. An error is not the end: the watch retries by itself, with back-off and jitter. */
	void (*state)(void *arg, const struct error *why);
};

/*
 * Watches the one object @name of @collection ("/api/v1/nodes", "/api/v1/namespaces/x/configmaps",
 * escaped): lists first, then watches with bookmarks. After a 410 the watch lists again. A server ends
 * each watch request after 5 to 10 minutes (timeoutSeconds), and the watch requests the next. The
 * watch gives up a silent connection 30 s after that time at the latest; TCP's own time-outs mostly
 * notice earlier. The loop sends the first request at once.
 */
int api_watch_start(struct api_watch **ret, struct api *a, const char *collection,
	const char *name, const struct api_watch_ops *ops, void *arg,
	struct error *err) MUST_USE;
struct api_watch *api_watch_stop(struct api_watch *w); /* returns NULL */

/* Appends @text; all but unreserved characters become %XX. */
void api_escape(struct buf *b, const char *text);
