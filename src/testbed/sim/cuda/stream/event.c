/* SPDX-License-Identifier: Apache-2.0 */
/* Events, and the events of whole contexts (stream.h). */
#include "testbed/sim/cuda/stream/stream.h"

#include <string.h>

#include "lib/base/time.h"

/* --- events --- */

enum {
	BLOCKING_SYNC = 1,
	NO_TIMING = 2,
	INTERPROCESS = 4,
	FLAGS = BLOCKING_SYNC | NO_TIMING | INTERPROCESS
};

static struct sim_device_event_cell *get_event_cell(const struct sim_cuda_event *e)
{
	return &gpu_daemon_page()->events[e->id];
}

/* Whether other processes may record it. */
static bool event_is_shared(const struct sim_cuda_event *e)
{
	return e->flags & INTERPROCESS || e->foreign;
}

/* Recordings until it has happened. */
static uint64_t event_target(const struct sim_cuda_event *e)
{
	return event_is_shared(e) ? atomic_load(&get_event_cell(e)->recorded) : e->recorded;
}

/* The event of a handle; the lock is taken on success. */
static CUresult enter_event(CUevent h, struct sim_cuda_event **ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!obj_is(h, OBJ_EVENT))
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	*ret = (struct sim_cuda_event *)h;
	r = ctx_check((*ret)->ctx);
	return r ? sim_cuda_leave(r) : CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *ret, unsigned int flags)
{
	struct sim_device_reply reply;
	struct sim_cuda_ctx *c;
	struct sim_cuda_event *e;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	if (!ret || flags & ~(unsigned)FLAGS || (flags & INTERPROCESS && !(flags & NO_TIMING)))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	e = obj_new(OBJ_EVENT, sizeof(struct sim_cuda_event));
	if (!e)
		return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
	r = gpu_call((struct sim_device_request){ .op = SIM_DEVICE_EVENT_CREATE }, &reply, -1,
		NULL);
	if (r) {
		obj_drop(e, OBJ_EVENT);
		return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	e->ctx = c;
	e->flags = flags;
	e->id = reply.object;
	e->token = reply.id;
	e->cookie = reply.cookie;
	*ret = (CUevent)e;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuEventDestroy_v2(CUevent h)
{
	struct sim_cuda_event *e;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!obj_is(h, OBJ_EVENT))
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	e = (struct sim_cuda_event *)h;
	capture_event_forget(e);
	(void)gpu_call(
		(struct sim_device_request){ .op = SIM_DEVICE_EVENT_DESTROY, .object = e->id },
		NULL, -1, NULL);
	obj_drop(e, OBJ_EVENT);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuEventDestroy(CUevent h)
{
	return cuEventDestroy_v2(h);
}

CUresult event_record(struct sim_cuda_stream *s, struct sim_cuda_event *e, bool node)
{
	struct cuda_work w = { .kind = WORK_RECORD, .event = { .event = e } };
	CUresult r;

	if (s->capture && !node)
		return capture_record(s, e);
	capture_event_forget(e);
	if (!event_is_shared(e))
		w.event.generation = e->recorded + 1;
	r = stream_add_work(s, &w);
	if (r == CUDA_SUCCESS)
		e->recorded++;
	return r;
}

EXPORT CUresult cuEventRecord(CUevent h, CUstream stream)
{
	struct sim_cuda_event *e = NULL;
	struct sim_cuda_stream *s;
	CUresult r;

	lib_spin(sim_cuda.event_ns);
	r = enter_event(h, &e);
	if (r)
		return r;
	r = sim_cuda_find_stream(stream, &s);
	if (r == CUDA_SUCCESS && s->ctx != e->ctx)
		r = CUDA_ERROR_INVALID_HANDLE;
	if (r == CUDA_SUCCESS)
		r = event_record(s, e, false);
	return sim_cuda_leave(r);
}

EXPORT CUresult cuEventRecordWithFlags(CUevent h, CUstream stream, unsigned int flags)
{
	return flags > 1 ? CUDA_ERROR_INVALID_VALUE : cuEventRecord(h, stream);
}

EXPORT CUresult cuEventRecord_ptsz(CUevent h, CUstream stream)
{
	return cuEventRecord(h, PER_THREAD(stream));
}

EXPORT CUresult cuEventRecordWithFlags_ptsz(CUevent h, CUstream stream, unsigned int flags)
{
	return cuEventRecordWithFlags(h, PER_THREAD(stream), flags);
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent h, unsigned int flags)
{
	struct sim_cuda_event *e = NULL;
	struct sim_cuda_stream *s;
	CUresult r = enter_event(h, &e);

	if (r)
		return r;
	if (flags > 1)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	r = sim_cuda_find_stream(stream, &s);
	if (r == CUDA_SUCCESS && (s->capture || e->capture)) {
		r = capture_wait(s, e);
	} else if (r == CUDA_SUCCESS && event_target(e)) {
		struct cuda_work w = { .kind = WORK_WAIT_EVENT,
			.event = { .event = e, .generation = event_target(e) } };

		r = stream_add_work(s, &w);
	}
	return sim_cuda_leave(r);
}

EXPORT CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent h, unsigned int flags)
{
	return cuStreamWaitEvent(PER_THREAD(stream), h, flags);
}

EXPORT CUresult cuEventQuery(CUevent h)
{
	struct sim_cuda_event *e = NULL;
	CUresult r = enter_event(h, &e);

	if (r)
		return r;
	if (e->capture)
		return sim_cuda_leave(capture_event_touched(e));
	r = capture_unsafe();
	if (r == CUDA_SUCCESS && atomic_load(&get_event_cell(e)->completed) < event_target(e))
		r = CUDA_ERROR_NOT_READY;
	if (r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY) {
		CUresult broken = ctx_check(e->ctx);

		r = broken ? broken : r;
	}
	return sim_cuda_leave(r);
}

EXPORT CUresult cuEventSynchronize(CUevent h)
{
	struct sim_device_event_cell *at;
	struct sim_cuda_ctx *c;
	struct sim_cuda_event *e = NULL;
	uint64_t until;
	CUresult r = enter_event(h, &e);

	if (r)
		return r;
	if (e->capture)
		return sim_cuda_leave(capture_event_touched(e));
	r = capture_unsafe();
	if (r)
		return sim_cuda_leave(r);
	at = get_event_cell(e);
	until = event_target(e);
	c = e->ctx;
	if (atomic_load(&at->completed) < until) {
		(void)pthread_mutex_unlock(&sim_cuda.lock);
		/* A broken context drops the recording, so check it every 20 ms. */
		while (!sim_device_wait(gpu_client(), &at->completed, &at->waiters, until,
			time_mono_ns() + 20 * NS_PER_MS)) {
			(void)pthread_mutex_lock(&sim_cuda.lock);
			r = ctx_check(c);
			if (r)
				return sim_cuda_leave(r);
			(void)pthread_mutex_unlock(&sim_cuda.lock);
		}
		(void)pthread_mutex_lock(&sim_cuda.lock);
	}
	pools_trim_all();
	return sim_cuda_leave(ctx_check(c));
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
	struct sim_cuda_event *e = NULL, *f;
	CUresult r = enter_event(to, &e);

	if (r)
		return r;
	if (!obj_is(from, OBJ_EVENT))
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	f = (struct sim_cuda_event *)from;
	if (!ms)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (e->flags & NO_TIMING || f->flags & NO_TIMING || !event_target(e) ||
		!event_target(f))
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	if (e->capture || f->capture)
		return sim_cuda_leave(CUDA_ERROR_CAPTURED_EVENT);
	if (atomic_load(&get_event_cell(e)->completed) < event_target(e) ||
		atomic_load(&get_event_cell(f)->completed) < event_target(f))
		return sim_cuda_leave(CUDA_ERROR_NOT_READY);
	*ms = (float)((double)(int64_t)(atomic_load(&get_event_cell(e)->time_ns) -
					atomic_load(&get_event_cell(f)->time_ns)) /
		      1e6);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to)
{
	return cuEventElapsedTime(ms, from, to);
}

/* For other processes: the handle holds the daemon's id and cookie of the event. */

EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *ret, CUevent h)
{
	struct sim_cuda_event *e = NULL;
	CUresult r = enter_event(h, &e);

	if (r)
		return r;
	if (!ret || !(e->flags & INTERPROCESS))
		return sim_cuda_leave(
			ret ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->reserved, &e->token, 8);
	memcpy(ret->reserved + 8, &e->cookie, 8);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuIpcOpenEventHandle(CUevent *ret, CUipcEventHandle h)
{
	struct sim_device_request request = { .op = SIM_DEVICE_EVENT_OPEN };
	struct sim_device_reply reply;
	struct sim_cuda_ctx *c;
	struct sim_cuda_event *e;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	e = ret ? obj_new(OBJ_EVENT, sizeof(struct sim_cuda_event)) : NULL;
	if (!e)
		return sim_cuda_leave(
			ret ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE);
	memcpy(&request.id, h.reserved, 8);
	memcpy(&request.cookie, h.reserved + 8, 8);
	r = gpu_call(request, &reply, -1, NULL);
	if (r) {
		obj_drop(e, OBJ_EVENT);
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	}
	e->ctx = c;
	e->flags = NO_TIMING | INTERPROCESS;
	e->foreign = true;
	e->id = reply.object;
	e->token = request.id;
	e->cookie = request.cookie;
	*ret = (CUevent)e;
	return sim_cuda_leave(CUDA_SUCCESS);
}

/* --- events of a whole context --- */

/*
 * A fence is a queue of the context that no stream waits for. A recording in the fence waits for all work that the
 * streams have at that time, and delays no stream. The fence's commands run in order, so a later recording need
 * not repeat an earlier one's waits.
 *
 * A gate is the reverse: all streams wait for what the gate waits for, each at its next command.
 */

#define WAITS_MAX SIM_DEVICE_BATCH_MAX /* in one packet */

static CUresult ensure_fence_queue(struct sim_cuda_ctx *c, struct sim_cuda_queue **at)
{
	return *at ? CUDA_SUCCESS : sim_cuda_queue_new(c, 0, at);
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
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	*c = ctx_of(ch);
	if (!*c)
		return sim_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	r = ctx_check(*c);
	if (r)
		return sim_cuda_leave(r);
	*e = (struct sim_cuda_event *)eh;
	if (!obj_is(eh, OBJ_EVENT))
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	r = capture_unsafe_ctx(*c);
	return r ? sim_cuda_leave(r) : CUDA_SUCCESS;
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

	lib_spin(sim_cuda.event_ns);
	r = enter_fence_event(ch, eh, &c, &e);
	if (r)
		return r;
	return sim_cuda_leave(
		e->ctx == c ? record_fence_event(c, e) : CUDA_ERROR_INVALID_HANDLE);
}

EXPORT CUresult cuCtxWaitEvent(CUcontext ch, CUevent eh)
{
	struct sim_cuda_ctx *c;
	struct sim_cuda_event *e;
	CUresult r = enter_fence_event(ch, eh, &c, &e);

	if (r)
		return r;
	if (e->capture)
		return sim_cuda_leave(CUDA_ERROR_CAPTURED_EVENT);
	if (!event_target(e))
		return sim_cuda_leave(CUDA_SUCCESS);
	r = ensure_fence_queue(c, &c->gate);
	if (r == CUDA_SUCCESS)
		r = queue_push(c->gate,
			(struct sim_device_command){ .kind = SIM_DEVICE_WAIT_EVENT,
				.object = e->id,
				.amount = event_target(e) });
	return sim_cuda_leave(r);
}

CUresult sim_cuda_wait_context_gate(struct sim_cuda_stream *s)
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

void sim_cuda_drop_context_fence(struct sim_cuda_ctx *c)
{
	if (c->fence)
		queue_drop(c->fence);
	if (c->gate)
		queue_drop(c->gate);
	c->fence = c->gate = NULL;
}
