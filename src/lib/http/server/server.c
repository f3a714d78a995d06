/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/server/server.h"

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/http/header.h"
#include "lib/http/listen.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define IDLE_TIMEOUT_S 30U

struct http_server {
	struct MHD_Daemon *daemon;
	uv_poll_t poll; /* watches libmicrohttpd's epoll descriptor */
	uv_timer_t timer;
	int closing; /* handles with an outstanding close callback */
	http_handler handler;
	void *arg;
	struct http_exchange *suspended; /* exchanges that the handler has not answered yet */
	char unix_path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
};

struct http_exchange {
	struct http_server *server;
	struct MHD_Connection *connection;
	struct http_request request;
	struct buf body;
	struct MHD_Response *response; /* once the handler has answered */
	unsigned status;
	bool dispatched, suspended;
	struct http_exchange *prev, *next; /* in server->suspended */
};

const char *http_query(const struct http_exchange *x, const char *name)
{
	return MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* Runs libmicrohttpd for the work that is due, and arms the timer for the rest. */
static void run_daemon(struct http_server *s);

static void on_mhd_poll(uv_poll_t *h, int status, int events)
{
	(void)status;
	(void)events;
	run_daemon(h->data);
}

static void on_mhd_timer(uv_timer_t *h)
{
	run_daemon(h->data);
}

static void run_daemon(struct http_server *s)
{
	MHD_UNSIGNED_LONG_LONG ms;

	(void)MHD_run(s->daemon);
	if (MHD_get_timeout(s->daemon, &ms) == MHD_YES)
		(void)uv_timer_start(&s->timer, on_mhd_timer, ms, 0);
	else
		(void)uv_timer_stop(&s->timer);
}

static void unlink_suspended(struct http_exchange *x)
{
	if (x->prev)
		x->prev->next = x->next;
	else
		x->server->suspended = x->next;
	if (x->next)
		x->next->prev = x->prev;
	x->prev = x->next = NULL;
	x->suspended = false;
}

void http_reply(struct http_exchange *x, int status, const char *content_type, const char *body,
	size_t len)
{
	/* The cast removes const for the prototype only: libmicrohttpd copies the body. */
	x->response = MHD_create_response_from_buffer(len, (void *)(uintptr_t)body,
		MHD_RESPMEM_MUST_COPY);
	x->status = (unsigned)status;
	if (x->response && content_type)
		(void)MHD_add_response_header(x->response, MHD_HTTP_HEADER_CONTENT_TYPE,
			content_type);
	if (x->suspended) {
		struct http_server *s = x->server;

		unlink_suspended(x);
		MHD_resume_connection(x->connection);
		(void)uv_timer_start(&s->timer, on_mhd_timer, 0, 0);
	}
}

void http_reply_error(struct http_exchange *x, const struct error *err)
{
	const struct error_class *c = error_class(err->code);
	json_t *j = json_pack("{s:s, s:s}", "code", c->name, "error", err->msg);
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	if (text)
		http_reply(x, c->http, "application/json", text, strlen(text));
	else
		http_reply(x, 500, "text/plain", "error\n", 6);
	free(text);
	json_decref(j);
}

/* Without memory for a text: an empty body makes libmicrohttpd drop the connection. */
static enum MHD_Result queue_reply(struct http_exchange *x)
{
	enum MHD_Result r;

	if (!x->response)
		return MHD_NO;
	r = MHD_queue_response(x->connection, x->status, x->response);
	MHD_destroy_response(x->response);
	x->response = NULL;
	return r;
}

static struct http_exchange *exchange_new(struct http_server *s, struct MHD_Connection *c,
	const char *url, const char *method)
{
	struct http_exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->server = s;
	x->connection = c;
	x->body = (struct buf)BUF_INIT(HTTP_BODY_MAX);
	x->request.method = method;
	x->request.path = url;
	return x;
}

static enum MHD_Result on_mhd_header(void *cls, enum MHD_ValueKind kind, const char *name,
	size_t name_len, const char *value, size_t value_len)
{
	(void)kind;
	http_headers_add(cls, name, name_len, value, value_len);
	return MHD_YES;
}

static const char *find_wrong(struct MHD_Connection *c)
{
	struct http_headers h = { .hosts = 0 };

	(void)MHD_get_connection_values_n(c, MHD_HEADER_KIND, on_mhd_header, &h);
	return http_headers_wrong(&h);
}

/* Answers before the body. libmicrohttpd then does not read the body and ends the connection. */
static enum MHD_Result reply_bad_request(struct MHD_Connection *c, const char *wrong)
{
	struct MHD_Response *m = MHD_create_response_from_buffer(strlen(wrong),
		(void *)(uintptr_t)wrong, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result r;

	if (!m)
		return MHD_NO;
	r = MHD_queue_response(c, MHD_HTTP_BAD_REQUEST, m);
	MHD_destroy_response(m);
	return r;
}

static enum MHD_Result on_mhd_request(void *cls, struct MHD_Connection *c, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_len,
	void **state)
{
	struct http_server *s = cls;
	struct http_exchange *x = *state;

	(void)version;
	if (!x) {
		const char *wrong = find_wrong(c);

		if (wrong)
			return reply_bad_request(c, wrong);
		*state = exchange_new(s, c, url, method);
		return *state ? MHD_YES : MHD_NO;
	}
	if (*upload_len > 0) {
		buf_add(&x->body, upload, *upload_len);
		*upload_len = 0;
		return MHD_YES;
	}
	if (!x->dispatched) {
		x->dispatched = true;
		x->request.method = method;
		x->request.path = url;
		x->request.body = buf_str(&x->body);
		x->request.body_len = x->body.len;
		if (buf_ok(&x->body))
			s->handler(s->arg, x, &x->request);
		else
			http_reply(x, MHD_HTTP_CONTENT_TOO_LARGE, "text/plain",
				"request body is too large\n", 26);
	}
	if (x->response)
		return queue_reply(x);
	if (x->suspended)
		return MHD_YES;
	MHD_suspend_connection(c);
	x->suspended = true;
	x->next = s->suspended;
	if (x->next)
		x->next->prev = x;
	s->suspended = x;
	return MHD_YES;
}

static void on_mhd_request_completed(void *cls, struct MHD_Connection *c, void **state,
	enum MHD_RequestTerminationCode why)
{
	struct http_exchange *x = *state;

	(void)cls;
	(void)c;
	(void)why;
	if (!x)
		return;
	if (x->suspended)
		unlink_suspended(x);
	if (x->response)
		MHD_destroy_response(x->response);
	buf_fini(&x->body);
	free(x);
	*state = NULL;
}

int http_server_start(struct http_server **ret, uv_loop_t *loop, const char *address,
	unsigned mode, http_handler handler, void *arg, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	CLEANUP(freep) struct http_server *s = calloc(1, sizeof(*s));
	const union MHD_DaemonInfo *info;
	int r;

	if (!s)
		return error_nomem(err);
	s->handler = handler;
	s->arg = arg;
	if (strncmp(address, "unix:", 5) != 0)
		return error_set(err, ERR_INVALID, "listen on '%s': expected unix:/path",
			address);
	if (http_listen_unix(address + 5, mode, &fd, err) < 0)
		return -1;
	(void)snprintf(s->unix_path, sizeof(s->unix_path), "%s", address + 5);
	s->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
		on_mhd_request, s, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED,
		on_mhd_request_completed, NULL, MHD_OPTION_CONNECTION_LIMIT,
		fd_peers(HTTP_CONNECTIONS), MHD_OPTION_CONNECTION_TIMEOUT, IDLE_TIMEOUT_S,
		MHD_OPTION_END);
	if (!s->daemon)
		return error_set(err, ERR_INTERNAL, "start the HTTP server on '%s'", address);
	(void)steal_fd(&fd); /* the daemon closes it */
	info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD);
	r = info ? uv_poll_init(loop, &s->poll, info->epoll_fd) : UV_EINVAL;
	if (r < 0) {
		MHD_stop_daemon(s->daemon);
		return error_set(err, ERR_INTERNAL, "watch the HTTP server: %s",
			uv_strerror(r));
	}
	(void)uv_timer_init(loop, &s->timer);
	s->poll.data = s->timer.data = s;
	(void)uv_poll_start(&s->poll, UV_READABLE, on_mhd_poll);
	*ret = STEAL_PTR(s);
	return 0;
}

static void on_http_server_closed(uv_handle_t *h)
{
	struct http_server *s = h->data;

	if (--s->closing == 0)
		free(s);
}

struct http_server *http_server_stop(struct http_server *s)
{
	if (!s)
		return NULL;
	(void)uv_poll_stop(&s->poll);
	/* MHD_stop_daemon() would abort on a suspended connection. */
	while (s->suspended) {
		struct http_exchange *x = s->suspended;

		unlink_suspended(x);
		x->dispatched = true;
		x->response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
		x->status = MHD_HTTP_SERVICE_UNAVAILABLE;
		MHD_resume_connection(x->connection);
	}
	(void)MHD_run(s->daemon);
	MHD_stop_daemon(s->daemon);
	(void)unlink(s->unix_path);
	s->closing = 2;
	uv_close((uv_handle_t *)&s->poll, on_http_server_closed);
	uv_close((uv_handle_t *)&s->timer, on_http_server_closed);
	return NULL;
}
