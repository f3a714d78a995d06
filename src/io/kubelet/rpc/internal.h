/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What rpc.c, server.c and client.c share.
 *
 * Ops. An op is one tag in gRPC's completion queue, embedded in the object that it belongs to.
 *  1. The loop arms the op under the lock (rpc_arm()) and passes it to gRPC.
 *  2. gRPC puts the finished op into the completion queue.
 *  3. The pump thread takes the op from the queue, and appends it to a list under the lock.
 *  4. The loop takes the list under the lock and runs op->done.
 * The lock orders the loop's writes to an op before the pump's. An object is freed only when none of its ops is
 * armed, so neither thread touches freed memory. `rpc.armed` is 0 when nothing is under way.
 *
 * Descriptors. This module listens, accepts and connects, and gives connected sockets to gRPC. So gRPC knows no
 * paths. It cannot delete a newer server's socket, and it keeps no back-off for a kubelet that has restarted
 * under the same name.
 *
 * Thread: loop, but for the pump.
 */
#include "io/kubelet/rpc/rpc.h"
#include "lib/base/unix-socket.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <pthread.h>
#include <sys/queue.h>

/*
 * Call it before gRPC creates anything. gRPC aborts the process if it finds no descriptor for its own use: at
 * its first server or channel, and whenever it starts its threads again. ERR_LIMIT: too few descriptors are
 * left.
 */
int rpc_check_free_fds(struct error *err) MUST_USE;

struct rpc_op {
	struct rpc_op *next;
	void (*done)(struct rpc_op *op, bool ok);
	bool ok;
};

struct rpc {
	uv_loop_t *loop;
	uv_async_t async;
	grpc_completion_queue *cq;
	pthread_t pump;
	bool pump_runs, async_open;

	pthread_mutex_t lock; /* guards .first, .last */
	struct rpc_op *first, **last;

	unsigned armed; /* ops that have not run yet */
	unsigned refs;  /* objects and handles that still exist; see rpc_ref() */
	LIST_HEAD(, rpc_server) servers;
	LIST_HEAD(, rpc_client) clients;
	LIST_HEAD(, rpc_call) orphans; /* unanswered unary calls of servers that are gone */
	grpc_channel_credentials *client_credentials;
	grpc_server_credentials *server_credentials;
};

#define OP_CONTAINER(op, type, member) ((type *)(void *)((char *)(op)-offsetof(type, member)))

/* Arms @op. Call it right before the gRPC call that has @op as its tag. */
void rpc_arm(struct rpc *r, struct rpc_op *op, void (*done)(struct rpc_op *op, bool ok));

/* Starts a batch. If gRPC refuses it, @done runs with false, as if the peer had gone. */
void rpc_start_batch(struct rpc *r, grpc_call *call, const grpc_op *ops, size_t n,
	struct rpc_op *op, void (*done)(struct rpc_op *op, bool ok));

/* A buffer with a copy of @len bytes; grpc_byte_buffer_destroy(). */
grpc_byte_buffer *rpc_bytes_new(const void *data, size_t len);

/* The content of a received buffer, in one piece. .data is valid until rpc_bytes_close(). */
struct rpc_bytes {
	grpc_slice slice;
	const uint8_t *data;
	size_t len;
};

/* False: @b is NULL or cannot be read, and there is nothing to close. @b stays the caller's. */
bool rpc_bytes_open(struct rpc_bytes *ret, grpc_byte_buffer *b);
void rpc_bytes_close(struct rpc_bytes *b);

/* Frees an orphan: after its answer, or in rpc_free(). */
void rpc_call_free_orphan(struct rpc_call *call);
