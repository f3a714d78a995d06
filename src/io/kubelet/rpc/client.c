/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of gRPC: connections, unary calls and outgoing streams (rpc.h). The rules for ops are in
 * internal.h.
 */
#include "io/kubelet/rpc/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <grpc/grpc_posix.h>
#include <grpc/support/alloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "io/kubelet/rpc/internal.h"

/*
 * One connected socket. The client and its calls hold references; the last one frees it. @fd is a duplicate:
 * poll(2) on it finds that the server has hung up before a call is wasted on it.
 */
struct rpc_conn {
	grpc_channel *channel;
	int fd;
	unsigned refs;
};

struct rpc_client {
	struct rpc *rpc;
	LIST_ENTRY(rpc_client) link;
	LIST_HEAD(, rpc_stream) calls; /* with an end that is not reported yet */
	struct rpc_conn *conn;         /* NULL: connect at the next call */
	bool closing;
	char path[];
};

/* An outgoing call. The caller never sees a unary one. */
struct rpc_stream {
	struct rpc *rpc;
	struct rpc_client *client; /* NULL once the end is reported */
	LIST_ENTRY(rpc_stream) link;
	struct rpc_conn *conn;
	grpc_call *call;
	struct rpc_op start, read, finish; /* a unary call uses start only */
	unsigned in_flight;
	bool unary, cancelled;
	grpc_metadata_array headers, trailers;
	grpc_byte_buffer *received;
	grpc_status_code status;
	grpc_slice details;
	char *local_error; /* for a call that never reached gRPC: the text for RPC_UNAVAILABLE */
	uv_timer_t end_timer; /* reports .local_error */

	rpc_done_fn done;
	void (*message)(void *arg, const uint8_t *data, size_t len);
	void (*end)(void *arg, enum rpc_status status, const char *text);
	void *arg;
};

static void conn_unref(struct rpc_conn *c)
{
	if (!c || --c->refs > 0)
		return;
	grpc_channel_destroy(c->channel);
	/* The peer must see the end now. gRPC closes its own descriptor later. */
	(void)shutdown(c->fd, SHUT_RDWR);
	(void)close(c->fd);
	free(c);
}

static bool conn_is_alive(const struct rpc_conn *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) == 0;
}

static int conn_open(struct rpc_client *c, struct rpc_conn **ret, struct error *err)
{
	grpc_arg args[] = {
		{ .type = GRPC_ARG_STRING,
			.key = (char *)(uintptr_t)GRPC_ARG_DEFAULT_AUTHORITY,
			.value.string = (char *)(uintptr_t) "localhost" },
		{ .type = GRPC_ARG_INTEGER,
			.key = (char *)(uintptr_t)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
			.value.integer = RPC_MESSAGE_MAX },
		{ .type = GRPC_ARG_INTEGER,
			.key = (char *)(uintptr_t)GRPC_ARG_MAX_SEND_MESSAGE_LENGTH,
			.value.integer = RPC_MESSAGE_MAX },
		{ .type = GRPC_ARG_INTEGER,
			.key = (char *)(uintptr_t)GRPC_ARG_HTTP2_BDP_PROBE,
			.value.integer = 0 },
	};
	grpc_channel_args all = { .num_args = ARRAY_LEN(args), .args = args };
	CLEANUP(freep) struct rpc_conn *conn = calloc(1, sizeof(*conn));
	CLEANUP(closep) int fd = -1;
	CLEANUP(closep) int watch = -1;

	if (!conn)
		return error_nomem(err);
	if (rpc_check_free_fds(err) < 0 || unix_connect(c->path, &fd, err) < 0)
		return -1;
	watch = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (watch < 0)
		return error_sys(err, errno, "dup of '%s'", c->path);
	conn->channel = grpc_channel_create_from_fd(c->path, steal_fd(&fd),
		c->rpc->client_credentials, &all);
	conn->fd = steal_fd(&watch);
	conn->refs = 1;
	*ret = STEAL_PTR(conn);
	return 0;
}

int rpc_dial(struct rpc *r, const char *path, struct rpc_client **ret, struct error *err)
{
	struct rpc_client *c;
	size_t len = strlen(path);

	if (unix_path_check(path, err) < 0)
		return -1;
	c = calloc(1, sizeof(*c) + len + 1);
	if (!c)
		return error_nomem(err);
	c->rpc = r;
	LIST_INIT(&c->calls);
	memcpy(c->path, path, len + 1);
	LIST_INSERT_HEAD(&r->clients, c, link);
	rpc_ref(r);
	*ret = c;
	return 0;
}

pid_t rpc_client_peer_pid(const struct rpc_client *c)
{
	return c->conn ? unix_peer_pid(c->conn->fd) : -1;
}

static void free_rpc_stream(struct rpc_stream *s)
{
	if (s->call)
		grpc_call_unref(s->call);
	grpc_metadata_array_destroy(&s->headers);
	grpc_metadata_array_destroy(&s->trailers);
	if (s->received)
		grpc_byte_buffer_destroy(s->received);
	grpc_slice_unref(s->details);
	conn_unref(s->conn);
	free(s->local_error);
	rpc_unref(s->rpc);
	free(s);
}

/* Reports the end to the owner, once. */
static void report_stream_end(struct rpc_stream *s, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len)
{
	struct rpc_client *c = s->client;

	if (!c)
		return;
	s->client = NULL;
	LIST_REMOVE(s, link);
	/* After UNAVAILABLE, whatever its cause, the next call gets a new connection. */
	if (status == RPC_UNAVAILABLE && s->conn && c->conn == s->conn) {
		conn_unref(c->conn);
		c->conn = NULL;
	}
	if (s->unary)
		s->done(s->arg, status, text, reply, len);
	else
		s->end(s->arg, status, text);
}

static void report_received(struct rpc_stream *s)
{
	enum rpc_status status = (enum rpc_status)s->status;
	struct rpc_bytes bytes;
	char *text = grpc_slice_to_c_string(s->details);

	if (s->cancelled)
		report_stream_end(s, RPC_CANCELLED, "cancelled", NULL, 0);
	else if (status != RPC_OK || !s->unary)
		report_stream_end(s, status, text, NULL, 0);
	else if (!rpc_bytes_open(&bytes, s->received))
		report_stream_end(s, RPC_INTERNAL, "status OK without a reply", NULL, 0);
	else {
		report_stream_end(s, RPC_OK, "", bytes.data, bytes.len);
		rpc_bytes_close(&bytes);
	}
	gpr_free(text);
}

/* Without ops in flight the status is known and nothing more can come. */
static void finish_idle_stream(struct rpc_stream *s)
{
	if (s->in_flight > 0)
		return;
	report_received(s);
	free_rpc_stream(s);
}

static void on_start(struct rpc_op *op, bool ok)
{
	struct rpc_stream *s = OP_CONTAINER(op, struct rpc_stream, start);

	(void)ok; /* the status has the outcome */
	s->in_flight--;
	finish_idle_stream(s);
}

static void on_finish(struct rpc_op *op, bool ok)
{
	struct rpc_stream *s = OP_CONTAINER(op, struct rpc_stream, finish);

	(void)ok;
	s->in_flight--;
	finish_idle_stream(s);
}

static void read_next(struct rpc_stream *s);

static void on_stream_read(struct rpc_op *op, bool ok)
{
	struct rpc_stream *s = OP_CONTAINER(op, struct rpc_stream, read);
	grpc_byte_buffer *received = s->received;
	struct rpc_bytes bytes;

	s->in_flight--;
	s->received = NULL;
	if (ok && received) {
		read_next(s); /* before the callback, which may close everything */
		if (s->client && !s->cancelled && rpc_bytes_open(&bytes, received)) {
			s->message(s->arg, bytes.data, bytes.len);
			rpc_bytes_close(&bytes);
		}
	}
	if (received)
		grpc_byte_buffer_destroy(received);
	finish_idle_stream(s);
}

static void read_next(struct rpc_stream *s)
{
	grpc_op op = { .op = GRPC_OP_RECV_MESSAGE };

	op.data.recv_message.recv_message = &s->received;
	s->in_flight++;
	rpc_start_batch(s->rpc, s->call, &op, 1, &s->read, on_stream_read);
}

/* Fills the ops with which unary calls and streams begin. Returns their number. */
static size_t start_ops(struct rpc_stream *s, grpc_op *ops, grpc_byte_buffer *message)
{
	ops[0] = (grpc_op){ .op = GRPC_OP_SEND_INITIAL_METADATA };
	ops[1] = (grpc_op){ .op = GRPC_OP_SEND_MESSAGE };
	ops[1].data.send_message.send_message = message;
	ops[2] = (grpc_op){ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };
	ops[3] = (grpc_op){ .op = GRPC_OP_RECV_INITIAL_METADATA };
	ops[3].data.recv_initial_metadata.recv_initial_metadata = &s->headers;
	return 4;
}

static grpc_op status_op(struct rpc_stream *s)
{
	grpc_op op = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT };

	op.data.recv_status_on_client.trailing_metadata = &s->trailers;
	op.data.recv_status_on_client.status = &s->status;
	op.data.recv_status_on_client.status_details = &s->details;
	return op;
}

static void start_stream_ops(struct rpc_stream *s, const void *request, size_t len)
{
	grpc_byte_buffer *message = rpc_bytes_new(request, len);
	grpc_op ops[6];
	size_t n = start_ops(s, ops, message);

	s->in_flight++;
	if (s->unary) {
		ops[n] = (grpc_op){ .op = GRPC_OP_RECV_MESSAGE };
		ops[n++].data.recv_message.recv_message = &s->received;
		ops[n++] = status_op(s);
		rpc_start_batch(s->rpc, s->call, ops, n, &s->start, on_start);
	} else {
		grpc_op status = status_op(s);

		rpc_start_batch(s->rpc, s->call, ops, n, &s->start, on_start);
		s->in_flight++;
		rpc_start_batch(s->rpc, s->call, &status, 1, &s->finish, on_finish);
		read_next(s);
	}
	grpc_byte_buffer_destroy(message);
}

static void on_stream_end_timer_closed(uv_handle_t *h)
{
	free_rpc_stream(h->data);
}

static void on_stream_end_timer(uv_timer_t *t)
{
	struct rpc_stream *s = t->data;

	report_stream_end(s, s->cancelled ? RPC_CANCELLED : RPC_UNAVAILABLE,
		s->cancelled ? "cancelled" : s->local_error, NULL, 0);
	uv_close((uv_handle_t *)t, on_stream_end_timer_closed);
}

/* An end without gRPC comes from the loop too, through a timer of 0 ms. */
static int end_stream_from_loop(struct rpc_stream *s, const struct error *why,
	struct error *err)
{
	s->local_error = strdup(why->msg);
	if (!s->local_error)
		return error_nomem(err);
	/* These calls cannot fail: the handle is zeroed and the callback is set. */
	(void)uv_timer_init(s->rpc->loop, &s->end_timer);
	(void)uv_timer_start(&s->end_timer, on_stream_end_timer, 0, 0);
	s->end_timer.data = s;
	return 0;
}

/* Opens a connection, unless the client has one that seems alive. */
static int connect_client(struct rpc_client *c, struct error *err)
{
	if (c->conn && !conn_is_alive(c->conn)) {
		conn_unref(c->conn);
		c->conn = NULL;
	}
	return c->conn ? 0 : conn_open(c, &c->conn, err);
}

static int call_new(struct rpc_client *c, const char *method, size_t len, uint64_t timeout_ns,
	struct rpc_stream **ret, struct error *why, struct error *err)
{
	gpr_timespec deadline = gpr_inf_future(GPR_CLOCK_MONOTONIC);
	struct rpc_stream *s;

	if (c->closing)
		return error_set(err, ERR_CANCELLED, "connection to '%s' is closing", c->path);
	if (len > RPC_MESSAGE_MAX)
		return error_set(err, ERR_LIMIT,
			"request of %zu bytes to '%s' is longer than %u bytes", len, method,
			RPC_MESSAGE_MAX);
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_nomem(err);
	s->rpc = c->rpc;
	s->client = c;
	s->details = grpc_empty_slice();
	grpc_metadata_array_init(&s->headers);
	grpc_metadata_array_init(&s->trailers);
	LIST_INSERT_HEAD(&c->calls, s, link);
	rpc_ref(s->rpc);

	if (connect_client(c, why) == 0) {
		grpc_slice path = grpc_slice_from_copied_string(method);

		if (timeout_ns < INT64_MAX)
			deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
				gpr_time_from_nanos((int64_t)timeout_ns, GPR_TIMESPAN));
		s->conn = c->conn;
		s->conn->refs++;
		s->call = grpc_channel_create_call(s->conn->channel, NULL,
			GRPC_PROPAGATE_DEFAULTS, c->rpc->cq, path, NULL, deadline, NULL);
		grpc_slice_unref(path);
	}
	*ret = s;
	return 0;
}

/* Sends the call. Without a connection the call ends soon, from the loop. */
static int send_rpc_call(struct rpc_stream *s, const void *request, size_t len,
	const struct error *why, struct error *err)
{
	if (s->call) {
		start_stream_ops(s, request, len);
		return 0;
	}
	if (end_stream_from_loop(s, why, err) < 0) {
		LIST_REMOVE(s, link);
		free_rpc_stream(s);
		return -1;
	}
	return 0;
}

int rpc_invoke(struct rpc_client *c, const char *method, const void *request, size_t len,
	uint64_t timeout_ns, rpc_done_fn done, void *arg, struct error *err)
{
	struct error why = ERROR_INIT;
	struct rpc_stream *s;

	if (call_new(c, method, len, timeout_ns, &s, &why, err) < 0)
		return -1;
	s->unary = true;
	s->done = done;
	s->arg = arg;
	return send_rpc_call(s, request, len, &why, err);
}

int rpc_stream_open(struct rpc_client *c, const char *method, const void *request, size_t len,
	void (*message)(void *arg, const uint8_t *data, size_t len),
	void (*end)(void *arg, enum rpc_status status, const char *text), void *arg,
	struct rpc_stream **ret, struct error *err)
{
	struct error why = ERROR_INIT;
	struct rpc_stream *s;

	if (call_new(c, method, len, UINT64_MAX, &s, &why, err) < 0)
		return -1;
	s->message = message;
	s->end = end;
	s->arg = arg;
	if (send_rpc_call(s, request, len, &why, err) < 0)
		return -1;
	*ret = s;
	return 0;
}

void rpc_stream_cancel(struct rpc_stream *s)
{
	s->cancelled = true;
	if (s->call)
		(void)grpc_call_cancel(s->call, NULL);
}

void rpc_client_close(struct rpc_client *c)
{
	struct rpc_stream *s;

	if (c->closing)
		return;
	c->closing = true;
	LIST_REMOVE(c, link);
	while ((s = LIST_FIRST(&c->calls))) {
		rpc_stream_cancel(s);
		report_stream_end(s, RPC_CANCELLED, "cancelled", NULL, 0);
	}
	conn_unref(c->conn);
	rpc_unref(c->rpc);
	free(c);
}
