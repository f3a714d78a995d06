/* SPDX-License-Identifier: Apache-2.0 */
#include "http/server.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/parse.h"

#include <errno.h>
#include <jansson.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define IDLE_TIMEOUT_S 30U
#define PORT_MAX       65535

struct http_server {
	struct MHD_Daemon *daemon;
	uv_poll_t poll; /* libmicrohttpd's own epoll descriptor */
	uv_timer_t timer;
	int closing; /* handles whose close callback has not run */
	http_handler handler;
	void *arg;
	struct http_exchange *suspended; /* those that the handler has not answered yet */
	char unix_path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	unsigned port;
};

struct http_exchange {
	struct http_server *server;
	struct MHD_Connection *connection;
	struct http_request request;
	struct buf body;
	struct MHD_Response *response; /* once answered */
	unsigned status;
	bool dispatched, suspended;
	struct http_exchange *prev, *next; /* in server->suspended */
};

const char *http_query(const struct http_exchange *x, const char *name)
{
	return MHD_lookup_connection_value(x->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* Lets libmicrohttpd do what is due, and arms the timer for what is not yet. */
static void run_daemon(struct http_server *s);

static void on_poll(uv_poll_t *h, int status, int events)
{
	(void)status;
	(void)events;
	run_daemon(h->data);
}

static void on_timer(uv_timer_t *h)
{
	run_daemon(h->data);
}

static void run_daemon(struct http_server *s)
{
	MHD_UNSIGNED_LONG_LONG ms;

	(void)MHD_run(s->daemon);
	if (MHD_get_timeout(s->daemon, &ms) == MHD_YES)
		(void)uv_timer_start(&s->timer, on_timer, ms, 0);
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
	/* The const is cast away for the prototype only: the library copies. */
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
		(void)uv_timer_start(&s->timer, on_timer, 0, 0);
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

/* An empty body tells libmicrohttpd to drop the connection, where there is no memory to say more. */
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

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_len,
	void **state)
{
	struct http_server *s = cls;
	struct http_exchange *x = *state;

	(void)version;
	if (!x) {
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

static void on_completed(void *cls, struct MHD_Connection *c, void **state,
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

static bool somebody_answers(const struct sockaddr_un *addr)
{
	CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd >= 0 && connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0;
}

static int listen_unix(struct http_server *s, const char *path, unsigned mode, int *ret_fd,
	struct error *err)
{
	CLEANUP(closep) int fd = -1;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(addr.sun_path))
		return error_set(err, ERR_LIMIT,
			"listen on '%s': a unix socket path has at most %zu bytes", path,
			sizeof(addr.sun_path) - 1);
	memcpy(addr.sun_path, path, strlen(path) + 1);
	if (somebody_answers(&addr))
		return error_set(err, ERR_EXISTS, "listen on '%s': another process serves it",
			path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return error_sys(err, errno, "socket for '%s'", path);
	(void)unlink(path);
	/* The mode must hold before anybody can connect: set it before listen(). */
	if (bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ||
		chmod(path, (mode_t)mode) < 0 || listen(fd, SOMAXCONN) < 0)
		return error_sys(err, errno, "listen on '%s'", path);
	memcpy(s->unix_path, addr.sun_path, sizeof(s->unix_path));
	*ret_fd = steal_fd(&fd);
	return 0;
}

/*
 * "host:port", ":port", "[v6]:port" to the two words that getaddrinfo() wants. It would take any
 * number and keep the low 16 bits.
 */
static int split_address(const char *address, char *host, size_t cap, const char **ret_port,
	struct error *err)
{
	const char *colon = strrchr(address, ':');
	const char *from = address;
	uint32_t port;
	size_t len;

	if (!colon || !colon[1])
		return error_set(err, ERR_INVALID,
			"listen on '%s': expected host:port, :port or unix:/path", address);
	if (!parse_u32(colon + 1, &port) || port > PORT_MAX)
		return error_set(err, ERR_INVALID,
			"listen on '%s': expected a port from 0 to %d, found '%.60s'", address,
			PORT_MAX, colon + 1);
	len = (size_t)(colon - address);
	if (len >= 2 && from[0] == '[' && from[len - 1] == ']') {
		from++;
		len -= 2;
	}
	if (len >= cap)
		return error_set(err, ERR_LIMIT, "listen on '%s': the host is too long",
			address);
	memcpy(host, from, len);
	host[len] = '\0';
	*ret_port = colon + 1;
	return 0;
}

static int bind_one(const struct addrinfo *ai, int *ret_fd)
{
	CLEANUP(closep)
	int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
		ai->ai_protocol);
	int on = 1, off = 0;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (ai->ai_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, ai->ai_addr, ai->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
		return -errno;
	*ret_fd = steal_fd(&fd);
	return 0;
}

static int listen_tcp(struct http_server *s, const char *address, int *ret_fd,
	struct error *err)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	struct addrinfo *list = NULL;
	struct sockaddr_storage name;
	socklen_t name_len = sizeof(name);
	const char *port = NULL;
	char host[256], service[16];
	int r;

	if (split_address(address, host, sizeof(host), &port, err) < 0)
		return -1;
	r = getaddrinfo(*host ? host : NULL, port, &hints, &list);
	if (r != 0)
		return error_set(err, ERR_INVALID, "listen on '%s': %s", address,
			gai_strerror(r));
	r = -EADDRNOTAVAIL;
	for (const struct addrinfo *ai = list; ai && r < 0; ai = ai->ai_next)
		r = bind_one(ai, ret_fd);
	freeaddrinfo(list);
	if (r < 0)
		return error_sys(err, -r, "listen on '%s'", address);
	if (getsockname(*ret_fd, (struct sockaddr *)&name, &name_len) == 0 &&
		getnameinfo((struct sockaddr *)&name, name_len, NULL, 0, service,
			sizeof(service), NI_NUMERICSERV) == 0) {
		for (const char *p = service; *p; p++)
			s->port = s->port * 10 + (unsigned)(*p - '0');
	}
	return 0;
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
	r = !strncmp(address, "unix:", 5) ? listen_unix(s, address + 5, mode, &fd, err)
					  : listen_tcp(s, address, &fd, err);
	if (r < 0)
		return -1;
	s->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
		on_request, s, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED,
		on_completed, NULL, MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS,
		MHD_OPTION_CONNECTION_TIMEOUT, IDLE_TIMEOUT_S, MHD_OPTION_END);
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
	(void)uv_poll_start(&s->poll, UV_READABLE, on_poll);
	*ret = STEAL_PTR(s);
	return 0;
}

unsigned http_server_port(const struct http_server *s)
{
	return s->port;
}

static void on_closed(uv_handle_t *h)
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
	/* A suspended connection would make MHD_stop_daemon() abort. */
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
	if (s->unix_path[0])
		(void)unlink(s->unix_path);
	s->closing = 2;
	uv_close((uv_handle_t *)&s->poll, on_closed);
	uv_close((uv_handle_t *)&s->timer, on_closed);
	return NULL;
}
