/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

#include "node/agent/options.h"
#include "lib/base/paths.h"
#include "lib/base/fd.h"
#include "node/view/json/json.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void reply_http_healthz(struct agent *a, struct http_exchange *x)
{
	/* The loop runs this function, which is the answer. */
	(void)a;
	http_reply(x, 200, "text/plain", "ok\n", 3);
}

static void reply_http_readyz(struct agent *a, struct http_exchange *x)
{
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);

	if (agent_ready(a, &why))
		http_reply(x, 200, "text/plain", "ok\n", 3);
	else
		http_reply(x, 503, "text/plain", buf_str(&why), why.len);
}

struct status_request {
	struct agent *agent;
	struct http_exchange *exchange;
};

static void reply_status(void *arg, const struct pod_devices *list, const struct error *err)
{
	CLEANUP(freep) struct status_request *r = arg;
	CLEANUP(freep) char *text = agent_status_json(r->agent, list, err);
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

	pod_resources_cache_request(r->agent->kubelet.pod_resources, reply_status, r);
}

static void reply_status_request(struct agent *a, struct http_exchange *x)
{
	struct status_request *r = malloc(sizeof(*r));
	struct error err = ERROR_INIT;

	if (!r) {
		(void)error_nomem(&err);
		http_reply_error(x, &err);
		return;
	}
	*r = (struct status_request){ .agent = a, .exchange = x };
	slices_refresh(&a->slices, request_status_pod_devices, r);
}

static void reply_not_found(struct http_exchange *x, const char *text)
{
	struct error err = ERROR_INIT;

	(void)error_set(&err, ERR_NOT_FOUND, "%s", text);
	http_reply_error(x, &err);
}

/* The same data as at --metrics-listen, for tools on this node. */
static void reply_view(struct agent *a, struct http_exchange *x, enum view_part part)
{
	CLEANUP(view_unrefp) struct view *v = agent_view(a);
	CLEANUP(freep) char *text = NULL;
	struct error err = ERROR_INIT;
	size_t len = 0;

	if (!a->serve)
		(void)error_set(&err, ERR_UNAVAILABLE,
			"this agent measures nothing; start it without --metrics=false");
	else if (!v)
		(void)error_set(&err, ERR_UNAVAILABLE,
			"nothing has been looked at yet; try again in a second");
	else if (!(text = view_json(v, part, &len)))
		(void)error_nomem(&err);
	if (text)
		http_reply(x, 200, "application/json", text, len);
	else
		http_reply_error(x, &err);
}

static bool is_view(struct agent *a, struct http_exchange *x, const char *path)
{
	for (size_t i = 0; i < VIEW_PART_COUNT_; i++) {
		if (!strcmp(path, view_part_path((enum view_part)i))) {
			reply_view(a, x, (enum view_part)i);
			return true;
		}
	}
	return false;
}

static const struct route {
	const char *path;
	void (*get)(struct agent *a, struct http_exchange *x);
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

static void serve_socket(struct agent *a)
{
	char address[PATH_MAX + 8] = "unix:";
	struct error err = ERROR_INIT;

	if (path_join(address + 5, sizeof(address) - 5, a->run_dir, AGENT_SOCKET, &err) < 0 ||
		dir_make(a->run_dir, 0755, &err) < 0 ||
		http_server_start(&a->http.local, a->loop, address, 0600, on_agent_http_request,
			a, &err) < 0)
		a->http.local = NULL;
	report_component(&a->reporter, COMPONENT_STATUS_SOCKET, &err);
}

/* The operator may have emptied the run directory. */
static bool has_socket_vanished(const struct agent *a)
{
	char path[PATH_MAX];

	return path_join(path, sizeof(path), a->run_dir, AGENT_SOCKET, NULL) == 0 &&
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
	CLEANUP(buf_fini) struct buf why = BUF_INIT(64 * 1024);

	if (!strcmp(path, "/healthz"))
		return ok;
	if (strcmp(path, "/readyz") != 0)
		return not_here;
	return agent_ready(arg, &why) ? ok : not_ready;
}

static void serve_tcp(struct agent *a)
{
	struct error err = ERROR_INIT;

	if (health_server_start(&a->http.tcp, a->loop, a->http.listen, answer_probe, a, &err) ==
		0)
		log_info("answering probes", LOG_STR("address", a->http.listen),
			LOG_UINT("port", health_server_port(a->http.tcp)));
	report_component(&a->reporter, COMPONENT_HEALTH_TCP, &err);
}

void agent_http_retry(struct agent *a)
{
	if (a->http.local && has_socket_vanished(a))
		a->http.local = http_server_stop(a->http.local);
	if (!a->http.local)
		serve_socket(a);
	if (a->http.listen && !a->http.tcp)
		serve_tcp(a);
}

void agent_http_start(struct agent *a, const char *listen)
{
	a->http.listen = listen && *listen ? listen : NULL;
	agent_http_retry(a);
}
