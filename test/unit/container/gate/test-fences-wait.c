/* SPDX-License-Identifier: Apache-2.0 */

/* Fences of streams that wait for other streams. */
#include "fences-test.h"

#include "container/sys.h"
#include "container/gate/fences/internal.h"
#include "container/gate/internal.h"

/* The fences of one GPU without a gate thread, with the test's clock. */
static struct {
	struct fences lone_fences;
	struct turn_gpu_page page;
	_Atomic uint32_t captures;
	uint64_t now, done;
} lone;

static void begin_lone(void)
{
	memset(&lone, 0, sizeof(lone));
	lone.now = 1;
	fences_add_context(&lone.lone_fences, td_context(0), 0, &lone.captures, true);
}

/* A kernel in the stream of all that follows. */
static void submit_to_lone(void)
{
	(void)atomic_fetch_add(&lone.page.begun, 1);
	td_submit_to(TD_ASIDE);
	(void)atomic_fetch_add(&lone.page.ended, 1);
}

static void end_lone(uint64_t n)
{
	(void)atomic_fetch_add(&td.aside_done, n);
}

/* A wait in the stream; lone_ends() counts it. False: there was no slot for it. */
static bool add_lone_wait(unsigned int gpu, bool given)
{
	unsigned int place = fences_wait_begin(&lone.lone_fences, gpu, TD_ASIDE, false);

	if (given)
		td_submit_to(TD_ASIDE);
	if (place)
		fences_wait_end(&lone.lone_fences, place, TD_ASIDE, false, given);
	return place;
}

static void poll_lone(uint64_t after_ns)
{
	lone.now += after_ns;
	CHECK(fences_poll(&lone.lone_fences, 0, &lone.page, lone.now, 1000, &lone.done) ==
		FENCE_OK);
}

static void count_lone_entries(void)
{
	CHECK(fences_place(&lone.lone_fences, 0, &lone.page.ended, &lone.captures,
		      &lone.done) == FENCE_OK);
	poll_lone(1);
	CHECK(!fences_is_stuck(&lone.lone_fences, 0) &&
		!fences_is_blocked(&lone.lone_fences, 0));
	poll_lone(UINT64_C(1000000000));
}

static void lone_is_stuck(bool blocked)
{
	poll_lone(1000);
	CHECK(fences_is_stuck(&lone.lone_fences, 0) &&
		fences_is_blocked(&lone.lone_fences, 0) == blocked);
}

static void continue_lone(void)
{
	atomic_store(&td.aside_done, atomic_load(&td.aside_submitted));
	poll_lone(1);
	CHECK(!fences_is_stuck(&lone.lone_fences, 0) &&
		!fences_is_blocked(&lone.lone_fences, 0));
	CHECK(lone.done == atomic_load(&lone.page.ended));
}

static void wait_for_other_stream(void)
{
	begin_lone();
	/* The stream is stuck. */
	CHECK(add_lone_wait(0, true));
	submit_to_lone();
	count_lone_entries();
	lone_is_stuck(true);
	continue_lone();
	/* A long kernel in front of a wait; then the wait. */
	submit_to_lone();
	CHECK(add_lone_wait(0, true));
	submit_to_lone();
	count_lone_entries();
	lone_is_stuck(false);
	end_lone(1);
	lone_is_stuck(true);
	continue_lone();
	/* Behind a wait that is over: with no fence in between, and before the next poll. */
	CHECK(add_lone_wait(0, true));
	submit_to_lone();
	end_lone(1);
	count_lone_entries();
	lone_is_stuck(false);
	continue_lone();
	/* The same after the stream was blocked. */
	CHECK(add_lone_wait(0, true));
	submit_to_lone();
	count_lone_entries();
	lone_is_stuck(true);
	end_lone(1);
	lone_is_stuck(false);
	continue_lone();
	/* The driver refused the wait. */
	CHECK(add_lone_wait(0, false));
	submit_to_lone();
	count_lone_entries();
	lone_is_stuck(false);
	continue_lone();
	/* A wait on another GPU. */
	CHECK(add_lone_wait(1, true));
	submit_to_lone();
	count_lone_entries();
	lone_is_stuck(false);
	continue_lone();
}

static void fences__tell_a_waiting_stream_from_a_busy_one(void **state)
{
	(void)state;
	gate_test(wait_for_other_stream, 1);
}

static void fill_wait_entries(void)
{
	int creates;

	begin_lone();
	/* Slots of waits that are over are reused, even without a poll. */
	for (int i = 0; i < 3 * FENCE_WAITS; i++) {
		CHECK(add_lone_wait(0, true));
		end_lone(1);
	}
	creates = atomic_load(&td.creates);
	for (int i = 0; i < 3 * FENCE_WAITS; i++) {
		CHECK(add_lone_wait(0, true));
		end_lone(1);
	}
	CHECK(atomic_load(&td.creates) == creates);
	/* The waits are more than the slots: the first waits of the stream have the slots. */
	for (int i = 0; i < FENCE_WAITS; i++)
		CHECK(add_lone_wait(0, true));
	CHECK(!add_lone_wait(0, true));
	submit_to_lone();
	count_lone_entries();
	lone_is_stuck(true);
	end_lone(1);
	lone_is_stuck(true);
	CHECK(add_lone_wait(0, true));
	continue_lone();
	/* The driver creates no event. */
	begin_lone();
	atomic_store(&td.create_error, CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(!add_lone_wait(0, true));
	atomic_store(&td.create_error, 0);
	CHECK(add_lone_wait(0, true));
	/* Into a capture. */
	atomic_store(&td.capturing, 1);
	CHECK(!fences_wait_begin(&lone.lone_fences, 0, (CUstream)0x1100, false));
	atomic_store(&td.capturing, 0);
	CHECK(!atomic_load(&td.spoiled) && !atomic_load(&td.stale_calls));
}

static void fences__record_as_many_waits_as_there_are_entries(void **state)
{
	(void)state;
	gate_test(fill_wait_entries, 1);
}

/* The events of a wait are destroyed with the context. */
static void destroy_waiting_context(void)
{
	begin_lone();
	fences_add_context(&lone.lone_fences, td_context(1), 0, &lone.captures, true);
	CHECK(add_lone_wait(0, true));
	submit_to_lone();
	count_lone_entries();
	lone_is_stuck(true);
	fences_context_leaves(&lone.lone_fences, td_context(0));
	poll_lone(1);
	CHECK(!fences_is_blocked(&lone.lone_fences, 0));
	td_destroy(0);
	fences_context_gone(&lone.lone_fences, td_context(0));
	td_current(1);
	continue_lone();
	for (int i = 0; i < 2 * FENCE_WAITS; i++) {
		CHECK(add_lone_wait(0, true));
		end_lone(1);
	}
	CHECK(!atomic_load(&td.stale_calls));
}

static void fences__forget_waits_of_a_destroyed_context(void **state)
{
	(void)state;
	gate_test(destroy_waiting_context, 1);
}

/* Waits that are over on one GPU take no slot from waits of another GPU. */
static void reuse_wait_entries(void)
{
	begin_lone();
	fences_add_context(&lone.lone_fences, td_context(1), 1, &lone.captures, true);
	for (int i = 0; i < FENCE_WAITS; i++)
		CHECK(add_lone_wait(0, true));
	end_lone(FENCE_WAITS);
	td_current(1);
	for (int i = 0; i < 3 * FENCE_WAITS; i++) {
		CHECK(add_lone_wait(1, true));
		end_lone(1);
	}
	/* One slot is enough for these waits, and the events are not created each time. */
	CHECK(atomic_load(&td.destroys) == 2);
	/* Two reasons to leave the slots of a context alone: the program is destroying the context, or another
	 * thread has the lock. */
	td_current(0);
	fences_context_leaves(&lone.lone_fences, td_context(1));
	for (int i = 0; i < FENCE_WAITS - 1; i++)
		CHECK(add_lone_wait(0, true));
	CHECK(!add_lone_wait(0, true));
	CHECK(atomic_load(&td.destroys) == 2);
	fences_context_stays(&lone.lone_fences, td_context(1));
	sys_lock(&lone.lone_fences.lock);
	CHECK(!add_lone_wait(0, true));
	sys_unlock(&lone.lone_fences.lock);
	CHECK(add_lone_wait(0, true));
	CHECK(atomic_load(&td.destroys) == 4 && !atomic_load(&td.stale_calls));
}

static void fences__reuse_entries_of_waits_that_are_over(void **state)
{
	(void)state;
	gate_test(reuse_wait_entries, 1);
}

/* The same for events behind single submissions. */
static void leave_own_events(void)
{
	bool pending = true;

	begin_lone();
	fences_add_context(&lone.lone_fences, td_context(1), 0, &lone.captures, true);
	for (uintptr_t i = 0; i < OWN_FENCES; i++)
		fences_record_own(&lone.lone_fences, 0,
			(CUstream)((uintptr_t)TD_STREAM + (i << 16)), false);
	poll_lone(1);
	sys_lock(&lone.lone_fences.lock);
	CHECK(fences_poll_own(&lone.lone_fences, 0, &pending) == FENCE_PASSED && !pending);
	sys_unlock(&lone.lone_fences.lock);
	CHECK(atomic_load(&td.own_records) == OWN_FENCES);
	td_current(1);
	fences_context_leaves(&lone.lone_fences, td_context(0));
	fences_record_own(&lone.lone_fences, 0, (CUstream)((uintptr_t)TD_STREAM + 1), false);
	CHECK(!atomic_load(&td.destroys) && atomic_load(&td.own_records) == OWN_FENCES);
	fences_context_stays(&lone.lone_fences, td_context(0));
	fences_record_own(&lone.lone_fences, 0, (CUstream)((uintptr_t)TD_STREAM + 1), false);
	CHECK(atomic_load(&td.destroys) == 1 && atomic_load(&td.own_records) == OWN_FENCES + 1);
	CHECK(!atomic_load(&td.stale_calls));
}

static void fences__destroy_no_events_of_a_context_that_is_being_destroyed(void **state)
{
	(void)state;
	gate_test(leave_own_events, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fences__tell_a_waiting_stream_from_a_busy_one),
		cmocka_unit_test(fences__record_as_many_waits_as_there_are_entries),
		cmocka_unit_test(fences__reuse_entries_of_waits_that_are_over),
		cmocka_unit_test(
			fences__destroy_no_events_of_a_context_that_is_being_destroyed),
		cmocka_unit_test(fences__forget_waits_of_a_destroyed_context),
	};

	return cmocka_run_group_tests_name("fences-wait", tests, gate_test_setup,
		gate_test_teardown);
}
