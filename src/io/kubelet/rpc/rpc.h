/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * gRPC over unix sockets on a libuv loop: bytes in, bytes out, no generated service code.
 *
 * gRPC's C core has threads of its own but never calls us from them. One thread of ours waits on
 * the completion queue and only posts to the loop; every function here is called, and every
 * callback runs, on the loop thread. Payloads are serialized protobuf messages. A message that we send or get as a
 * client may have RPC_MESSAGE_MAX bytes, a request to a server RPC_REQUEST_MAX; what is longer is refused by the
 * library, and makes it hold twice RPC_REQUEST_MAX bytes for a connection at most. Nothing here blocks, but for
 * rpc_free().
 *
 * The loop stays alive (uv_run() does not return) while a server is open or a call is under way,
 * but not for an idle client.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#define RPC_MESSAGE_MAX (16U << 20)
#define RPC_REQUEST_MAX (4U << 20) /* as grpc-go */

/* gRPC status codes that we use by name. */
enum rpc_status {
	RPC_OK = 0,
	RPC_CANCELLED = 1,
	RPC_UNKNOWN = 2,
	RPC_INVALID_ARGUMENT = 3,
	RPC_DEADLINE_EXCEEDED = 4,
	RPC_RESOURCE_EXHAUSTED = 8,
	RPC_UNIMPLEMENTED = 12,
	RPC_INTERNAL = 13,
	RPC_UNAVAILABLE = 14,
};

struct rpc;        /* completion queue and its thread, bound to one loop */
struct rpc_server; /* one listening socket */
struct rpc_call;   /* one incoming call */
struct rpc_client; /* one channel to a socket */
struct rpc_stream; /* one outgoing call with a stream of answers */

int rpc_new(struct rpc **ret, uv_loop_t *loop, struct error *err) MUST_USE;

/* Closes every server, client and call that is left, runs the loop until they are gone (other
 * handles' callbacks run, too), and frees. Not from a callback. Unary calls that nobody has answered
 * yet are freed: do not answer them after this. Returns NULL. */
struct rpc *rpc_free(struct rpc *r);

/* Its loop. */
uv_loop_t *rpc_loop(const struct rpc *r);

/* rpc_free() runs the loop until everything that was held is let go. */
void rpc_ref(struct rpc *r);
void rpc_unref(struct rpc *r);

/* --- server --- */

struct rpc_method {
	const char *path; /* "/v1beta1.DevicePlugin/Allocate" */
	bool streaming;   /* the answer is a stream */
	/* Called with the whole request, borrowed for the call. A unary method answers exactly once
	 * with rpc_reply*(), now or later; the call stays valid until then, even if the peer has
	 * gone or the server was closed. A stream ends with rpc_stream_finish() or its on_end. */
	void (*handle)(struct rpc_call *call, const uint8_t *request, size_t len, void *arg);
};

/*
 * Listens on @path with @methods (kept by reference; static). A socket file that nobody serves is
 * replaced; one that answers is ERR_EXISTS. Other methods get UNIMPLEMENTED. The socket can be
 * dialled when this returns.
 */
int rpc_serve(struct rpc *r, const char *path, const struct rpc_method *methods,
	size_t n_methods, void *arg, struct rpc_server **ret, struct error *err) MUST_USE;

/* Ends all calls of the server (streams get their on_end before this returns), stops listening and
 * removes the socket file if it is still ours. The object is gone after this. */
void rpc_server_close(struct rpc_server *s);

/*
 * Is the socket file still ours? If it was deleted, or is somebody's dead one, listens anew under
 * the same path; connections that are open stay. Returns 0, or RPC_RELISTENED if there was
 * something to do. ERR_EXISTS: another process serves the path now.
 */
#define RPC_RELISTENED 1
int rpc_server_relisten(struct rpc_server *s, struct error *err) MUST_USE;

/* Connections whose other end has not hung up. */
unsigned rpc_server_peers(const struct rpc_server *s);

/* @hangup runs each time that a connection has gone, with the number that is left. */
void rpc_server_on_hangup(struct rpc_server *s, void (*hangup)(void *arg, unsigned left),
	void *arg);

/* Connections of one server; more are closed at once. */
#define RPC_PEERS_MAX 256

void rpc_reply(struct rpc_call *call, const void *message, size_t len);
void rpc_reply_error(struct rpc_call *call, enum rpc_status status, const char *text);

/*
 * Streams. At most one message is in flight; while it is, only the newest waits behind it (each is
 * a complete state, so an old one is worth nothing): a slow reader costs us one message.
 */
void rpc_stream_send(struct rpc_call *call, const void *message, size_t len);

/* @on_end runs once when the peer has gone, cancelled, or the server closes; the call is invalid
 * after it. Set it inside handle(). It does not run after rpc_stream_finish(). */
void rpc_stream_on_end(struct rpc_call *call, void (*on_end)(struct rpc_call *call, void *arg),
	void *arg);
/* Sends what waits, then the status. The call is invalid after this. */
void rpc_stream_finish(struct rpc_call *call, enum rpc_status status, const char *text);

/* --- client --- */

/*
 * Names the socket; the first call connects. A connection that has broken is replaced by the next
 * call, so a client may live as long as the program. Calls while nobody listens end with
 * RPC_UNAVAILABLE at once and a text that has the path and the reason.
 */
int rpc_dial(struct rpc *r, const char *path, struct rpc_client **ret,
	struct error *err) MUST_USE;

/* unix_peer_pid() of the server; -1 also while there is no connection. */
pid_t rpc_client_peer_pid(const struct rpc_client *c);

/* Outstanding calls end with RPC_CANCELLED before this returns. The object is gone after it. */
void rpc_client_close(struct rpc_client *c);

/* One answer: status RPC_OK and the reply, or a status and its text. Runs once, never before
 * rpc_invoke() has returned. */
typedef void (*rpc_done_fn)(void *arg, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len);

int rpc_invoke(struct rpc_client *c, const char *method, const void *request, size_t len,
	uint64_t timeout_ns, rpc_done_fn done, void *arg, struct error *err) MUST_USE;

/* A stream of answers. @message for each, then @end once; the object is invalid after @end. */
int rpc_stream_open(struct rpc_client *c, const char *method, const void *request, size_t len,
	void (*message)(void *arg, const uint8_t *data, size_t len),
	void (*end)(void *arg, enum rpc_status status, const char *text), void *arg,
	struct rpc_stream **ret, struct error *err) MUST_USE;
void rpc_stream_cancel(struct rpc_stream *s); /* @end still runs, with RPC_CANCELLED */
