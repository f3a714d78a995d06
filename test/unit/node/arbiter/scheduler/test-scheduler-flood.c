/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A slice that sends all it can, and the effect on others. The arbiter is in this process. The scheduler's thread
 * is halted: its rounds and its clock advance only when the test lets them. So the test knows to the packet what
 * the thread reads before another packet.
 */
#include "scheduler-env.h"

#include "node/arbiter/clients/conn.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/scheduler/internal.h"
#include "lib/base/time.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#define FLOOD   SCHEDULER_REGISTRATIONS_PID /* connections */
#define PACKETS 100                         /* of each connection; fits into its socket */

struct flood {
	struct env *e;
	struct arbiter *a;
	uv_loop_t loop;
	pid_t pids[2];
};

/* The clock, and the gate that each reading of the clock checks; the clock advances by .step at each
 * reading. */
static struct {
	const struct scheduler_registration *holder;
	uint64_t now, step;
	bool stopped;
	unsigned int read,
		before; /* packets read when its gate was seen closed; UINT_MAX: never */
	struct arbiter *a;
} watched;

uint64_t __real_time_mono_ns(void);
uint64_t __wrap_time_mono_ns(void);

/* --- what the thread reads --- */

static const struct scheduler_slice *slice_number(const struct arbiter *a, unsigned int number)
{
	char id[40];

	(void)snprintf(id, sizeof(id), ID_HEAD "%u", number);
	for (const struct arbiter_slice *s = a->slices; s; s = s->next) {
		if (!strcmp(s->id, id))
			return s->compute.sched_slice;
	}
	return NULL;
}

/* Unread packets in the sockets of the slice. In how many sockets all sent packets are unread. */
static unsigned int count_unread(const struct arbiter *a, unsigned int slice,
	unsigned int *ret_full)
{
	unsigned int sum = 0;

	*ret_full = 0;
	for (const struct scheduler_registration *reg = slice_number(a, slice)->registrations;
		reg; reg = reg->next) {
		int bytes = 0;

		assert_int_equal(ioctl(reg->fd, FIONREAD, &bytes), 0);
		sum += (unsigned int)bytes / (unsigned int)sizeof(struct slice_state);
		*ret_full += (unsigned int)bytes == PACKETS * sizeof(struct slice_state);
	}
	return sum;
}

uint64_t __wrap_time_mono_ns(void)
{
	unsigned int full;

	if (watched.step && watched.read == UINT_MAX &&
		(watched.holder->clients[0].gate & TURN_STATE) == TURN_CLOSED)
		watched.read = watched.before - count_unread(watched.a, 0, &full);
	if (!watched.stopped)
		watched.now = __real_time_mono_ns();
	watched.now += watched.step;
	return watched.now;
}

/* --- processes --- */

/* Wants whenever it has no quantum, until .go. */
static void alternate_quanta(struct env *e, struct slice_client *c)
{
	report_until(c, false, true, is_open);
	atomic_fetch_add(&e->shared->ready, 1);
	while (atomic_load(&e->shared->go) < 1) {
		if (is_closed(c))
			(void)client_report_state(c, 0, false, true);
		wait_ms(1);
	}
	atomic_fetch_add(&e->shared->ready, 1);
	wait_for(&e->shared->go, 2);
}

/* Slice 0: has many connections, and sends packets of unknown generations on all of them. */
static _Noreturn void run_flood(struct env *e)
{
	struct slice_state s = { .head = { .op = SLICE_STATE }, .generation = 0x7fffff };
	static struct slice_client c[FLOOD];

	for (unsigned int i = 0; i < FLOOD; i++)
		join(e, &c[i], 0);
	alternate_quanta(e, &c[0]);
	for (unsigned int i = 0; i < FLOOD; i++) {
		for (unsigned int k = 0; k < PACKETS; k++) {
			if (send(c[i].fd, &s, sizeof(s), MSG_NOSIGNAL) != sizeof(s))
				_exit(1);
		}
	}
	atomic_fetch_add(&e->shared->ready, 1);
	for (;;)
		(void)pause();
}

/* Slice 1: sends once. */
static _Noreturn void run_other(struct env *e)
{
	struct slice_client c;

	join(e, &c, 1);
	alternate_quanta(e, &c);
	if (client_report_state(&c, 0, true, false) < 0)
		_exit(1);
	atomic_fetch_add(&e->shared->ready, 1);
	for (;;)
		(void)pause();
}

/* The first of the slice's. */
static const struct scheduler_registration *find_first_client(const struct arbiter *a,
	unsigned int slice)
{
	const struct scheduler_slice *s = slice_number(a, slice);
	const struct scheduler_registration *reg = s ? s->registrations : NULL;

	while (reg && reg->next)
		reg = reg->next;
	return reg;
}

/* The client with the quantum, while the other client wants it. NULL: there is none. */
static const struct scheduler_registration *find_holder(const struct arbiter *a)
{
	for (unsigned int i = 0; i < 2; i++) {
		const struct scheduler_registration *reg = find_first_client(a, i),
						    *other = find_first_client(a, !i);

		if (reg && other && reg->clients[0].client->gate != SCHED_GATE_CLOSED &&
			other->clients[0].client->wants)
			return reg;
	}
	return NULL;
}

static void serve_until(struct flood *f, uint32_t ready)
{
	uint64_t end = __real_time_mono_ns() + 30 * NS_PER_SEC;

	while (atomic_load(&f->e->shared->ready) < ready) {
		(void)uv_run(&f->loop, UV_RUN_NOWAIT);
		scheduler_round(f->a->sched, false);
		assert_true(__real_time_mono_ns() < end);
	}
}

static void serve_once(struct flood *f)
{
	scheduler_round(f->a->sched, false);
}

/* All packets are sent, and none is read. One of the slices has the quantum, the other one wants it. */
static int setup(void **state)
{
	struct flood *f = calloc(1, sizeof(*f));
	struct arbiter_options o = { .procfs = "/proc" };
	struct error err = ERROR_INIT;
	unsigned int full;
	uint64_t end;

	assert_non_null(f);
	f->e = arbiter_env_new();
	write_share(f->e, 0, 1, 0, "batch");
	write_share(f->e, 1, 1, 0, "batch");
	(void)snprintf(o.state_dir, sizeof(o.state_dir), "%s", f->e->dir);
	(void)snprintf(o.run_dir, sizeof(o.run_dir), "%s", f->e->run);
	assert_int_equal(uv_loop_init(&f->loop), 0);
	assert_ok(arbiter_start(&f->a, &f->loop, &o, &err), &err);
	scheduler_halt(f->a->sched);
	f->pids[0] = child(f->e);
	if (f->pids[0] == 0)
		run_flood(f->e);
	f->pids[1] = child(f->e);
	if (f->pids[1] == 0)
		run_other(f->e);
	serve_until(f, 2);
	end = __real_time_mono_ns() + 30 * NS_PER_SEC;
	while (!watched.stopped || !find_holder(f->a)) {
		watched.stopped = false;
		(void)uv_run(&f->loop, UV_RUN_NOWAIT);
		scheduler_round(f->a->sched, false);
		assert_true(__real_time_mono_ns() < end);
		watched.stopped = find_holder(f->a);
		if (watched.stopped)
			serve_once(f);
	}
	atomic_store(&f->e->shared->go, 1);
	wait_for(&f->e->shared->ready, 4);
	while (count_unread(f->a, 0, &full) || count_unread(f->a, 1, &full))
		serve_once(f);
	atomic_store(&f->e->shared->go, 2);
	wait_for(&f->e->shared->ready, 6);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct flood *f = *state;

	memset(&watched, 0, sizeof(watched));
	for (unsigned int i = 0; i < ARRAY_LEN(f->pids); i++) {
		(void)kill(f->pids[i], SIGKILL);
		(void)waitpid(f->pids[i], NULL, 0);
	}
	arbiter_stop(f->a);
	(void)uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	arbiter_free(f->a);
	arbiter_env_free(f->e);
	free(f);
	return 0;
}

/* --- tests --- */

static void flood__is_read_in_small_batches(void **state)
{
	struct flood *f = *state;
	unsigned int full, before = count_unread(f->a, 0, &full);

	assert_int_equal(before, FLOOD * PACKETS);
	assert_int_equal(count_unread(f->a, 1, &full), 1);
	serve_once(f);
	assert_int_equal(before - count_unread(f->a, 0, &full), SCHEDULER_SLICE_EVENTS);
	assert_int_equal(count_unread(f->a, 1, &full), 0);
}

static void flood__of_one_connection_delays_no_other_of_its_slice(void **state)
{
	struct flood *f = *state;
	unsigned int full;

	/* A single slice would need PACKETS / SCHEDULER_SLICE_EVENTS rounds. */
	for (unsigned int i = 0; i < 2 * FLOOD; i++)
		serve_once(f);
	(void)count_unread(f->a, 0, &full);
	assert_int_equal(full, 0);
}

static void deadline__waits_for_at_most_one_packet(void **state)
{
	struct flood *f = *state;
	unsigned int full;

	watched.holder = find_holder(f->a);
	assert_non_null(watched.holder);
	watched.a = f->a;
	watched.read = UINT_MAX;
	watched.before = count_unread(f->a, 0, &full);
	/* The next reading of the clock is later than the quantum's end. */
	watched.step = 2 * SCHED_QUANTUM_NS;
	serve_once(f);
	watched.step = 0;
	assert_true(watched.read <= 2);
}

/* --- the thread and the loop --- */

static bool tenth_step(struct scheduler *scheduler, void *arg)
{
	unsigned int *steps = arg;

	(void)scheduler;
	return ++*steps == 10;
}

static void call__continues_between_rounds_of_events(void **state)
{
	struct flood *f = *state;
	unsigned int steps = 0, full;
	struct scheduler_call call = { .step = tenth_step, .arg = &steps };

	atomic_store(&f->a->sched->call, &call);
	serve_once(f);
	assert_int_equal(steps, 1);
	assert_int_equal(count_unread(f->a, 1, &full), 0);
	for (unsigned int i = 2; i <= 10; i++) {
		assert_false(f->a->sched->answer);
		serve_once(f);
		assert_int_equal(steps, i);
	}
	assert_true(f->a->sched->answer);
	assert_null(f->a->sched->call);
	serve_once(f);
	assert_int_equal(steps, 10);
}

/* Kills the process of slice 1, and serves until the arbiter has noticed the end. */
static void end_other(struct flood *f)
{
	uint64_t end = __real_time_mono_ns() + 30 * NS_PER_SEC;

	(void)kill(f->pids[1], SIGKILL);
	while (!find_first_client(f->a, 1)->ended) {
		assert_true(__real_time_mono_ns() < end);
		serve_once(f);
	}
}

static void end__leaves_the_connection_for_the_loop_to_close(void **state)
{
	struct flood *f = *state;
	const struct scheduler_slice *s = slice_number(f->a, 1);

	end_other(f);
	assert_int_equal(s->n_registrations, 0);
	assert_non_null(s->registrations);
	assert_ptr_equal(f->a->sched->posted, s->registrations);
	(void)uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_null(f->a->sched->posted);
	assert_null(s->registrations);
}

static void end__may_be_closed_before_the_loop_is_notified(void **state)
{
	struct flood *f = *state;

	end_other(f);
	conns_stop(f->a);
	assert_null(f->a->sched->posted);
	assert_null(slice_number(f->a, 1)->registrations);
}

static void release__opens_the_gates_permanently(void **state)
{
	struct flood *f = *state;
	struct scheduler_slice *s[2] = { NULL };

	for (unsigned int i = 0; i < 2; i++) {
		/* One of the two slices has had its gate closed. */
		for (struct arbiter_slice *k = f->a->slices; k; k = k->next)
			s[i] = k->compute.sched_slice == slice_number(f->a, i)
				       ? k->compute.sched_slice
				       : s[i];
		scheduler_slice_release(f->a->sched, s[i]);
		assert_int_equal(s[i]->n_registrations, 0);
	}
	for (unsigned int k = 0; k < 3; k++) {
		watched.now += NS_PER_SEC;
		serve_once(f);
	}
	for (unsigned int i = 0; i < 2; i++) {
		for (const struct scheduler_registration *reg = s[i]->registrations; reg;
			reg = reg->next)
			assert_int_equal(atomic_load(&reg->page->gpus[0].gate) & TURN_STATE,
				TURN_OPEN);
	}
}

static void freeze__leaves_gates_as_they_are(void **state)
{
	struct flood *f = *state;
	const struct scheduler_registration *left =
		find_holder(f->a) == find_first_client(f->a, 0) ? find_first_client(f->a, 1)
								: find_first_client(f->a, 0);
	unsigned int gone = left == find_first_client(f->a, 0);
	uint32_t before = atomic_load(&left->page->gpus[0].gate);

	scheduler_freeze(f->a->sched);
	for (struct arbiter_slice *s = f->a->slices; s; s = s->next) {
		if (s->compute.sched_slice == slice_number(f->a, gone))
			conns_stop_sched(s);
	}
	/* Otherwise it would be the next. */
	assert_int_equal(atomic_load(&left->page->gpus[0].gate), before);
}

/* --- records --- */

static _Noreturn void run_third(struct env *e)
{
	struct slice_client c;

	join(e, &c, 1);
	atomic_fetch_add(&e->shared->ready, 1);
	for (;;)
		(void)pause();
}

static void join__after_a_sweep_is_not_crowded(void **state)
{
	struct flood *f = *state;
	struct scheduler *scheduler = f->a->sched;
	const struct scheduler_slice *s = slice_number(f->a, 1);
	uint32_t ready = atomic_load(&f->e->shared->ready);
	uint64_t serial = UINT64_C(1) << 40;
	pid_t pid;

	/* Clients of an ended process: no process with this PID started at that time. */
	while (usage_client_new(&scheduler->accounts, s->gpus[0].account, serial++, 0, 1, 1,
		NULL))
		;
	watched.stopped = false;
	pid = child(f->e);
	if (pid == 0)
		run_third(f->e);
	serve_until(f, ready + 1);
	assert_int_equal(s->crowded_ns, 0);
	assert_int_equal(s->n_registrations, 2);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(flood__is_read_in_small_batches),
		TEST(flood__of_one_connection_delays_no_other_of_its_slice),
		TEST(deadline__waits_for_at_most_one_packet),
		TEST(call__continues_between_rounds_of_events),
		TEST(end__leaves_the_connection_for_the_loop_to_close),
		TEST(end__may_be_closed_before_the_loop_is_notified),
		TEST(release__opens_the_gates_permanently),
		TEST(freeze__leaves_gates_as_they_are),
		TEST(join__after_a_sweep_is_not_crowded),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	log_setup(getenv("TEST_VERBOSE") ? LOG_DEBUG : LOG_ERROR, LOG_TEXT);
	return cmocka_run_group_tests_name("scheduler-flood", tests, NULL, NULL);
}
