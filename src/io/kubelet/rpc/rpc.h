/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * gRPC over unix sockets on a libuv loop: bytes in, bytes out, no generated service code. Payloads are
 * serialized protobuf messages.
 *
 * Threads. gRPC's C core has threads of its own, but never calls this program from them. One thread of this
 * module waits on the completion queue and only posts to the loop. Every function is called, and every callback
 * runs, on the loop thread. Nothing blocks but rpc_free().
 *
 * Limits. A message that a client sends or receives has at most RPC_MESSAGE_MAX bytes, a request to a server at
 * most RPC_REQUEST_MAX. gRPC refuses longer ones. It holds at most twice RPC_REQUEST_MAX bytes for a connection
 * of a server.
 *
 * Life of the loop. uv_run() does not return while a server is open or a call is under way. An idle client does
 * not keep the loop alive.
 * Thread: loop.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#define RPC_MESSAGE_MAX (16U << 20)
#define RPC_REQUEST_MAX (4U << 20) /* like grpc-go */

/* gRPC status codes that this program uses by name. */
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

/* Starts gRPC and the thread of the completion queue. @loop must outlive *ret. ERR_LIMIT: too few free
 * descriptors. ERR_NOMEM. */
int rpc_new(struct rpc **ret, uv_loop_t *loop, struct error *err) MUST_USE;

/*
 * Closes every server, client and call that is left, runs the loop until they are gone (callbacks of other
 * handles run too), and frees. Not for use in a callback. Frees unary calls that are still unanswered: do not
 * answer them afterwards. Returns NULL.
 */
struct rpc *rpc_free(struct rpc *r);

/* The loop of @r. */
uv_loop_t *rpc_loop(const struct rpc *r);

/* Take and drop a reference. rpc_free() runs the loop until all are dropped. */
void rpc_ref(struct rpc *r);
void rpc_unref(struct rpc *r);

/* --- server --- */

struct rpc_method {
	const char *path; /* "/v1beta1.DevicePlugin/Allocate" */
	bool streaming;   /* the method answers with a stream */
	/* The request is whole, and borrowed for the call. A unary method answers exactly once with
	 * rpc_reply*(), now or later. The call stays valid until then, even if the peer has gone or the
	 * server was closed. A stream ends with rpc_stream_finish() or its on_end. */
	void (*handle)(struct rpc_call *call, const uint8_t *request, size_t len, void *arg);
};

/*
 * Listens on @path with @methods (static; kept by reference). Clients can connect when this returns. Replaces a
 * socket file that no process serves. ERR_EXISTS: another process serves it. Other methods get UNIMPLEMENTED.
 */
int rpc_serve(struct rpc *r, const char *path, const struct rpc_method *methods,
	size_t n_methods, void *arg, struct rpc_server **ret, struct error *err) MUST_USE;

/* Ends all calls of the server; streams get their on_end before this returns. Stops listening, and removes
 * the socket file if it is still the server's own. Invalidates @s. */
void rpc_server_close(struct rpc_server *s);

/*
 * Checks whether the socket file is still the server's own. If it was deleted, or replaced by a socket that no
 * process serves, listens again on the same path; open connections stay. Returns 0, or RPC_RELISTENED if it
 * listens again. ERR_EXISTS: another process serves the path now.
 */
#define RPC_RELISTENED 1
int rpc_server_relisten(struct rpc_server *s, struct error *err) MUST_USE;

/* Connections that the peer has not closed. */
unsigned rpc_server_peers(const struct rpc_server *s);

/* @hangup runs each time a peer has hung up, with the number of connections left. It does not run for a
 * closed server. */
void rpc_server_on_hangup(struct rpc_server *s, void (*hangup)(void *arg, unsigned left),
	void *arg);

/* Connections of one server, or fewer: fd_peers(). More are closed at once. */
#define RPC_PEERS_MAX 256

/* Answer a unary call, with @len bytes that are copied, or with a status other than RPC_OK (which becomes
 * RPC_INTERNAL). @text NULL: none. A message above RPC_MESSAGE_MAX becomes RPC_RESOURCE_EXHAUSTED. The call
 * is invalid afterwards. */
void rpc_reply(struct rpc_call *call, const void *message, size_t len);
void rpc_reply_error(struct rpc_call *call, enum rpc_status status, const char *text);

/*
 * Streams. At most one message is in flight. Meanwhile only the newest message waits behind it: each is a
 * complete state, so an older one is worthless. A slow reader thus costs one message.
 */
void rpc_stream_send(struct rpc_call *call, const void *message, size_t len);

/* @on_end runs once when the peer has gone or cancelled, or the server closes. The call is invalid
 * afterwards. Set it inside handle(). It does not run after rpc_stream_finish(). */
void rpc_stream_on_end(struct rpc_call *call, void (*on_end)(struct rpc_call *call, void *arg),
	void *arg);
/* Sends the waiting message, then the status. The call is invalid afterwards. */
void rpc_stream_finish(struct rpc_call *call, enum rpc_status status, const char *text);

/* --- client --- */

/*
 * Sets the path of the socket; the first call connects. The next call replaces a broken connection, so a client
 * may live as long as the program. While no process listens, calls end at once with RPC_UNAVAILABLE and a text
 * with the path and the reason.
 */
int rpc_dial(struct rpc *r, const char *path, struct rpc_client **ret,
	struct error *err) MUST_USE;

/* unix_peer_pid() of the server; -1 while there is no connection, too. */
pid_t rpc_client_peer_pid(const struct rpc_client *c);

/* Outstanding calls end with RPC_CANCELLED before this returns. Invalidates @c. */
void rpc_client_close(struct rpc_client *c);

/* One answer: RPC_OK and the reply, or another status and its text. Runs once, never before rpc_invoke() has
 * returned. */
typedef void (*rpc_done_fn)(void *arg, enum rpc_status status, const char *text,
	const uint8_t *reply, size_t len);

/* Makes a unary call with a copy of @request; @done gets the answer, also if there is no connection.
 * @timeout_ns from INT64_MAX on: none. < 0: @done never runs. ERR_LIMIT: longer than RPC_MESSAGE_MAX.
 * ERR_CANCELLED: @c is closing. */
int rpc_invoke(struct rpc_client *c, const char *method, const void *request, size_t len,
	uint64_t timeout_ns, rpc_done_fn done, void *arg, struct error *err) MUST_USE;

/* A stream of answers: @message runs for each, then @end once. The stream is invalid after @end. */
int rpc_stream_open(struct rpc_client *c, const char *method, const void *request, size_t len,
	void (*message)(void *arg, const uint8_t *data, size_t len),
	void (*end)(void *arg, enum rpc_status status, const char *text), void *arg,
	struct rpc_stream **ret, struct error *err) MUST_USE;
void rpc_stream_cancel(struct rpc_stream *s); /* @end still runs, with RPC_CANCELLED */
