/* SPDX-License-Identifier: Apache-2.0 */

/* How the library knows that work is done, where that is not plain: captures, errors, contexts that come and
 * go. */
#include "fences-test.h"

#include "container/sys.h"
#include "container/gate/internal.h"

/* --- captures --- */

static void finish_work_before_capture(void)
{
	for (int i = 0; i < 50; i++) {
		CHECK(submit(0));
		capture_begins();
		td_finish(0);
		WAIT_FOR(is_gate_idle());
		capture_ends();
	}
}

static void fences__see_the_end_of_work_from_before_a_capture(void **state)
{
	(void)state;
	gate_test(finish_work_before_capture, 1);
}

static void begin_with_capture(void)
{
	capture_begins();
	for (int i = 0; i < 5; i++)
		CHECK(submit_to(TD_STREAM, 0));
	wait_fence_polls();
	CHECK(in_flight(0) == 5);
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	capture_ends();
}

static void fences__see_ends_where_a_capture_comes_first(void **state)
{
	(void)state;
	gate_test(begin_with_capture, 1);
}

static void copy_beside_capture(void)
{
	CHECK(submit(0));
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	capture_begins();
	for (unsigned int i = 0; i < 10; i++)
		CHECK(submit(GATE_NO_STREAM | GATE_PASS | (i % 2 ? GATE_OWN : 0)));
	wait_fence_polls();
	CHECK(in_flight(0) == 10);
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	for (unsigned int i = 0; i < 10; i++)
		CHECK(submit_to(TD_STREAM, GATE_PROGRAMMATIC));
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	capture_ends();
}

static void fences__see_the_end_of_copies_beside_a_capture(void **state)
{
	(void)state;
	gate_test(copy_beside_capture, 1);
}

/* The submissions to two streams are more than the slots. The library notices the end of the last submission
 * of each. */
static void submit_many_beside_capture(void)
{
	capture_begins();
	for (int i = 0; i < 5 * OWN_FENCES; i++) {
		CHECK(submit_to(TD_STREAM, 0));
		CHECK(submit_to(TD_ASIDE, 0));
	}
	wait_fence_polls();
	CHECK(in_flight(0) == UINT64_C(10) * OWN_FENCES);
	td_finish(0);
	WAIT_FOR(in_flight(0) == UINT64_C(5) * OWN_FENCES);
	wait_fence_polls();
	CHECK(in_flight(0) == UINT64_C(5) * OWN_FENCES);
	atomic_store(&td.aside_done, 5 * OWN_FENCES);
	WAIT_FOR(is_gate_idle());
	capture_ends();
}

static void fences__see_the_end_of_many_submissions_beside_a_capture(void **state)
{
	(void)state;
	gate_test(submit_many_beside_capture, 1);
}

/* A capture that no hook reported is invalidated, once. */
static void capture_unknown(void)
{
	CHECK(submit(0));
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	atomic_store(&td.capturing, 2);
	CHECK(submit(0));
	WAIT_FOR(atomic_load(&td.spoiled) == 1);
	for (int i = 0; i < 300; i++)
		CHECK(submit_to(TD_STREAM, 0));
	wait_fence_polls();
	CHECK(in_flight(0) == 301);
	td_finish(0);
	/* Work in flight at that time ends, too, some time later. */
	WAIT_FOR(is_gate_idle());
	atomic_store(&td.capturing, 1);
	for (int i = 0; i < 300; i++) {
		CHECK(submit_to(TD_STREAM, 0));
		if (i % 10)
			continue;
		td_finish(0);
		WAIT_FOR(is_gate_idle());
	}
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	CHECK(atomic_load(&td.spoiled) == 1 && !atomic_load(&td.stale_calls));
}

static void fences__do_not_invalidate_a_second_unknown_capture(void **state)
{
	(void)state;
	gate_test(capture_unknown, 1);
}

/* --- errors --- */

static void fail_for_a_while(void)
{
	static const int errors[] = { CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_INVALID_VALUE,
		CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
		CUDA_ERROR_OPERATING_SYSTEM, CUDA_ERROR_UNKNOWN };

	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		atomic_store(&td.error, errors[i]);
		for (int n = 0; n < 6; n++)
			CHECK(submit(0));
		wait_fence_polls();
		CHECK(in_flight(0) == 6);
		atomic_store(&td.error, 0);
		wait_fence_polls();
		CHECK(in_flight(0) == 6);
		td_finish(0);
		WAIT_FOR(is_gate_idle());
		CHECK(submit(0));
		wait_fence_polls();
		CHECK(in_flight(0) == 1);
		td_finish(0);
		WAIT_FOR(is_gate_idle());
	}
	/* Errors from the events of a new context, and from an event behind a submission. */
	atomic_store(&td.create_error, CUDA_ERROR_OUT_OF_MEMORY);
	gate_thread_add_context(td_context(1), 0);
	CHECK(submit(0));
	td_submit(1);
	wait_fence_polls();
	CHECK(in_flight(0) == 1);
	atomic_store(&td.create_error, 0);
	td_finish(0);
	wait_fence_polls();
	CHECK(in_flight(0) == 1);
	td_finish(1);
	WAIT_FOR(is_gate_idle());
	atomic_store(&td.create_error, CUDA_ERROR_OUT_OF_MEMORY);
	capture_begins();
	CHECK(submit_to(TD_STREAM, 0));
	td_finish(0);
	(void)usleep(20000);
	CHECK(in_flight(0) == 1);
	capture_ends();
	WAIT_FOR(is_gate_idle());
}

static void fences__count_no_work_as_done_at_a_transient_error(void **state)
{
	(void)state;
	gate_test(fail_for_a_while, 1);
}

static int lasting_error;

static void fail_for_good(void)
{
	CHECK(submit(0));
	WAIT_FOR(slice_arbiter_client(A, 0).busy && atomic_load(&td.records));
	atomic_store(&td.error, lasting_error);
	WAIT_FOR(is_gate_idle());
	CHECK(submit(0));
	WAIT_FOR(is_gate_idle());
}

static void fences__count_work_as_over_with_its_context(void **state)
{
	static const int errors[] = { CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_ILLEGAL_ADDRESS,
		CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_ASSERT, CUDA_ERROR_HARDWARE_STACK_ERROR,
		CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS,
		CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC,
		CUDA_ERROR_LAUNCH_FAILED };

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		lasting_error = errors[i];
		gate_test(fail_for_good, 1);
	}
}

/* --- contexts --- */

/* The program seems to destroy the context, but another holder keeps it alive. */
static void keep_context(void)
{
	int creates;

	CHECK(submit(0));
	WAIT_FOR(slice_arbiter_client(A, 0).busy && atomic_load(&td.records));
	creates = atomic_load(&td.creates);
	for (int i = 0; i < 10; i++) {
		gate_thread_context_leaves(td_context(0));
		(void)usleep(2000);
		CHECK(in_flight(0) == 1);
		gate_thread_context_stays(td_context(0));
		gate_thread_add_context(td_context(0), 0);
		wait_fence_polls();
		CHECK(in_flight(0) == 1);
	}
	CHECK(atomic_load(&td.creates) == creates);
	gate_thread_context_leaves(td_context(0));
	td_finish(0);
	(void)usleep(5000);
	CHECK(in_flight(0) == 1); /* the gate thread does not use the context */
	gate_thread_context_stays(td_context(0));
	WAIT_FOR(is_gate_idle());
	CHECK(atomic_load(&td.creates) == creates && !atomic_load(&td.stale_calls));
}

/* Two threads release the context at once: it may be destroyed until both are done. */
static void leaves_twice(void)
{
	int queries;

	CHECK(submit(0));
	WAIT_FOR(slice_arbiter_client(A, 0).busy && atomic_load(&td.records));
	gate_thread_context_leaves(td_context(0));
	gate_thread_context_leaves(td_context(0));
	gate_thread_context_stays(td_context(0));
	gate_thread_add_context(td_context(0), 0);
	queries = atomic_load(&td.queries);
	td_finish(0);
	(void)usleep(20000);
	CHECK(in_flight(0) == 1 && atomic_load(&td.queries) == queries);
	gate_thread_context_stays(td_context(0));
	WAIT_FOR(is_gate_idle());
	gate_thread_context_leaves(td_context(0));
	gate_thread_context_leaves(td_context(0));
	td_destroy(0);
	gate_thread_context_gone(td_context(0));
	td_create(0);
	gate_thread_add_context(td_context(0), 0);
	gate_thread_context_gone(td_context(0)); /* the second thread's, of the first context */
	CHECK(submit(0));
	wait_fence_polls();
	CHECK(in_flight(0) == 1);
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	CHECK(!atomic_load(&td.stale_calls));
}

static void fences__do_not_use_a_context_that_a_thread_destroys(void **state)
{
	(void)state;
	gate_test(leaves_twice, 1);
}

static void fences__keep_the_work_of_a_context_that_stays(void **state)
{
	(void)state;
	gate_test(keep_context, 1);
}

/* A new context has the handle of the first before the library reports that the first is gone. */
static void reuse_handle(void)
{
	for (int i = 0; i < 6; i++) {
		CHECK(submit(0));
		WAIT_FOR(slice_arbiter_client(A, 0).busy && atomic_load(&td.records));
		gate_thread_context_leaves(td_context(0));
		td_destroy(0);
		td_create(0);
		if (i % 3 == 0) {
			gate_thread_add_context(td_context(0), 0);
			gate_thread_context_gone(td_context(0));
		} else if (i % 3 == 1) {
			gate_thread_context_stays(td_context(0));
			gate_thread_add_context(td_context(0), 0);
		} else {
			gate_thread_context_gone(td_context(0));
			gate_thread_add_context(td_context(0), 0);
		}
		WAIT_FOR(is_gate_idle()); /* the work in the first context is over */
		CHECK(submit(0));
		wait_fence_polls();
		CHECK(in_flight(0) == 1);
		td_finish(0);
		WAIT_FOR(is_gate_idle());
	}
	CHECK(!atomic_load(&td.stale_calls));
}

static void fences__tell_a_context_from_a_later_one_with_the_same_handle(void **state)
{
	(void)state;
	gate_test(reuse_handle, 1);
}

/* A context that no hook reported. */
static void submit_in_unknown_contexts(void)
{
	CHECK(submit(0));
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	td_current(1);
	CHECK(submit_to((CUstream)((uintptr_t)TD_STREAM + 1), 0));
	wait_fence_polls();
	CHECK(in_flight(1) == 1);
	td_finish(1);
	WAIT_FOR(in_flight(1) == 0);
}

static void fences__find_the_context_of_a_submitting_thread(void **state)
{
	(void)state;
	gate_test(submit_in_unknown_contexts, 2);
}

/* The driver refuses work without a context. */
static void submit_without_context(void)
{
	struct turn_gpu_page *g;

	td_current(-1);
	for (int i = 0; i < 3; i++) {
		g = gate_begin(NULL, 0);
		gate_end(g);
	}
	WAIT_FOR(is_gate_idle());
	td_current(0);
	CHECK(submit(0));
	wait_fence_polls();
	CHECK(in_flight(0) == 1);
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	CHECK(!atomic_load(&td.stale_calls));
}

/* The known context is destroyed, and a context follows that no hook reported. That happens at once, while the
 * gate thread is awake. */
static void destroy_known_context(void)
{
	CHECK(submit(0));
	td_finish(0);
	for (int i = 0; i < 20; i++) {
		WAIT_FOR(in_flight(0) == 0);
		gate_thread_context_leaves(td_context(i));
		td_destroy(i);
		gate_thread_context_gone(td_context(i));
		td_current(i + 1);
		CHECK(submit_to((CUstream)((uintptr_t)TD_STREAM + (uintptr_t)i + 1), 0));
		wait_fence_polls();
		CHECK(in_flight(0) == 1);
		td_finish(i + 1);
	}
	WAIT_FOR(is_gate_idle());
	CHECK(!atomic_load(&td.stale_calls));
}

static void fences__find_another_context_where_the_known_one_was_destroyed(void **state)
{
	(void)state;
	gate_test(destroy_known_context, 1);
}

static void fences__count_work_without_a_context_as_over(void **state)
{
	(void)state;
	gate_test(submit_without_context, 1);
}

/* A context of another thread, beside the known one. */
static void throttle_in_unknown_context(void)
{
	CHECK(submit(0));
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	slice_arbiter_set_gate(A, 0, TURN_THROTTLED);
	td_current(1);
	/* Submits until a fence is due. */
	for (int i = 0; i < 100; i++)
		CHECK(submit_to((CUstream)((uintptr_t)TD_STREAM + 1), GATE_PASS));
	td_finish(1);
	WAIT_FOR(is_gate_idle());
	CHECK(submit_to((CUstream)((uintptr_t)TD_STREAM + 1), 0));
	wait_fence_polls();
	CHECK(in_flight(0) == 1);
	td_finish(1);
	WAIT_FOR(is_gate_idle());
}

static void fences__find_the_context_of_a_throttled_thread(void **state)
{
	(void)state;
	gate_test(throttle_in_unknown_context, 1);
}

/* The library places the fences of a green context in its primary context, so it takes no slot. */
static void submit_in_green_contexts(void)
{
	for (int i = 0; i < 2 * FENCE_CONTEXTS; i++) {
		td_green(0);
		CHECK(submit(0)); /* the submitting thread's context is recorded */
		td_finish(0);
		WAIT_FOR(is_gate_idle());
	}
	slice_arbiter_set_gate(A, 0, TURN_THROTTLED);
	for (int i = 0; i < 100; i++)
		CHECK(submit_to(TD_STREAM, GATE_PASS));
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	capture_begins();
	CHECK(submit_to(TD_STREAM, GATE_PASS)); /* with an event behind it */
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	capture_ends();
	CHECK(atomic_load(&process()->fences.rings[0].contexts) == 1);
	CHECK(!atomic_load(&td.stale_calls));
}

static void fences__see_ends_in_green_contexts(void **state)
{
	(void)state;
	gate_test(submit_in_green_contexts, 1);
}

static void submit_in_many_contexts(void)
{
	CHECK(submit(0));
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	for (int i = 0; i < TD_CONTEXTS; i++)
		gate_thread_add_context(td_context(i), 0);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < TD_CONTEXTS; i++) {
			td_current(i);
			CHECK(submit_to((CUstream)((uintptr_t)TD_STREAM + (uintptr_t)i), 0));
		}
		wait_fence_polls();
		CHECK(in_flight(0) == TD_CONTEXTS);
		for (int i = 0; i < TD_CONTEXTS; i++)
			td_finish(i);
		WAIT_FOR(is_gate_idle());
	}
	CHECK(!atomic_load(&td.stale_calls));
}

static void fences__see_ends_in_more_contexts_than_entries(void **state)
{
	(void)state;
	gate_test(submit_in_many_contexts, 1);
}

/* The process has no gate thread, so that only the test places fences. */
static struct {
	struct fences lone_fences;
	struct turn_page page;
	_Atomic uint32_t captures;
	uint64_t done;
} lone;

/* Work is in flight when a context comes for which there is no slot. */
static void add_many_contexts(int error)
{
	struct turn_gpu_page *p = &lone.page.gpus[0];

	memset(&lone, 0, sizeof(lone));
	lone.lone_fences.gpus = 1;
	atomic_store(&lone.lone_fences.page, &lone.page);
	for (int i = 0; i < FENCE_CONTEXTS; i++)
		fences_add_context(&lone.lone_fences, td_context(i), 0, &lone.captures, false);
	atomic_store(&p->begun, 1);
	td_submit(0);
	atomic_store(&p->ended, 1);
	atomic_store(&td.error, error);
	fences_add_context(&lone.lone_fences, td_context(FENCE_CONTEXTS), 0, &lone.captures,
		false);
	atomic_store(&td.error, 0);
	CHECK(atomic_load(&lone.captures) == 1);
	CHECK(fences_poll(&lone.lone_fences, 0, p, 1, 1, &lone.done) == FENCE_OK && !lone.done);
	td_finish(0);
	CHECK(fences_poll(&lone.lone_fences, 0, p, 2, 1, &lone.done) == FENCE_OK);
}

static enum fence_result count_entries(void)
{
	return fences_place(&lone.lone_fences, 0, &lone.page.gpus[0].ended, &lone.captures,
		&lone.done);
}

static void add_many_contexts_at_work(void)
{
	add_many_contexts(0);
	CHECK(lone.done == 1);
	CHECK(count_entries() == FENCE_LATER);
	/* The driver created no fence then. A later fence succeeds. */
	add_many_contexts(CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(lone.done == 0);
	WAIT_FOR(count_entries() == FENCE_OK);
	CHECK(fences_poll(&lone.lone_fences, 0, &lone.page.gpus[0], 3, 1, &lone.done) ==
		FENCE_OK);
	CHECK(lone.done == 1 && !atomic_load(&td.stale_calls));
}

static void fences__see_the_end_of_work_from_before_many_contexts(void **state)
{
	(void)state;
	gate_test(add_many_contexts_at_work, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fences__see_the_end_of_work_from_before_a_capture),
		cmocka_unit_test(fences__see_ends_where_a_capture_comes_first),
		cmocka_unit_test(fences__see_the_end_of_copies_beside_a_capture),
		cmocka_unit_test(fences__see_the_end_of_many_submissions_beside_a_capture),
		cmocka_unit_test(fences__do_not_invalidate_a_second_unknown_capture),
		cmocka_unit_test(fences__count_no_work_as_done_at_a_transient_error),
		cmocka_unit_test(fences__count_work_as_over_with_its_context),
		cmocka_unit_test(fences__keep_the_work_of_a_context_that_stays),
		cmocka_unit_test(fences__do_not_use_a_context_that_a_thread_destroys),
		cmocka_unit_test(fences__tell_a_context_from_a_later_one_with_the_same_handle),
		cmocka_unit_test(fences__find_the_context_of_a_submitting_thread),
		cmocka_unit_test(fences__count_work_without_a_context_as_over),
		cmocka_unit_test(
			fences__find_another_context_where_the_known_one_was_destroyed),
		cmocka_unit_test(fences__find_the_context_of_a_throttled_thread),
		cmocka_unit_test(fences__see_ends_in_green_contexts),
		cmocka_unit_test(fences__see_ends_in_more_contexts_than_entries),
		cmocka_unit_test(fences__see_the_end_of_work_from_before_many_contexts),
	};

	return cmocka_run_group_tests_name("fences", tests, gate_test_setup,
		gate_test_teardown);
}
