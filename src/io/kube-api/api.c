/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kube-api/internal.h"

#include "lib/base/time.h"

#include <stdio.h>
#include <string.h>

struct api_call {
	struct api *api;
	LIST_ENTRY(api_call) link;
	struct api_transfer transfer;
	struct buf body;
	struct api_request req; /* owned strings */
	uint64_t deadline_ns;
	api_done *done;
	void *arg;
	bool reporting; /* @done is running: the call is not in the list any more, api_cancel() does nothing */
};

static const struct api_intervals default_intervals = {
	.token_ns = 60 * NS_PER_SEC,
	.ca_ns = 600 * NS_PER_SEC,
	.call_ns = 30 * NS_PER_SEC,
	.connect_ns = 10 * NS_PER_SEC,
	.jitter_ns = 200 * NS_PER_MS,
	.quick_ns = NS_PER_SEC,
	.idle_ns = 30 * NS_PER_SEC,
	.watch_min_s = 300,
	.watch_max_s = 600,
	.backoff = BACKOFF_API,
};

/* --- the client --- */

/* libcurl takes the name that the server's certificate must have from the URL. The address to
 * connect to is a separate option (CURLOPT_CONNECT_TO). */
static int make_address(struct api *a, struct error *err)
{
	const char *server = a->config.server, *name = a->config.tls_server_name, *host;
	size_t len;
	int n;

	if (!name) {
		a->url = strdup(server);
		return a->url ? 0 : error_nomem(err);
	}
	host = api_server_host(server, &len);
	n = asprintf(&a->url, "%.*s%s%s", (int)(host - server), server, name, host + len);
	if (n < 0)
		a->url = NULL;
	if (asprintf(&a->host, "%.*s", (int)len, host) < 0)
		a->host = NULL;
	/* @host includes the port, so the port goes to .connect_to as well. */
	if (asprintf(&a->connect_to, "::%.*s%s", (int)len, host,
		    host[len - 1] == ']' || !memchr(host, ':', len) ? ":443" : "") < 0)
		a->connect_to = NULL;
	return a->url && a->host && a->connect_to ? 0 : error_nomem(err);
}

static int init_api_client(struct api *a, const char *user_agent, struct error *err)
{
	LIST_INIT(&a->calls);
	LIST_INIT(&a->watches);
	if (api_config_check(&a->config, err) < 0 || curl_get(&a->curl, err) < 0 ||
		make_address(a, err) < 0)
		return -1;
	a->user_agent = strdup(user_agent);
	if (!a->user_agent)
		return error_nomem(err);
	return api_loop_init(a, err);
}

int api_new(struct api **ret, uv_loop_t *loop, struct api_config *config,
	const char *user_agent, struct error *err)
{
	struct api *a = calloc(1, sizeof(*a));

	if (!a) {
		api_config_fini(config);
		return error_nomem(err);
	}
	a->loop = loop;
	a->intervals = default_intervals;
	a->config = *config;
	*config = (struct api_config){ .server = NULL };
	if (init_api_client(a, user_agent, err) < 0) {
		api_free_memory(a);
		return -1;
	}
	*ret = a;
	return 0;
}

void api_free_memory(struct api *a)
{
	api_config_fini(&a->config);
	free(a->token.text);
	free(a->ca.text);
	free(a->user_agent);
	free(a->url);
	free(a->connect_to);
	free(a->host);
	free(a);
}

struct api *api_free(struct api *a)
{
	struct api_call *call;
	struct api_watch *watch;

	if (!a)
		return NULL;
	while ((call = LIST_FIRST(&a->calls)))
		(void)api_cancel(call);
	while ((watch = LIST_FIRST(&a->watches)))
		(void)api_watch_stop(watch);
	api_loop_fini(a);
	return NULL;
}

const char *api_server(const struct api *a)
{
	return a->config.server;
}

uint64_t api_requests(const struct api *a)
{
	return a->requests;
}

/* --- calls --- */

static struct api_call *free_api_call(struct api_call *c)
{
	api_transfer_stop(&c->transfer);
	buf_fini(&c->body);
	free((char *)(uintptr_t)c->req.method);
	free((char *)(uintptr_t)c->req.path);
	free((char *)(uintptr_t)c->req.content_type);
	free((char *)(uintptr_t)c->req.body);
	free(c);
	return NULL;
}

DEFINE_CLEANUP(struct api_call *, free_api_call)

static void report_api_call_end(struct api_call *c, const struct api_reply *reply,
	const struct error *err)
{
	LIST_REMOVE(c, link);
	c->reporting = true;
	c->done(c->arg, reply, err);
	(void)free_api_call(c);
}

enum repeat { REPEAT_SENT = 0, REPEAT_TOO_LATE = 1 };

/* Repeats the request with the newer credentials, within the time that is left. REPEAT_TOO_LATE: the first answer
 * is the result. */
static int send_again(struct api_call *c, struct error *err)
{
	uint64_t now = time_mono_ns();

	if (now >= c->deadline_ns)
		return REPEAT_TOO_LATE;
	if (api_transfer_start(&c->transfer, &c->req, c->deadline_ns - now, err) == 0)
		return REPEAT_SENT;
	return error_prefix(err, "%s '%.80s%.120s'", c->req.method, c->api->config.server,
		c->req.path);
}

static void call_deliver(struct api_transfer *t, unsigned news)
{
	struct api_call *c = t->owner;
	struct api_reply reply = { .retry_after_ns = t->retry_after_ns };
	struct error err = ERROR_INIT;
	json_t *body = NULL;
	int r = REPEAT_TOO_LATE;

	if (!(news & API_NEWS_END))
		return;
	if (api_transfer_refresh(t))
		r = send_again(c, &err);
	if (r == REPEAT_SENT)
		return;
	if (r < 0) {
		report_api_call_end(c, &(struct api_reply){ .status = 0 }, &err);
		return;
	}
	if (t->result == CURLE_OK) {
		reply.status = t->status;
		body = json_loadb(buf_str(&c->body), c->body.len, 0, NULL);
	}
	reply.body = body;
	r = api_transfer_error(t, c->req.method, c->req.path, body, &err);
	report_api_call_end(c, &reply, r < 0 ? &err : NULL);
	json_decref(body);
}

static bool copy_request_text(const char **ret, const char *text)
{
	*ret = text ? strdup(text) : NULL;
	return *ret || !text;
}

int api_send(struct api *a, const struct api_request *req, api_done *done, void *arg,
	struct api_call **ret_call, struct error *err)
{
	CLEANUP(free_api_callp) struct api_call *c = calloc(1, sizeof(*c));
	uint64_t timeout_ns = req->timeout_ns ? req->timeout_ns : a->intervals.call_ns;

	if (!c)
		return error_nomem(err);
	c->api = a;
	c->body = (struct buf)BUF_INIT(API_BODY_MAX);
	c->transfer = (struct api_transfer){ .api = a,
		.body = &c->body,
		.owner = c,
		.deliver = call_deliver };
	c->done = done;
	c->arg = arg;
	c->deadline_ns = time_mono_ns() + timeout_ns;
	if (!copy_request_text(&c->req.method, req->method) ||
		!copy_request_text(&c->req.path, req->path) ||
		!copy_request_text(&c->req.content_type, req->content_type) ||
		!copy_request_text(&c->req.body, req->body))
		return error_nomem(err);
	if (api_transfer_start(&c->transfer, &c->req, timeout_ns, err) < 0)
		return error_prefix(err, "%s '%.80s%.120s'", req->method, a->config.server,
			req->path);
	LIST_INSERT_HEAD(&a->calls, c, link);
	if (ret_call)
		*ret_call = c;
	STEAL_PTR(c);
	return 0;
}

struct api_call *api_cancel(struct api_call *c)
{
	if (!c || c->reporting)
		return NULL;
	LIST_REMOVE(c, link);
	return free_api_call(c);
}

/* --- addresses --- */

/* RFC 3986, section 2.3. Not isalnum(): its result depends on the locale. */
static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("-._~", c));
}

void api_escape(struct buf *b, const char *text)
{
	for (; *text; text++) {
		if (is_unreserved(*text))
			buf_putc(b, *text);
		else
			buf_printf(b, "%%%02X", (unsigned char)*text);
	}
}
