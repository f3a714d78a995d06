/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/cuda/stream/stream.h"

#include <string.h>

#include "testbed/sim/cuda/memory/memory.h"

#define NON_BLOCKING 1U

enum { PRIORITY_HIGHEST = -5, PRIORITY_LOWEST = 0 }; /* as on an H100 */

static CUresult stream_new(struct sim_cuda_ctx *c, enum stream_kind kind, unsigned flags,
	int priority, struct sim_cuda_stream **ret)
{
	struct sim_cuda_stream *s = obj_new(OBJ_STREAM, sizeof(struct sim_cuda_stream));
	CUresult err;

	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = sim_cuda_queue_new(c, priority, &s->queue);
	if (err) {
		obj_drop(s, OBJ_STREAM);
		return err;
	}
	s->ctx = c;
	s->kind = kind;
	s->flags = flags;
	s->priority = priority;
	s->id = ++sim_cuda.last_id;
	s->next = c->streams;
	c->streams = s;
	*ret = s;
	return CUDA_SUCCESS;
}

static void cuda_stream_drop(struct sim_cuda_stream *s)
{
	struct sim_cuda_stream **link = &s->ctx->streams;

	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	if (s->ctx->legacy == s)
		s->ctx->legacy = NULL;
	if (s->capture)
		capture_forget(s);
	queue_drop(s->queue);
	obj_drop(s, OBJ_STREAM);
}

void stream_drop_all(struct sim_cuda_ctx *c)
{
	while (c->streams)
		cuda_stream_drop(c->streams);
}

static CUresult legacy_of(struct sim_cuda_ctx *c, struct sim_cuda_stream **ret)
{
	CUresult err = CUDA_SUCCESS;

	if (!c->legacy)
		err = stream_new(c, STREAM_LEGACY, 0, 0, &c->legacy);
	*ret = c->legacy;
	return err;
}

static CUresult thread_stream(struct sim_cuda_ctx *c, struct sim_cuda_stream **ret)
{
	CUresult err;

	for (struct sim_cuda_stream *s = c->streams; s; s = s->next)
		if (s->kind == STREAM_THREAD && s->thread == thread_id()) {
			*ret = s;
			return CUDA_SUCCESS;
		}
	err = stream_new(c, STREAM_THREAD, 0, 0, ret);
	if (err == CUDA_SUCCESS)
		(*ret)->thread = thread_id();
	return err;
}

CUresult sim_cuda_find_stream(CUstream h, struct sim_cuda_stream **ret)
{
	CUresult err = CUDA_SUCCESS;
	struct sim_cuda_ctx *c;

	if (h && h != CU_STREAM_LEGACY && h != CU_STREAM_PER_THREAD) {
		if (!obj_is(h, OBJ_STREAM))
			return CUDA_ERROR_INVALID_HANDLE;
		*ret = (struct sim_cuda_stream *)h;
		return ctx_check((*ret)->ctx);
	}
	c = ctx_current(&err);
	if (err)
		return err;
	return h == CU_STREAM_PER_THREAD ? thread_stream(c, ret) : legacy_of(c, ret);
}

static bool is_blocking_nonlegacy(const struct sim_cuda_stream *s)
{
	return s->kind != STREAM_LEGACY && !(s->flags & NON_BLOCKING);
}

static CUresult queue_stream_wait(struct sim_cuda_stream *s,
	const struct sim_cuda_stream *other)
{
	return queue_push(s->queue, (struct sim_device_command){ .kind = SIM_DEVICE_WAIT_STREAM,
					    .object = other->queue->id,
					    .amount = other->queue->last });
}

/* The default stream waits for all blocking streams, and they wait for it. */
static CUresult order_with_legacy(struct sim_cuda_stream *s)
{
	struct sim_cuda_stream *legacy = s->ctx->legacy;
	CUresult err = sim_cuda_wait_context_gate(s);

	if (err)
		return err;
	if (s->kind == STREAM_LEGACY) {
		for (struct sim_cuda_stream *o = s->ctx->streams; o && !err; o = o->next) {
			if (!is_blocking_nonlegacy(o) || o->joined == o->queue->last)
				continue;
			o->joined = o->queue->last;
			if (!queue_done(o->queue, o->queue->last))
				err = queue_stream_wait(s, o);
		}
	} else if (is_blocking_nonlegacy(s) && legacy &&
		   s->legacy_seen != legacy->queue->last) {
		s->legacy_seen = legacy->queue->last;
		if (!queue_done(legacy->queue, legacy->queue->last))
			err = queue_stream_wait(s, legacy);
	}
	return err;
}

static CUresult enqueue_copy(struct sim_cuda_stream *s, const struct cuda_work *w)
{
	uint64_t bytes = w->kind == WORK_COPY
				 ? w->copy.WidthInBytes * w->copy.Height * w->copy.Depth
				 : w->set.width * w->set.elementSize * w->set.height;
	uint32_t way = SIM_DEVICE_ON_GPU;

	if (w->kind == WORK_COPY &&
		copy_is_host_side(w->copy.srcMemoryType, w->copy.srcHost, w->copy.srcDevice))
		way = SIM_DEVICE_TO_GPU;
	else if (w->kind == WORK_COPY &&
		 copy_is_host_side(w->copy.dstMemoryType, w->copy.dstHost, w->copy.dstDevice))
		way = SIM_DEVICE_FROM_GPU;
	return queue_push(s->queue, (struct sim_device_command){ .kind = SIM_DEVICE_COPY,
					    .amount = bytes,
					    .object = way });
}

/* Submits the commands of one piece of work. */
static CUresult enqueue_work(struct sim_cuda_stream *s, struct cuda_work *w)
{
	CUresult err = order_with_legacy(s);

	if (err)
		return err;
	switch ((int)w->kind) {
	case WORK_EMPTY:
	case WORK_ALLOC:
	case WORK_CHILD:
		return CUDA_SUCCESS;
	case WORK_KERNEL: {
		uint64_t blocks =
			(uint64_t)w->kernel.grid[0] * w->kernel.grid[1] * w->kernel.grid[2];

		err = queue_push(s->queue,
			(struct sim_device_command){ .kind = SIM_DEVICE_KERNEL,
				.amount = kernel_ns(w, s->ctx->device->keys.sm_count),
				.object = kernel_error(w),
				.width = blocks < s->ctx->device->keys.sm_count
						 ? (uint32_t)blocks
						 : SIM_DEVICE_WIDTH_ALL });
		return err || !kernel_has_effect(w) ? err : queue_push_host(s->queue, w);
	}
	case WORK_COPY:
	case WORK_SET:
		err = enqueue_copy(s, w);
		return err ? err : queue_push_host(s->queue, w);
	case WORK_RECORD:
		return queue_push(s->queue,
			(struct sim_device_command){ .kind = SIM_DEVICE_RECORD,
				.object = w->event.event->id,
				.amount = w->event.generation });
	case WORK_WAIT_EVENT:
		return queue_push(s->queue,
			(struct sim_device_command){ .kind = SIM_DEVICE_WAIT_EVENT,
				.object = w->event.event->id,
				.amount = w->event.generation });
	case WORK_FREE:
		return memory_free_in(s, w->free);
	default:
		return queue_push_host(s->queue, w);
	}
}

CUresult stream_add_work(struct sim_cuda_stream *s, struct cuda_work *w)
{
	CUresult err;

	if (s->capture)
		return capture_add_work(s, w);
	err = s->kind == STREAM_LEGACY ? capture_legacy(s->ctx) : CUDA_SUCCESS;
	if (err == CUDA_SUCCESS)
		err = enqueue_work(s, w);
	work_clear(w);
	return err;
}

CUresult stream_submit_work(CUstream h, struct cuda_work *w)
{
	struct sim_cuda_stream *s;
	CUresult r = sim_cuda_enter();

	if (r) {
		work_clear(w);
		return r;
	}
	r = sim_cuda_find_stream(h, &s);
	if (r == CUDA_SUCCESS)
		r = stream_add_work(s, w);
	else
		work_clear(w);
	return sim_cuda_leave(r);
}

/* The bytes move on the calling thread, without the lock. */
CUresult sim_cuda_submit_and_wait(CUstream h, struct cuda_work *w)
{
	struct sim_cuda_stream *s;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = sim_cuda_find_stream(h, &s);
	if (r == CUDA_SUCCESS && s->capture)
		return sim_cuda_leave(capture_add_work(s, w));
	if (r == CUDA_SUCCESS && s->kind == STREAM_LEGACY)
		r = capture_legacy(s->ctx);
	if (r == CUDA_SUCCESS)
		r = w->kind == WORK_COPY ? copy_check(&w->copy) : set_check(&w->set);
	if (r == CUDA_SUCCESS)
		r = order_with_legacy(s);
	if (r == CUDA_SUCCESS)
		r = enqueue_copy(s, w);
	if (r == CUDA_SUCCESS)
		r = queue_wait(s->queue, s->queue->last);
	(void)sim_cuda_leave(r);
	if (r)
		return r;
	return w->kind == WORK_COPY ? copy_run(&w->copy) : set_run(&w->set);
}

/* --- waiting --- */

static bool stream_idle(const struct sim_cuda_stream *s)
{
	if (!queue_done(s->queue, s->queue->last))
		return false;
	for (const struct sim_cuda_stream *o = s->ctx->streams; s->kind == STREAM_LEGACY && o;
		o = o->next)
		if (is_blocking_nonlegacy(o) && !queue_done(o->queue, o->queue->last))
			return false;
	return true;
}

/* The list of streams may change while the lock is free, so the search starts again after each wait. */
static CUresult wait_all(struct sim_cuda_ctx *c,
	bool (*wanted)(const struct sim_cuda_stream *s))
{
	uint64_t limit = sim_cuda.last_id;
	CUresult err = CUDA_SUCCESS;
	struct sim_cuda_stream *s = c->streams;

	/* Only present work counts, and what another thread's wait adds to .wait_until meanwhile. */
	for (struct sim_cuda_stream *o = s; o; o = o->next)
		o->wait_until = o->queue->last;
	while (s && !err) {
		if (s->id > limit || !wanted(s) || queue_done(s->queue, s->wait_until)) {
			s = s->next;
			continue;
		}
		err = queue_wait(s->queue, s->wait_until);
		s = c->streams;
	}
	return err ? err : ctx_check(c);
}

static bool is_any_stream(const struct sim_cuda_stream *s)
{
	(void)s;
	return true;
}

static bool is_blocking(const struct sim_cuda_stream *s)
{
	return s->kind == STREAM_LEGACY || is_blocking_nonlegacy(s);
}

CUresult ctx_wait(struct sim_cuda_ctx *c)
{
	struct sim_cuda_queue *fence = c->fence;
	uint64_t until = fence ? fence->last : 0;
	CUresult err = wait_all(c, is_any_stream);

	/* The fence's events have happened too. */
	return err || !fence || fence != c->fence ? err : queue_wait(fence, until);
}

CUresult device_wait_free(struct sim_cuda_ctx *c)
{
	return wait_all(c, is_any_stream);
}

/* Waits for its present work. */
static CUresult stream_wait_submitted(struct sim_cuda_stream *s)
{
	if (s->kind == STREAM_LEGACY)
		return wait_all(s->ctx, is_blocking);
	return queue_wait(s->queue, s->queue->last);
}

/* --- API functions --- */

EXPORT CUresult cuStreamCreateWithPriority(CUstream *ret, unsigned int flags, int priority)
{
	struct sim_cuda_ctx *c;
	struct sim_cuda_stream *s = NULL;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	if (!ret || flags > NON_BLOCKING)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (priority < PRIORITY_HIGHEST)
		priority = PRIORITY_HIGHEST;
	if (priority > PRIORITY_LOWEST)
		priority = PRIORITY_LOWEST;
	r = stream_new(c, STREAM_OWN, flags, priority, &s);
	if (r == CUDA_SUCCESS)
		*ret = (CUstream)s;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuStreamCreate(CUstream *ret, unsigned int flags)
{
	return cuStreamCreateWithPriority(ret, flags, 0);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream h)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!obj_is(h, OBJ_STREAM) || ((struct sim_cuda_stream *)h)->kind != STREAM_OWN)
		return sim_cuda_leave(CUDA_ERROR_INVALID_HANDLE);
	cuda_stream_drop((struct sim_cuda_stream *)h);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamDestroy(CUstream h)
{
	return cuStreamDestroy_v2(h);
}

EXPORT CUresult cuStreamSynchronize(CUstream h)
{
	struct sim_cuda_stream *s;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = sim_cuda_find_stream(h, &s);
	if (r == CUDA_SUCCESS && s->capture)
		r = capture_unsafe_in(s);
	if (r == CUDA_SUCCESS)
		r = stream_wait_submitted(s);
	if (r == CUDA_SUCCESS)
		pools_trim_all();
	return sim_cuda_leave(r);
}

EXPORT CUresult cuStreamQuery(CUstream h)
{
	struct sim_cuda_stream *s;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = sim_cuda_find_stream(h, &s);
	if (r == CUDA_SUCCESS && s->capture)
		r = capture_unsafe_in(s);
	if (r == CUDA_SUCCESS && !stream_idle(s))
		r = CUDA_ERROR_NOT_READY;
	if (r == CUDA_SUCCESS)
		r = ctx_check(s->ctx);
	return sim_cuda_leave(r);
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	struct sim_cuda_ctx *c;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	if (least)
		*least = PRIORITY_LOWEST;
	if (greatest)
		*greatest = PRIORITY_HIGHEST;
	return sim_cuda_leave(CUDA_SUCCESS);
}

static CUresult stream_enter(CUstream h, bool args_ok, struct sim_cuda_stream **s)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = sim_cuda_find_stream(h, s);
	if (r == CUDA_SUCCESS && !args_ok)
		r = CUDA_ERROR_INVALID_VALUE;
	return r ? sim_cuda_leave(r) : r;
}

#define STREAM_GETTER(name, type, expression)                  \
	EXPORT CUresult name(CUstream h, type *ret)            \
	{                                                      \
		struct sim_cuda_stream *s;                     \
		CUresult r = stream_enter(h, ret != NULL, &s); \
                                                               \
		if (r)                                         \
			return r;                              \
		*ret = (expression);                           \
		return sim_cuda_leave(CUDA_SUCCESS);           \
	}                                                      \
	EXPORT CUresult name##_ptsz(CUstream h, type *ret)     \
	{                                                      \
		return name(PER_THREAD(h), ret);               \
	}

STREAM_GETTER(cuStreamGetPriority, int, s->priority)
STREAM_GETTER(cuStreamGetFlags, unsigned int, s->flags)
STREAM_GETTER(cuStreamGetId, unsigned long long, s->id)
STREAM_GETTER(cuStreamGetCtx, CUcontext, (CUcontext)s->ctx)
STREAM_GETTER(cuStreamGetDevice, CUdevice, (CUdevice)(s->ctx->device - sim_cuda.devices))

EXPORT CUresult cuStreamGetCtx_v2(CUstream h, CUcontext *ret, CUgreenCtx *green)
{
	CUresult r = cuStreamGetCtx(h, ret);

	if (r == CUDA_SUCCESS && green)
		*green = NULL;
	return r;
}

EXPORT CUresult cuStreamGetCtx_v2_ptsz(CUstream h, CUcontext *ret, CUgreenCtx *green)
{
	return cuStreamGetCtx_v2(PER_THREAD(h), ret, green);
}

EXPORT CUresult cuStreamSynchronize_ptsz(CUstream h)
{
	return cuStreamSynchronize(PER_THREAD(h));
}

EXPORT CUresult cuStreamQuery_ptsz(CUstream h)
{
	return cuStreamQuery(PER_THREAD(h));
}

EXPORT CUresult cuStreamAttachMemAsync(CUstream h, CUdeviceptr p, size_t bytes,
	unsigned int flags)
{
	struct sim_cuda_stream *s;
	CUresult r = stream_enter(h, flags && !(flags & (flags - 1)) && flags <= 4, &s);

	(void)bytes;
	if (r)
		return r;
	return sim_cuda_leave(range_at(p) && range_at(p)->kind == RANGE_MANAGED
				      ? CUDA_SUCCESS
				      : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuStreamAttachMemAsync_ptsz(CUstream h, CUdeviceptr p, size_t bytes,
	unsigned int flags)
{
	return cuStreamAttachMemAsync(PER_THREAD(h), p, bytes, flags);
}

/* --- callbacks, and values in memory --- */

EXPORT CUresult cuLaunchHostFunc(CUstream h, CUhostFn fn, void *data)
{
	struct cuda_work w = { .kind = WORK_HOST, .host = { fn, data } };

	return fn ? stream_submit_work(h, &w) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuLaunchHostFunc_ptsz(CUstream h, CUhostFn fn, void *data)
{
	return cuLaunchHostFunc(PER_THREAD(h), fn, data);
}

EXPORT CUresult cuStreamAddCallback(CUstream h, CUstreamCallback fn, void *data,
	unsigned int flags)
{
	struct cuda_work w = { .kind = WORK_CALLBACK, .callback = { fn, h, data } };

	return fn && !flags ? stream_submit_work(h, &w) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuStreamAddCallback_ptsz(CUstream h, CUstreamCallback fn, void *data,
	unsigned int flags)
{
	return cuStreamAddCallback(PER_THREAD(h), fn, data, flags);
}

/* An H100 refuses a write without the memory barrier (flag 1; measured). */
bool value_ok(enum work_kind kind, CUdeviceptr at, unsigned flags, bool wide)
{
	return at && at % (wide ? 8 : 4) == 0 && (kind == WORK_WAIT_VALUE || !flags);
}

static CUresult submit_value_op(CUstream h, enum work_kind kind, CUdeviceptr at, uint64_t v,
	unsigned flags, bool wide)
{
	struct cuda_work w = { .kind = kind,
		.value = { .at = at, .value = v, .flags = flags, .wide = wide } };

	return value_ok(kind, at, flags, wide) ? stream_submit_work(h, &w)
					       : CUDA_ERROR_INVALID_VALUE;
}

/* Drivers of this version do not support the first versions (measured), which stay stubs. */
#define VALUE(name, kind, type, wide)                                                       \
	EXPORT CUresult name(CUstream h, CUdeviceptr at, type v, unsigned int flags)        \
	{                                                                                   \
		return submit_value_op(h, kind, at, v, flags, wide);                        \
	}                                                                                   \
	EXPORT CUresult name##_ptsz(CUstream h, CUdeviceptr at, type v, unsigned int flags) \
	{                                                                                   \
		return submit_value_op(PER_THREAD(h), kind, at, v, flags, wide);            \
	}

VALUE(cuStreamWaitValue32_v2, WORK_WAIT_VALUE, uint32_t, false)
VALUE(cuStreamWaitValue64_v2, WORK_WAIT_VALUE, uint64_t, true)
VALUE(cuStreamWriteValue32_v2, WORK_WRITE_VALUE, uint32_t, false)
VALUE(cuStreamWriteValue64_v2, WORK_WRITE_VALUE, uint64_t, true)
