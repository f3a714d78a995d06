/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's side of gRPC: listeners, connections, and incoming calls (rpc.h). The rules for ops are in
 * internal.h.
 */
#include "io/kubelet/rpc/rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <grpc/grpc_posix.h>
#include <grpc/slice.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "io/kubelet/rpc/internal.h"

/* How long the server does not accept connections when no descriptors are left. */
#define ACCEPT_PAUSE_MS 100

/*
 * The bytes that gRPC may hold for one connection. gRPC reads a whole message before it compares the length
 * with the limit; beyond these bytes it ends calls of the connection. Each connection has a quota of its own,
 * and therefore its own grpc_server. With a shared quota gRPC would end the oldest call first, which would be
 * the kubelet's stream.
 */
#define PEER_MEMORY_MAX (2 * RPC_REQUEST_MAX)

/* A kind of call that a peer may make: one for each method, and one for all other methods. */
struct rpc_call_slot {
	struct peer *peer;
	const struct rpc_method *method; /* NULL: any other method */
	void *handle;                    /* gRPC's name for the method */
	bool waiting;
};

struct rpc_server {
	struct rpc *rpc;
	LIST_ENTRY(rpc_server) link;
	struct file_id id;
	struct listener *listener;
	void *arg;
	unsigned refs; /* the owner, each peer */
	bool closed;
	LIST_HEAD(, rpc_call) calls;
	LIST_HEAD(, peer) peers;
	unsigned n_peers;
	void (*hangup)(void *arg, unsigned left);
	void *hangup_arg;
	char *path;
	const struct rpc_method *methods;
	size_t n_methods;
};

/* A listening descriptor. */
struct listener {
	struct rpc_server *server; /* NULL after listener_close() */
	struct rpc *rpc;
	uv_poll_t poll;
	uv_timer_t pause; /* no descriptors left: retry later */
	unsigned handles;
	int fd;
};

/*
 * A connection: its own grpc_server, and a duplicate of the descriptor that the loop watches for the peer's
 * hang-up.
 */
struct peer {
	struct rpc_server *server;
	LIST_ENTRY(peer) link;
	grpc_server *grpc;
	struct rpc_op shutdown;
	uv_poll_t poll;
	int fd;
	unsigned refs; /* the poll, the shutdown, and each call */
	bool closing;
	size_t n_slots;
	struct rpc_call_slot slots[];
};

struct rpc_call {
	struct rpc *rpc;
	struct rpc_server *server; /* NULL for an orphan */
	struct peer *peer;         /* NULL for an orphan */
	LIST_ENTRY(rpc_call) link;
	struct rpc_call_slot *slot;
	const struct rpc_method *method;
	grpc_call *grpc;
	struct rpc_op arrive, close, send;
	unsigned in_flight;
	bool given; /* the owner has it, and answers it or gets its end */
	bool gone;  /* the peer has gone, or has the status */
	bool sending;
	bool sent_headers;
	bool finish;   /* send the status when no batch is in flight */
	bool finished; /* the status is being sent */
	int cancelled;
	grpc_metadata_array metadata;
	grpc_call_details details;
	gpr_timespec deadline;
	grpc_byte_buffer *payload;
	grpc_byte_buffer *waiting; /* the newest message, behind the one in flight */
	grpc_status_code status;
	grpc_slice text;
	void (*on_end)(struct rpc_call *call, void *arg);
	void *on_end_arg;
};

static void server_unref(struct rpc_server *s)
{
	if (--s->refs > 0)
		return;
	rpc_unref(s->rpc);
	free(s->path);
	free(s);
}

static void peer_unref(struct peer *p)
{
	if (--p->refs > 0)
		return;
	grpc_server_destroy(p->grpc);
	server_unref(p->server);
	free(p);
}

/* --- calls --- */

static void wait_for_calls(struct peer *p);

static void call_clear(struct rpc_call *c)
{
	if (c->grpc)
		grpc_call_unref(c->grpc);
	c->grpc = NULL;
	if (c->payload)
		grpc_byte_buffer_destroy(c->payload);
	c->payload = NULL;
	if (c->waiting)
		grpc_byte_buffer_destroy(c->waiting);
	c->waiting = NULL;
}

static void free_rpc_call(struct rpc_call *c)
{
	call_clear(c);
	grpc_metadata_array_destroy(&c->metadata);
	grpc_call_details_destroy(&c->details);
	grpc_slice_unref(c->text);
	free(c);
}

void rpc_call_free_orphan(struct rpc_call *c)
{
	LIST_REMOVE(c, link);
	free_rpc_call(c);
}

/*
 * Frees the call when no op and no owner uses it any more. A unary call that the owner has yet to answer stays
 * as a shell without gRPC objects, since a grpc_server cannot end before its calls.
 */
static void release_idle_call(struct rpc_call *c)
{
	struct rpc_server *s = c->server;
	struct peer *p = c->peer;

	if (c->in_flight > 0 || !s)
		return;
	if (c->given && !c->gone && !s->closed)
		return;
	LIST_REMOVE(c, link);
	c->server = NULL;
	c->peer = NULL;
	if (c->given) {
		call_clear(c);
		LIST_INSERT_HEAD(&c->rpc->orphans, c, link);
	} else {
		free_rpc_call(c);
	}
	wait_for_calls(p);
	peer_unref(p);
}

static void on_sent(struct rpc_op *op, bool ok);

/* Sends one batch: the headers if they are not sent yet, @message or NULL, the status if the call is
 * finished. */
static void send_batch(struct rpc_call *c, grpc_byte_buffer *message)
{
	grpc_op ops[3];
	size_t n = 0;

	if (!c->sent_headers) {
		ops[n++] = (grpc_op){ .op = GRPC_OP_SEND_INITIAL_METADATA };
		c->sent_headers = true;
	}
	if (message) {
		ops[n] = (grpc_op){ .op = GRPC_OP_SEND_MESSAGE };
		ops[n++].data.send_message.send_message = message;
	}
	if (c->finish) {
		ops[n] = (grpc_op){ .op = GRPC_OP_SEND_STATUS_FROM_SERVER };
		ops[n].data.send_status_from_server.status = c->status;
		ops[n++].data.send_status_from_server.status_details = &c->text;
		c->finished = true;
	}
	c->sending = true;
	c->in_flight++;
	rpc_start_batch(c->rpc, c->grpc, ops, n, &c->send, on_sent);
	if (message)
		grpc_byte_buffer_destroy(message);
}

static void on_sent(struct rpc_op *op, bool ok)
{
	struct rpc_call *c = OP_CONTAINER(op, struct rpc_call, send);

	c->in_flight--;
	c->sending = false;
	/* Not ok: the peer has gone. on_call_closed() reports that to the owner. */
	if (ok && !c->gone && !c->finished && (c->waiting || c->finish))
		send_batch(c, STEAL_PTR(c->waiting));
	release_idle_call(c);
}

/* The owner is done with the call; this module ends it. */
static void finish_rpc_call(struct rpc_call *c, grpc_byte_buffer *message,
	enum rpc_status status, const char *text)
{
	c->given = false;
	if (!c->server) { /* an orphan has no connection */
		if (message)
			grpc_byte_buffer_destroy(message);
		rpc_call_free_orphan(c);
		return;
	}
	c->finish = true;
	c->status = (grpc_status_code)status;
	grpc_slice_unref(c->text);
	c->text = grpc_slice_from_copied_string(text ? text : "");
	if (message) {
		if (c->waiting)
			grpc_byte_buffer_destroy(c->waiting);
		c->waiting = message;
	}
	if (!c->gone && !c->sending && !c->server->closed)
		send_batch(c, STEAL_PTR(c->waiting));
	release_idle_call(c);
}

void rpc_reply(struct rpc_call *c, const void *message, size_t len)
{
	if (len > RPC_MESSAGE_MAX)
		rpc_reply_error(c, RPC_RESOURCE_EXHAUSTED,
			"reply is longer than RPC_MESSAGE_MAX");
	else
		finish_rpc_call(c, rpc_bytes_new(message, len), RPC_OK, NULL);
}

void rpc_reply_error(struct rpc_call *c, enum rpc_status status, const char *text)
{
	finish_rpc_call(c, NULL, status == RPC_OK ? RPC_INTERNAL : status, text);
}

void rpc_stream_finish(struct rpc_call *c, enum rpc_status status, const char *text)
{
	c->on_end = NULL;
	finish_rpc_call(c, NULL, status, text);
}

void rpc_stream_send(struct rpc_call *c, const void *message, size_t len)
{
	grpc_byte_buffer *b;

	if (c->gone || !c->server || c->server->closed)
		return; /* on_end follows */
	b = rpc_bytes_new(message, len);
	if (c->sending) {
		if (c->waiting)
			grpc_byte_buffer_destroy(c->waiting);
		c->waiting = b;
	} else {
		send_batch(c, b);
	}
}

void rpc_stream_on_end(struct rpc_call *c, void (*on_end)(struct rpc_call *call, void *arg),
	void *arg)
{
	c->on_end = on_end;
	c->on_end_arg = arg;
}

/* Takes a stream back from its owner, and reports the end. */
static void end_stream(struct rpc_call *c)
{
	void (*on_end)(struct rpc_call *, void *) = c->on_end;

	if (!c->given || !c->method->streaming)
		return;
	c->given = false;
	c->on_end = NULL;
	if (on_end)
		on_end(c, c->on_end_arg);
}

static void on_call_closed(struct rpc_op *op, bool ok)
{
	struct rpc_call *c = OP_CONTAINER(op, struct rpc_call, close);

	(void)ok;
	c->gone = true; /* or the peer has the status */
	end_stream(c);
	c->in_flight--;
	release_idle_call(c);
}

static void handle_rpc_call(struct rpc_call *c)
{
	struct rpc_bytes request;
	grpc_op op = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER };

	op.data.recv_close_on_server.cancelled = &c->cancelled;
	c->in_flight++;
	rpc_start_batch(c->rpc, c->grpc, &op, 1, &c->close, on_call_closed);
	if (!c->method) {
		finish_rpc_call(c, NULL, RPC_UNIMPLEMENTED, "unknown method");
	} else if (!rpc_bytes_open(&request, c->payload)) {
		/* The request is too long, or missing: gRPC cancels the call. */
		finish_rpc_call(c, NULL, RPC_INVALID_ARGUMENT, "no request message");
	} else {
		c->given = true;
		c->in_flight++; /* keeps the call, should it end in the handler */
		c->method->handle(c, request.data, request.len, c->server->arg);
		c->in_flight--;
		rpc_bytes_close(&request);
		release_idle_call(c);
	}
}

static void on_arrived(struct rpc_op *op, bool ok)
{
	struct rpc_call *c = OP_CONTAINER(op, struct rpc_call, arrive);
	struct peer *p = c->peer;

	c->slot->waiting = false;
	if (!ok) { /* the connection is closing */
		free_rpc_call(c);
		peer_unref(p);
		return;
	}
	LIST_INSERT_HEAD(&c->server->calls, c, link);
	if (p->closing) {
		release_idle_call(c);
		return;
	}
	wait_for_calls(p);
	handle_rpc_call(c);
}

static void wait_for_call(struct rpc_call_slot *slot)
{
	struct peer *p = slot->peer;
	struct rpc *r = p->server->rpc;
	struct rpc_call *c = calloc(1, sizeof(*c));
	grpc_call_error e;

	if (!c)
		return; /* retried when a call ends */
	c->rpc = r;
	c->server = p->server;
	c->peer = p;
	c->slot = slot;
	c->method = slot->method;
	c->text = grpc_empty_slice();
	grpc_metadata_array_init(&c->metadata);
	grpc_call_details_init(&c->details);
	rpc_arm(r, &c->arrive, on_arrived);
	if (slot->method)
		e = grpc_server_request_registered_call(p->grpc, slot->handle, &c->grpc,
			&c->deadline, &c->metadata, &c->payload, r->cq, r->cq, &c->arrive);
	else
		e = grpc_server_request_call(p->grpc, &c->grpc, &c->details, &c->metadata,
			r->cq, r->cq, &c->arrive);
	if (e != GRPC_CALL_OK)
		abort(); /* gRPC refuses only wrong flags or queues: a bug here */
	slot->waiting = true;
	p->refs++;
}

static void wait_for_calls(struct peer *p)
{
	for (size_t i = 0; i < p->n_slots && !p->closing; i++)
		if (!p->slots[i].waiting)
			wait_for_call(&p->slots[i]);
}

/* --- connections --- */

static grpc_server *grpc_new(void)
{
	grpc_resource_quota *quota = grpc_resource_quota_create("connection");
	grpc_arg args[] = {
		{ .type = GRPC_ARG_INTEGER,
			.key = (char *)(uintptr_t)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
			.value.integer = RPC_REQUEST_MAX },
		{ .type = GRPC_ARG_INTEGER,
			.key = (char *)(uintptr_t)GRPC_ARG_HTTP2_BDP_PROBE,
			.value.integer = 0 },
		{ .type = GRPC_ARG_POINTER,
			.key = (char *)(uintptr_t)GRPC_ARG_RESOURCE_QUOTA,
			.value.pointer = { quota, grpc_resource_quota_arg_vtable() } },
	};
	grpc_channel_args all = { .num_args = ARRAY_LEN(args), .args = args };
	grpc_server *server;

	grpc_resource_quota_resize(quota, PEER_MEMORY_MAX);
	server = grpc_server_create(&all, NULL);
	grpc_resource_quota_unref(quota);
	return server;
}

static void on_peer_closed(uv_handle_t *h)
{
	struct peer *p = h->data;

	(void)close(p->fd);
	peer_unref(p);
}

static void on_shut_down(struct rpc_op *op, bool ok)
{
	(void)ok;
	peer_unref(OP_CONTAINER(op, struct peer, shutdown));
}

static void peer_close(struct peer *p)
{
	struct rpc *r = p->server->rpc;

	if (p->closing)
		return;
	p->closing = true;
	LIST_REMOVE(p, link);
	p->server->n_peers--;
	uv_close((uv_handle_t *)&p->poll, on_peer_closed);
	p->refs++;
	rpc_arm(r, &p->shutdown, on_shut_down);
	grpc_server_shutdown_and_notify(p->grpc, r->cq, &p->shutdown);
	grpc_server_cancel_all_calls(p->grpc);
}

static void on_peer_event(uv_poll_t *poll, int status, int events)
{
	struct peer *p = poll->data;
	struct rpc_server *s = p->server;

	(void)status; /* an error ends the connection too */
	(void)events;
	peer_close(p);
	if (!s->closed && s->hangup)
		s->hangup(s->hangup_arg, s->n_peers);
}

/* Prepares for calls, before gRPC has the connection. */
static void peer_start(struct peer *p)
{
	struct rpc_server *s = p->server;

	p->grpc = grpc_new();
	grpc_server_register_completion_queue(p->grpc, s->rpc->cq, NULL);
	p->n_slots = s->n_methods + 1;
	for (size_t i = 0; i < p->n_slots; i++) {
		p->slots[i].peer = p;
		if (i == s->n_methods)
			break;
		p->slots[i].method = &s->methods[i];
		p->slots[i].handle = grpc_server_register_method(p->grpc, s->methods[i].path,
			NULL, GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
	}
	grpc_server_start(p->grpc);
	wait_for_calls(p);
}

/* Serves the connection @fd, and owns it. */
static void peer_add(struct rpc_server *s, int fd)
{
	CLEANUP(closep) int own = fd, watched = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	CLEANUP(freep)
	struct peer *p = calloc(1, sizeof(*p) + (s->n_methods + 1) * sizeof(p->slots[0]));

	if (!p || watched < 0 || uv_poll_init(s->rpc->loop, &p->poll, watched) < 0)
		return;
	p->fd = steal_fd(&watched);
	p->server = s;
	p->poll.data = p;
	p->refs = 1; /* the poll's */
	s->refs++;
	s->n_peers++;
	LIST_INSERT_HEAD(&s->peers, p, link);
	uv_unref((uv_handle_t *)&p->poll);
	peer_start(p);
	if (uv_poll_start(&p->poll, UV_DISCONNECT, on_peer_event) < 0)
		peer_close(p);
	else
		grpc_server_add_channel_from_fd(p->grpc, steal_fd(&own),
			s->rpc->server_credentials);
	(void)STEAL_PTR(p);
}

static void on_pause_over(uv_timer_t *t);
static void on_acceptable(uv_poll_t *poll, int status, int events);

static void listener_start(struct listener *l)
{
	(void)uv_poll_start(&l->poll, UV_READABLE, on_acceptable);
}

static void on_pause_over(uv_timer_t *t)
{
	listener_start(t->data);
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
	struct listener *l = poll->data;
	struct rpc_server *s = l->server;
	int i;

	(void)status;
	(void)events;
	for (i = 0; i < 16; i++) { /* the rest in the next round of the loop */
		CLEANUP(closep)
		int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
				errno == ENOMEM) {
				(void)uv_poll_stop(&l->poll);
				(void)uv_timer_start(&l->pause, on_pause_over, ACCEPT_PAUSE_MS,
					0);
			}
			return;
		}
		if (s->n_peers < fd_peers(RPC_PEERS_MAX))
			peer_add(s, steal_fd(&fd));
	}
}

static void on_rpc_listener_closed(uv_handle_t *h)
{
	struct listener *l = h->data;

	if (--l->handles > 0)
		return;
	(void)close(l->fd);
	rpc_unref(l->rpc);
	free(l);
}

static void listener_close(struct listener *l)
{
	if (!l)
		return;
	l->server = NULL;
	uv_close((uv_handle_t *)&l->poll, on_rpc_listener_closed);
	uv_close((uv_handle_t *)&l->pause, on_rpc_listener_closed);
}

/* Opens the socket of @s and watches it. Replaces s->listener. */
static int listen_at_path(struct rpc_server *s, struct error *err)
{
	CLEANUP(freep) struct listener *l = calloc(1, sizeof(*l));
	CLEANUP(closep) int fd = -1;
	struct file_id id;
	int e;

	if (!l)
		return error_nomem(err);
	if (unix_listen(s->path, &fd, &id, err) < 0)
		return -1;
	e = uv_poll_init(s->rpc->loop, &l->poll, fd);
	if (e < 0) {
		unix_unlink(s->path, &id);
		return error_sys(err, -e, "watch '%s'", s->path);
	}
	(void)uv_timer_init(s->rpc->loop, &l->pause);
	l->fd = steal_fd(&fd);
	l->rpc = s->rpc;
	l->handles = 2;
	l->poll.data = l->pause.data = l;
	l->server = s;
	rpc_ref(s->rpc);
	listener_start(l);

	listener_close(s->listener);
	s->listener = STEAL_PTR(l);
	s->id = id;
	return 0;
}

int rpc_server_relisten(struct rpc_server *s, struct error *err)
{
	struct file_id now;

	if (s->closed)
		return error_set(err, ERR_CANCELLED, "server of '%s' is closed", s->path);
	if (file_id_get(s->path, &now) && file_id_equal(&now, &s->id))
		return 0;
	return listen_at_path(s, err) < 0 ? -1 : RPC_RELISTENED;
}

unsigned rpc_server_peers(const struct rpc_server *s)
{
	return s->n_peers;
}

void rpc_server_on_hangup(struct rpc_server *s, void (*hangup)(void *arg, unsigned left),
	void *arg)
{
	s->hangup = hangup;
	s->hangup_arg = arg;
}

/* --- the server --- */

void rpc_server_close(struct rpc_server *s)
{
	struct rpc_call *c;
	struct peer *p;

	if (s->closed)
		return;
	s->closed = true;
	LIST_REMOVE(s, link);
	if (s->listener) {
		unix_unlink(s->path, &s->id);
		listener_close(s->listener);
		s->listener = NULL;
	}
	while ((p = LIST_FIRST(&s->peers)))
		peer_close(p);
again:
	/* An on_end may finish or answer other calls: restart the walk after each. */
	LIST_FOREACH(c, &s->calls, link)
	{
		if (c->given && c->method->streaming) {
			c->in_flight++;
			end_stream(c);
			c->in_flight--;
			release_idle_call(c);
			goto again;
		}
	}
	server_unref(s); /* the owner's */
}

int rpc_serve(struct rpc *r, const char *path, const struct rpc_method *methods,
	size_t n_methods, void *arg, struct rpc_server **ret, struct error *err)
{
	struct rpc_server *s;

	if (unix_path_check(path, err) < 0 || rpc_check_free_fds(err) < 0)
		return -1;
	s = calloc(1, sizeof(*s));
	if (!s || !(s->path = strdup(path))) {
		free(s);
		return error_nomem(err);
	}
	s->rpc = r;
	s->arg = arg;
	s->refs = 1;
	s->methods = methods;
	s->n_methods = n_methods;
	LIST_INIT(&s->calls);
	LIST_INIT(&s->peers);
	LIST_INSERT_HEAD(&r->servers, s, link);
	rpc_ref(r);
	if (listen_at_path(s, err) < 0) {
		rpc_server_close(s);
		return -1;
	}
	*ret = s;
	return 0;
}
