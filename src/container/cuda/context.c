/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: memory whose size no call states.
 *
 * Charge. A hook charges a bound before the driver makes a context. The bound is hidden (charges/charges.h), so
 * the next comparison of the arbiter with NVML corrects it. The bound is CUDA_CONTEXT_BYTES until this process has
 * measured one of its own contexts. (A context on an H100 takes 518 MiB.) Everything in a context goes with the
 * context, so each row names its context.
 *
 * Primary contexts. All threads that retain a device's primary context share it, often at the same time.
 *
 *	1. One thread changes the state from IDLE to DECIDING. It charges the bound, unless the context is
 *	   active already.
 *	2. The other threads wait until the state is LIVE or IDLE.
 *	3. At LIVE, all threads call the driver, which lets them wait for the context. At IDLE, another thread
 *	   tries.
 *
 * Fences. The hooks report to the gate thread (gate/gate-thread.h) each context that needs fences, and each
 * context that may go, before it goes. The fences of a primary context cover the work of its green contexts.
 */
#include "abi/slice-page.h"
#include "container/cuda/memory/memory.h"
#include "container/cuda/work/work.h"
#include "container/cuda/device.h"
#include "container/cuda/green.h"
#include "container/cuda/memory/pool-reservation.h"
#include "container/charges/charges.h"
#include "container/charges/alloc-table.h"
#include "container/sys.h"
#include "container/gate/gate-thread.h"

#define CONTEXT_BYTES_MIN (UINT64_C(64) << 20) /* a context that seems smaller counts as this */
/* With large modules, overhead is more than a context. */
#define CONTEXT_BYTES_MAX (UINT64_C(1) << 30)
#define GREEN_BYTES       (UINT64_C(64) << 20) /* a green context, without its primary context */
#define DEVICES_MAX       128
#define COMPARE_WAIT_MS   200 /* for a comparison of the arbiter with NVML */
#define COMPARE_POLL_MS   10

enum primary_state { IDLE, DECIDING, LIVE };

struct contexts {
	struct primary {
		_Atomic uint32_t state;
		_Atomic uint64_t context;
	} primaries[DEVICES_MAX];
	struct {
		_Atomic uint32_t live;
		_Atomic uint64_t largest; /* measured so far */
	} gpus[SLICE_GPUS_MAX];
};

static _Atomic(void *) root;

static struct contexts *contexts_get(void)
{
	struct contexts *s = wiped_get(&root, sizeof(*s));

	return s;
}

static uint64_t clamp_context_bytes(uint64_t n, uint64_t min, uint64_t max)
{
	return n < min ? min : n > max ? max : n;
}

/* No less than one more context on @gpu takes. */
static uint64_t context_bound(int gpu)
{
	struct contexts *s = gpu >= 0 && gpu < SLICE_GPUS_MAX ? contexts_get() : NULL;
	uint64_t largest;

	if (!s)
		return CUDA_CONTEXT_BYTES;
	largest = atomic_load(&s->gpus[gpu].largest);
	/* While there is one context, all overhead belongs to it. */
	if (atomic_load(&s->gpus[gpu].live) == 1) {
		uint64_t now = clamp_context_bytes(charges_read_overhead(gpu),
			CONTEXT_BYTES_MIN, CONTEXT_BYTES_MAX);

		if (now > largest)
			atomic_store(&s->gpus[gpu].largest, now);
		largest = now > largest ? now : largest;
	}
	return largest ? round_up_to_granule(largest) : CUDA_CONTEXT_BYTES;
}

/*
 * Charges one more context. The hidden bytes in use may be fewer than the charge, for example after a context has
 * gone. So before a refusal, the arbiter gets the chance to compare once more. Only the last try counts as
 * refused.
 */
static CUresult charge_context(struct charge *c, int gpu)
{
	CUresult r = charge_try(c, gpu, context_bound(gpu), CHARGE_HIDDEN);
	int64_t end = 0;

	if (r && charges_read_overhead(gpu)) {
		charges_request_compare(gpu);
		end = sys_now() + COMPARE_WAIT_MS;
	}
	while (r && sys_now() < end) {
		(void)sys_wait(-1, 0, sys_now() + COMPARE_POLL_MS);
		r = charge_try(c, gpu, context_bound(gpu), CHARGE_HIDDEN);
	}
	return r ? charge_begin(c, gpu, context_bound(gpu), CHARGE_HIDDEN) : r;
}

static void count_live(int gpu, int by)
{
	struct contexts *s = gpu >= 0 && gpu < SLICE_GPUS_MAX ? contexts_get() : NULL;

	if (s)
		atomic_fetch_add(&s->gpus[gpu].live, (uint32_t)by);
}

static struct primary *primary_of(CUdevice device)
{
	struct contexts *s = device >= 0 && device < DEVICES_MAX ? contexts_get() : NULL;

	return s ? &s->primaries[device] : NULL;
}

static bool primary_active(CUdevice device)
{
	unsigned int flags = 0;
	int active = 0;

	return !REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) && active;
}

static CUcontext primary_context(const struct primary *p)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it came as one */
	return (CUcontext)(uintptr_t)atomic_load(&p->context);
}

/* Releases what a row of a gone context held. */
static void release_row(enum alloc_kind kind, uint64_t key, const struct alloc_row *row,
	void *arg)
{
	(void)key;
	(void)arg;
	if (kind == ALLOC_CAPTURE) {
		submit_capture_row_gone(row);
		return;
	}
	array_chunk_gone(kind, row);
	/* If another process may still hold the memory, only NVML tells (memory/alloc.c). */
	if ((kind == ALLOC_POINTER || kind == ALLOC_CHUNK) && row->other & 1)
		charge_disown_quietly(row->gpu, row->bytes); /* context_gone() compares */
	else
		charge_release(row->gpu, row->bytes,
			kind == ALLOC_MANAGED ? CHARGE_UNSEEN : CHARGE_SEEN);
}

/* Ends an operation after which @context no longer exists. */
static void context_gone(struct charge *c, uint64_t context)
{
	int gpu = c->gpu;

	alloc_table_drop_context(context, release_row, NULL);
	charge_free_end(c, 0);
	charges_request_compare(gpu);
}

/* --- gate thread --- */

static void report_new_context(const CUcontext *context, int gpu, CUresult r)
{
	if (!r && context && gpu >= 0)
		gate_thread_add_context(*context, (unsigned int)gpu);
}

/* Reports the primary context of a device while another holder keeps it. So the retain here does not change
 * its lifetime. */
static void report_new_primary(struct primary *p, int gpu, CUdevice device)
{
	CUcontext context = NULL;

	if (gpu < 0 || REAL(cuDevicePrimaryCtxRetain)(&context, device))
		return;
	atomic_store(&p->context, (uintptr_t)context);
	gate_thread_add_context(context, (unsigned int)gpu);
	(void)REAL(cuDevicePrimaryCtxRelease_v2)(device);
}

/* A primary context that may go. */
struct primary_leaving {
	struct primary *primary;
	CUcontext context; /* the gate thread knows this context */
	bool reset;
};

/* Before the driver call. The last release ends the context, and only the driver knows which release is the
 * last. Of two threads that release at once, neither can tell. @reset: the context goes even while it is
 * retained. */
static struct primary_leaving begin_primary_leave(CUdevice device, bool reset)
{
	struct primary_leaving l = { .primary = primary_of(device), .reset = reset };

	gate_handle_leaves();
	if (!l.primary)
		return l;
	l.context = primary_context(l.primary);
	if (l.context)
		gate_thread_context_leaves(l.context);
	return l;
}

/* After the driver call. An active context may be a new one with the same handle. */
static void end_primary_leave(const struct primary_leaving *l, CUdevice device, CUresult r)
{
	bool active;

	if (!l->context)
		return;
	active = primary_active(device);
	if (!active || (l->reset && !r))
		gate_thread_context_gone(l->context);
	else
		gate_thread_context_stays(l->context);
	if (active)
		report_new_context(&l->context, device_find_gpu(device), CUDA_SUCCESS);
}

/* --- primary contexts --- */

/* Before a thread or a green context retains a primary context. 0: go on. @c holds the charge if this thread
 * is charged; otherwise its GPU is CHARGES_NO_GPU. */
static CUresult primary_begin(struct primary *p, struct charge *c, int gpu, CUdevice device)
{
	uint32_t idle = IDLE;
	CUresult r;

	*c = (struct charge){ .gpu = CHARGES_NO_GPU };
	while (!atomic_compare_exchange_strong(&p->state, &idle, DECIDING)) {
		if (idle == LIVE)
			return CUDA_SUCCESS;
		(void)sys_wait(-1, 0, sys_now() + 1);
		idle = IDLE;
	}
	if (primary_active(device)) { /* made without a hook */
		atomic_store(&p->state, LIVE);
		count_live(gpu, 1);
		charges_request_compare(gpu);
		return CUDA_SUCCESS;
	}
	r = charge_context(c, gpu);
	if (!r)
		count_live(gpu, 1);
	atomic_store(&p->state, r ? IDLE : LIVE);
	return r;
}

/* No thread has a charge for the context any more. If the context exists all the same, this thread charges
 * it. */
static void primary_uncharged(struct primary *p, int gpu)
{
	uint32_t idle = IDLE;

	if (!atomic_compare_exchange_strong(&p->state, &idle, LIVE))
		return;
	count_live(gpu, 1);
	charge_adjust(gpu, (int64_t)context_bound(gpu), CHARGE_HIDDEN);
}

static void primary_end(struct primary *p, struct charge *c, int gpu, CUdevice device,
	CUresult r)
{
	if (c->gpu == CHARGES_NO_GPU) {
		/* The charged thread failed, or the context was destroyed meanwhile. So this thread made the
		 * context. */
		if (!r)
			primary_uncharged(p, gpu);
		return;
	}
	if (r && !primary_active(device)) {
		atomic_store(&p->state, IDLE);
		count_live(gpu, -1);
		charge_end(c, 0);
		/* Another thread made the context since the check above. That thread saw LIVE and charged
		 * nothing. */
		if (primary_active(device))
			primary_uncharged(p, gpu);
		return;
	}
	charge_end(c, c->bytes);
}

/* After a call that may have ended the primary context. @reset: its contents are gone in any case. */
static void primary_left(struct charge *c, CUdevice device, CUresult r, bool reset)
{
	struct primary *p = primary_of(device);
	uint32_t live = LIVE;
	bool active = primary_active(device);

	if (r || !p || (active && !reset)) {
		charge_free_end(c, 0);
		return;
	}
	if (!active && atomic_compare_exchange_strong(&p->state, &live, IDLE))
		count_live(c->gpu, -1);
	context_gone(c, atomic_load(&p->context));
}

static CUresult retain_primary_context(CUcontext *context, CUdevice device)
{
	int gpu = device_find_gpu(device);
	struct primary *p = primary_of(device);
	struct charge c;
	CUresult r;

	if (gpu == CHARGES_NO_GPU || !p)
		return REAL(cuDevicePrimaryCtxRetain)(context, device);
	r = primary_begin(p, &c, gpu, device);
	if (r)
		return r;
	r = REAL(cuDevicePrimaryCtxRetain)(context, device);
	if (!r && context)
		atomic_store(&p->context, (uintptr_t)*context);
	/* Before the request for a comparison. For the charged thread, the context is new. */
	if (!r)
		device_probe_mps(device, gpu, c.gpu != CHARGES_NO_GPU);
	primary_end(p, &c, gpu, device, r);
	report_new_context(context, gpu, r);
	return r;
}

HOOK CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	if (!charges_active())
		return REAL(cuDevicePrimaryCtxRetain)(context, device);
	return retain_primary_context(context, device);
}

#define LEAVE(name, reset)                                                     \
	HOOK CUresult name(CUdevice device)                                    \
	{                                                                      \
		struct pool_reservation_wait pools;                            \
		struct primary_leaving leaving;                                \
		struct charge c;                                               \
		CUresult r;                                                    \
                                                                               \
		if (!charges_active())                                         \
			return REAL(name)(device);                             \
		leaving = begin_primary_leave(device, reset);                  \
		pool_reservation_wait_begin(&pools);                           \
		charge_free_begin(&c, device_find_gpu(device), CHARGE_HIDDEN); \
		r = REAL(name)(device);                                        \
		pool_reservation_wait_end(&pools);                             \
		primary_left(&c, device, r, reset);                            \
		end_primary_leave(&leaving, device, r);                        \
		return r;                                                      \
	}

LEAVE(cuDevicePrimaryCtxRelease, false)
LEAVE(cuDevicePrimaryCtxRelease_v2, false)
LEAVE(cuDevicePrimaryCtxReset, true)
LEAVE(cuDevicePrimaryCtxReset_v2, true)

/* --- contexts of the program's own --- */

static CUresult create_begin(struct charge *c, CUdevice device)
{
	int gpu = charges_active() ? device_find_gpu(device) : CHARGES_NO_GPU;

	if (gpu == CHARGES_NO_GPU)
		return charge_begin(c, gpu, 0, CHARGE_HIDDEN);
	return charge_context(c, gpu);
}

static CUresult create_end(struct charge *c, CUresult r, const CUcontext *context,
	CUdevice device)
{
	struct alloc_row row = { .count = 1, .gpu = c->gpu };

	if (!r && context && c->gpu != CHARGES_NO_GPU) {
		count_live(c->gpu, 1);
		(void)alloc_table_put(ALLOC_CONTEXT, (uintptr_t)*context, &row);
		device_probe_mps(device, c->gpu, true);
	}
	charge_end(c, r ? 0 : c->bytes);
	report_new_context(context, row.gpu, r);
	return r;
}

HOOK CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device)
{
	struct charge c;
	CUresult r = create_begin(&c, device);

	return r ? r
		 : create_end(&c, REAL(cuCtxCreate)(context, flags, device), context, device);
}

HOOK CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	struct charge c;
	CUresult r = create_begin(&c, device);

	return r ? r
		 : create_end(&c, REAL(cuCtxCreate_v2)(context, flags, device), context,
			   device);
}

HOOK CUresult cuCtxCreate_v3(CUcontext *context, CUexecAffinityParam *params, int n,
	unsigned int flags, CUdevice device)
{
	struct charge c;
	CUresult r = create_begin(&c, device);

	return r ? r
		 : create_end(&c, REAL(cuCtxCreate_v3)(context, params, n, flags, device),
			   context, device);
}

HOOK CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned int flags,
	CUdevice device)
{
	struct charge c;
	CUresult r = create_begin(&c, device);

	return r ? r
		 : create_end(&c, REAL(cuCtxCreate_v4)(context, params, flags, device), context,
			   device);
}

struct context_destroy {
	bool known, last;
	bool all;               /* destroy, however often the program attached it */
	bool gate_thread_knows; /* the hook told the gate thread; also if no hook made the context */
	uint64_t context;
	struct alloc_row row;
	struct charge charge;
};

/* The row is removed before the driver call: the driver may give the same handle to the next context. */
static void destroy_begin(struct context_destroy *d, CUcontext context, bool all)
{
	*d = (struct context_destroy){ .context = (uintptr_t)context, .all = all };
	gate_handle_leaves();
	if (!context || !charges_active())
		return;
	if (all)
		d->known = d->last = alloc_table_remove(ALLOC_CONTEXT, d->context, &d->row);
	else
		d->known = alloc_table_get(ALLOC_CONTEXT, d->context, &d->row);
	if (!all && d->known)
		d->last = !alloc_table_count(ALLOC_CONTEXT, d->context, -1, NULL);
	d->gate_thread_knows = d->last || !d->known;
	if (d->gate_thread_knows)
		gate_thread_context_leaves(context);
	if (d->known)
		charge_free_begin(&d->charge, d->row.gpu, CHARGE_HIDDEN);
}

static CUresult destroy_end(struct context_destroy *d, CUresult r)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it came as one */
	CUcontext context = (CUcontext)(uintptr_t)d->context;

	/* Of an unknown context, only the driver knows how often the program attached it. */
	if (d->gate_thread_knows && (r || (!d->known && !d->all)))
		gate_thread_context_stays(context);
	else if (d->gate_thread_knows)
		gate_thread_context_gone(context);
	if (!d->known)
		return r;
	if (r && d->last)
		(void)alloc_table_put(ALLOC_CONTEXT, d->context, &d->row);
	else if (r)
		(void)alloc_table_count(ALLOC_CONTEXT, d->context, 1, NULL);
	if (r || !d->last) {
		charge_free_end(&d->charge, 0);
		return r;
	}
	count_live(d->row.gpu, -1);
	context_gone(&d->charge, d->context);
	return r;
}

HOOK CUresult cuCtxDestroy(CUcontext context)
{
	struct context_destroy d;

	destroy_begin(&d, context, true);
	return destroy_end(&d, REAL(cuCtxDestroy)(context));
}

HOOK CUresult cuCtxDestroy_v2(CUcontext context)
{
	struct context_destroy d;

	destroy_begin(&d, context, true);
	return destroy_end(&d, REAL(cuCtxDestroy_v2)(context));
}

HOOK CUresult cuCtxAttach(CUcontext *context, unsigned int flags)
{
	CUresult r = REAL(cuCtxAttach)(context, flags);

	if (!r && context && charges_active())
		(void)alloc_table_count(ALLOC_CONTEXT, (uintptr_t)*context, 1, NULL);
	return r;
}

HOOK CUresult cuCtxDetach(CUcontext context)
{
	struct context_destroy d;

	destroy_begin(&d, context, false);
	return destroy_end(&d, REAL(cuCtxDetach)(context));
}

/* --- green contexts --- */

/* A green context retains its device's primary context and lives in it. */
HOOK CUresult cuGreenCtxCreate(CUgreenCtx *context, CUdevResourceDesc desc, CUdevice device,
	unsigned int flags)
{
	int gpu = charges_active() ? device_find_gpu(device) : CHARGES_NO_GPU;
	struct primary *p = gpu == CHARGES_NO_GPU ? NULL : primary_of(device);
	struct alloc_row row = { .count = 1, .gpu = gpu, .other = (uint32_t)device };
	struct charge primary, green;
	CUresult r;

	if (!p)
		return REAL(cuGreenCtxCreate)(context, desc, device, flags);
	r = primary_begin(p, &primary, gpu, device);
	if (r)
		return r;
	r = charge_begin(&green, gpu, GREEN_BYTES, CHARGE_HIDDEN);
	if (r) {
		primary_end(p, &primary, gpu, device, r);
		return r;
	}
	r = REAL(cuGreenCtxCreate)(context, desc, device, flags);
	if (!r)
		device_probe_mps(device, gpu, primary.gpu != CHARGES_NO_GPU);
	if (!r && context)
		(void)alloc_table_put(ALLOC_CONTEXT, (uintptr_t)*context, &row);
	primary_end(p, &primary, gpu, device, r);
	charge_end(&green, r ? 0 : green.bytes);
	if (!r)
		report_new_primary(p, gpu, device);
	if (!r && context)
		green_made(*context, primary_context(p));
	return r;
}

HOOK CUresult cuGreenCtxDestroy(CUgreenCtx context)
{
	struct primary_leaving leaving;
	struct charge c;
	struct alloc_row row;
	CUresult r;
	int gpu;

	if (!context || !charges_active() ||
		!alloc_table_remove(ALLOC_CONTEXT, (uintptr_t)context, &row))
		return REAL(cuGreenCtxDestroy)(context);
	gpu = row.gpu;
	leaving = begin_primary_leave((CUdevice)row.other, false);
	green_leaves(context);
	charge_free_begin(&c, gpu, CHARGE_HIDDEN);
	r = REAL(cuGreenCtxDestroy)(context);
	if (r) {
		(void)alloc_table_put(ALLOC_CONTEXT, (uintptr_t)context, &row);
		green_made(context, leaving.context);
	}
	primary_left(&c, (CUdevice)row.other, r, false);
	end_primary_leave(&leaving, (CUdevice)row.other, r);
	if (!r)
		charges_request_compare(gpu);
	return r;
}

/* --- limits --- */

/* The threads that can be on the device at once. Each has a stack, and the driver takes all stacks when the
 * limit is raised (H100: 16 KiB of stack take 4.1 GiB). */
static uint64_t threads_of(CUdevice device)
{
	int cores = 0, threads = 0;

	if (REAL(cuDeviceGetAttribute)(&cores, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
		    device) ||
		REAL(cuDeviceGetAttribute)(&threads,
			CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device) ||
		cores <= 0 || threads <= 0)
		return 0;
	return (uint64_t)cores * (uint64_t)threads;
}

/* No less than the context takes in addition under the new limit. */
static uint64_t limit_bound(unsigned int limit, size_t value)
{
	uint64_t each = 1, bytes;
	CUdevice device;
	size_t now = 0;

	if (limit != CU_LIMIT_STACK_SIZE && limit != CU_LIMIT_PRINTF_FIFO_SIZE &&
		limit != CU_LIMIT_MALLOC_HEAP_SIZE)
		return 0;
	if (REAL(cuCtxGetLimit)(&now, limit) || value <= now)
		return 0;
	if (limit == CU_LIMIT_STACK_SIZE)
		each = REAL(cuCtxGetDevice)(&device) ? 0 : threads_of(device);
	return __builtin_mul_overflow(value - now, each, &bytes) ? UINT64_MAX
								 : round_up_to_granule(bytes);
}

HOOK CUresult cuCtxSetLimit(unsigned int limit, size_t value)
{
	struct charge c;
	CUresult r;
	int gpu;

	if (!charges_active())
		return REAL(cuCtxSetLimit)(limit, value);
	gpu = device_current_gpu();
	r = charge_begin(&c, gpu, gpu == CHARGES_NO_GPU ? 0 : limit_bound(limit, value),
		CHARGE_HIDDEN);
	if (r)
		return r;
	r = REAL(cuCtxSetLimit)(limit, value);
	charge_end(&c, r ? 0 : c.bytes);
	return r;
}
