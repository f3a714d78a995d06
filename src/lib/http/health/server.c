/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/health/server.h"

#include "lib/base/fd.h"
#include "lib/http/health/health.h"
#include "lib/http/listen.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILENT_S   1   /* the kernel holds back a connection without data */
#define PAUSE_MS   100 /* after descriptors or memory ran out */
#define ANSWER_MAX 512 /* bytes, with the headers */

struct health_conn {
	struct health_server *server;
	uv_poll_t poll;
	int fd;
	uint64_t deadline_ms; /* on the clock of uv_now() */
	size_t len;
	char text[HEALTH_REQUEST_MAX];
};

struct health_server {
	uv_loop_t *loop;
	uv_poll_t poll;
	uv_timer_t timer;
	int fd;
	int closing; /* handles with an outstanding close callback */
	bool paused;
	unsigned port, most;
	health_handler handler;
	void *arg;
	/* In the order of arrival, which is the order of the deadlines. Room for one more than the limit. */
	size_t n;
	struct health_conn *conns[HEALTH_CONNECTIONS + 1];
	struct in6_addr peers[HEALTH_CONNECTIONS + 1];
};

static const struct {
	unsigned status;
	const char *reason, *header;
	const char *text; /* of a refusal */
} statuses[] = {
	{ 200, "OK", "", NULL },
	{ 404, "Not Found", "", NULL },
	{ 503, "Service Unavailable", "", NULL },
	{ 400, "Bad Request", "", "the request is malformed\n" },
	{ 405, "Method Not Allowed", "Allow: GET, HEAD\r\n", "only GET and HEAD are served\n" },
	{ 413, "Content Too Large", "", "a request with a body is refused\n" },
	{ 431, "Request Header Fields Too Large", "", "the request is too long\n" },
	{ 505, "HTTP Version Not Supported", "", "only HTTP/1.0 and HTTP/1.1 are served\n" },
};

static void on_health_timer(uv_timer_t *t);

/* Arms the timer for the next event: accepting again, or the deadline of the oldest connection. */
static void arm_health_timer(struct health_server *s)
{
	uint64_t now_ms = uv_now(s->loop), ms = PAUSE_MS;

	if (!s->paused && s->n == 0) {
		(void)uv_timer_stop(&s->timer);
		return;
	}
	if (!s->paused)
		ms = s->conns[0]->deadline_ms > now_ms ? s->conns[0]->deadline_ms - now_ms : 0;
	(void)uv_timer_start(&s->timer, on_health_timer, ms, 0);
}

static void on_conn_closed(uv_handle_t *h)
{
	free(h->data);
}

/* libuv frees @c later, in the close callback. */
static void close_conn(struct health_conn *c)
{
	struct health_server *s = c->server;
	size_t i = 0;

	while (s->conns[i] != c)
		i++;
	s->n--;
	memmove(&s->conns[i], &s->conns[i + 1], (s->n - i) * sizeof(s->conns[0]));
	memmove(&s->peers[i], &s->peers[i + 1], (s->n - i) * sizeof(s->peers[0]));
	uv_close((uv_handle_t *)&c->poll, on_conn_closed);
	closep(&c->fd);
	if (i == 0)
		arm_health_timer(s);
}

static void evict_conn(struct health_server *s)
{
	close_conn(s->conns[health_peers_evict(s->peers, s->n)]);
}

/* The empty send buffer of a new socket has room for a whole answer. */
static void send_health_response(const struct health_conn *c, struct health_response answer,
	bool head)
{
	char text[ANSWER_MAX];
	size_t row = 0;
	int n;

	while (row + 1 < ARRAY_LEN(statuses) && statuses[row].status != answer.status)
		row++;
	if (!answer.text)
		answer.text = statuses[row].text;
	n = snprintf(text, sizeof(text),
		"HTTP/1.1 %u %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
		"%sConnection: close\r\n\r\n%s",
		answer.status, statuses[row].reason, strlen(answer.text), statuses[row].header,
		head ? "" : answer.text);
	if (n > 0 && (size_t)n < sizeof(text))
		(void)send(c->fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Reads once. If there is an answer, sends it and closes the connection. False: the connection is closed. */
static bool read_conn(struct health_conn *c)
{
	const struct health_server *s = c->server;
	struct health_request request = { .head = false };
	ssize_t n = recv(c->fd, c->text + c->len, sizeof(c->text) - c->len, MSG_DONTWAIT);
	unsigned status;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0) {
		close_conn(c);
		return false;
	}
	c->len += (size_t)n;
	status = health_request_parse(&request, c->text, c->len);
	if (status == 0)
		return true;
	send_health_response(c,
		status == 200 ? s->handler(s->arg, request.path)
			      : (struct health_response){ .status = status },
		request.head);
	close_conn(c);
	return false;
}

static void on_health_conn_readable(uv_poll_t *h, int status, int events)
{
	(void)status;
	(void)events;
	(void)read_conn(h->data);
}

/* NULL: no memory. The caller then still owns @fd. */
static struct health_conn *health_conn_new(struct health_server *s, int fd)
{
	struct health_conn *c = malloc(sizeof(*c));

	if (!c)
		return NULL;
	c->server = s;
	c->fd = fd;
	c->len = 0;
	c->deadline_ms = uv_now(s->loop) + HEALTH_DEADLINE_MS;
	if (uv_poll_init(s->loop, &c->poll, fd) < 0) {
		free(c);
		return NULL;
	}
	c->poll.data = c;
	(void)uv_poll_start(&c->poll, UV_READABLE, on_health_conn_readable);
	return c;
}

static struct in6_addr get_peer_ipv6(const struct sockaddr_storage *from)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
	struct in6_addr ret = v6->sin6_addr;

	if (from->ss_family == AF_INET) {
		ret = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
		memcpy(&ret.s6_addr[12], &((const struct sockaddr_in *)from)->sin_addr, 4);
	}
	return ret;
}

static void pause_listener(struct health_server *s)
{
	(void)uv_poll_stop(&s->poll);
	s->paused = true;
	arm_health_timer(s);
}

/* False: no connection waits, or none can be accepted now. */
static bool accept_conn(struct health_server *s)
{
	struct sockaddr_storage from = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(from);
	int fd = accept4(s->fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct health_conn *c;

	if (fd < 0 && errno == EAGAIN)
		return false;
	if (fd < 0 && errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
		return true; /* an error of this connection alone */
	c = fd < 0 ? NULL : health_conn_new(s, fd);
	if (!c) {
		if (fd >= 0)
			(void)close(fd);
		if (s->n > 0)
			evict_conn(s);
		pause_listener(s);
		return false;
	}
	s->conns[s->n] = c;
	s->peers[s->n++] = get_peer_ipv6(&from);
	if (s->n == 1)
		arm_health_timer(s);
	/* A request sent in one piece is here already, so its connection cannot be evicted. */
	if (read_conn(c) && s->n > s->most)
		evict_conn(s);
	return true;
}

static void on_connect(uv_poll_t *h, int status, int events)
{
	struct health_server *s = h->data;

	(void)status;
	(void)events;
	for (unsigned i = 0; i < HEALTH_ACCEPTS && accept_conn(s); i++)
		;
}

static void on_health_timer(uv_timer_t *t)
{
	struct health_server *s = t->data;

	/* If the loop was late, the request may be complete by now: libuv runs timers before it reads
	 * sockets. */
	while (s->n > 0 && s->conns[0]->deadline_ms <= uv_now(s->loop))
		if (read_conn(s->conns[0]))
			close_conn(s->conns[0]);
	if (s->paused) {
		s->paused = false;
		(void)uv_poll_start(&s->poll, UV_READABLE, on_connect);
	}
	arm_health_timer(s);
}

int health_server_start(struct health_server **ret, uv_loop_t *loop, const char *address,
	health_handler handler, void *arg, struct error *err)
{
	CLEANUP(closep) int fd = -1;
	CLEANUP(freep) struct health_server *s = calloc(1, sizeof(*s));
	const int silent_s = SILENT_S;
	int r;

	if (!s)
		return error_nomem(err);
	if (http_listen_tcp(address, &fd, &s->port, err) < 0)
		return -1;
	r = uv_poll_init(loop, &s->poll, fd);
	if (r < 0)
		return error_set(err, ERR_INTERNAL, "watch the socket of '%s': %s", address,
			uv_strerror(r));
	(void)uv_timer_init(loop, &s->timer);
	/* An extra bound only: this server bounds the connections that the kernel lets through. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent_s, sizeof(silent_s));
	s->loop = loop;
	s->fd = steal_fd(&fd);
	s->most = fd_peers(HEALTH_CONNECTIONS);
	s->handler = handler;
	s->arg = arg;
	s->poll.data = s->timer.data = s;
	(void)uv_poll_start(&s->poll, UV_READABLE, on_connect);
	*ret = STEAL_PTR(s);
	return 0;
}

unsigned health_server_port(const struct health_server *s)
{
	return s->port;
}

static void on_health_server_closed(uv_handle_t *h)
{
	struct health_server *s = h->data;

	if (--s->closing == 0)
		free(s);
}

struct health_server *health_server_stop(struct health_server *s)
{
	if (!s)
		return NULL;
	while (s->n > 0)
		close_conn(s->conns[s->n - 1]);
	s->closing = 2;
	uv_close((uv_handle_t *)&s->poll, on_health_server_closed);
	uv_close((uv_handle_t *)&s->timer, on_health_server_closed);
	closep(&s->fd);
	return NULL;
}
