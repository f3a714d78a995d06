/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: primary and created ones, each thread's stack of them, and their queries (lib.h). */
#include <stdlib.h>
#include <string.h>

#include "lib/base/parse.h"
#include "testbed/sim/cuda/memory/memory.h"
#include "testbed/sim/cuda/mps.h"
#include "testbed/sim/cuda/stream/stream.h"

/* Each thread's stack of contexts. A destroyed context stays in it. */
#define DEPTH 64

struct context_stack_entry {
	struct sim_cuda_ctx *ctx;
	uint32_t serial;
};

static _Thread_local struct {
	struct context_stack_entry rows[DEPTH];
	unsigned count;
} stack;

enum {
	FLAG_SCHED = 7,
	FLAG_MAP_HOST = 8,
	FLAG_LMEM_RESIZE = 0x10,
	FLAG_COREDUMP = 0x20,
	FLAG_USER_COREDUMP = 0x40,
	FLAG_SYNC_MEMOPS = 0x80,
	FLAGS = 0xFF
};

static const size_t default_limits[LIMITS] = { 1024, 8650752, 8388608, 0, 2048, 64, 0, 232448,
	0 };

static bool flags_ok(unsigned flags)
{
	unsigned sched = flags & FLAG_SCHED;

	return flags <= FLAGS && (sched <= 2 || sched == 4);
}

CUresult ctx_check(const struct sim_cuda_ctx *c)
{
	CUresult dead;

	if (!c->active)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (c->error)
		return c->error;
	dead = atomic_load(&gpu_daemon_page()->contexts[c->daemon_id].error);
	return dead;
}

struct sim_cuda_ctx *ctx_current(CUresult *r)
{
	const struct context_stack_entry *top;

	*r = CUDA_ERROR_INVALID_CONTEXT;
	if (!stack.count)
		return NULL;
	top = &stack.rows[stack.count - 1];
	if (!top->ctx)
		return NULL;
	if (top->ctx->obj.serial != top->serial || !obj_is(top->ctx, OBJ_CONTEXT)) {
		*r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
		return NULL;
	}
	*r = ctx_check(top->ctx);
	return top->ctx;
}

struct sim_cuda_ctx *ctx_of(CUcontext h)
{
	return obj_is(h, OBJ_CONTEXT) ? (struct sim_cuda_ctx *)h : NULL;
}

static unsigned read_mps_percent_env(void)
{
	const char *text = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	uint32_t v;

	return text && parse_u32(text, &v) && v <= 100 ? v : 0;
}

/* Activates a device's primary context without counting a reference, for callers that need the context. */
static CUresult ctx_activate(struct sim_cuda_ctx *c)
{
	struct sim_device_request request = { .op = SIM_DEVICE_CONTEXT_CREATE,
		.slot = c->device->slot,
		.percent = read_mps_percent_env() };
	struct sim_device_reply r;
	CUresult err;

	if (c->active)
		return CUDA_SUCCESS;
	err = mps_context(c->device, &request, &c->mps_fd);
	if (err)
		return err;
	err = gpu_call(request, &r, -1, NULL);
	if (err) {
		mps_leave(&c->mps_fd, CUDA_SUCCESS);
		return err;
	}
	c->daemon_id = r.object;
	c->active = true;
	c->error = 0;
	memcpy(c->limits, default_limits, sizeof(c->limits));
	c->limits[CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 9830400;
	return CUDA_SUCCESS;
}

void ctx_fault(struct sim_cuda_ctx *c, CUresult error)
{
	c->error = error;
	(void)gpu_call((struct sim_device_request){ .op = SIM_DEVICE_CONTEXT_FAULT,
			       .object = (uint32_t)c->daemon_id,
			       .flags = error },
		NULL, -1, NULL);
}

static struct sim_cuda_ctx *ctx_alloc(struct sim_cuda_device *d)
{
	struct sim_cuda_ctx *c = obj_new(OBJ_CONTEXT, sizeof(struct sim_cuda_ctx));

	if (!c)
		return NULL;
	c->device = d;
	c->id = ++sim_cuda.last_id;
	c->next = sim_cuda.contexts;
	sim_cuda.contexts = c;
	return c;
}

/*
 * Waits for the context's work, then frees all that belongs to the context. Waits twice, as other threads may
 * submit while the lock is free. Does not wait if the context is broken.
 */
static void deactivate_context(struct sim_cuda_ctx *c)
{
	CUresult error;

	if (!c->active)
		return;
	error = ctx_check(c);
	for (uint64_t tries = 0; tries < 2; tries++)
		if (ctx_check(c) == CUDA_SUCCESS)
			(void)ctx_wait(c);
	stream_drop_all(c);
	sim_cuda_drop_context_fence(c);
	queue_forget(c);
	modules_drop_all(c);
	arrays_drop_all(c);
	memory_drop_all(c);
	(void)gpu_call((struct sim_device_request){ .op = SIM_DEVICE_CONTEXT_DESTROY,
			       .object = (uint32_t)c->daemon_id },
		NULL, -1, NULL);
	mps_leave(&c->mps_fd, error);
	c->active = false;
	c->legacy = NULL;
}

static void unlist_context(struct sim_cuda_ctx *c)
{
	struct sim_cuda_ctx **link = &sim_cuda.contexts;

	while (*link && *link != c)
		link = &(*link)->next;
	if (*link)
		*link = c->next;
}

static CUresult push_context(struct sim_cuda_ctx *c)
{
	if (stack.count == DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack.rows[stack.count++] = (struct context_stack_entry){ c, c ? c->obj.serial : 0 };
	return CUDA_SUCCESS;
}

/* --- primary contexts --- */

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice dev)
{
	struct sim_cuda_device *d;
	CUresult r = sim_cuda_enter_device(dev, &d);

	if (r)
		return r;
	if (!ret)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (!d->primary) {
		d->primary = ctx_alloc(d);
		if (!d->primary)
			return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
		d->primary->primary = true;
	}
	r = ctx_activate(d->primary);
	if (r == CUDA_SUCCESS) {
		d->primary->flags = d->primary_flags;
		d->primary->api_version = 3020;
		d->primary_refs++;
		*ret = (CUcontext)d->primary;
	}
	return sim_cuda_leave(r);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	struct sim_cuda_device *d;
	CUresult r = sim_cuda_enter_device(dev, &d);

	if (r)
		return r;
	if (!d->primary_refs)
		return sim_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (--d->primary_refs == 0)
		deactivate_context(d->primary);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return cuDevicePrimaryCtxRelease_v2(dev);
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	struct sim_cuda_device *d;
	CUresult r = sim_cuda_enter_device(dev, &d);

	if (r)
		return r;
	if (d->primary)
		deactivate_context(d->primary);
	d->primary_refs = 0;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
	return cuDevicePrimaryCtxReset_v2(dev);
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	struct sim_cuda_device *d;
	CUresult r = sim_cuda_enter_device(dev, &d);

	if (r)
		return r;
	if (!flags_ok(flags))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	d->primary_flags = flags;
	if (d->primary)
		d->primary->flags = flags;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	return cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	struct sim_cuda_device *d;
	CUresult r = sim_cuda_enter_device(dev, &d);

	if (r)
		return r;
	if (!flags || !active)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*flags = d->primary_flags;
	*active = d->primary && d->primary->active;
	return sim_cuda_leave(CUDA_SUCCESS);
}

/* --- created contexts --- */

static CUresult create_context(CUcontext *ret, unsigned flags, CUdevice dev, unsigned version)
{
	struct sim_cuda_ctx *c;
	struct sim_cuda_device *d;
	CUresult r = sim_cuda_enter_device(dev, &d);

	if (r)
		return r;
	if (!ret || !flags_ok(flags))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	c = ctx_alloc(d);
	if (!c)
		return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
	c->flags = flags;
	c->api_version = version;
	r = ctx_activate(c);
	if (r == CUDA_SUCCESS)
		r = push_context(c);
	if (r) {
		deactivate_context(c);
		unlist_context(c);
		obj_drop(c, OBJ_CONTEXT);
	} else {
		*ret = (CUcontext)c;
	}
	return sim_cuda_leave(r);
}

EXPORT CUresult cuCtxCreate(CUcontext *ret, unsigned int flags, CUdevice dev)
{
	return create_context(ret, flags, dev, 3010);
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *ret, unsigned int flags, CUdevice dev)
{
	return create_context(ret, flags, dev, 3020);
}

EXPORT CUresult cuCtxCreate_v3(CUcontext *ret, CUexecAffinityParam *params, int n,
	unsigned int flags, CUdevice dev)
{
	if (params || n)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY; /* not simulated; real drivers: under MPS only */
	return create_context(ret, flags, dev, 3020);
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *ret, CUctxCreateParams *params, unsigned int flags,
	CUdevice dev)
{
	if (params && params->numExecAffinityParams)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return create_context(ret, flags, dev, 3020);
}

static CUresult destroy_context(CUcontext h)
{
	struct sim_cuda_ctx *c = ctx_of(h);

	if (!c || c->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	deactivate_context(c);
	unlist_context(c);
	obj_drop(c, OBJ_CONTEXT);
	/* Removes the context from the calling thread's stack only if it is on top. */
	if (stack.count && stack.rows[stack.count - 1].ctx == c)
		stack.count--;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext h)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	return sim_cuda_leave(h ? destroy_context(h) : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuCtxDestroy(CUcontext h)
{
	return cuCtxDestroy_v2(h);
}

EXPORT CUresult cuCtxAttach(CUcontext *ret, unsigned int flags)
{
	struct sim_cuda_ctx *c;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	if (!ret || flags)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	c->attached++;
	*ret = (CUcontext)c;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxDetach(CUcontext h)
{
	struct sim_cuda_ctx *c;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	c = ctx_of(h);
	if (!c)
		return sim_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (c->attached) {
		c->attached--;
		return sim_cuda_leave(CUDA_SUCCESS);
	}
	return sim_cuda_leave(destroy_context(h));
}

/* --- the thread's stack --- */

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext h)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ctx_of(h))
		return sim_cuda_leave(
			h ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE);
	return sim_cuda_leave(push_context(ctx_of(h)));
}

EXPORT CUresult cuCtxPushCurrent(CUcontext h)
{
	return cuCtxPushCurrent_v2(h);
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!stack.count || !stack.rows[stack.count - 1].ctx)
		return sim_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	stack.count--;
	if (ret)
		*ret = (CUcontext)stack.rows[stack.count].ctx;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxPopCurrent(CUcontext *ret)
{
	return cuCtxPopCurrent_v2(ret);
}

EXPORT CUresult cuCtxSetCurrent(CUcontext h)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (h && !ctx_of(h))
		return sim_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (stack.count)
		stack.count--;
	if (h)
		r = push_context(ctx_of(h));
	return sim_cuda_leave(r);
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*ret = stack.count ? (CUcontext)stack.rows[stack.count - 1].ctx : NULL;
	return sim_cuda_leave(CUDA_SUCCESS);
}

/* Queries of a context. NULL: the current one. */
static CUresult enter_ctx_or_current(CUcontext h, bool args_ok, struct sim_cuda_ctx **ret)
{
	CUresult r = h ? sim_cuda_enter() : sim_cuda_enter_ctx(ret);

	if (r)
		return r;
	if (h)
		*ret = ctx_of(h);
	if (!*ret)
		return sim_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	return args_ok ? CUDA_SUCCESS : sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuCtxGetDevice_v2(CUdevice *ret, CUcontext h)
{
	struct sim_cuda_ctx *c;
	CUresult r = enter_ctx_or_current(h, ret != NULL, &c);

	if (r)
		return r;
	*ret = (CUdevice)(c->device - sim_cuda.devices);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetDevice(CUdevice *ret)
{
	return cuCtxGetDevice_v2(ret, NULL);
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext h, unsigned int *ret)
{
	struct sim_cuda_ctx *c;
	CUresult r = enter_ctx_or_current(h, ret != NULL, &c);

	if (r)
		return r;
	*ret = c->api_version;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetId(CUcontext h, unsigned long long *ret)
{
	struct sim_cuda_ctx *c;
	CUresult r = enter_ctx_or_current(h, ret != NULL, &c);

	if (r)
		return r;
	*ret = c->id;
	return sim_cuda_leave(CUDA_SUCCESS);
}

#define CTX_VALUE(get, set, member, most)                                 \
	EXPORT CUresult get(unsigned int *ret)                            \
	{                                                                 \
		struct sim_cuda_ctx *c;                                   \
		CUresult r = enter_ctx_or_current(NULL, ret != NULL, &c); \
                                                                          \
		if (r)                                                    \
			return r;                                         \
		*ret = c->member;                                         \
		return sim_cuda_leave(CUDA_SUCCESS);                      \
	}                                                                 \
	EXPORT CUresult set(unsigned int v)                               \
	{                                                                 \
		struct sim_cuda_ctx *c;                                   \
		CUresult r = enter_ctx_or_current(NULL, v <= (most), &c); \
                                                                          \
		if (r)                                                    \
			return r;                                         \
		c->member = v;                                            \
		return sim_cuda_leave(CUDA_SUCCESS);                      \
	}

CTX_VALUE(cuCtxGetFlags, cuCtxSetFlags, flags, FLAGS)
CTX_VALUE(cuCtxGetCacheConfig, cuCtxSetCacheConfig, cache_config, 3)
CTX_VALUE(cuCtxGetSharedMemConfig, cuCtxSetSharedMemConfig, shared_config, 2)

EXPORT CUresult cuCtxGetLimit(size_t *ret, unsigned int limit)
{
	struct sim_cuda_ctx *c;
	CUresult r = enter_ctx_or_current(NULL, ret != NULL, &c);

	if (r)
		return r;
	if (limit >= LIMITS || limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH)
		return sim_cuda_leave(CUDA_ERROR_UNSUPPORTED_LIMIT);
	*ret = c->limits[limit];
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxSetLimit(unsigned int limit, size_t v)
{
	struct sim_cuda_ctx *c;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	if (limit >= LIMITS || limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH || limit > 6)
		return sim_cuda_leave(CUDA_ERROR_UNSUPPORTED_LIMIT);
	if (limit == CU_LIMIT_STACK_SIZE) {
		v = (v + 15) & ~(size_t)15;
		r = gpu_call((struct sim_device_request){ .op = SIM_DEVICE_CONTEXT_STACK,
				     .object = (uint32_t)c->daemon_id,
				     .bytes = v },
			NULL, -1, NULL);
	}
	if (limit == CU_LIMIT_MAX_L2_FETCH_GRANULARITY && v > 128)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		c->limits[limit] = v;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext h)
{
	struct sim_cuda_ctx *c;
	CUresult r = enter_ctx_or_current(h, true, &c);

	if (r)
		return r;
	r = capture_unsafe_ctx(c);
	if (r == CUDA_SUCCESS)
		r = ctx_wait(c);
	if (r == CUDA_SUCCESS)
		pools_trim_all();
	return sim_cuda_leave(r);
}

EXPORT CUresult cuCtxSynchronize(void)
{
	return cuCtxSynchronize_v2(NULL);
}

EXPORT CUresult cuCtxResetPersistingL2Cache(void)
{
	struct sim_cuda_ctx *c;
	CUresult r = sim_cuda_enter_ctx(&c);

	return r ? r : sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext h, unsigned int flags)
{
	struct sim_cuda_ctx *c, *peer;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	peer = ctx_of(h);
	if (!peer)
		return sim_cuda_leave(CUDA_ERROR_INVALID_CONTEXT);
	if (flags)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (peer == c || peer->device == c->device)
		return sim_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext h)
{
	struct sim_cuda_ctx *c;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	return sim_cuda_leave(ctx_of(h) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT);
}
