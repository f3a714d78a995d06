/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The control socket (abi/arbiter-control.h). Clients send lines: the agent, and any client that asks for status.
 * The arbiter answers, and sends its questions to the client that subscribed to readings. The arbiter waits for no
 * client: a client that does not read is disconnected.
 */
#include "node/arbiter/control/control.h"

#include "abi/arbiter-control.h"
#include "node/arbiter/control/readings.h"
#include "node/arbiter/control/request.h"
#include "node/arbiter/control/status.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/watch.h"
#include "lib/base/buf.h"
#include "lib/base/time.h"

#include <jansson.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES (64 * 1024)

struct control_client {
	struct control_client *prev, *next;
	struct arbiter_control *control;
	uv_pipe_t pipe;
	struct buf line; /* input after the last end of a line */
	bool closing;
};

struct arbiter_control {
	struct arbiter *arbiter;
	uv_pipe_t listener;
	struct control_client *clients, *subscriber;
	unsigned int n_clients;
	char part[READ_BYTES]; /* input buffer, for one client at a time */
};

struct output {
	uv_write_t write;
	char *text;
};

static void on_client_closed(uv_handle_t *h)
{
	struct control_client *c = h->data;

	buf_fini(&c->line);
	free(c);
}

static void client_close(struct control_client *c)
{
	struct arbiter_control *control = c->control;

	if (c->closing)
		return;
	c->closing = true;
	if (control->subscriber == c) {
		control->subscriber = NULL;
		readings_unsubscribed(control->arbiter);
		log_info("nobody reads NVML for the arbiter");
	}
	if (c->prev)
		c->prev->next = c->next;
	else
		control->clients = c->next;
	if (c->next)
		c->next->prev = c->prev;
	control->n_clients--;
	uv_close((uv_handle_t *)&c->pipe, on_client_closed);
}

static void on_control_written(uv_write_t *w, int status)
{
	struct output *o = w->data;
	struct control_client *c = w->handle->data;

	free(o->text);
	free(o);
	if (status < 0)
		client_close(c);
}

/* Takes @text and adds the end of the line. A client that does not read is disconnected. */
static void send_control_text(struct control_client *c, char *text)
{
	struct output *o = text ? calloc(1, sizeof(*o)) : NULL;
	size_t len = text ? strlen(text) : 0;
	uv_buf_t b;

	if (!o || c->closing ||
		uv_stream_get_write_queue_size((uv_stream_t *)&c->pipe) + len >
			CONTROL_ANSWER_MAX) {
		free(text);
		free(o);
		client_close(c);
		return;
	}
	text[len] = '\n'; /* replaces the terminating zero */
	o->text = text;
	o->write.data = o;
	b = uv_buf_init(text, (unsigned int)len + 1);
	if (uv_write(&o->write, (uv_stream_t *)&c->pipe, &b, 1, on_control_written) < 0) {
		free(text);
		free(o);
		client_close(c);
	}
}

static void send_error(struct control_client *c, const struct error *err)
{
	json_t *j = json_pack("{s:s, s:s%}", "op", "error", "reason", err->msg,
		strnlen(err->msg, sizeof(err->msg)));
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	if (text)
		send_control_text(c, text);
}

static void subscribe_client(struct control_client *c)
{
	struct arbiter_control *control = c->control;
	char *text = strdup("{\"op\":\"subscribed\"}");

	if (control->subscriber && control->subscriber != c)
		client_close(control->subscriber);
	control->subscriber = c;
	send_control_text(c, text);
	if (control->subscriber == c) {
		log_info("NVML is read for the arbiter");
		readings_subscribed(control->arbiter);
	}
}

/* False: the connection ends. */
static bool on_control_line(struct control_client *c, const char *line, size_t len)
{
	struct arbiter *a = c->control->arbiter;
	struct error err = ERROR_INIT;
	struct control_request r;

	if (request_read(&r, line, len, &err) < 0) {
		if (log_limit_pass(&a->log_limit, time_mono_ns(), NS_PER_SEC * 10, 5))
			log_warn("control connection ended", LOG_STR("reason", err.msg));
		send_error(c, &err);
		return false;
	}
	switch (r.op) {
	case REQUEST_STATUS:
		send_control_text(c, status_render_json(a, r.has_slice ? r.slice : NULL));
		break;
	case REQUEST_READINGS:
		subscribe_client(c);
		break;
	case REQUEST_READING:
		if (c == c->control->subscriber)
			readings_apply(a, &r.reading);
		break;
	}
	request_fini(&r);
	return !c->closing;
}

static void on_shutdown(uv_shutdown_t *s, int status)
{
	struct control_client *c = s->handle->data;

	(void)status;
	free(s);
	client_close(c);
}

/* Ends the connection after the pending output. */
static void finish_control_client(struct control_client *c)
{
	uv_shutdown_t *s = c->closing ? NULL : calloc(1, sizeof(*s));

	if (c->closing)
		return;
	(void)uv_read_stop((uv_stream_t *)&c->pipe);
	if (!s || uv_shutdown(s, (uv_stream_t *)&c->pipe, on_shutdown) < 0) {
		free(s);
		client_close(c);
	}
}

static void parse_control_input(struct control_client *c, const char *part, size_t n)
{
	const char *at, *end;
	size_t begin = 0;

	buf_add(&c->line, part, n);
	if (!buf_ok(&c->line)) {
		struct error err = ERROR_INIT;

		(void)error_set(&err, ERR_LIMIT, "control: a line of more than %d bytes",
			CONTROL_LINE_MAX);
		send_error(c, &err);
		finish_control_client(c);
		return;
	}
	at = c->line.data;
	while ((end = memchr(at + begin, '\n', c->line.len - begin))) {
		size_t len = (size_t)(end - at) - begin;

		if (len > 0 && !on_control_line(c, at + begin, len)) {
			finish_control_client(c);
			return;
		}
		begin += len + 1;
	}
	if (begin) {
		memmove(c->line.data, c->line.data + begin, c->line.len - begin);
		c->line.len -= begin;
		c->line.data[c->line.len] = '\0';
	}
}

static void on_control_read_alloc(uv_handle_t *h, size_t size, uv_buf_t *b)
{
	struct control_client *c = h->data;

	(void)size;
	*b = uv_buf_init(c->control->part, READ_BYTES);
}

static void on_control_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
	struct control_client *c = stream->data;

	if (n < 0)
		client_close(c);
	else if (n > 0 && !c->closing)
		parse_control_input(c, b->base, (size_t)n);
}

/* Mode 0600 keeps other users out. This checks the peer's user as well. */
static bool is_welcome(uv_pipe_t *pipe)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	uv_os_fd_t fd;

	return uv_fileno((uv_handle_t *)pipe, &fd) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 &&
	       (cred.uid == 0 || cred.uid == geteuid());
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct arbiter_control *control = listener->data;
	struct control_client *c;

	if (status < 0)
		return;
	c = calloc(1, sizeof(*c));
	if (!c)
		return;
	c->control = control;
	c->line = (struct buf)BUF_INIT(CONTROL_LINE_MAX);
	(void)uv_pipe_init(listener->loop, &c->pipe, 0);
	c->pipe.data = c;
	c->next = control->clients;
	if (control->clients)
		control->clients->prev = c;
	control->clients = c;
	control->n_clients++;
	if (uv_accept(listener, (uv_stream_t *)&c->pipe) < 0 ||
		control->n_clients > CONTROL_CLIENTS_MAX || !is_welcome(&c->pipe) ||
		uv_read_start((uv_stream_t *)&c->pipe, on_control_read_alloc, on_control_read) <
			0)
		client_close(c);
}

bool control_subscribed(const struct arbiter *a)
{
	return a->control && a->control->subscriber;
}

bool control_request_reading(struct arbiter *a, uint64_t seq, const char *gpus_json)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(CONTROL_LINE_MAX);

	buf_printf(&b, "{\"op\":\"read\",\"seq\":%llu,\"gpus\":%s}", (unsigned long long)seq,
		gpus_json);
	if (!control_subscribed(a) || !buf_ok(&b))
		return false;
	send_control_text(a->control->subscriber, buf_steal(&b));
	return control_subscribed(a);
}

static void on_control_listener_closed(uv_handle_t *h)
{
	free(h->data);
}

int arbiter_control_start(struct arbiter *a, struct error *err)
{
	struct arbiter_control *control = calloc(1, sizeof(*control));
	int fd, r;

	if (!control)
		return error_nomem(err);
	fd = socket_listen(a->o.run_dir, CONTROL_SOCKET, SOCK_STREAM, 0600, err);
	if (fd < 0) {
		free(control);
		return -1;
	}
	control->arbiter = a;
	(void)uv_pipe_init(a->loop, &control->listener, 0);
	control->listener.data = control;
	a->control = control;
	r = uv_pipe_open(&control->listener, fd);
	if (r < 0)
		(void)close(fd);
	else
		r = uv_listen((uv_stream_t *)&control->listener, CONTROL_CLIENTS_MAX,
			on_connection);
	return r < 0 ? error_sys(err, -r, "listen on the control socket") : 0;
}

void arbiter_control_stop(struct arbiter *a)
{
	struct arbiter_control *control = a->control;

	if (!control)
		return;
	control->subscriber = NULL;
	while (control->clients)
		client_close(control->clients);
	a->control = NULL;
	uv_close((uv_handle_t *)&control->listener, on_control_listener_closed);
}
