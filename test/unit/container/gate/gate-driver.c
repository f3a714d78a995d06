/* SPDX-License-Identifier: Apache-2.0 */
#include "gate-driver.h"

#include "container/cuda/green.h"
#include "container/cuda/device.h"
#include "container/cuda/stream.h"
#include "container/loader/forward.h"
#include "container/charges/charges.h"

#include <string.h>

#define EVENTS  4096
#define RELAXED 2U

struct gate_driver td;
void *forward_slots[2048];

static struct event {
	_Atomic int context;  /* its number + 1; 0: destroyed */
	_Atomic int recorded; /* in which context, + 1 */
	_Atomic uint64_t target, aside;
} events[EVENTS];
static _Atomic int event_count;
static _Atomic bool destroyed[TD_CONTEXTS];
static _Atomic unsigned long long ids[TD_CONTEXTS];
static _Thread_local int current;
static _Thread_local bool green;
static _Thread_local unsigned int mode;

CUcontext td_context(int n)
{
	return (CUcontext)(uintptr_t)(0x1000 + n);
}

static int find_context_number(CUcontext context)
{
	uintptr_t n = (uintptr_t)context - 0x1000;

	if (n < TD_CONTEXTS && !atomic_load(&destroyed[n]))
		return (int)n;
	atomic_fetch_add(&td.stale_calls, 1);
	return -1;
}

void td_current(int n)
{
	current = n + 1;
	green = false;
}

void td_green(int n)
{
	td_current(n);
	green = true;
}

void td_destroy(int n)
{
	td_finish(n);
	atomic_store(&destroyed[n], true);
	for (int i = 0; i < EVENTS; i++)
		if (atomic_load(&events[i].context) == n + 1)
			atomic_store(&events[i].context, 0);
}

void td_create(int n)
{
	(void)atomic_fetch_add(&ids[n], 1000);
	atomic_store(&destroyed[n], false);
}

void td_submit_to(CUstream stream)
{
	if ((uintptr_t)stream & 0x2000)
		(void)atomic_fetch_add(&td.aside_submitted, 1);
	else
		td_submit((int)((uintptr_t)stream & 0xff));
}

void td_submit(int n)
{
	(void)atomic_fetch_add(&td.submitted[n], 1);
}

void td_finish(int n)
{
	uint64_t all = atomic_load(&td.submitted[n]), was = atomic_load(&td.done[n]);

	while (was < all && !atomic_compare_exchange_weak(&td.done[n], &was, all))
		;
}

static CUresult return_missing(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

void *forward_resolve(unsigned int slot)
{
	(void)slot;
	return (void *)return_missing;
}

void *dl_open(const char *path, int flags)
{
	(void)path;
	(void)flags;
	return NULL;
}

static CUresult real_create(CUevent *ret, unsigned int flags)
{
	int i, error = atomic_load(&td.create_error);

	if (error)
		return (CUresult)error;
	i = atomic_fetch_add(&event_count, 1);
	atomic_fetch_add(&td.creates, 1);
	if (current <= 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (i >= EVENTS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(void)flags;
	atomic_store(&events[i].context, current);
	*ret = (CUevent)(void *)&events[i];
	return CUDA_SUCCESS;
}

/* @main, @aside: behind what is there, and beside it. */
static CUresult record_test_event(CUevent event, int n, bool main, bool aside)
{
	struct event *e = (struct event *)(void *)event;

	if (!atomic_load(&e->context)) {
		atomic_fetch_add(&td.stale_calls, 1);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	atomic_store(&e->target, main ? atomic_load(&td.submitted[n]) : 0);
	atomic_store(&e->aside, aside && !n ? atomic_load(&td.aside_submitted) : 0);
	atomic_store(&e->recorded, n + 1);
	return CUDA_SUCCESS;
}

static CUresult real_record_context(CUcontext context, CUevent event)
{
	int n = find_context_number(context), error = atomic_load(&td.error);

	atomic_fetch_add(&td.records, 1);
	if (n < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (error)
		return (CUresult)error;
	if (atomic_load(&td.capturing)) {
		int once = 2;

		atomic_fetch_add(&td.spoiled, 1);
		(void)atomic_compare_exchange_strong(&td.capturing, &once, 0);
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	return record_test_event(event, n, true, true);
}

static CUresult real_record(CUevent event, CUstream stream)
{
	atomic_fetch_add(&td.own_records, 1);
	if (atomic_load(&td.capturing) && mode != RELAXED)
		atomic_fetch_add(&td.blocked_calls, 1);
	if ((uintptr_t)stream & 0x2000)
		return record_test_event(event, 0, false, true);
	return record_test_event(event, stream ? (int)((uintptr_t)stream & 0xff) : current - 1,
		true, false);
}

static CUresult real_query(CUevent event)
{
	struct event *e = (struct event *)(void *)event;
	int n = atomic_load(&e->recorded) - 1, error = atomic_load(&td.error);

	atomic_fetch_add(&td.queries, 1);
	if (atomic_load(&td.capturing) && mode != RELAXED)
		atomic_fetch_add(&td.blocked_calls, 1);
	if (error)
		return (CUresult)error;
	if (!atomic_load(&e->context) || n < 0) {
		atomic_fetch_add(&td.stale_calls, 1);
		return CUDA_ERROR_INVALID_HANDLE;
	}
	if (atomic_load(&td.at_once))
		td_finish(n);
	if (atomic_load(&td.done[n]) < atomic_load(&e->target) ||
		atomic_load(&td.aside_done) < atomic_load(&e->aside))
		return CUDA_ERROR_NOT_READY;
	return CUDA_SUCCESS;
}

static CUresult real_destroy(CUevent event)
{
	struct event *e = (struct event *)(void *)event;

	atomic_fetch_add(&td.destroys, 1);
	if (!atomic_load(&e->context))
		atomic_fetch_add(&td.stale_calls, 1);
	atomic_store(&e->context, 0);
	return CUDA_SUCCESS;
}

static CUresult real_context_id(CUcontext context, unsigned long long *ret)
{
	uintptr_t n = (uintptr_t)context - 0x1000;

	if (n >= TD_CONTEXTS || atomic_load(&destroyed[n]))
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret = n + atomic_load(&ids[n]);
	return CUDA_SUCCESS;
}

static CUresult real_stream_id(CUstream stream, unsigned long long *ret)
{
	*ret = (uintptr_t)stream ? (uintptr_t)stream : 0x100000U + (unsigned int)current;
	return CUDA_SUCCESS;
}

static _Thread_local int pushed;

static CUresult real_push(CUcontext context)
{
	int n = find_context_number(context);

	if (n < 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	pushed = current;
	current = n + 1;
	return CUDA_SUCCESS;
}

static CUresult real_pop(CUcontext *ret)
{
	*ret = td_context(current - 1);
	current = pushed;
	return CUDA_SUCCESS;
}

static CUresult real_current(CUcontext *ret)
{
	*ret = current <= 0 ? NULL
	       : green      ? (CUcontext)(uintptr_t)(0x3000 + current - 1)
			    : td_context(current - 1);
	return CUDA_SUCCESS;
}

static CUresult real_exchange(unsigned int *m)
{
	unsigned int was = mode;

	mode = *m;
	*m = was;
	return CUDA_SUCCESS;
}

/* What src/container/cuda/ has. A stream that captures has 0x1000 in it. */

CUcontext green_primary(CUcontext context)
{
	uintptr_t n = (uintptr_t)context - 0x3000;

	return n < TD_CONTEXTS ? td_context((int)n) : context;
}

bool stream_captures(CUstream stream, bool own)
{
	(void)own;
	return atomic_load(&td.capturing) && ((uintptr_t)stream & 0xf000) == 0x1000;
}

CUresult stream_device(CUstream stream, bool own, CUdevice *ret)
{
	(void)own;
	(void)atomic_fetch_add(&td.stream_questions, 1);
	*ret = (CUdevice)((uintptr_t)stream & 0xff) + atomic_load(&td.moved);
	return CUDA_SUCCESS;
}

int device_find_gpu(CUdevice device)
{
	return device < TD_CONTEXTS ? device : CHARGES_NO_GPU;
}

void device_probe_current_mps(void)
{
	(void)atomic_fetch_add(&td.mps_probes, 1);
}

int device_current_gpu(void)
{
	return current > 0 ? current - 1 : CHARGES_NO_GPU;
}

#define REALS(X)                                 \
	X(cuEventCreate, real_create)            \
	X(cuCtxRecordEvent, real_record_context) \
	X(cuEventRecord, real_record)            \
	X(cuEventRecord_ptsz, real_record)       \
	X(cuEventQuery, real_query)              \
	X(cuEventDestroy_v2, real_destroy)       \
	X(cuCtxGetId, real_context_id)           \
	X(cuStreamGetId, real_stream_id)         \
	X(cuStreamGetId_ptsz, real_stream_id)    \
	X(cuCtxPushCurrent_v2, real_push)        \
	X(cuCtxPopCurrent_v2, real_pop)          \
	X(cuCtxGetCurrent, real_current)         \
	X(cuThreadExchangeStreamCaptureMode, real_exchange)

void td_new(void)
{
	memset(&td, 0, sizeof(td));
	td_current(0);
#define X(name, fn)                                         \
	{                                                   \
		__typeof__(&name) typed = fn;               \
		forward_slots[SLOT_##name] = (void *)typed; \
	}
	REALS(X)
#undef X
}
