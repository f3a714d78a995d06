/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/serve/http.h"

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/paths.h"
#include "lib/http/health/server.h"
#include "lib/http/server/server.h"
#include "node/view/json/json.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void reply_http_healthz(struct agent_http *h, struct http_exchange *x)
{
	/* The loop runs this function, which is the answer. */
	(void)h;
	http_reply(x, 200, "text/plain", "ok\n", 3);
}

static void reply_http_readyz(struct agent_http *h, struct http_exchange *x)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);

	if (h->c.ops->is_ready(h->c.arg, &why))
		http_reply(x, 200, "text/plain", "ok\n", 3);
	else
		http_reply(x, 503, "text/plain", buf_str(&why), why.len);
}

struct status_request {
	struct agent_http *http;
	struct http_exchange *exchange;
};

static void reply_status(void *arg, const struct pod_devices *list, const struct error *err)
{
	CLEANUP(freep) struct status_request *r = arg;
	CLEANUP(freep) char *text = agent_status_json(&r->http->c.status, list, err);
	struct error nomem = ERROR_INIT;

	if (text) {
		http_reply(r->exchange, 200, "application/json", text, strlen(text));
	} else {
		(void)error_nomem(&nomem);
		http_reply_error(r->exchange, &nomem);
	}
}

static void request_status_pod_devices(void *arg)
{
	struct status_request *r = arg;
	const struct agent_http_context *c = &r->http->c;

	c->ops->request_pod_devices(c->arg, reply_status, r);
}

static void reply_status_request(struct agent_http *h, struct http_exchange *x)
{
	struct status_request *r = malloc(sizeof(*r));
	struct error err = ERROR_INIT;

	if (!r) {
		(void)error_nomem(&err);
		http_reply_error(x, &err);
		return;
	}
	*r = (struct status_request){ .http = h, .exchange = x };
	h->c.ops->refresh_slices(h->c.arg, request_status_pod_devices, r);
}

static void reply_not_found(struct http_exchange *x, const char *text)
{
	struct error err = ERROR_INIT;

	(void)error_set(&err, ERR_NOT_FOUND, "%s", text);
	http_reply_error(x, &err);
}

/* The same data as at --metrics-listen, for tools on this node. */
static void reply_view(struct agent_http *h, struct http_exchange *x, enum view_part part)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *text = NULL;
	struct error err = ERROR_INIT;
	size_t len = 0;

	if (h->c.ops->get_view(h->c.arg, &v, &err) == 0) {
		text = view_json(v, part, &len);
		if (!text)
			(void)error_nomem(&err);
	}
	if (text)
		http_reply(x, 200, "application/json", text, len);
	else
		http_reply_error(x, &err);
}

static bool is_view(struct agent_http *h, struct http_exchange *x, const char *path)
{
	for (size_t i = 0; i < VIEW_PART_COUNT_; i++) {
		if (!strcmp(path, view_part_path((enum view_part)i))) {
			reply_view(h, x, (enum view_part)i);
			return true;
		}
	}
	return false;
}

static const struct route {
	const char *path;
	void (*get)(struct agent_http *h, struct http_exchange *x);
} routes[] = {
	{ "/healthz", reply_http_healthz },
	{ "/readyz", reply_http_readyz },
	{ "/v1/status", reply_status_request },
};

static void on_agent_http_request(void *arg, struct http_exchange *x,
	const struct http_request *req)
{
	if (strcmp(req->method, "GET") != 0 && strcmp(req->method, "HEAD") != 0) {
		http_reply(x, 405, "text/plain", "only GET is served\n", 19);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		if (!strcmp(req->path, routes[i].path)) {
			routes[i].get(arg, x);
			return;
		}
	}
	if (!is_view(arg, x, req->path))
		reply_not_found(x,
			"no such path; there are /healthz, /readyz, /v1/status and /api/v1/node");
}

static void serve_socket(struct agent_http *h)
{
	char address[PATH_MAX + 8] = "unix:";
	struct error err = ERROR_INIT;

	if (path_join(address + 5, sizeof(address) - 5, h->c.run_dir, AGENT_SOCKET, &err) < 0 ||
		dir_make(h->c.run_dir, 0755, &err) < 0 ||
		http_server_start(&h->local, h->c.loop, address, 0600, on_agent_http_request, h,
			&err) < 0)
		h->local = NULL;
	report_component(h->c.reporter, COMPONENT_STATUS_SOCKET, &err);
}

/* The operator may have emptied the run directory. */
static bool has_socket_vanished(const struct agent_http *h)
{
	char path[PATH_MAX];

	return path_join(path, sizeof(path), h->c.run_dir, AGENT_SOCKET, NULL) == 0 &&
	       access(path, F_OK) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

/*
 * Over TCP. No answer has names or errors of this node: any pod of the cluster may ask, and there is no token.
 * --metrics-listen serves the rest, with its token, in a process of its own.
 */
static struct health_response answer_probe(void *arg, const char *path)
{
	static const struct health_response
		ok = { 200, "ok\n" },
		not_ready = { 503, "not ready; gpuslice status says why\n" },
		not_here = { 404, "the status is served on the unix socket and at "
				  "--metrics-listen\n" };
	const struct agent_http *h = arg;
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);

	if (!strcmp(path, "/healthz"))
		return ok;
	if (strcmp(path, "/readyz") != 0)
		return not_here;
	return h->c.ops->is_ready(h->c.arg, &why) ? ok : not_ready;
}

static void serve_tcp(struct agent_http *h)
{
	struct error err = ERROR_INIT;

	if (health_server_start(&h->tcp, h->c.loop, h->c.listen, answer_probe, h, &err) == 0)
		log_info("answering probes", LOG_STR("address", h->c.listen),
			LOG_UINT("port", health_server_port(h->tcp)));
	report_component(h->c.reporter, COMPONENT_HEALTH_TCP, &err);
}

void agent_http_init(struct agent_http *h, const struct agent_http_context *context)
{
	*h = (struct agent_http){ .c = *context };
	if (h->c.listen && !*h->c.listen)
		h->c.listen = NULL;
}

void agent_http_sync(struct agent_http *h)
{
	if (h->local && has_socket_vanished(h))
		h->local = http_server_stop(h->local);
	if (!h->local)
		serve_socket(h);
	if (h->c.listen && !h->tcp)
		serve_tcp(h);
}

void agent_http_stop(struct agent_http *h)
{
	h->local = http_server_stop(h->local);
	h->tcp = health_server_stop(h->tcp);
}
