/* SPDX-License-Identifier: Apache-2.0 */

/* Captures: the gate knows of each from before it begins until it is over, whatever way it ends. */
#include "support/test.h"

#include "container/cuda/work/work.h"
#include "container/cuda/device.h"
#include "container/cuda/memory/pool-reservation.h"
#include "unit/container/cuda/fake-gate.h"
#include "container/charges/alloc-table.h"

#include <pthread.h>

#define STREAMS 8
#define WAYS    10 /* to begin one */
#define CONTEXT ((CUcontext)(uintptr_t)0xc000)
#define GREEN   ((CUcontext)(uintptr_t)0xc100)

_Atomic bool link_off;
void *forward_slots[SLOTS_CUDA];

void *forward_resolve(unsigned int slot)
{
	fail_msg("slot %u is empty", slot);
	return NULL;
}

uint64_t device_current_context(void)
{
	return (uintptr_t)CONTEXT;
}

void pool_reservation_wait_begin(struct pool_reservation_wait *w)
{
	(void)w;
}

void pool_reservation_wait_end(struct pool_reservation_wait *w)
{
	(void)w;
}

/* --- the driver: streams by number, of which 0 to 2 are CUDA's special ones --- */

static struct {
	unsigned int status; /* 0 none, 1 captures, 2 invalidated */
	CUresult begin, end, destroy;
} streams[STREAMS];
static unsigned int
	began; /* captures that the gate knew of when the driver was asked to begin one */

static unsigned int count_captures(void)
{
	return atomic_load(&atomic_load(&gate_root)->captures);
}

static CUstream stream(uintptr_t n)
{
	return (CUstream)n; /* NOLINT(performance-no-int-to-ptr) */
}

static CUresult d_begin_mode(CUstream s, unsigned int mode)
{
	uintptr_t n = (uintptr_t)s;

	(void)mode;
	began = count_captures();
	if (!streams[n].begin)
		streams[n].status = 1;
	return streams[n].begin;
}

static CUresult d_begin(CUstream s)
{
	return d_begin_mode(s, 0);
}

static CUresult d_begin_graph(CUstream s, CUgraph graph, const CUgraphNode *after,
	const CUgraphEdgeData *edges, size_t n, unsigned int mode)
{
	(void)graph, (void)after, (void)edges, (void)n;
	return d_begin_mode(s, mode);
}

static CUresult d_end(CUstream s, CUgraph *graph)
{
	uintptr_t n = (uintptr_t)s;

	(void)graph;
	/* 908: not this thread's to end. */
	if (streams[n].end != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
		streams[n].status = 0;
	return streams[n].end;
}

static CUresult d_begin_again(CUstream s, unsigned int mode, CUgraph graph, void *callback,
	void *arg)
{
	(void)graph, (void)callback, (void)arg;
	return d_begin_mode(s, mode);
}

static CUresult d_begin_cig(CUstream s, void *params)
{
	(void)params;
	return d_begin_mode(s, 0);
}

static CUresult d_end_cig(CUstream s)
{
	return d_end(s, NULL);
}

static CUresult d_destroy(CUstream s)
{
	if (!streams[(uintptr_t)s].destroy)
		streams[(uintptr_t)s].status = 0;
	return streams[(uintptr_t)s].destroy;
}

static CUresult d_capturing(CUstream s, unsigned int *status)
{
	*status = streams[(uintptr_t)s].status;
	return CUDA_SUCCESS;
}

static CUresult d_context(CUstream s, CUcontext *ret)
{
	*ret = (uintptr_t)s == 7 ? GREEN : CONTEXT;
	return CUDA_SUCCESS;
}

static int setup(void **state)
{
	(void)state;
#define PUT(name, fn) forward_slots[SLOT_##name] = (void *)(fn)
	PUT(cuStreamBeginCapture, d_begin);
	PUT(cuStreamBeginCapture_ptsz, d_begin);
	PUT(cuStreamBeginCapture_v2, d_begin_mode);
	PUT(cuStreamBeginCapture_v2_ptsz, d_begin_mode);
	PUT(cuStreamBeginCaptureToGraph, d_begin_graph);
	PUT(cuStreamBeginCaptureToGraph_ptsz, d_begin_graph);
	PUT(cuStreamBeginRecaptureToGraph, d_begin_again);
	PUT(cuStreamBeginRecaptureToGraph_ptsz, d_begin_again);
	PUT(cuStreamBeginCaptureToCig, d_begin_cig);
	PUT(cuStreamBeginCaptureToCig_ptsz, d_begin_cig);
	PUT(cuStreamEndCaptureToCig, d_end_cig);
	PUT(cuStreamEndCaptureToCig_ptsz, d_end_cig);
	PUT(cuStreamEndCapture, d_end);
	PUT(cuStreamEndCapture_ptsz, d_end);
	PUT(cuStreamDestroy, d_destroy);
	PUT(cuStreamDestroy_v2, d_destroy);
	PUT(cuStreamIsCapturing, d_capturing);
	PUT(cuStreamIsCapturing_ptsz, d_capturing);
	PUT(cuStreamGetCtx, d_context);
	PUT(cuStreamGetCtx_ptsz, d_context);
#undef PUT
	memset(streams, 0, sizeof(streams));
	atomic_store(&link_off, false);
	fake_gate_new(false);
	return 0;
}

/* Each test leaves nothing. */
static int teardown(void **state)
{
	(void)state;
	return (int)count_captures();
}

/* --- tests --- */

static CUresult begin_by(unsigned int way, CUstream s)
{
	switch (way) {
	case 0:
		return cuStreamBeginCapture(s);
	case 1:
		return cuStreamBeginCapture_ptsz(s);
	case 2:
		return cuStreamBeginCapture_v2(s, 1);
	case 3:
		return cuStreamBeginCapture_v2_ptsz(s, 2);
	case 4:
		return cuStreamBeginCaptureToGraph(s, NULL, NULL, NULL, 0, 0);
	case 5:
		return cuStreamBeginCaptureToGraph_ptsz(s, NULL, NULL, NULL, 0, 0);
	case 6:
		return cuStreamBeginRecaptureToGraph(s, 0, NULL, NULL, NULL);
	case 7:
		return cuStreamBeginRecaptureToGraph_ptsz(s, 0, NULL, NULL, NULL);
	case 8:
		return cuStreamBeginCaptureToCig(s, NULL);
	default:
		return cuStreamBeginCaptureToCig_ptsz(s, NULL);
	}
}

static CUresult end_by(unsigned int way, CUstream s)
{
	CUgraph graph;

	if (way >= 8)
		return way & 1 ? cuStreamEndCaptureToCig_ptsz(s) : cuStreamEndCaptureToCig(s);
	return way & 1 ? cuStreamEndCapture_ptsz(s, &graph) : cuStreamEndCapture(s, &graph);
}

static void capture__counts_from_before_the_call_of_the_driver(void **state)
{
	(void)state;
	for (unsigned int way = 0; way < WAYS; way++) {
		began = 0;
		assert_int_equal(begin_by(way, stream(3)), 0);
		assert_int_equal(began, 1);
		assert_int_equal(count_captures(), 1);
		assert_int_equal(end_by(way, stream(3)), 0);
		assert_int_equal(count_captures(), 0);
	}
	assert_int_equal(fake_gate.begins, WAYS);
	assert_int_equal(fake_gate.ended, WAYS);
}

static void capture__that_does_not_begin_is_not_counted(void **state)
{
	(void)state;
	streams[3].begin = CUDA_ERROR_ILLEGAL_STATE;
	for (unsigned int way = 0; way < WAYS; way++) {
		assert_int_equal(begin_by(way, stream(3)), CUDA_ERROR_ILLEGAL_STATE);
		assert_int_equal(count_captures(), 0);
	}
	assert_int_equal(fake_gate.begins, WAYS);
	assert_int_equal(fake_gate.ended, WAYS);
}

static void capture__of_a_stream_that_captures_does_not_count_twice(void **state)
{
	CUgraph graph;

	(void)state;
	assert_int_equal(begin_by(2, stream(3)), 0);
	streams[3].begin = CUDA_ERROR_ILLEGAL_STATE;
	assert_int_equal(begin_by(2, stream(3)), CUDA_ERROR_ILLEGAL_STATE);
	assert_int_equal(count_captures(), 1);
	assert_int_equal(cuStreamEndCapture(stream(3), &graph), 0);
}

static void capture__that_was_invalidated_ends(void **state)
{
	CUgraph graph;

	(void)state;
	assert_int_equal(begin_by(2, stream(3)), 0);
	streams[3].status = 2;
	streams[3].end = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	assert_int_equal(cuStreamEndCapture(stream(3), &graph),
		CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_int_equal(count_captures(), 0);
	/* The hook ends the capture in the gate only once. */
	assert_int_equal(cuStreamEndCapture(stream(3), &graph),
		CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_int_equal(fake_gate.ended, 1);
}

static void capture__of_another_thread_continues(void **state)
{
	CUgraph graph;

	(void)state;
	assert_int_equal(begin_by(2, stream(3)), 0);
	streams[3].end = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	assert_int_equal(cuStreamEndCapture(stream(3), &graph),
		CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	assert_int_equal(count_captures(), 1);
	streams[3].end = CUDA_SUCCESS;
	assert_int_equal(cuStreamEndCapture(stream(3), &graph), 0);
	assert_int_equal(count_captures(), 0);
}

static void capture__end_without_a_begin_is_ignored(void **state)
{
	CUgraph graph;

	(void)state;
	assert_int_equal(begin_by(2, stream(3)), 0);
	assert_int_equal(cuStreamEndCapture(stream(4), &graph), 0);
	assert_int_equal(cuStreamDestroy_v2(stream(4)), 0);
	assert_int_equal(count_captures(), 1);
	assert_int_equal(cuStreamEndCapture(stream(3), &graph), 0);
}

static void capture__ends_with_its_stream(void **state)
{
	CUgraph graph;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		CUresult (*const destroy)(CUstream) = i ? cuStreamDestroy : cuStreamDestroy_v2;

		assert_int_equal(begin_by(2, stream(3)), 0);
		streams[3].destroy = CUDA_ERROR_INVALID_CONTEXT;
		assert_int_equal(destroy(stream(3)), CUDA_ERROR_INVALID_CONTEXT);
		assert_int_equal(count_captures(), 1);
		streams[3].destroy = CUDA_SUCCESS;
		assert_int_equal(destroy(stream(3)), 0);
		assert_int_equal(count_captures(), 0);
		/* The next stream has the same handle. */
		assert_int_equal(begin_by(2, stream(3)), 0);
		assert_int_equal(count_captures(), 1);
		assert_int_equal(cuStreamEndCapture(stream(3), &graph), 0);
	}
}

static void end_gone_capture(enum alloc_kind kind, uint64_t key, const struct alloc_row *row,
	void *arg)
{
	(void)key, (void)arg;
	assert_int_equal(kind, ALLOC_CAPTURE);
	submit_capture_row_gone(row);
}

static void capture__ends_with_its_context(void **state)
{
	(void)state;
	assert_int_equal(begin_by(2, stream(3)), 0);
	assert_int_equal(begin_by(2, stream(4)), 0);
	assert_int_equal(begin_by(2, stream(7)), 0);
	alloc_table_drop_context((uintptr_t)CONTEXT, end_gone_capture, NULL);
	assert_int_equal(count_captures(), 1);
	alloc_table_drop_context((uintptr_t)GREEN, end_gone_capture, NULL);
	assert_int_equal(count_captures(), 0);
}

static void *capture_own(void *arg)
{
	CUgraph graph;

	(void)arg;
	/* All threads have the same name for their own stream. In some calls that name is 0. */
	assert_int_equal(begin_by(3, NULL), 0);
	assert_int_equal(count_captures(), 2);
	assert_int_equal(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph), 0);
	assert_int_equal(count_captures(), 1);
	return NULL;
}

static void capture__of_the_per_thread_stream_belongs_to_its_thread(void **state)
{
	CUgraph graph;
	pthread_t t;

	(void)state;
	assert_int_equal(begin_by(2, CU_STREAM_PER_THREAD), 0);
	assert_int_equal(pthread_create(&t, NULL, capture_own, NULL), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(count_captures(), 1);
	/* The thread has another stream of the same name in another context. */
	assert_int_equal(begin_by(2, CU_STREAM_PER_THREAD), 0);
	assert_int_equal(count_captures(), 2);
	assert_int_equal(cuStreamEndCapture_ptsz(NULL, &graph), 0);
	assert_int_equal(count_captures(), 1);
	assert_int_equal(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph), 0);
}

static void capture__outside_of_a_slice_is_not_recorded(void **state)
{
	CUgraph graph;

	(void)state;
	atomic_store(&link_off, true);
	for (unsigned int way = 0; way < WAYS; way++)
		assert_int_equal(begin_by(way, stream(3)), 0);
	assert_int_equal(cuStreamEndCapture(stream(3), &graph), 0);
	assert_int_equal(cuStreamDestroy_v2(stream(3)), 0);
	assert_int_equal(fake_gate.begins, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(capture__counts_from_before_the_call_of_the_driver),
		TEST(capture__that_does_not_begin_is_not_counted),
		TEST(capture__of_a_stream_that_captures_does_not_count_twice),
		TEST(capture__that_was_invalidated_ends),
		TEST(capture__of_another_thread_continues),
		TEST(capture__end_without_a_begin_is_ignored),
		TEST(capture__ends_with_its_stream),
		TEST(capture__ends_with_its_context),
		TEST(capture__of_the_per_thread_stream_belongs_to_its_thread),
		TEST(capture__outside_of_a_slice_is_not_recorded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
