/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events of a whole context.
 *
 * A fence is a queue of the context that no stream waits for. A recording in the fence waits for all work that the
 * streams have at that time, and delays no stream. The fence's commands run in order, so a later recording need
 * not repeat an earlier one's waits.
 *
 * A gate is the reverse: all streams wait for what the gate waits for, each at its next command.
 */
#include "testbed/sim/cuda/stream/stream.h"

#define WAITS_MAX SIM_DEVICE_BATCH_MAX /* in one packet */

static CUresult ensure_fence_queue(struct sim_cuda_ctx *c, struct sim_cuda_queue **at)
{
	return *at ? CUDA_SUCCESS : queue_new(c, 0, at);
}

static bool is_blocking_fence(const struct sim_cuda_ctx *c, const struct sim_cuda_queue *q)
{
	return q->ctx == c && !q->gone && q != c->fence && q != c->gate &&
	       q->fenced != q->last && !queue_done(q, q->last);
}

/* Waits for the next queues with unfinished work, at most WAITS_MAX. */
static size_t collect_fence_waits(const struct sim_cuda_ctx *c, struct sim_device_command *ret)
{
	size_t n = 0;

	for (struct sim_cuda_queue *q = queues_all(); q && n < WAITS_MAX; q = q->next)
		if (is_blocking_fence(c, q)) {
			ret[n++] = (struct sim_device_command){
				.kind = SIM_DEVICE_WAIT_STREAM,
				.object = q->id,
				.amount = q->last,
			};
			q->fenced = q->last;
		}
	return n;
}

/* Orders the present work of the context's queues before the fence's next command. */
static CUresult wait_for_all(const struct sim_cuda_ctx *c, struct sim_cuda_queue *fence)
{
	struct sim_device_command commands[WAITS_MAX];
	size_t n;
	CUresult r;

	do {
		/* This call may free the lock, so collect_fence_waits() comes after it. */
		r = queue_reserve(fence, WAITS_MAX + 1);
		if (r)
			return r;
		n = collect_fence_waits(c, commands);
		r = n ? queue_push_many(fence, commands, n) : CUDA_SUCCESS;
	} while (r == CUDA_SUCCESS && n == WAITS_MAX);
	return r;
}

/* The context and the event of two handles; the lock is taken on success. */
static CUresult enter_fence_event(CUcontext ch, CUevent eh, struct sim_cuda_ctx **c,
	struct sim_cuda_event **e)
{
	CUresult r = cuda_lib_enter();

	if (r)
		return r;
	*c = ctx_of(ch);
	if (!*c)
		return lib_leave(CUDA_ERROR_INVALID_CONTEXT);
	r = ctx_check(*c);
	if (r)
		return lib_leave(r);
	*e = (struct sim_cuda_event *)eh;
	if (!obj_is(eh, OBJ_EVENT))
		return lib_leave(CUDA_ERROR_INVALID_HANDLE);
	r = capture_unsafe_ctx(*c);
	return r ? lib_leave(r) : CUDA_SUCCESS;
}

static CUresult record_fence_event(struct sim_cuda_ctx *c, struct sim_cuda_event *e)
{
	struct sim_device_command command = { .kind = SIM_DEVICE_RECORD, .object = e->id };
	struct sim_cuda_queue *fence;
	CUresult r = ensure_fence_queue(c, &c->fence);

	if (r)
		return r;
	fence = queue_ref(c->fence);
	r = wait_for_all(c, fence);
	if (r == CUDA_SUCCESS) {
		capture_event_forget(e);
		if (!event_is_shared(e))
			command.amount = e->recorded + 1;
		r = queue_push_many(fence, &command, 1);
	}
	if (r == CUDA_SUCCESS)
		e->recorded++;
	queue_drop(fence);
	return r;
}

EXPORT CUresult cuCtxRecordEvent(CUcontext ch, CUevent eh)
{
	struct sim_cuda_ctx *c;
	struct sim_cuda_event *e;
	CUresult r;

	lib_spin(lib.event_ns);
	r = enter_fence_event(ch, eh, &c, &e);
	if (r)
		return r;
	return lib_leave(e->ctx == c ? record_fence_event(c, e) : CUDA_ERROR_INVALID_HANDLE);
}

EXPORT CUresult cuCtxWaitEvent(CUcontext ch, CUevent eh)
{
	struct sim_cuda_ctx *c;
	struct sim_cuda_event *e;
	CUresult r = enter_fence_event(ch, eh, &c, &e);

	if (r)
		return r;
	if (e->capture)
		return lib_leave(CUDA_ERROR_CAPTURED_EVENT);
	if (!event_target(e))
		return lib_leave(CUDA_SUCCESS);
	r = ensure_fence_queue(c, &c->gate);
	if (r == CUDA_SUCCESS)
		r = queue_push(c->gate,
			(struct sim_device_command){ .kind = SIM_DEVICE_WAIT_EVENT,
				.object = e->id,
				.amount = event_target(e) });
	return lib_leave(r);
}

CUresult gate_wait(struct sim_cuda_stream *s)
{
	struct sim_cuda_queue *gate = s->ctx->gate;

	if (!gate || s->gate_seen == gate->last)
		return CUDA_SUCCESS;
	s->gate_seen = gate->last;
	if (queue_done(gate, gate->last))
		return CUDA_SUCCESS;
	return queue_push(s->queue, (struct sim_device_command){ .kind = SIM_DEVICE_WAIT_STREAM,
					    .object = gate->id,
					    .amount = gate->last });
}

void fence_drop(struct sim_cuda_ctx *c)
{
	if (c->fence)
		queue_drop(c->fence);
	if (c->gate)
		queue_drop(c->gate);
	c->fence = c->gate = NULL;
}
