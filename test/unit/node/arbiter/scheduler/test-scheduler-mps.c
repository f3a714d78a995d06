/* SPDX-License-Identifier: Apache-2.0 */

/* Slices under MPS as their processes and the node's operator see them. */
#include "scheduler-env.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTSIDE "process runs outside MPS"

static void write_mps(struct env *e, unsigned int slice, unsigned int weight, unsigned int cap,
	const char *class)
{
	char gpus[256], more[128], limit[32] = "";

	if (cap)
		(void)snprintf(limit, sizeof(limit), ", \"cap\": %u", cap);
	(void)snprintf(gpus, sizeof(gpus),
		"[{\"uuid\": \"" UUID "\", \"memory\": 1073741824, \"weight\": %u%s}]", weight,
		limit);
	(void)snprintf(more, sizeof(more), ", \"compute\": \"mps\", \"class\": \"%s\"", class);
	write_slice(e, slice, gpus, more);
}

/* Slices 0 and 1 are under MPS, 2 and 3 have quanta. */
static int setup(void **state)
{
	struct env *e = arbiter_env_new();

	write_mps(e, 0, 20, 250000, "latency");
	write_mps(e, 1, 1, 0, "batch");
	write_share(e, 2, 1, 0, "batch");
	write_share(e, 3, 1, 0, "batch");
	e->keep_log = true;
	start_arbiter(e);
	*state = e;
	return 0;
}

static const char *compute_of(const json_t *top, unsigned int slice)
{
	return json_string_value(json_object_get(slice_of(top, slice), "compute"));
}

static bool becomes(struct env *e, unsigned int slice, const char *compute)
{
	for (int i = 0; i < WAIT_MS; i++) {
		json_t *j = status(e);
		const char *now = compute_of(j, slice);
		bool is = now && !strcmp(now, compute);

		json_decref(j);
		if (is)
			return true;
		wait_ms(1);
	}
	return false;
}

/* The status's MPS state of the slice's first process. */
static int mps_get_member_state(struct env *e, unsigned int slice)
{
	json_t *j = status(e);
	const json_t *p = json_array_get(json_object_get(slice_of(j, slice), "processes"), 0);
	const json_t *v = json_object_get(p, "mps");
	int r;

	assert_non_null(v);
	r = json_is_null(v) ? -1 : json_is_true(v);
	json_decref(j);
	return r;
}

static void register_memory(struct env *e, struct slice_client *m, unsigned int slice)
{
	assert_int_equal(client_connect(m, slice_dir(e, slice)), 0);
	assert_int_equal(client_hello(m, SLICE_HELLO_MEMORY), SLICE_OK);
	/* Allocates bytes, as a context does. */
	assert_true(client_allocate(m, 0, 4096));
}

/* --- gates and accounts --- */

static void mps__gates_are_open_and_time_is_counted(void **state)
{
	struct env *e = *state;
	struct slice_client a, b, m;
	json_t *j;

	join(e, &a, 0);
	join(e, &b, 1);
	assert_int_equal(client_gate(&a, 0), TURN_OPEN);
	assert_int_equal(client_gate(&b, 0), TURN_OPEN);
	assert_int_equal(atomic_load(&a.turns->gpus[0].window_ns), 0);
	/* Without an arbiter a process under MPS has no cap. */
	assert_int_equal(atomic_load(&a.turns->gpus[0].cap), 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(client_report_state(&a, 0, true, false), 0);
		assert_int_equal(client_report_state(&b, 0, true, true), 0);
		wait_ms(5);
		assert_int_equal(client_gate(&a, 0), TURN_OPEN);
		assert_int_equal(client_gate(&b, 0), TURN_OPEN);
	}
	assert_int_equal(client_report_state(&a, 0, false, false), 0);
	assert_int_equal(client_report_state(&b, 0, false, false), 0);
	wait_ms(500); /* accounts are brought up to date */
	register_memory(e, &m, 0);
	assert_int_equal(atomic_load(&m.page->turns), SLICE_TURNS_MPS);

	j = status(e);
	assert_string_equal(compute_of(j, 0), "mps");
	assert_string_equal(compute_of(j, 1), "mps");
	assert_string_equal(compute_of(j, 2), "turns");
	assert_string_equal(json_string_value(json_object_get(slice_of(j, 0), "class")),
		"latency");
	assert_int_equal(figure_in(j, 0, "weight"), 20);
	assert_int_equal(figure_in(j, 0, "cap"), 250000);
	assert_int_equal(figure_in(j, 0, "turn") + figure_in(j, 0, "demoted") +
				 figure_in(j, 0, "stuck") + figure_in(j, 0, "turns") +
				 figure_in(j, 0, "queue_ns"),
		0);
	assert_true(figure_in(j, 0, "charged_ns") >= 40000000);
	assert_true(figure_in(j, 1, "charged_ns") >= 40000000);
	assert_int_equal(figure_in(j, 0, "charged_ns") + figure_in(j, 1, "charged_ns"),
		json_integer_value(json_object_get(
			json_array_get(json_object_get(j, "gpus"), 0), "busy_ns")));
	json_decref(j);
	client_close(&m);
	client_close(&a);
	client_close(&b);
}

static void mps__slices_with_quanta_on_the_gpu_continue(void **state)
{
	struct env *e = *state;
	struct slice_client a, b, c;

	join(e, &a, 0);
	join(e, &b, 2);
	join(e, &c, 3);
	assert_int_equal(client_report_state(&a, 0, true, false), 0);
	for (int i = 0; i < 4; i++) {
		report_until(&b, false, true, is_open);
		report_until(&c, false, true, is_open);
		assert_true(closes(&b));
		report_until(&b, false, true, is_open);
		assert_true(closes(&c));
		assert_int_equal(client_gate(&a, 0), TURN_OPEN);
	}
	assert_true(figure(e, 2, "turns") > 3);
	client_close(&a);
	client_close(&b);
	client_close(&c);
}

static void mps__is_switched_while_processes_run(void **state)
{
	struct env *e = *state;
	struct slice_client a, b, m;
	uint64_t charged;

	join(e, &a, 2);
	join(e, &b, 3);
	register_memory(e, &m, 3);
	assert_int_equal(atomic_load(&m.page->turns), SLICE_TURNS_ON);
	report_until(&a, false, true, is_open);
	assert_int_equal(client_report_state(&b, 0, false, true), 0);
	/* The process waits behind another one that does not end. */
	write_mps(e, 3, 1, 100000, "batch");
	assert_true(opens(&b));
	assert_true(becomes(e, 3, "mps"));
	assert_int_equal(client_gate(&b, 0), TURN_OPEN);
	assert_int_equal(atomic_load(&m.page->turns), SLICE_TURNS_MPS);
	assert_int_equal(atomic_load(&b.turns->gpus[0].cap), 0);
	/* The connection is the same one. */
	charged = figure(e, 3, "charged_ns");
	assert_int_equal(client_report_state(&b, 0, true, false), 0);
	wait_ms(300);
	assert_true(figure(e, 3, "charged_ns") > charged);
	charged = figure(e, 3, "charged_ns");
	report_until(&a, true, true,
		is_open); /* on a busy machine the process has lost its quantum meanwhile */

	write_share(e, 3, 1, 0, "batch");
	assert_true(closes(&b));
	assert_true(becomes(e, 3, "turns"));
	assert_int_equal(atomic_load(&m.page->turns), SLICE_TURNS_ON);
	report_until(&b, true, true, is_open);
	assert_true(closes(&a));
	assert_true(figure(e, 3, "charged_ns") >= charged);
	assert_int_equal(log_lines(e, "share of a GPU changed", "mps"), 1);
	assert_int_equal(log_lines(e, "share of a GPU changed", "turns"), 1);
	client_close(&a);
	client_close(&b);
	client_close(&m);
}

/* --- processes outside of MPS --- */

static void mps__process_outside_is_detected_and_reported_once(void **state)
{
	struct env *e = *state;
	struct slice_client c, m;

	register_memory(e, &m, 0);
	assert_int_equal(mps_get_member_state(e, 0), -1);
	atomic_store(&m.page->gpus[0].mps, 77);
	assert_int_equal(client_compare(&m, 0), 0);
	assert_int_equal(mps_get_member_state(e, 0), -1);
	atomic_store(&m.page->gpus[0].mps, SLICE_MPS_INSIDE);
	assert_int_equal(client_compare(&m, 0), 0);
	assert_int_equal(mps_get_member_state(e, 0), 1);
	assert_int_equal(log_lines(e, OUTSIDE, ""), 0);
	atomic_store(&m.page->gpus[0].mps, SLICE_MPS_OUTSIDE);
	for (int i = 0; i < 3; i++)
		assert_int_equal(client_compare(&m, 0), 0);
	join(e, &c, 0);
	assert_int_equal(mps_get_member_state(e, 0), 0);
	assert_int_equal(log_lines(e, OUTSIDE, ""), 1);
	/* The process continues. */
	assert_int_equal(client_gate(&c, 0), TURN_OPEN);
	assert_true(client_allocate(&m, 0, 1048576));
	client_close(&c);
	client_close(&m);
}

/* The arbiter checks contexts that bypassed the hooks when the process registers for its gate. */
static void mps__process_outside_is_detected_when_it_requests_its_gate(void **state)
{
	struct env *e = *state;
	struct slice_client c, m;

	register_memory(e, &m, 0);
	atomic_store(&m.page->gpus[0].mps, SLICE_MPS_OUTSIDE);
	join(e, &c, 0);
	assert_int_equal(log_lines(e, OUTSIDE, ""), 1);
	client_close(&c);
	client_close(&m);
}

static void mps__process_from_before_mps_is_outside(void **state)
{
	struct env *e = *state;
	struct slice_client m;

	register_memory(e, &m, 2);
	atomic_store(&m.page->gpus[0].mps, SLICE_MPS_OUTSIDE);
	assert_int_equal(client_compare(&m, 0), 0);
	/* The process is where it should be: slice 2 is not under MPS. */
	assert_int_equal(log_lines(e, OUTSIDE, ""), 0);
	assert_int_equal(mps_get_member_state(e, 2), 0);
	write_mps(e, 2, 1, 0, "batch");
	assert_true(becomes(e, 2, "mps"));
	assert_int_equal(log_lines(e, OUTSIDE, ""), 1);
	/* The next arbiter reports it, too, in a log of its own. */
	end_arbiter(e, SIGKILL);
	start_arbiter(e);
	assert_int_equal(client_reconnect(&m, WAIT_MS), SLICE_OK);
	assert_int_equal(mps_get_member_state(e, 2), 0);
	assert_int_equal(log_lines(e, OUTSIDE, ""), 1);
	client_close(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(mps__gates_are_open_and_time_is_counted, setup,
			scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(mps__slices_with_quanta_on_the_gpu_continue,
			setup, scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(mps__is_switched_while_processes_run, setup,
			scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(
			mps__process_outside_is_detected_and_reported_once, setup,
			scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(
			mps__process_outside_is_detected_when_it_requests_its_gate, setup,
			scheduler_env_teardown),
		cmocka_unit_test_setup_teardown(mps__process_from_before_mps_is_outside, setup,
			scheduler_env_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
