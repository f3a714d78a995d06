/* SPDX-License-Identifier: Apache-2.0 */

/* Quanta as processes see them without faults: hello, quanta, classes, changes of shares. */
#include "scheduler-env.h"

#include "abi/slice-dir.h"
#include "lib/base/time.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void hello__returns_a_page_of_gates(void **state)
{
	struct env *e = *state;
	struct slice_client c, m;
	const json_t *p;
	json_t *j;

	join(e, &c, 0);
	assert_int_equal(c.welcome.gpu_count, 1);
	assert_int_equal(c.turns->magic, TURN_PAGE_MAGIC);
	assert_int_equal(c.turns->version, TURN_PAGE_VERSION);
	assert_int_equal(c.turns->bytes, TURN_PAGE_BYTES);
	assert_int_equal(c.turns->gpu_count, 1);
	assert_true(c.turns->serial != 0);
	assert_true(atomic_load(&c.turns->gpus[0].gate) & TURN_DOORBELL);
	assert_int_equal(fcntl(c.page_fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW),
		F_SEAL_SHRINK | F_SEAL_GROW);
	j = status(e);
	p = json_array_get(json_object_get(slice_of(j, 0), "processes"), 0);
	assert_int_equal(json_integer_value(json_object_get(p, "host_pid")), getpid());
	assert_string_equal(json_string_value(json_object_get(p, "name")), "client");
	json_decref(j);
	/* Memory is another connection's. */
	assert_int_equal(client_connect(&m, slice_dir(e, 0)), 0);
	assert_int_equal(client_hello(&m, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_int_equal(atomic_load(&m.page->turns), 1);
	assert_true(client_allocate(&m, 0, 4096));

	j = status(e);
	assert_string_equal(json_string_value(json_object_get(slice_of(j, 0), "compute")),
		"turns");
	assert_string_equal(json_string_value(json_object_get(slice_of(j, 0), "class")),
		"batch");
	assert_true(json_is_null(json_object_get(slice_of(j, 0), "compute_error")));
	assert_int_equal(figure_in(j, 0, "weight"), 1);
	p = json_object_get(slice_of(j, 0), "processes");
	assert_int_equal(json_array_size(p), 1);
	p = json_array_get(json_object_get(json_array_get(p, 0), "gpus"), 0);
	assert_true(json_integer_value(json_object_get(p, "used")) >= 4096);
	assert_non_null(json_object_get(p, "charged_ns"));
	json_decref(j);
	assert_int_equal(client_request(&c, 0, 1, NULL), -1);
	client_close(&c);
	client_close(&m);
}

static void status__has_each_process_once(void **state)
{
	struct env *e = *state;
	struct slice_client c[5];
	pid_t pid = child(e);
	json_t *j;

	if (pid == 0) {
		for (unsigned int i = 0; i < 3; i++)
			join(e, &c[i], 0);
		atomic_fetch_add(&e->shared->ready, 1);
		for (;;)
			(void)pause();
	}
	wait_for(&e->shared->ready, 1);
	for (unsigned int i = 0; i < ARRAY_LEN(c); i++)
		join(e, &c[i], i % 2);
	j = status(e);
	assert_int_equal(json_array_size(json_object_get(slice_of(j, 0), "processes")), 2);
	assert_int_equal(json_array_size(json_object_get(slice_of(j, 1), "processes")), 1);
	json_decref(j);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	/* The oldest of its connections ends, and the process still has clients. */
	client_close(&c[0]);
	client_close(&c[1]);
	j = status(e);
	assert_int_equal(json_array_size(json_object_get(slice_of(j, 1), "processes")), 1);
	json_decref(j);
	for (unsigned int i = 2; i < ARRAY_LEN(c); i++)
		client_close(&c[i]);
}

static void hello__is_refused_without_the_fair_share_scheduler(void **state)
{
	struct env *e = *state;
	struct slice_client c, m;

	write_slice(e, 2, ONE_GPU, "");
	for (int i = 0; i < WAIT_MS && client_connect(&c, slice_dir(e, 2)) < 0; i++)
		wait_ms(1);
	assert_int_equal(client_hello(&c, SLICE_HELLO_TURNS), SLICE_REFUSED);
	assert_string_equal(c.welcome.reason, "this slice has no turns");
	assert_int_equal(client_connect(&m, slice_dir(e, 2)), 0);
	assert_int_equal(client_hello(&m, SLICE_HELLO_MEMORY), SLICE_OK);
	assert_int_equal(atomic_load(&m.page->turns), 0);
	/* The page reports quanta as soon as the slice has them. */
	write_slice(e, 2, ONE_GPU, ", \"compute\": \"turns\"");
	for (int i = 0; i < WAIT_MS && !atomic_load(&m.page->turns); i++)
		wait_ms(1);
	assert_int_equal(client_connect(&c, slice_dir(e, 2)), 0);
	assert_int_equal(client_hello(&c, SLICE_HELLO_TURNS), SLICE_OK);
	client_close(&c);
	client_close(&m);
}

/* All in one answer: the slices' charges are the time in which any process had work. */
static void assert_adds_up(const json_t *j)
{
	assert_int_equal(figure_in(j, 0, "charged_ns") + figure_in(j, 1, "charged_ns"),
		json_integer_value(json_object_get(
			json_array_get(json_object_get(j, "gpus"), 0), "busy_ns")));
}

/* How many quanta of the slice ended for this reason. */
static uint64_t quantum_ends_in(const json_t *top, unsigned int slice, const char *why)
{
	const json_t *gpu = json_array_get(json_object_get(slice_of(top, slice), "gpus"), 0);
	const json_t *n = json_object_get(json_object_get(gpu, "quantum_ends"), why);

	assert_true(json_is_integer(n));
	return (uint64_t)json_integer_value(n);
}

static void quantum__passes_from_one_slice_to_the_other(void **state)
{
	struct env *e = *state;
	struct slice_client a, b;
	json_t *j;

	join(e, &a, 0);
	join(e, &b, 1);
	report_until(&a, false, true, is_open);
	/* A has work all the time: B gets its quantum by the clock. */
	report_until(&b, false, true, is_open);
	assert_true(closes(&a));
	assert_int_equal(client_gate(&b, 0), TURN_THROTTLED);
	assert_true(atomic_load(&b.turns->gpus[0].window_ns) > 0);
	assert_true(atomic_load(&b.turns->gpus[0].overrun_ns) > 0);
	report_until(&a, false, true, is_open);
	assert_true(closes(&b));
	/* The holder wants no more: the next slice follows at once, or after the short time that the arbiter
	 * waits for the holder. */
	assert_int_equal(client_report_state(&b, 0, false, true), 0);
	report_until(&a, false, false, is_closed);
	assert_true(opens(&b));

	j = status(e);
	assert_true(figure_in(j, 0, "charged_ns") > 0);
	assert_true(figure_in(j, 1, "charged_ns") > 0);
	assert_true(figure_in(j, 1, "turn"));
	assert_false(figure_in(j, 0, "turn"));
	assert_true(figure_in(j, 0, "turns") >= 2);
	assert_true(figure_in(j, 0, "revocations") >= 1);
	assert_true(figure_in(j, 1, "revocations") >= 1);
	assert_true(quantum_ends_in(j, 0, "expired") >= 1);
	assert_true(quantum_ends_in(j, 1, "expired") >= 1);
	assert_true(quantum_ends_in(j, 0, "idle") >= 1);
	assert_int_equal(quantum_ends_in(j, 1, "cap"), 0);
	assert_true(figure_in(j, 0, "queue_ns") > 0);
	assert_adds_up(j);
	json_decref(j);
	client_close(&a);
	client_close(&b);
}

/* The thread sleeps until the arbiter wakes it, and polls nothing meanwhile. */
static void gate__wakes_waiting_threads(void **state)
{
	struct env *e = *state;
	struct slice_client a, b;
	pid_t pid;
	int code = -1;

	join(e, &a, 0);
	report_until(&a, false, true, is_open);
	pid = child(e);
	if (pid == 0) {
		_Atomic uint32_t *gate;
		uint32_t now;

		join(e, &b, 1);
		gate = &b.turns->gpus[0].gate;
		(void)client_report_state(&b, 0, false, true);
		while (((now = atomic_load(gate)) & TURN_STATE) == TURN_CLOSED)
			(void)syscall(SYS_futex, gate, FUTEX_WAIT, now, NULL, NULL, 0);
		_exit(0);
	}
	for (int i = 0; i < WAIT_MS && waitpid(pid, &code, WNOHANG) != pid; i++)
		wait_ms(1);
	assert_int_equal(code, 0);
	client_close(&a);
}

static void latency__goes_first_at_once(void **state)
{
	struct env *e = *state;
	struct slice_client a, l;

	/* The weight keeps slice 2 within its share, however slow the machine is. */
	write_share(e, 2, 10000, 0, "latency");
	join(e, &a, 0);
	report_until(&a, false, true, is_open);
	for (int i = 0; i < WAIT_MS && client_connect(&l, slice_dir(e, 2)) < 0; i++)
		wait_ms(1);
	assert_int_equal(client_hello(&l, SLICE_HELLO_TURNS), SLICE_OK);
	assert_int_equal(client_gate(&l, 0), TURN_OPEN);
	for (int i = 0; i < 20; i++) {
		assert_true(opens(&a));
		assert_int_equal(client_report_state(&l, 0, true, false), 0);
		assert_true(closes(&a));
		assert_int_equal(client_report_state(&a, 0, false, true), 0);
		assert_int_equal(client_report_state(&l, 0, false, false), 0);
		assert_true(opens(&a));
	}
	client_close(&a);
	client_close(&l);
}

static void share__changes_while_processes_run(void **state)
{
	struct env *e = *state;
	struct slice_client a, b, m;
	uint64_t charged;
	json_t *j;

	join(e, &a, 0);
	assert_int_equal(client_connect(&m, slice_dir(e, 0)), 0);
	assert_int_equal(client_hello(&m, SLICE_HELLO_MEMORY), SLICE_OK);
	report_until(&a, false, true, is_open);
	write_share(e, 0, 30, 250000, "batch");
	assert_true(eventually(e, 0, "weight", 30));
	assert_int_equal(figure(e, 0, "cap"), 250000);
	assert_int_equal(atomic_load(&a.turns->gpus[0].cap), 250000);
	/* Without an arbiter each process has its part of the cap. */
	join(e, &b, 0);
	assert_int_equal(atomic_load(&a.turns->gpus[0].cap), 125000);
	assert_int_equal(atomic_load(&b.turns->gpus[0].cap), 125000);
	client_close(&b);
	for (int i = 0; i < WAIT_MS && atomic_load(&a.turns->gpus[0].cap) != 250000; i++)
		wait_ms(1);
	assert_int_equal(atomic_load(&a.turns->gpus[0].cap), 250000);
	/* An invalid slice file changes nothing. */
	write_slice(e, 0, "[{\"uuid\": \"" UUID "\", \"weight\": \"much\"}]",
		", \"compute\": \"turns\"");
	for (int i = 0; i < WAIT_MS; i++) {
		const char *reason;

		j = status(e);
		reason = json_string_value(json_object_get(slice_of(j, 0), "error"));
		if (reason) {
			assert_non_null(strstr(reason, "slice.json: gpus[0].weight: expected a "
						       "number from 1 to 10000, found 'much'"));
			i = WAIT_MS;
		}
		json_decref(j);
		wait_ms(1);
	}
	assert_int_equal(figure(e, 0, "weight"), 30);
	write_share(e, 0, 30, 0, "latency");
	assert_true(eventually(e, 0, "cap", 0));
	assert_int_equal(atomic_load(&a.turns->gpus[0].cap), 0);
	assert_true(opens(&a));

	/* No quanta any more: no thread waits, and the gates in the pages are open. */
	charged = figure(e, 0, "charged_ns");
	write_slice(e, 0, "[{\"uuid\": \"" UUID "\", \"memory\": 1073741824}]", "");
	assert_true(hung_up(&a));
	assert_int_equal(client_gate(&a, 0), TURN_OPEN);
	assert_int_equal(atomic_load(&m.page->turns), 0);
	assert_int_equal(client_reconnect(&a, WAIT_MS), SLICE_REFUSED);
	assert_true(figure(e, 0, "charged_ns") >= charged);
	/* The slice gets quanta again. The process registers with its existing page. */
	write_share(e, 0, 1, 0, "batch");
	for (int i = 0; i < WAIT_MS && !atomic_load(&m.page->turns); i++)
		wait_ms(1);
	assert_int_equal(client_reconnect(&a, WAIT_MS), SLICE_OK);
	assert_true(figure(e, 0, "charged_ns") >= charged);
	client_close(&a);
	client_close(&m);
}

static void slice__that_is_removed_keeps_its_processes_scheduled(void **state)
{
	struct env *e = *state;
	struct slice_client a, b;
	char away[300], from[300];

	join(e, &a, 0);
	join(e, &b, 1);
	(void)snprintf(from, sizeof(from), "%s", slice_dir(e, 0));
	(void)snprintf(away, sizeof(away), "%s/away", e->dir);
	assert_int_equal(rename(from, away), 0);
	for (int i = 0; i < WAIT_MS; i++) {
		json_t *j = status(e);
		const json_t *s = slice_of(j, 0);

		/* The slice stays for as long as a process is in it. */
		assert_non_null(s);
		if (json_is_true(json_object_get(s, "gone")) ||
			json_array_size(json_object_get(s, "gpus")) == 0)
			i = WAIT_MS;
		json_decref(j);
		wait_ms(1);
	}
	report_until(&a, false, true, is_open);
	report_until(&b, false, true, is_open);
	assert_true(closes(&a));
	report_until(&a, false, true, is_open);
	client_close(&a);
	report_until(&b, false, true, is_open);
	client_close(&b);
}

/* The slices have more GPUs than the scheduler can have. The arbiter logs that, and adds the GPUs when there
 * is room. */
static void gpus__beyond_the_limit_are_logged(void **state)
{
	struct env *e = *state;
	char path[300];
	bool well = false;

	/* Slices 0 and 1 already have one of the scheduler's GPUs. */
	for (unsigned int slice = 2; slice < 6; slice++) {
		char gpus[2048] = "[";

		for (unsigned int i = 0; i < 16; i++)
			(void)snprintf(gpus + strlen(gpus), sizeof(gpus) - strlen(gpus),
				"%s{\"uuid\": \"GPU-00000000-0000-0000-0000-0000000%u%04u\"}",
				i ? ", " : "", slice, i);
		(void)snprintf(gpus + strlen(gpus), sizeof(gpus) - strlen(gpus), "]");
		write_slice(e, slice, gpus, ", \"compute\": \"turns\"");
	}
	for (int i = 0; i < WAIT_MS && !well; i++) {
		json_t *j = status(e);
		unsigned int with = 0, without = 0;

		for (unsigned int slice = 2; slice < 6; slice++) {
			const json_t *s = slice_of(j, slice);
			const char *reason =
				json_string_value(json_object_get(s, "compute_error"));

			with += s && json_is_string(json_object_get(s, "compute"));
			without += reason && strstr(reason, "at most 64 GPUs");
		}
		well = with == 3 && without == 1;
		json_decref(j);
		wait_ms(1);
	}
	assert_true(well);
	(void)snprintf(path, sizeof(path), "%s/" SLICE_FILE, slice_dir(e, 1));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(
		unlink((snprintf(path, sizeof(path), "%s/" SLICE_SOCKET, slice_dir(e, 1)),
			path)),
		0);
	assert_int_equal(rmdir(slice_dir(e, 1)), 0);
	(void)snprintf(path, sizeof(path), "%s/" SLICE_FILE, slice_dir(e, 0));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(
		unlink((snprintf(path, sizeof(path), "%s/" SLICE_SOCKET, slice_dir(e, 0)),
			path)),
		0);
	assert_int_equal(rmdir(slice_dir(e, 0)), 0);
	well = false;
	for (int i = 0; i < WAIT_MS && !well; i++) {
		json_t *j = status(e);
		unsigned int with = 0;

		for (unsigned int slice = 2; slice < 6; slice++)
			with += json_is_string(json_object_get(slice_of(j, slice), "compute"));
		well = with == 4;
		json_decref(j);
		wait_ms(1);
	}
	assert_true(well);
}

/* Works in quanta of 1 ms until .go is 2. */
static _Noreturn void run_quantum_worker(struct env *e, unsigned int slice, unsigned int number)
{
	struct slice_client c;
	struct turn_gpu_page *g;

	if (client_connect(&c, slice_dir(e, slice)) < 0 ||
		client_hello(&c, SLICE_HELLO_TURNS) != SLICE_OK)
		_exit(1);
	g = &c.turns->gpus[0];
	atomic_fetch_add(&e->shared->ready, 1);
	while (atomic_load(&e->shared->go) < 1)
		wait_ms(1);
	while (atomic_load(&e->shared->go) < 2) {
		if (client_report_state(&c, 0, false, true) < 0)
			_exit(2);
		if (!client_wait_gate(&c, 0, true, 5))
			continue;
		atomic_fetch_add(&g->begun, 1);
		wait_ms(1);
		atomic_fetch_add(&g->ended, 1);
		atomic_fetch_add(&e->shared->turns[number], 1);
		if (client_report_state(&c, 0, false, false) < 0)
			_exit(3);
	}
	_exit(0);
}

static void many_processes__share_and_end(void **state)
{
	struct env *e = *state;
	pid_t pids[32];
	uint64_t launches = 0, sum = 0;
	uint64_t end = time_mono_ns() + 60 * NS_PER_SEC;
	bool all = false;
	json_t *j;

	for (unsigned int i = 0; i < ARRAY_LEN(pids); i++) {
		pids[i] = child(e);
		if (pids[i] == 0)
			run_quantum_worker(e, i % 2, i);
	}
	wait_for(&e->shared->ready, ARRAY_LEN(pids));
	atomic_store(&e->shared->go, 1);
	/* A third of the processes is killed, wherever each one is. */
	for (unsigned int i = 0; i < ARRAY_LEN(pids); i += 3) {
		wait_ms(10);
		(void)kill(pids[i], SIGKILL);
		(void)waitpid(pids[i], NULL, 0);
	}
	while (!all) {
		all = true;
		for (unsigned int i = 0; i < ARRAY_LEN(pids); i++)
			all &= i % 3 == 0 || atomic_load(&e->shared->turns[i]) >= 3;
		assert_true(time_mono_ns() < end);
		wait_ms(5);
	}
	/* Quanta continue while the arbiter writes the answer. */
	for (int i = 0; i < 500; i++) {
		j = status(e);
		assert_adds_up(j);
		json_decref(j);
	}
	atomic_store(&e->shared->go, 2);
	for (unsigned int i = 0; i < ARRAY_LEN(pids); i++) {
		int code = 0;

		sum += atomic_load(&e->shared->turns[i]);
		if (i % 3 == 0)
			continue;
		assert_int_equal(waitpid(pids[i], &code, 0), pids[i]);
		assert_int_equal(code, 0);
	}
	/* Each killed process may have counted one launch that the test does not know. */
	j = status(e);
	launches = figure_in(j, 0, "launches") + figure_in(j, 1, "launches");
	assert_true(launches >= sum && launches <= sum + (ARRAY_LEN(pids) + 2) / 3);
	assert_adds_up(j);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(hello__returns_a_page_of_gates,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(status__has_each_process_once,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(
			hello__is_refused_without_the_fair_share_scheduler, scheduler_env_setup,
			scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(quantum__passes_from_one_slice_to_the_other,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(gate__wakes_waiting_threads,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(latency__goes_first_at_once,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(share__changes_while_processes_run,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(
			slice__that_is_removed_keeps_its_processes_scheduled,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(gpus__beyond_the_limit_are_logged,
			scheduler_env_setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(many_processes__share_and_end,
			scheduler_env_setup, scheduler_env_teardown),
	};

	return cmocka_run_group_tests_name("scheduler-serve", tests, NULL, NULL);
}
