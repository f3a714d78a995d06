/* SPDX-License-Identifier: Apache-2.0 */
#include "io/kubelet/rpc/rpc.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "io/kubelet/rpc/internal.h"

#define RPC_FREE_FDS 16 /* gRPC opens about 8 at the first server or channel */

/* gRPC writes to stderr by itself. Its lines are about its internals. */
static void on_grpc_log(gpr_log_func_args *args)
{
	log_debug("grpc", LOG_STR("message", args->message));
}

static void post_finished_op(struct rpc *r, struct rpc_op *op, bool ok)
{
	bool was_empty;

	(void)pthread_mutex_lock(&r->lock);
	op->ok = ok;
	op->next = NULL;
	was_empty = !r->first;
	*r->last = op;
	r->last = &op->next;
	(void)pthread_mutex_unlock(&r->lock);
	if (was_empty)
		(void)uv_async_send(&r->async);
}

static void *run_rpc_pump(void *arg)
{
	struct rpc *r = arg;

	for (;;) {
		grpc_event ev = grpc_completion_queue_next(r->cq,
			gpr_inf_future(GPR_CLOCK_REALTIME), NULL);

		if (ev.type == GRPC_QUEUE_SHUTDOWN)
			return NULL;
		if (ev.type == GRPC_OP_COMPLETE)
			post_finished_op(r, ev.tag, ev.success != 0);
	}
}

static void on_rpc_ops_finished(uv_async_t *async)
{
	struct rpc *r = async->data;
	struct rpc_op *op, *next;

	(void)pthread_mutex_lock(&r->lock);
	op = r->first;
	r->first = NULL;
	r->last = &r->first;
	(void)pthread_mutex_unlock(&r->lock);

	for (; op; op = next) {
		next = op->next;
		if (--r->armed == 0)
			uv_unref((uv_handle_t *)&r->async);
		op->done(op, op->ok);
	}
}

void rpc_arm(struct rpc *r, struct rpc_op *op, void (*done)(struct rpc_op *op, bool ok))
{
	/* The pump takes the same lock before it writes to the op. That orders the loop's writes before the
	 * pump's without relying on gRPC's internals. */
	(void)pthread_mutex_lock(&r->lock);
	op->done = done;
	(void)pthread_mutex_unlock(&r->lock);
	if (r->armed++ == 0)
		uv_ref((uv_handle_t *)&r->async);
}

void rpc_start_batch(struct rpc *r, grpc_call *call, const grpc_op *ops, size_t n,
	struct rpc_op *op, void (*done)(struct rpc_op *op, bool ok))
{
	grpc_call_error e;

	rpc_arm(r, op, done);
	e = grpc_call_start_batch(call, ops, n, op, NULL);
	if (e != GRPC_CALL_OK) {
		log_debug("grpc refused a batch",
			LOG_STR("reason", grpc_call_error_to_string(e)));
		post_finished_op(r, op, false);
	}
}

uv_loop_t *rpc_loop(const struct rpc *r)
{
	return r->loop;
}

void rpc_ref(struct rpc *r)
{
	r->refs++;
}

void rpc_unref(struct rpc *r)
{
	r->refs--;
}

grpc_byte_buffer *rpc_bytes_new(const void *data, size_t len)
{
	grpc_slice slice = grpc_slice_from_copied_buffer(data, len);
	grpc_byte_buffer *b = grpc_raw_byte_buffer_create(&slice, 1);

	grpc_slice_unref(slice);
	return b;
}

bool rpc_bytes_open(struct rpc_bytes *ret, grpc_byte_buffer *b)
{
	grpc_byte_buffer_reader reader;

	if (!b || !grpc_byte_buffer_reader_init(&reader, b))
		return false;
	ret->slice = grpc_byte_buffer_reader_readall(&reader);
	grpc_byte_buffer_reader_destroy(&reader);
	ret->data = GRPC_SLICE_START_PTR(ret->slice);
	ret->len = GRPC_SLICE_LENGTH(ret->slice);
	return true;
}

void rpc_bytes_close(struct rpc_bytes *b)
{
	grpc_slice_unref(b->slice);
}

static void on_async_closed(uv_handle_t *h)
{
	struct rpc *r = h->data;

	r->async_open = false;
}

/* Requires an empty queue, with no op armed. */
static struct rpc *free_rpc(struct rpc *r)
{
	if (r->cq) {
		grpc_completion_queue_shutdown(r->cq);
		if (r->pump_runs)
			(void)pthread_join(r->pump, NULL);
		else
			while (grpc_completion_queue_next(r->cq,
				       gpr_inf_future(GPR_CLOCK_REALTIME), NULL)
					.type != GRPC_QUEUE_SHUTDOWN)
				;
		grpc_completion_queue_destroy(r->cq);
	}
	if (r->async_open) {
		uv_ref((uv_handle_t *)&r->async);
		uv_close((uv_handle_t *)&r->async, on_async_closed);
		while (r->async_open)
			(void)uv_run(r->loop, UV_RUN_ONCE);
	}
	grpc_channel_credentials_release(r->client_credentials);
	grpc_server_credentials_release(r->server_credentials);
	/* The last user waits for gRPC's own threads, so that none of them outlives this call. */
	grpc_shutdown_blocking();
	(void)pthread_mutex_destroy(&r->lock);
	free(r);
	return NULL;
}

int rpc_check_free_fds(struct error *err)
{
	if (fd_has_free(RPC_FREE_FDS))
		return 0;
	return error_set(err, ERR_LIMIT,
		"gRPC needs %d free file descriptors; RLIMIT_NOFILE (ulimit -n) is %u",
		RPC_FREE_FDS, fd_limit());
}

int rpc_new(struct rpc **ret, uv_loop_t *loop, struct error *err)
{
	struct rpc *r;
	sigset_t all, old;
	int e;

	if (rpc_check_free_fds(err) < 0)
		return -1;
	r = calloc(1, sizeof(*r));
	if (!r)
		return error_nomem(err);
	r->loop = loop;
	r->last = &r->first;
	LIST_INIT(&r->servers);
	LIST_INIT(&r->clients);
	LIST_INIT(&r->orphans);
	(void)pthread_mutex_init(&r->lock, NULL);

	/* Signals are for the main thread: all threads that start here block every signal. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	gpr_set_log_function(on_grpc_log);
	grpc_init();
	r->client_credentials = grpc_insecure_credentials_create();
	r->server_credentials = grpc_insecure_server_credentials_create();
	r->cq = grpc_completion_queue_create_for_next(NULL);
	e = -uv_async_init(loop, &r->async, on_rpc_ops_finished);
	if (e == 0) {
		r->async.data = r;
		r->async_open = true;
		uv_unref((uv_handle_t *)&r->async);
		e = pthread_create(&r->pump, NULL, run_rpc_pump, r);
	}
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (e != 0) {
		(void)free_rpc(r);
		return error_sys(err, e, "start the gRPC thread");
	}
	r->pump_runs = true;
	(void)pthread_setname_np(r->pump, "rpc-pump");
	*ret = r;
	return 0;
}

struct rpc *rpc_free(struct rpc *r)
{
	struct rpc_server *s;
	struct rpc_client *c;
	struct rpc_call *call;

	if (!r)
		return NULL;
	for (;;) {
		/* A callback may have opened another server or client. */
		while ((s = LIST_FIRST(&r->servers)))
			rpc_server_close(s);
		while ((c = LIST_FIRST(&r->clients)))
			rpc_client_close(c);
		if (r->armed == 0 && r->refs == 0)
			break;
		(void)uv_run(r->loop, UV_RUN_ONCE);
	}
	while ((call = LIST_FIRST(&r->orphans)))
		rpc_call_free_orphan(call);
	return free_rpc(r);
}
