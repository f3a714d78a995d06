/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/container/cuda/fake-gate.h"

#include "support/test.h"

#include <pthread.h>
#include <string.h>

struct fake_gate fake_gate;
struct turn_page fake_gate_page;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gate gate;
_Atomic(struct gate *) gate_root;

void fake_gate_new(bool page)
{
	memset(&fake_gate, 0, sizeof(fake_gate));
	memset(&fake_gate_page, 0, sizeof(fake_gate_page));
	gate.gpu_count = 1;
	atomic_store(&gate.captures, 0);
	atomic_store(&gate.page, page ? &fake_gate_page : NULL);
	atomic_store(&gate_root, &gate);
}

struct turn_gpu_page *gate_begin_slow(struct gate *g, CUstream stream, unsigned int flags,
	uintptr_t kind)
{
	(void)g;
	if (fake_gate.slow < sizeof(fake_gate.streams) / sizeof(*fake_gate.streams))
		fake_gate.streams[fake_gate.slow] = stream;
	fake_gate.slow++;
	fake_gate.stream = stream;
	fake_gate.flags = flags;
	fake_gate.kind = kind;
	if (fake_gate.refuse)
		return NULL;
	(void)atomic_fetch_add(&fake_gate_page.gpus[0].begun, 1);
	return (struct turn_gpu_page *)((uintptr_t)&fake_gate_page.gpus[0] |
					(fake_gate.place_fence && !(flags & GATE_SEVERAL)
							? GATE_OWN_FENCE
							: 0));
}

void gate_stream_wait_begin_slow(struct gate_stream_wait *wait, CUstream stream,
	unsigned int flags)
{
	fake_gate.waits++;
	fake_gate.wait_stream = stream;
	fake_gate.wait_flags = flags;
	wait->slot = fake_gate.refuse ? 0 : fake_gate.waits;
}

void gate_stream_wait_end_slow(const struct gate_stream_wait *wait, bool given)
{
	assert_int_equal(wait->slot, fake_gate.waits);
	fake_gate.waits_given += given;
}

void gate_handle_leaves(void) {}

void gate_capture_begins(void)
{
	fake_gate.begins++;
	(void)atomic_fetch_add(&gate.captures, 1);
}

void gate_capture_ended(void)
{
	fake_gate.ended++;
	assert_true(atomic_fetch_sub(&gate.captures, 1) > 0);
}

static int place_of(CUcontext context)
{
	for (int i = 0; i < FAKE_CONTEXTS; i++)
		if (fake_gate.contexts[i] == context)
			return i;
	return -1;
}

bool fake_gate_knows(CUcontext context)
{
	return place_of(context) >= 0;
}

void gate_thread_add_context(CUcontext ctx, unsigned int gpu)
{
	int i;

	assert_non_null(ctx);
	(void)pthread_mutex_lock(&lock);
	i = place_of(ctx);
	if (i < 0)
		i = place_of(NULL);
	if (i >= 0) {
		fake_gate.contexts[i] = ctx;
		fake_gate.gpus[i] = gpu;
	}
	(void)pthread_mutex_unlock(&lock);
	assert_true(i >= 0);
}

void gate_thread_context_gone(CUcontext ctx)
{
	int i;

	(void)pthread_mutex_lock(&lock);
	i = place_of(ctx);
	fake_gate.gone++;
	if (fake_gate.leaving == ctx)
		fake_gate.leaving = NULL;
	if (i >= 0)
		fake_gate.contexts[i] = NULL;
	(void)pthread_mutex_unlock(&lock);
}

void gate_thread_context_leaves(CUcontext ctx)
{
	(void)pthread_mutex_lock(&lock);
	fake_gate.leaves++;
	fake_gate.leaving = ctx;
	(void)pthread_mutex_unlock(&lock);
}

void gate_thread_context_stays(CUcontext ctx)
{
	(void)pthread_mutex_lock(&lock);
	fake_gate.stays++;
	if (fake_gate.leaving == ctx)
		fake_gate.leaving = NULL;
	(void)pthread_mutex_unlock(&lock);
}

void gate_end_tagged(struct turn_gpu_page *p)
{
	fake_gate.own_fence++;
	(void)atomic_fetch_add(&((struct turn_gpu_page *)((uintptr_t)p & ~GATE_TAGS))->ended,
		1);
}
