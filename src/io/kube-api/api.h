/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One Kubernetes API server over HTTPS: requests on the loop, through libcurl's multi interface.
 *
 * Credentials are files where the kubelet rotates them (token, CA): the token is read again every
 * minute and after a 401, the CA after a failed handshake and every ten minutes. A request that
 * fails because the server is away is not repeated here: the caller knows whether it still wants it
 * (backoff.h). 429 and 503 carry the server's Retry-After.
 *
 * libcurl is opened (dlopen) by the first api_new(), so that a node without an API server pays
 * nothing for it.
 *
 * No callback runs before the call that asks for it has returned, and each may call anything here:
 * send, start, cancel or stop its own or any other call and watch, and api_free(). What is ended so
 * is not called again, even if its answer is there already. Calls and watches keep the loop alive
 * (uv_run() does not return); an idle client does not. The process ignores SIGPIPE.
 * Thread: loop.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define API_BODY_MAX  (8U << 20) /* of one answer, bytes */
#define API_EVENT_MAX (4U << 20) /* of one line of a watch, bytes */
#define API_TEXT_MAX  256        /* of a server's message in our errors */

/* Where the server is and who we are. All strings are ours; api_config_fini(). */
struct api_config {
	char *server;               /* "https://10.0.0.1:443"; [v6] bracketed */
	char *ca_file, *ca_data;    /* PEM; both NULL: the system's */
	char *token_file, *token;   /* token_file wins, as it can be rotated */
	char *cert_file, *key_file; /* client certificate; or: */
	char *cert_data, *key_data; /* PEM */
	char *namespace_;           /* ours, a DNS label; NULL: unknown */
	bool insecure;              /* kubeconfig's insecure-skip-tls-verify */
	char *tls_server_name;      /* NULL: that of .server */
	char *source;               /* for messages: "in-cluster" or the kubeconfig's path */
};

/*
 * From the environment (KUBERNETES_SERVICE_HOST, _PORT) and @dir (NULL: the service account's
 * directory). ERR_NOT_FOUND: this is no pod. A pod without a token is ERR_INVALID.
 */
int api_config_in_cluster(struct api_config *ret, const char *dir,
	const char *(*env)(const char *name), struct error *err) MUST_USE;

/*
 * From a kubeconfig file: its current-context. Errors name file:line:column and show no secret.
 * Relative paths are relative to the file. What would change whom we talk to or as whom, and is not
 * done here, is refused by name: exec and auth-provider plugins, passwords, impersonation, proxies.
 * Of several documents in the file, one is a kubeconfig.
 */
int api_config_kubeconfig(struct api_config *ret, const char *path, struct error *err) MUST_USE;
/* Whether the files that it names can be read now. Blocking. */
int api_config_probe(const struct api_config *c, struct error *err) MUST_USE;
void api_config_fini(struct api_config *c);

/* Is it the name of a namespace, a DNS label? */
bool api_namespace_ok(const char *text);

struct api;

/*
 * Takes over *config (it is empty afterwards), also on an error. No file is read and nothing is sent
 * yet. ERR_INVALID: the address is none, or a token would go over a network in clear text.
 * ERR_UNSUPPORTED: no usable libcurl; the text names the package.
 */
int api_new(struct api **ret, uv_loop_t *loop, struct api_config *config,
	const char *user_agent, struct error *err) MUST_USE;

/* Ends calls and watches without calling back, frees. Returns NULL. The loop must run once more, for
 * libuv to let go. NULL is fine. */
struct api *api_free(struct api *a);

const char *api_server(const struct api *a);    /* for messages; borrowed */
const char *api_namespace(const struct api *a); /* NULL: unknown */
uint64_t api_requests(const struct api *a);     /* sent since api_new(), watches included */

/* --- one request --- */

struct api_request {
	const char *method;       /* "GET", "PATCH" */
	const char *path;         /* with the query; path segments and values already escaped */
	const char *content_type; /* NULL without a body */
	const char *body;         /* NULL: none */
	uint64_t timeout_ns;      /* 0: 30 s */
};

#define API_MERGE_PATCH     "application/merge-patch+json"
#define API_STRATEGIC_PATCH "application/strategic-merge-patch+json"
#define API_JSON_PATCH      "application/json-patch+json"
#define API_APPLY_PATCH     "application/apply-patch+yaml"
#define API_JSON            "application/json"

struct api_reply {
	int status;              /* HTTP */
	json_t *body;            /* borrowed; NULL if there was none or it was no JSON */
	uint64_t retry_after_ns; /* 0: not said; an hour at most */
};

/*
 * Exactly one call for each api_send() that returned 0, unless cancelled. @err is NULL for 2xx. Else
 * it says what was tried and the server's own words, with the code by status: 401, 403
 * ERR_PERMISSION; 404 ERR_NOT_FOUND; 409 ERR_EXISTS; 400, 422 ERR_INVALID; 410 ERR_NOT_FOUND with
 * reply->status 410; 429, 5xx and no answer ERR_UNAVAILABLE or ERR_TIMEOUT. @reply->status is 0
 * without an answer.
 */
typedef void api_done(void *arg, const struct api_reply *reply, const struct error *err);

struct api_call;

/* @ret_call may be NULL; it is valid until @done has returned. Copies the request. < 0: nothing was
 * sent: the token or the CA cannot be read, the path is not escaped. */
int api_send(struct api *a, const struct api_request *req, api_done *done, void *arg,
	struct api_call **ret_call, struct error *err) MUST_USE;
/* No callback. NULL is fine, and so is a call whose @done is running. Returns NULL. */
struct api_call *api_cancel(struct api_call *c);

/* --- one object, watched --- */

struct api_watch;

struct api_watch_ops {
	/* The object is now so; NULL: it does not exist. Borrowed for the call. Not the same twice
	 * in a row. */
	void (*object)(void *arg, json_t *object);
	/* In touch (NULL), or not and why; called when that changes. Not an end: it tries again by
	 * itself, with back-off and jitter. */
	void (*state)(void *arg, const struct error *why);
};

/*
 * Lists, then watches the one object @name of @collection ("/api/v1/nodes",
 * "/api/v1/namespaces/x/configmaps", escaped), with bookmarks; after 410 it lists again. A quiet
 * server is asked again after its own time-out; a dead connection is noticed 30 s after that, by
 * TCP's own means mostly sooner. The first request goes at once.
 */
int api_watch_start(struct api_watch **ret, struct api *a, const char *collection,
	const char *name, const struct api_watch_ops *ops, void *arg,
	struct error *err) MUST_USE;
struct api_watch *api_watch_stop(struct api_watch *w); /* returns NULL */

/* Adds @text with all but unreserved characters as %XX. */
void api_escape(struct buf *b, const char *text);
