/* SPDX-License-Identifier: Apache-2.0 */

/* Fences of streams that wait for other streams. */
#include "fences-test.h"

#include "container/sys.h"
#include "container/gate/fences/internal.h"
#include "container/gate/internal.h"

/* Without a gate thread: fences of one GPU, with the test's clock. */
static struct {
	struct fences marks;
	struct turn_gpu_page page;
	_Atomic uint32_t captures;
	uint64_t now, done;
} lone;

static void lone_begins(void)
{
	memset(&lone, 0, sizeof(lone));
	lone.now = 1;
	fences_add_context(&lone.marks, td_context(0), 0, &lone.captures, true);
}

/* A kernel in the stream of all that follows. */
static void lone_submits(void)
{
	(void)atomic_fetch_add(&lone.page.begun, 1);
	td_submit_to(TD_ASIDE);
	(void)atomic_fetch_add(&lone.page.ended, 1);
}

static void lone_ends(uint64_t n)
{
	(void)atomic_fetch_add(&td.aside_done, n);
}

/* A wait in the stream; lone_ends() counts it. False: there was no slot for it. */
static bool lone_waits(unsigned int gpu, bool given)
{
	unsigned int place = fences_wait_begin(&lone.marks, gpu, TD_ASIDE, false);

	if (given)
		td_submit_to(TD_ASIDE);
	if (place)
		fences_wait_end(&lone.marks, place, TD_ASIDE, false, given);
	return place;
}

static void lone_looks(uint64_t after_ns)
{
	lone.now += after_ns;
	CHECK(fences_poll(&lone.marks, 0, &lone.page, lone.now, 1000, &lone.done) == FENCE_OK);
}

static void lone_places(void)
{
	CHECK(fences_place(&lone.marks, 0, &lone.page.ended, &lone.captures, &lone.done) ==
		FENCE_OK);
	lone_looks(1);
	CHECK(!fences_is_stuck(&lone.marks, 0) && !fences_is_blocked(&lone.marks, 0));
	lone_looks(UINT64_C(1000000000));
}

static void lone_is_stuck(bool blocked)
{
	lone_looks(1000);
	CHECK(fences_is_stuck(&lone.marks, 0) && fences_is_blocked(&lone.marks, 0) == blocked);
}

static void lone_goes_on(void)
{
	atomic_store(&td.aside_done, atomic_load(&td.aside_submitted));
	lone_looks(1);
	CHECK(!fences_is_stuck(&lone.marks, 0) && !fences_is_blocked(&lone.marks, 0));
	CHECK(lone.done == atomic_load(&lone.page.ended));
}

static void waits_for_others(void)
{
	lone_begins();
	/* It stands. */
	CHECK(lone_waits(0, true));
	lone_submits();
	lone_places();
	lone_is_stuck(true);
	lone_goes_on();
	/* A long kernel in front of a wait; then the wait. */
	lone_submits();
	CHECK(lone_waits(0, true));
	lone_submits();
	lone_places();
	lone_is_stuck(false);
	lone_ends(1);
	lone_is_stuck(true);
	lone_goes_on();
	/* Behind a wait that is over: with no fence in between, and before the next poll. */
	CHECK(lone_waits(0, true));
	lone_submits();
	lone_ends(1);
	lone_places();
	lone_is_stuck(false);
	lone_goes_on();
	/* The same after the stream was blocked. */
	CHECK(lone_waits(0, true));
	lone_submits();
	lone_places();
	lone_is_stuck(true);
	lone_ends(1);
	lone_is_stuck(false);
	lone_goes_on();
	/* The driver refused the wait. */
	CHECK(lone_waits(0, false));
	lone_submits();
	lone_places();
	lone_is_stuck(false);
	lone_goes_on();
	/* A wait on another GPU. */
	CHECK(lone_waits(1, true));
	lone_submits();
	lone_places();
	lone_is_stuck(false);
	lone_goes_on();
}

static void fences__know_a_stream_that_waits_for_others_from_one_that_is_busy(void **state)
{
	(void)state;
	gate_test(waits_for_others, 1);
}

static void waits_places(void)
{
	int creates;

	lone_begins();
	/* Slots of waits that are over are reused, even without a poll. */
	for (int i = 0; i < 3 * FENCE_WAITS; i++) {
		CHECK(lone_waits(0, true));
		lone_ends(1);
	}
	creates = atomic_load(&td.creates);
	for (int i = 0; i < 3 * FENCE_WAITS; i++) {
		CHECK(lone_waits(0, true));
		lone_ends(1);
	}
	CHECK(atomic_load(&td.creates) == creates);
	/* More pending waits than slots: the first waits of the stream have the slots. */
	for (int i = 0; i < FENCE_WAITS; i++)
		CHECK(lone_waits(0, true));
	CHECK(!lone_waits(0, true));
	lone_submits();
	lone_places();
	lone_is_stuck(true);
	lone_ends(1);
	lone_is_stuck(true);
	CHECK(lone_waits(0, true));
	lone_goes_on();
	/* The driver creates no event. */
	lone_begins();
	atomic_store(&td.create_error, CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(!lone_waits(0, true));
	atomic_store(&td.create_error, 0);
	CHECK(lone_waits(0, true));
	/* Into a capture. */
	atomic_store(&td.capturing, 1);
	CHECK(!fences_wait_begin(&lone.marks, 0, (CUstream)0x1100, false));
	atomic_store(&td.capturing, 0);
	CHECK(!atomic_load(&td.spoiled) && !atomic_load(&td.strangers));
}

static void fences__note_waits_as_far_as_there_are_places(void **state)
{
	(void)state;
	gate_test(waits_places, 1);
}

/* The events of a wait are destroyed with the context. */
static void waits_context(void)
{
	lone_begins();
	fences_add_context(&lone.marks, td_context(1), 0, &lone.captures, true);
	CHECK(lone_waits(0, true));
	lone_submits();
	lone_places();
	lone_is_stuck(true);
	fences_context_leaves(&lone.marks, td_context(0));
	lone_looks(1);
	CHECK(!fences_is_blocked(&lone.marks, 0));
	td_destroy(0);
	fences_context_gone(&lone.marks, td_context(0));
	td_current(1);
	lone_goes_on();
	for (int i = 0; i < 2 * FENCE_WAITS; i++) {
		CHECK(lone_waits(0, true));
		lone_ends(1);
	}
	CHECK(!atomic_load(&td.strangers));
}

static void fences__forget_waits_of_a_context_that_has_gone(void **state)
{
	(void)state;
	gate_test(waits_context, 1);
}

/* Waits that are over on one GPU take no slot from waits of another GPU. */
static void waits_elsewhere(void)
{
	lone_begins();
	fences_add_context(&lone.marks, td_context(1), 1, &lone.captures, true);
	for (int i = 0; i < FENCE_WAITS; i++)
		CHECK(lone_waits(0, true));
	lone_ends(FENCE_WAITS);
	td_current(1);
	for (int i = 0; i < 3 * FENCE_WAITS; i++) {
		CHECK(lone_waits(1, true));
		lone_ends(1);
	}
	/* One slot is enough for these waits, and the events are not created each time. */
	CHECK(atomic_load(&td.destroys) == 2);
	/* Two reasons to leave the slots of a context alone: the program is destroying the context, or another
	 * thread has the lock. */
	td_current(0);
	fences_context_leaves(&lone.marks, td_context(1));
	for (int i = 0; i < FENCE_WAITS - 1; i++)
		CHECK(lone_waits(0, true));
	CHECK(!lone_waits(0, true));
	CHECK(atomic_load(&td.destroys) == 2);
	fences_context_stays(&lone.marks, td_context(1));
	sys_lock(&lone.marks.lock);
	CHECK(!lone_waits(0, true));
	sys_unlock(&lone.marks.lock);
	CHECK(lone_waits(0, true));
	CHECK(atomic_load(&td.destroys) == 4 && !atomic_load(&td.strangers));
}

static void fences__use_places_of_waits_that_are_over_elsewhere(void **state)
{
	(void)state;
	gate_test(waits_elsewhere, 1);
}

/* The same for events behind single submissions. */
static void own_elsewhere(void)
{
	bool pending = true;

	lone_begins();
	fences_add_context(&lone.marks, td_context(1), 0, &lone.captures, true);
	for (uintptr_t i = 0; i < OWN_FENCES; i++)
		fences_record_own(&lone.marks, 0, (CUstream)((uintptr_t)TD_STREAM + (i << 16)),
			false);
	lone_looks(1);
	sys_lock(&lone.marks.lock);
	CHECK(fences_poll_own(&lone.marks, 0, &pending) == FENCE_PASSED && !pending);
	sys_unlock(&lone.marks.lock);
	CHECK(atomic_load(&td.own_records) == OWN_FENCES);
	td_current(1);
	fences_context_leaves(&lone.marks, td_context(0));
	fences_record_own(&lone.marks, 0, (CUstream)((uintptr_t)TD_STREAM + 1), false);
	CHECK(!atomic_load(&td.destroys) && atomic_load(&td.own_records) == OWN_FENCES);
	fences_context_stays(&lone.marks, td_context(0));
	fences_record_own(&lone.marks, 0, (CUstream)((uintptr_t)TD_STREAM + 1), false);
	CHECK(atomic_load(&td.destroys) == 1 && atomic_load(&td.own_records) == OWN_FENCES + 1);
	CHECK(!atomic_load(&td.strangers));
}

static void fences__destroy_no_events_of_a_context_that_leaves(void **state)
{
	(void)state;
	gate_test(own_elsewhere, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			fences__know_a_stream_that_waits_for_others_from_one_that_is_busy),
		cmocka_unit_test(fences__note_waits_as_far_as_there_are_places),
		cmocka_unit_test(fences__use_places_of_waits_that_are_over_elsewhere),
		cmocka_unit_test(fences__destroy_no_events_of_a_context_that_leaves),
		cmocka_unit_test(fences__forget_waits_of_a_context_that_has_gone),
	};

	return cmocka_run_group_tests_name("fences-wait", tests, gate_test_setup,
		gate_test_teardown);
}
