/* SPDX-License-Identifier: Apache-2.0 */
#include "gate-test.h"

#include "container/sys.h"
#include "container/gate/pace.h"
#include "container/gate/internal.h"

#include <dirent.h>
#include <inttypes.h>

#define SIGNALS    UINT64_C(0x27ffbfeff) /* 1 to 31 without KILL and STOP, and SIGRTMIN */
#define C_LIBRARYS UINT64_C(0x180000000)

#if defined(__SANITIZE_THREAD__)
#	define THREAD_SANITIZER 1
#elif defined(__has_feature)
#	if __has_feature(thread_sanitizer)
#		define THREAD_SANITIZER 1
#	endif
#endif
#ifndef THREAD_SANITIZER
#	define THREAD_SANITIZER 0
#endif

static void register_and_submit(void)
{
	CHECK(!atomic_load(&A->quanta.hellos));
	errno = 1234;
	CHECK(submit(0));
	CHECK(errno == 1234 && atomic_load(&A->quanta.hellos) == 1);
	CHECK(atomic_load(&td.mps_probes) == 1);
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->begun) == 1);
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->ended) == 1);
	WAIT_FOR(slice_arbiter_client(A, 0).busy);
	CHECK(!doorbell(0));
	for (int i = 0; i < 99; i++)
		CHECK(submit(0));
	td_finish(0);
	WAIT_FOR(!slice_arbiter_client(A, 0).busy && doorbell(0));
	CHECK(!slice_arbiter_client(A, 0).wants && in_flight(0) == 0);
	/* A second burst of work changes the states in the same way. */
	CHECK(submit(0));
	WAIT_FOR(slice_arbiter_client(A, 0).busy && !doorbell(0));
	td_finish(0);
	WAIT_FOR(!slice_arbiter_client(A, 0).busy && doorbell(0));
	CHECK(errno == 1234 && atomic_load(&A->quanta.hellos) == 1);
	CHECK(atomic_load(&td.mps_probes) == 1);
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->done) == 101);
	gate_end_copy(gate_begin(NULL, 0), 4096);
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->copies) == 1);
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->bytes) == 4096);
}

static void gate__reports_when_work_begins_and_ends(void **state)
{
	(void)state;
	gate_test(register_and_submit, 1);
}

static void submit_outside(void)
{
	CHECK(!unsetenv("GPUSLICE_SLICE_DIR"));
	CHECK(!gate_begin(NULL, 0) && atomic_load(&link_off));
	CHECK(!gate_stream_wait_begin(NULL, 0).slot);
	gate_capture_begins();
	gate_capture_ended();
	gate_thread_add_context(td_context(0), 0);
	CHECK(!gate_root && !atomic_load(&A->quanta.hellos));
}

static void gate__does_nothing_outside_of_slices(void **state)
{
	(void)state;
	gate_test(submit_outside, 1);
}

static void submit_switched_off(void)
{
	struct submitter s = { 0 };

	CHECK(link_open(true) == LINK_UP);
	slice_arbiter_set_scheduled(A, false);
	CHECK(!submit(0) && !atomic_load(&A->quanta.hellos));
	slice_arbiter_set_scheduled(A, true);
	CHECK(submit(0) && atomic_load(&A->quanta.hellos) == 1);
	td_finish(0);
	WAIT_FOR(doorbell(0));
	slice_arbiter_set_gate(A, 0, TURN_CLOSED);
	submit_on_thread(&s);
	WAIT_FOR(slice_arbiter_client(A, 0).wants);
	CHECK(!atomic_load(&s.passed));
	slice_arbiter_set_scheduled(A, false);
	WAIT_FOR(atomic_load(&s.passed));
	CHECK(!atomic_load(&s.counted));
	WAIT_FOR(atomic_load(&A->quanta.lost) ==
		 1); /* the connection ended, and with it the client */
	CHECK(!submit(0));
	/* Scheduled again, with the same page. The library registers once more if the arbiter is slow. */
	slice_arbiter_set_scheduled(A, true);
	WAIT_FOR(submit(GATE_PASS));
	CHECK(atomic_load(&A->quanta.again) &&
		atomic_load(&A->quanta.hellos) == 1 + atomic_load(&A->quanta.again));
	td_finish(0);
	WAIT_FOR(in_flight(0) == 0);
}

static void gate__follows_the_environment_switch(void **state)
{
	(void)state;
	gate_test(submit_switched_off, 1);
}

static void submit_refused(void)
{
	atomic_store(&A->quanta.status, SLICE_REFUSED);
	CHECK(!submit(0) && atomic_load(&A->quanta.hellos) == 1);
	for (int i = 0; i < 100; i++)
		CHECK(!submit(0));
	CHECK(atomic_load(&A->quanta.hellos) < 10); /* not one hello for each submission */
	atomic_store(&A->quanta.status, SLICE_OK);
	WAIT_FOR(submit(0));
}

static void gate__lets_a_refused_process_pass(void **state)
{
	(void)state;
	gate_test(submit_refused, 1);
}

static enum slice_arbiter_page bad;

static void reject_bad_page(void)
{
	atomic_store(&A->quanta.page, bad);
	CHECK(!submit(0) && atomic_load(&A->quanta.hellos) == 1);
	atomic_store(&A->quanta.page, SLICE_ARBITER_PAGE_GOOD);
	WAIT_FOR(submit(0));
}

static void gate__rejects_an_invalid_page(void **state)
{
	(void)state;
	for (bad = SLICE_ARBITER_PAGE_SHORT; bad <= SLICE_ARBITER_PAGE_NONE; bad++)
		gate_test(reject_bad_page, 1);
}

static bool is_lock_free(struct sys_lock *l)
{
	if (!sys_trylock(l))
		return false;
	sys_unlock(l);
	return true;
}

static void block_at_closed_gate(void)
{
	struct submitter s[8] = { 0 };
	struct turn_gpu_page *p;
	int passed = 0;

	atomic_store(&A->start_state, TURN_CLOSED);
	submit_on_thread(&s[0]);
	WAIT_FOR(slice_arbiter_is_connected(A) && slice_arbiter_client(A, 0).wants);
	p = slice_arbiter_page(A, 0);
	WAIT_FOR(atomic_load(&p->begun) == 0 && !slice_arbiter_client(A, 0).busy);
	for (int i = 1; i < 8; i++)
		submit_on_thread(&s[i]);
	WAIT_FOR(atomic_load(&p->waits) == 8);
	for (int i = 0; i < 8; i++)
		CHECK(!atomic_load(&s[i].passed));
	/* The gate thread takes these locks for moments. A waiting thread would hold one until the gate opens. */
	WAIT_FOR(is_lock_free(&process()->report_lock));
	WAIT_FOR(is_lock_free(&process()->start_lock));
	WAIT_FOR(is_lock_free(&process()->fences.lock));
	/* A submission with GATE_PASS is not blocked, but counted. */
	CHECK(submit(GATE_PASS));
	WAIT_FOR(slice_arbiter_client(A, 0).busy && slice_arbiter_client(A, 0).wants);
	td_finish(0);
	WAIT_FOR(!slice_arbiter_client(A, 0).busy);
	CHECK(slice_arbiter_client(A, 0).wants && !atomic_load(&s[0].passed));
	slice_arbiter_set_gate(A, 0, TURN_OPEN);
	for (int i = 0; i < 8; i++) {
		WAIT_FOR(atomic_load(&s[i].passed));
		passed += atomic_load(&s[i].counted);
	}
	CHECK(passed == 8 && atomic_load(&p->wait_ns) > 0);
	CHECK(atomic_load(&p->ended) == 9 && atomic_load(&p->waits) == 8);
	td_finish(0);
	WAIT_FOR(!slice_arbiter_client(A, 0).busy && doorbell(0));
	CHECK(!slice_arbiter_client(A, 0).wants && in_flight(0) == 0);
}

static void gate__blocks_threads_while_it_is_closed(void **state)
{
	(void)state;
	gate_test(block_at_closed_gate, 1);
}

static void launch_programmatic(void)
{
	struct submitter s = { .flags = GATE_PROGRAMMATIC };

	CHECK(submit(0));
	slice_arbiter_set_gate(A, 0, TURN_CLOSED);
	for (int i = 0; i < GATE_PROGRAMMATIC_MAX; i++) {
		CHECK(submit(GATE_PROGRAMMATIC));
		CHECK(submit(GATE_PASS)); /* ends no row */
	}
	submit_on_thread(&s);
	WAIT_FOR(slice_arbiter_client(A, 0).wants);
	CHECK(!atomic_load(&s.passed));
	slice_arbiter_set_gate(A, 0, TURN_OPEN);
	WAIT_FOR(atomic_load(&s.passed));
}

static void gate__does_not_separate_programmatic_launches(void **state)
{
	(void)state;
	gate_test(launch_programmatic, 1);
}

/* Six threads at a window of two: whether the gate kept to the window. All threads pass. */
static bool limit_to_window(struct turn_gpu_page *p)
{
	struct submitter s[6] = { 0 };
	uint64_t begun = atomic_load(&p->begun);
	bool kept = true;
	int n = 0;

	for (int i = 0; i < 6; i++)
		submit_on_thread(&s[i]);
	/* Two at a time pass. A third passes where the two are so late that other work may run beside them. One
	 * of the round before may arrive only now. */
	for (int round = 0; round < 3; round++) {
		uint64_t was = atomic_load(&td.done[0]);

		WAIT_FOR(atomic_load(&p->ended) >= was + 2 ||
			 atomic_load(&p->ended) == begun + 6);
		(void)usleep(PACE_STALL_NS / 2000); /* a half of it */
		kept = kept && atomic_load(&p->ended) <= was + 4;
		td_finish(0);
	}
	for (int i = 0; i < 6; i++) {
		WAIT_FOR(atomic_load(&s[i].passed));
		n += atomic_load(&s[i].counted);
	}
	CHECK(n == 6);
	td_finish(0);
	WAIT_FOR(in_flight(0) == 0);
	return kept;
}

static void is_throttled_to_window(void)
{
	struct submitter s[6] = { 0 };
	struct turn_gpu_page *p;
	int tries = 1;

	atomic_store(&A->start_state, TURN_THROTTLED);
	CHECK(submit(0));
	p = slice_arbiter_page(A, 0);
	slice_arbiter_set_throttle(A, 0, 1, 1,
		20000000); /* a window of nothing: two, so that it never runs dry */
	WAIT_FOR(!atomic_load(&((struct gate *)gate_root)->captures) &&
		 slice_arbiter_client(A, 0).busy);
	td_finish(0);
	WAIT_FOR(in_flight(0) == 0);
	/* A thread that is blocked for PACE_STALL_NS passes, as the work in flight may wait for this thread. Where
	 * the gate thread gets no processor for so long, all threads pass. */
	while (!limit_to_window(p))
		CHECK(tries++ < 20);
	CHECK(atomic_load(&p->throttled_ns) > 0 && !atomic_load(&p->waits));
	WAIT_FOR(!slice_arbiter_client(A, 0).busy);
	/* Threads that are blocked when the gate opens pass. */
	for (int i = 0; i < 6; i++) {
		s[i] = (struct submitter){ 0 };
		submit_on_thread(&s[i]);
	}
	WAIT_FOR(in_flight(0) >= 2);
	slice_arbiter_set_gate(A, 0, TURN_OPEN);
	for (int i = 0; i < 6; i++)
		WAIT_FOR(atomic_load(&s[i].passed));
	/* Threads that are blocked when the gate closes wait for the next opening. */
	td_finish(0);
	WAIT_FOR(in_flight(0) == 0);
	slice_arbiter_set_gate(A, 0, TURN_THROTTLED);
	for (int i = 0; i < 6; i++) {
		s[i] = (struct submitter){ 0 };
		submit_on_thread(&s[i]);
	}
	WAIT_FOR(in_flight(0) >= 2);
	slice_arbiter_set_gate(A, 0, TURN_CLOSED);
	WAIT_FOR(slice_arbiter_client(A, 0).busy && slice_arbiter_client(A, 0).wants);
	td_finish(0);
	WAIT_FOR(!slice_arbiter_client(A, 0).busy && slice_arbiter_client(A, 0).wants);
	slice_arbiter_set_gate(A, 0, TURN_OPEN);
	for (int i = 0; i < 6; i++)
		WAIT_FOR(atomic_load(&s[i].passed));
}

static void gate__lets_a_window_through_while_it_is_throttled(void **state)
{
	(void)state;
	gate_test(is_throttled_to_window, 1);
}

static _Atomic bool saturates;

static void *keep_gpu_saturated(void *arg)
{
	(void)arg;
	td_current(0);
	while (atomic_load(&saturates))
		CHECK(submit(0));
	return NULL;
}

static uint32_t cost_of_one(void)
{
	return cost_model_cost_ns(gate_cost_model(gate_process_if_any(), 0),
		cost_model_find_kind(0));
}

/* A small window holds from the moment that the gate opens, however late the gate thread polls. */
static void open_with_small_window(void)
{
	struct turn_gpu_page *p;
	pthread_t thread;

	CHECK(submit(0));
	td_finish(0);
	/* The gate thread polls closely only where another slice waits. */
	slice_arbiter_set_gate(A, 0, TURN_THROTTLED);
	do { /* until the cost model knows it as short */
		CHECK(submit(0));
		td_finish(0);
		p = slice_arbiter_page(A, 0);
		WAIT_FOR(in_flight(0) == 0);
	} while (cost_of_one() > 150000);
	slice_arbiter_set_gate(A, 0, TURN_CLOSED);
	atomic_store(&saturates, true);
	CHECK(!pthread_create(&thread, NULL, keep_gpu_saturated, NULL));
	for (int kept = 0; kept < 20;) {
		uint64_t ended, work, from;

		WAIT_FOR(slice_arbiter_client(A, 0).wants);
		ended = atomic_load(&p->ended);
		from = sys_now_ns();
		/* Sets a throttle as the arbiter does: the values before the gate. */
		slice_arbiter_set_throttle(A, 0, 300000, 300000, UINT64_MAX);
		slice_arbiter_set_gate(A, 0, TURN_THROTTLED);
		WAIT_FOR(atomic_load(&p->ended) > ended);
		(void)usleep(2000);
		work = (atomic_load(&p->ended) - ended) * cost_of_one();
		/* One more submission passes where nothing ends for so long that the work seems over, and one
		 * may be late. A thread that is blocked longer passes: then this machine was too slow for the
		 * check. */
		if (sys_now_ns() - from < PACE_STALL_NS) {
			CHECK(work <= 500000);
			kept++;
		}
		slice_arbiter_set_throttle(A, 0, 0, 0, 0);
		slice_arbiter_set_gate(A, 0, TURN_CLOSED);
		td_finish(0);
		WAIT_FOR(in_flight(0) == 0);
	}
	atomic_store(&saturates, false);
	slice_arbiter_set_gate(A, 0, TURN_OPEN);
	CHECK(!pthread_join(thread, NULL));
}

static void gate__keeps_to_a_small_window_from_its_opening(void **state)
{
	(void)state;
	gate_test(open_with_small_window, 1);
}

static void submit_while_capturing(void)
{
	CUstream stream = (CUstream)0x1100;
	struct turn_gpu_page *g;
	uint64_t begun;
	int records;

	CHECK(submit(0));
	td_finish(0);
	WAIT_FOR(doorbell(0));
	gate_capture_begins();
	atomic_store(&td.capturing, 1);
	records = atomic_load(&td.records);
	begun = atomic_load(&slice_arbiter_page(A, 0)->begun);
	CHECK(!gate_begin(stream, 0)); /* it is no work */
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->begun) == begun);
	/* Other work continues beside it, and the library sees its end. */
	for (int i = 0; i < 200; i++) {
		g = gate_begin(TD_STREAM, i % 2 ? GATE_OWN : 0);
		CHECK(g);
		td_submit(0);
		gate_end(g);
		if (i % 50 == 49) {
			td_finish(0);
			WAIT_FOR(in_flight(0) == 0);
		}
	}
	WAIT_FOR(!slice_arbiter_client(A, 0).busy);
	CHECK(atomic_load(&td.own_records) == 200);
	/* The streams are more than the slots. */
	for (uintptr_t i = 0; i < 200; i++) {
		g = gate_begin((CUstream)((uintptr_t)TD_STREAM + (i << 16)), 0);
		td_submit(0);
		gate_end(g);
	}
	td_finish(0);
	(void)usleep(20000);
	CHECK(in_flight(0) > 0 && in_flight(0) < 200);
	CHECK(atomic_load(&td.records) == records && !atomic_load(&td.spoiled));
	atomic_store(&td.capturing, 0);
	gate_capture_ended();
	WAIT_FOR(in_flight(0) == 0 && doorbell(0));
	CHECK(!atomic_load(&td.spoiled) && !atomic_load(&td.blocked_calls));
	gate_capture_ended(); /* of none */
	CHECK(submit(0));
	atomic_store(&td.at_once, true);
	WAIT_FOR(doorbell(0));
}

static void gate__invalidates_no_capture(void **state)
{
	(void)state;
	gate_test(submit_while_capturing, 1);
}

static bool is_noted(const struct gate_stream_wait *wait)
{
	return gate_slot_read_state(
		       &gate_process_if_any()->fences.waits[wait->slot - 1].slot) ==
	       GATE_SLOT_SET;
}

/* A wait for other work is no work, and is recorded. */
static void blocks_stream(void)
{
	CUstream second = (CUstream)((uintptr_t)TD_STREAM + 1);
	struct gate_stream_wait wait;

	errno = 1234;
	wait = gate_stream_wait_begin(TD_STREAM, 0); /* before any work */
	CHECK(wait.slot && wait.gpu == 0 && errno == 1234);
	gate_stream_wait_end(&wait, CUDA_SUCCESS);
	CHECK(!atomic_load(&slice_arbiter_page(A, 0)->begun) &&
		atomic_load(&A->quanta.hellos) == 1);
	CHECK(is_noted(&wait) && atomic_load(&td.own_records) == 2);
	wait = gate_stream_wait_begin(second, GATE_OWN);
	CHECK(wait.slot && wait.gpu == 1);
	/* The driver refused it. */
	gate_stream_wait_end(&wait, CUDA_ERROR_INVALID_VALUE);
	CHECK(!is_noted(&wait));
	wait = gate_stream_wait_begin(second, GATE_OWN);
	gate_stream_wait_end(&wait, CUDA_SUCCESS);
	CHECK(is_noted(&wait));
	/* A stream of no GPU of the slice has no slot. */
	wait = gate_stream_wait_begin((CUstream)((uintptr_t)TD_STREAM + 2), 0);
	CHECK(!wait.slot);
	/* Into a capture, and beside it. */
	gate_capture_begins();
	atomic_store(&td.capturing, 1);
	CHECK(!gate_stream_wait_begin((CUstream)0x1100, 0).slot);
	CHECK(gate_stream_wait_begin(TD_STREAM, 0).slot);
	atomic_store(&td.capturing, 0);
	gate_capture_ended();
	/* The wait is noted at a closed gate, too. */
	slice_arbiter_set_gate(A, 0, TURN_CLOSED);
	CHECK(gate_stream_wait_begin(TD_STREAM, 0).slot);
	CHECK(!atomic_load(&td.blocked_calls) && !atomic_load(&td.spoiled));
	slice_arbiter_set_scheduled(A, false);
	CHECK(!gate_stream_wait_begin(TD_STREAM, 0).slot);
}

static void gate__records_streams_that_wait_for_others(void **state)
{
	(void)state;
	gate_test(blocks_stream, 2);
}

static void use_two_gpus(void)
{
	struct submitter s[3] = { { .stream = TD_STREAM },
		{ .stream = (CUstream)((uintptr_t)TD_STREAM + 1) },
		{ .stream = (CUstream)((uintptr_t)TD_STREAM + 2) } };

	struct turn_gpu_page *g;

	td_current(1);
	g = gate_begin(NULL, GATE_NO_STREAM);
	CHECK(g && atomic_load(&slice_arbiter_page(A, 1)->begun) == 1);
	gate_end(g);
	for (int i = 0; i < 3; i++)
		gate_thread_add_context(td_context(i), (unsigned int)i);
	atomic_store(&td.at_once, true);
	slice_arbiter_set_gate(A, 2, TURN_CLOSED);
	for (int i = 0; i < 3; i++)
		submit_on_thread(&s[i]);
	WAIT_FOR(atomic_load(&s[0].passed) && atomic_load(&s[1].passed));
	WAIT_FOR(slice_arbiter_client(A, 2).wants);
	CHECK(!atomic_load(&s[2].passed) && !slice_arbiter_client(A, 0).wants &&
		!slice_arbiter_client(A, 1).wants);
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->begun) == 1);
	CHECK(atomic_load(&slice_arbiter_page(A, 1)->begun) == 2);
	slice_arbiter_set_gate(A, 2, TURN_THROTTLED);
	WAIT_FOR(atomic_load(&s[2].passed));
	for (uint32_t i = 0; i < 3; i++)
		WAIT_FOR(in_flight(i) == 0 && doorbell(i) && !slice_arbiter_client(A, i).busy);
	/* The last stream is on a GPU outside the slice. */
	CHECK(!gate_begin((CUstream)((uintptr_t)TD_STREAM + 3), 0));
}

/* In a slice of several GPUs the driver is asked once for each stream, and again where its handle may be another
 * stream's. */
static void remember_streams(void)
{
	CUstream a = TD_STREAM, b = (CUstream)((uintptr_t)TD_STREAM + 1);
	struct turn_gpu_page *page;

	for (int i = 0; i < 2; i++)
		gate_thread_add_context(td_context(i), (unsigned int)i);
	atomic_store(&td.at_once, true);
	for (int i = 0; i < 100; i++) {
		gate_end(gate_begin(a, 0));
		page = gate_begin(b, 0);
		gate_end(page);
	}
	CHECK(atomic_load(&td.stream_questions) == 2);
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->ended) == 100);
	CHECK(atomic_load(&slice_arbiter_page(A, 1)->ended) == 100);
	/* The stream is destroyed, and the next one with its handle is on the other GPU. */
	gate_handle_leaves();
	atomic_store(&td.moved, 1);
	gate_end(gate_begin(a, 0));
	CHECK(atomic_load(&slice_arbiter_page(A, 1)->ended) == 101);
	atomic_store(&td.moved, 0);
	/* A thread asks again where its context is another one. */
	td_current(1);
	gate_end(gate_begin(a, 0));
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->ended) == 101);
}

static void gate__asks_once_where_a_stream_is(void **state)
{
	(void)state;
	gate_test(remember_streams, 2);
}

#define STREAM_THREADS 4
#define STREAM_ROUNDS  5000

/* Streams of both GPUs, more than the table has entries for. */
static void *submit_to_many(void *arg)
{
	(void)arg;
	td_current(0);
	for (uintptr_t i = 0; i < STREAM_ROUNDS; i++)
		for (uintptr_t k = 0; k < 2; k++)
			gate_end(gate_begin((CUstream)(0x10000 + i % 50 * 0x100 + k), 0));
	return NULL;
}

static void mix_up_streams(void)
{
	pthread_t threads[STREAM_THREADS];

	for (int i = 0; i < 2; i++)
		gate_thread_add_context(td_context(i), (unsigned int)i);
	atomic_store(&td.at_once, true);
	CHECK(submit(0));
	for (int i = 0; i < STREAM_THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, submit_to_many, NULL));
	for (int i = 0; i < 1000; i++)
		gate_handle_leaves();
	for (int i = 0; i < STREAM_THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->ended) ==
		STREAM_THREADS * STREAM_ROUNDS + 1);
	CHECK(atomic_load(&slice_arbiter_page(A, 1)->ended) == STREAM_THREADS * STREAM_ROUNDS);
}

static void gate__takes_no_stream_for_another(void **state)
{
	(void)state;
	gate_test(mix_up_streams, 2);
}

static void gate__is_one_for_each_gpu(void **state)
{
	(void)state;
	gate_test(use_two_gpus, 3);
}

static void fork_and_submit(void)
{
	struct turn_gpu_page *p;
	int status = -1;
	pid_t pid;

	CHECK(submit(0));
	p = slice_arbiter_page(A, 0);
	td_finish(0);
	WAIT_FOR(doorbell(0));
	pid = fork();
	if (!pid) {
		alarm(PATIENCE_S);
		atomic_store(&td.at_once, true);
		CHECK(submit(0)); /* its own */
		CHECK(submit(0));
		gate_capture_begins();
		gate_capture_ended();
		(void)usleep(20000);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK(atomic_load(&A->quanta.hellos) == 2 && slice_arbiter_page(A, 0) != p);
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->ended) == 2);
	CHECK(atomic_load(&p->ended) == 1 && submit(0) && atomic_load(&p->ended) == 2);
}

static void gate__starts_again_in_a_child(void **state)
{
	(void)state;
	SKIP_UNLESS(!THREAD_SANITIZER, "the sanitizer allows no threads after such a fork");
	gate_test(fork_and_submit, 1);
}

static int count_gate_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d))) {
		char path[300], name[32] = "";
		FILE *f;

		(void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (fgets(name, sizeof(name), f) && !strcmp(name, "gpuslice-turns\n")) {
			char line[256];
			FILE *s;

			n++;
			(void)snprintf(path, sizeof(path), "/proc/self/task/%s/status",
				e->d_name);
			s = fopen(path, "re");
			while (s && fgets(line, sizeof(line), s))
				if (!strncmp(line, "SigBlk:", 7)) {
					uint64_t mask = 0;

					CHECK(sscanf(line + 7, "%" SCNx64, &mask) == 1);
					/* The gate thread blocks all signals except SIGKILL, SIGSTOP and the
					 * two of the C library (32, 33). */
					CHECK((mask & SIGNALS) == SIGNALS);
					CHECK(!(mask & C_LIBRARYS));
				}
			if (s)
				(void)fclose(s);
		}
		(void)fclose(f);
	}
	if (d)
		(void)closedir(d);
	return n;
}

static void check_one_gate_thread(void)
{
	CHECK(count_gate_threads() == 0);
	CHECK(submit(0));
	WAIT_FOR(count_gate_threads() == 1);
	slice_arbiter_set_scheduled(A, false);
	WAIT_FOR(!submit(0));
	slice_arbiter_set_scheduled(A, true);
	WAIT_FOR(submit(0));
	CHECK(count_gate_threads() == 1);
}

static void gate__has_one_thread_without_signals(void **state)
{
	(void)state;
	gate_test(check_one_gate_thread, 1);
}

static void replace_descriptors(void)
{
	int mine[8];

	CHECK(submit(0));
	td_finish(0);
	WAIT_FOR(doorbell(0));
	/* A program closes descriptors that it does not know, and opens others in their place. The arbiter's
	 * descriptors stay. */
	pthread_mutex_lock(&A->lock);
	for (int fd = 3; fd < 64; fd++) {
		bool keep = fd == A->listener || fd == A->stop_fd;

		for (int i = 0; i < SLICE_ARBITER_PROCESSES; i++)
			keep = keep || (A->processes[i].known && fd == A->processes[i].fd);
		if (!keep)
			(void)close(fd);
	}
	pthread_mutex_unlock(&A->lock);
	for (int i = 0; i < 8; i++)
		CHECK((mine[i] = open("/dev/null", O_RDWR)) >= 0);
	/* The process has no quanta any more: the arbiter saw it disconnect, and the process has no page to
	 * show again. */
	WAIT_FOR(atomic_load(&A->quanta.lost) == 1);
	for (int i = 0; i < 10; i++)
		CHECK(submit(0));
	td_finish(0);
	WAIT_FOR(in_flight(0) == 0);
	for (int i = 0; i < 8; i++)
		CHECK(fcntl(mine[i], F_GETFD) >= 0);
}

static void gate__leaves_the_descriptors_of_the_program_alone(void **state)
{
	(void)state;
	gate_test(replace_descriptors, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gate__reports_when_work_begins_and_ends),
		cmocka_unit_test(gate__does_nothing_outside_of_slices),
		cmocka_unit_test(gate__follows_the_environment_switch),
		cmocka_unit_test(gate__lets_a_refused_process_pass),
		cmocka_unit_test(gate__rejects_an_invalid_page),
		cmocka_unit_test(gate__blocks_threads_while_it_is_closed),
		cmocka_unit_test(gate__does_not_separate_programmatic_launches),
		cmocka_unit_test(gate__lets_a_window_through_while_it_is_throttled),
		cmocka_unit_test(gate__keeps_to_a_small_window_from_its_opening),
		cmocka_unit_test(gate__invalidates_no_capture),
		cmocka_unit_test(gate__records_streams_that_wait_for_others),
		cmocka_unit_test(gate__is_one_for_each_gpu),
		cmocka_unit_test(gate__asks_once_where_a_stream_is),
		cmocka_unit_test(gate__takes_no_stream_for_another),
		cmocka_unit_test(gate__starts_again_in_a_child),
		cmocka_unit_test(gate__has_one_thread_without_signals),
		cmocka_unit_test(gate__leaves_the_descriptors_of_the_program_alone),
	};

	return cmocka_run_group_tests_name("gate", tests, gate_test_setup, gate_test_teardown);
}
