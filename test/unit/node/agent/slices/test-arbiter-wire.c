/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The agent's end of the arbiter: what it sends and does not send, programs that end or do not start, and which
 * caller gets which answer. The clock stands still. No test may hang for as long as the agent waits before it
 * kills: the arbiter is this process.
 */
#include "unit/node/agent/slices/slices-env.h"

#include "abi/arbiter-control.h"
#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS NS_PER_MS

struct env {
	struct agent_fixture *f;
	struct fake_arbiter a;
	struct arbiter_link *l;
	char program[PATH_MAX], runs[PATH_MAX]; /* a line with its PID for each run */
	json_int_t seq;                         /* of the last question for a reading */
	uint32_t n_uuids;
	unsigned hung;
};

static void on_read(void *arg, json_int_t seq, const char *const *uuids, uint32_t n)
{
	struct env *e = arg;

	(void)uuids;
	e->seq = seq;
	e->n_uuids = n;
}

static void on_hung(void *arg, const char *why)
{
	(void)why;
	((struct env *)arg)->hung++;
}

/* The program does @what after it has noted its run. */
static void write_program(struct env *e, const char *what)
{
	char text[2 * PATH_MAX];

	(void)snprintf(text, sizeof(text), "#!/bin/sh\necho $$ >> '%s'\n%s\n", e->runs, what);
	test_write(e->f->dir, "program", text, strlen(text), 0755);
}

static int setup(void **state)
{
	static const struct arbiter_ops ops = { .read = on_read, .hung = on_hung };
	struct env *e = calloc(1, sizeof(*e));
	struct arbiter_link_options o;
	struct error err = ERROR_INIT;

	assert_non_null(e);
	env_now_ns = 1000 * NS_PER_SEC;
	(void)agent_fixture_setup((void **)&e->f);
	assert_ok(path_join(e->program, PATH_MAX, e->f->dir, "program", &err), &err);
	assert_ok(path_join(e->runs, PATH_MAX, e->f->dir, "runs", &err), &err);
	write_program(e, "exit 3");
	o = (struct arbiter_link_options){ .run_dir = e->f->dir,
		.state_dir = e->f->dir,
		.program = e->program };
	assert_ok(arbiter_link_new(&e->l, &e->f->loop, &o, &ops, e, &err), &err);
	*state = e;
	return 0;
}

/* Lines in .runs; *ret_pid: of the last one. */
static unsigned read_arbiter_runs(const struct env *e, pid_t *ret_pid)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(65536);
	CLEANUP(strv_fini) struct strv lines = STRV_INIT;
	struct error err = ERROR_INIT;
	uint32_t pid;

	if (file_read(e->runs, &b, NULL) < 0 || b.len == 0)
		return 0;
	assert_ok(strv_split(&lines, buf_str(&b), '\n', &err), &err);
	/* The last one is what follows the last end of a line. */
	for (size_t i = 0; i + 1 < lines.n; i++)
		if (parse_u32(lines.v[i], &pid))
			*ret_pid = (pid_t)pid;
	return (unsigned)lines.n - 1;
}

static int teardown(void **state)
{
	struct env *e = *state;
	pid_t pid = 0;

	/* A test that failed may have left one. */
	if (read_arbiter_runs(e, &pid) && waitpid(pid, NULL, WNOHANG) == 0)
		(void)kill(pid, SIGKILL);
	e->l = arbiter_link_stop(e->l);
	fake_arbiter_stop(&e->a);
	(void)agent_fixture_teardown((void **)&e->f);
	free(e);
	return 0;
}

static void connect_arbiter(struct env *e)
{
	fake_arbiter_listen(&e->a, &e->f->loop, e->f->dir);
	(void)fake_arbiter_ends();
	arbiter_link_set_wanted(e->l, true);
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->a, "readings") == 1);
}

static void make_due(uv_handle_t *h, void *arg)
{
	uv_timer_t *t = (uv_timer_t *)h;

	(void)arg;
	if (h->type == UV_TIMER && uv_is_active(h) && !uv_is_closing(h))
		(void)uv_timer_start(t, t->timer_cb, 0, t->repeat);
}

/* Runs all timers that are due, with the clock as it is. */
static void run_due_timers(struct env *e)
{
	uv_walk(&e->f->loop, make_due, NULL);
	(void)uv_run(&e->f->loop, UV_RUN_NOWAIT);
}

static enum arbiter_state state_of(const struct env *e, const char **ret_why)
{
	int pid;

	return arbiter_link_state(e->l, &pid, ret_why);
}

/* Returns when the arbiter has run @n times and the last run is over. */
static void wait_for_run(struct env *e, unsigned n)
{
	const char *why;
	pid_t pid = 0;

	agent_fixture_until(e->f, read_arbiter_runs(e, &pid) == n && kill(pid, 0) < 0);
	assert_int_equal(state_of(e, &why), ARBITER_DOWN);
}

/* --- requests of a status --- */

struct asked {
	unsigned calls;
	enum error_code code;
	char why[ERROR_MSG_MAX];
	json_int_t number; /* of the answer */
};

static void on_status(void *arg, const json_t *status, const struct error *err)
{
	struct asked *a = arg;

	a->calls++;
	a->code = err ? err->code : ERR_NONE;
	(void)snprintf(a->why, sizeof(a->why), "%s", err ? err->msg : "");
	a->number = json_integer_value(json_object_get(status, "number"));
}

#define STATUS(n) "{\"op\":\"status\",\"number\":" n "}\n"

static void status__answers_arrive_in_the_order_of_requests(void **state)
{
	struct env *e = *state;
	struct asked v[3] = { { .calls = 0 } };

	connect_arbiter(e);
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		arbiter_link_status(e->l, on_status, &v[i]);
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->a, "status") == 3);
	/* The answers come in pieces that are no lines, with lines in between that are no answer. */
	fake_arbiter_send(&e->a, STATUS("1") "{\"op\":\"news\"}\n{\"op\":\"sta");
	agent_fixture_until(e->f, v[0].calls == 1);
	assert_int_equal(v[1].calls, 0);
	fake_arbiter_send(&e->a,
		"tus\",\"number\":2}\n{\"op\":\"error\",\"reason\":\"r\"}\n" STATUS("3"));
	agent_fixture_until(e->f, v[2].calls == 1);
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		assert_int_equal(v[i].calls, 1);
		assert_int_equal(v[i].number, (json_int_t)i + 1);
	}
}

/* A late answer belongs to the abandoned request, not to the next one. */
static void status__late_answer_is_not_used_for_the_next_request(void **state)
{
	struct env *e = *state;
	struct asked late = { .calls = 0 }, next = { .calls = 0 };

	connect_arbiter(e);
	arbiter_link_status(e->l, on_status, &late);
	env_now_ns += ARBITER_STATUS_TIMEOUT_MS * MS - 1;
	run_due_timers(e);
	assert_int_equal(late.calls, 0);
	env_now_ns++;
	/* No run_due_timers(): the watch would ask as well. */
	agent_fixture_until(e->f, late.calls == 1);
	assert_int_equal(late.code, ERR_TIMEOUT);
	arbiter_link_status(e->l, on_status, &next);
	fake_arbiter_send(&e->a, STATUS("1") STATUS("2"));
	agent_fixture_until(e->f, next.calls == 1);
	assert_int_equal(next.number, 2);
	assert_int_equal(late.calls, 1);
}

static void status__is_answered_at_once_without_an_arbiter(void **state)
{
	struct env *e = *state;
	struct asked a = { .calls = 0 };

	arbiter_link_set_wanted(e->l, true);
	arbiter_link_status(e->l, on_status, &a);
	assert_int_equal(a.calls, 1);
	assert_int_equal(a.code, ERR_UNAVAILABLE);
	assert_string_equal(a.why, "the arbiter is starting");
	wait_for_run(e, 1);
}

/* An answer without a request. */
static void status__answer_without_a_request_is_ignored(void **state)
{
	struct env *e = *state;
	struct asked a = { .calls = 0 };

	connect_arbiter(e);
	fake_arbiter_send(&e->a, STATUS("1"));
	agent_fixture_run_once(e->f);
	arbiter_link_status(e->l, on_status, &a);
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->a, "status") == 1);
	fake_arbiter_send(&e->a, STATUS("2"));
	agent_fixture_until(e->f, a.calls == 1);
	assert_int_equal(a.number, 2);
}

/* --- a connection that ends --- */

static void send_malformed_lines(struct env *e)
{
	fake_arbiter_send(&e->a, "{\"seq\":1}\n" STATUS("1"));
}

static void send_lines_without_json(struct env *e)
{
	fake_arbiter_send(&e->a, "status\n");
}

static void send_too_long_line(struct env *e)
{
	char *text = malloc(CONTROL_ANSWER_MAX + 65);

	assert_non_null(text);
	memset(text, 'x', CONTROL_ANSWER_MAX + 64);
	text[CONTROL_ANSWER_MAX + 64] = '\0';
	fake_arbiter_send(&e->a, text);
	free(text);
}

static void hang_up(struct env *e)
{
	fake_arbiter_hang_up(&e->a);
}

static void want_none(struct env *e)
{
	arbiter_link_set_wanted(e->l, false);
}

static const struct end {
	void (*end)(struct env *e);
	const char *why;
	bool again; /* another connection follows */
} connection_ends[] = {
	{ send_malformed_lines, "said something that is not understood", true },
	{ send_lines_without_json, "said something that is not understood", true },
	{ send_too_long_line, "answer is too long", true },
	{ hang_up, "closed its control connection", true },
	{ want_none, "there are no slices", false },
};

static void connection__answers_all_when_it_ends(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(connection_ends); i++) {
		const struct end *row = &connection_ends[i];
		struct asked v[2] = { { .calls = 0 } };
		struct env *e;

		(void)setup(state);
		e = *state;
		connect_arbiter(e);
		arbiter_link_status(e->l, on_status, &v[0]);
		arbiter_link_status(e->l, on_status, &v[1]);
		row->end(e);
		agent_fixture_until(e->f, v[1].calls == 1);
		for (size_t k = 0; k < ARRAY_LEN(v); k++) {
			assert_int_equal(v[k].calls, 1);
			assert_int_equal(v[k].code, ERR_UNAVAILABLE);
			if (!strstr(v[k].why, row->why))
				fail_msg("row %zu: %s", i, v[k].why);
		}
		assert_int_equal(fake_arbiter_ends(), !row->again);
		(void)teardown(state);
	}
}

/* The connection is opened again also where there is no request. */
static void connection__is_opened_again_when_it_ends(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(connection_ends); i++) {
		const struct end *row = &connection_ends[i];
		struct env *e;

		if (!row->again)
			continue;
		(void)setup(state);
		e = *state;
		connect_arbiter(e);
		row->end(e);
		agent_fixture_until(e->f, fake_arbiter_count_received(&e->a, "readings") == 2);
		(void)teardown(state);
	}
}

static void connection__is_down_after_10_s_without_an_arbiter(void **state)
{
	struct env *e = *state;
	const char *why;

	env_now_ns += 2 * ARBITER_DOWN_NS;
	assert_false(arbiter_link_is_down(e->l, &why)); /* not wanted */
	connect_arbiter(e);
	env_now_ns += 2 * ARBITER_DOWN_NS;
	assert_false(arbiter_link_is_down(e->l, &why)); /* there all the time */
	fake_arbiter_stop(&e->a);
	agent_fixture_until(e->f, state_of(e, &why) == ARBITER_DOWN);
	env_now_ns += ARBITER_DOWN_NS - 1;
	assert_false(arbiter_link_is_down(e->l, &why));
	env_now_ns++;
	assert_true(arbiter_link_is_down(e->l, &why));
	assert_string_not_equal(why, "");
}

/* --- whether it lives --- */

static void watch__sends_a_request_only_without_other_requests(void **state)
{
	struct env *e = *state;

	connect_arbiter(e);
	run_due_timers(e);
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->a, "\"slice\":\"\"") == 1);
	run_due_timers(e); /* the answer is still due */
	agent_fixture_run_once(e->f);
	assert_int_equal(fake_arbiter_count_received(&e->a, "\"slice\":\"\""), 1);
}

/* Any line counts as a sign of life: 4 intervals without a line are not yet 5. */
static void watch__counts_from_the_last_line(void **state)
{
	struct env *e = *state;

	connect_arbiter(e);
	for (unsigned round = 1; round <= 3; round++) {
		for (unsigned i = 0; i < 4; i++)
			run_due_timers(e);
		fake_arbiter_send(&e->a, "{\"op\":\"read\",\"seq\":1,\"gpus\":[]}\n");
		agent_fixture_until(e->f, e->seq == 1);
		e->seq = 0;
	}
	assert_int_equal(e->hung, 0);
}

/* --- readings --- */

static void reading__requests_no_more_gpus_than_the_limit(void **state)
{
	struct env *e = *state;
	json_t *gpus = json_array(), *line;
	char *text, *whole;

	for (unsigned i = 0; i < CONTROL_GPUS_MAX + 40; i++)
		(void)json_array_append_new(gpus, json_string("GPU-0"));
	line = json_pack("{s:s, s:I, s:o}", "op", "read", "seq", (json_int_t)1 << 53, "gpus",
		gpus);
	text = json_dumps(line, JSON_COMPACT);
	json_decref(line);
	assert_true(asprintf(&whole, "%s\n", text) > 0);
	connect_arbiter(e);
	fake_arbiter_send(&e->a, whole);
	agent_fixture_until(e->f, e->seq == (json_int_t)1 << 53);
	assert_int_equal(e->n_uuids, CONTROL_GPUS_MAX);
	free(text);
	free(whole);
}

/* A line that the arbiter would refuse, and end the connection for. */
static void reading__that_is_too_long_is_not_sent(void **state)
{
	struct env *e = *state;
	char *text = malloc(CONTROL_LINE_MAX);

	assert_non_null(text);
	memset(text, 'x', CONTROL_LINE_MAX - 1);
	text[CONTROL_LINE_MAX - 1] = '\0';
	arbiter_link_reading(e->l, json_pack("{s:s}", "op", "reading")); /* unsent */
	connect_arbiter(e);
	arbiter_link_reading(e->l, json_pack("{s:s}", "op", text));
	arbiter_link_reading(e->l, json_pack("{s:s}", "op", "reading"));
	agent_fixture_until(e->f, fake_arbiter_count_received(&e->a, "\"reading\"") == 1);
	assert_int_equal(e->a.received.n, 2); /* with "readings" */
	free(text);
}

/* --- programs --- */

static void program__that_ends_is_restarted_with_back_off(void **state)
{
	static const uint64_t waits_ms[] = { 200, 400, 800, 1600, 3200, 6400, 12800, 25600,
		30000, 30000 };
	struct env *e = *state;
	const char *why;
	pid_t pid = 0;

	arbiter_link_set_wanted(e->l, true);
	for (unsigned i = 0; i < ARRAY_LEN(waits_ms); i++) {
		wait_for_run(e, i + 1);
		(void)state_of(e, &why);
		assert_string_equal(why, "the arbiter exited with status 3");
		env_now_ns += waits_ms[i] * MS - 1;
		run_due_timers(e);
		assert_int_equal(read_arbiter_runs(e, &pid), i + 1);
		run_due_timers(e);
		env_now_ns++;
		run_due_timers(e);
	}
	wait_for_run(e, ARRAY_LEN(waits_ms) + 1);
}

static void program__that_ran_for_long_restarts_with_the_first_delay(void **state)
{
	struct env *e = *state;
	pid_t pid = 0;

	arbiter_link_set_wanted(e->l, true);
	for (unsigned i = 1; i <= 4; i++) { /* 200, 400, 800 ms */
		wait_for_run(e, i);
		env_now_ns += 30 * NS_PER_SEC;
		if (i == 4)
			write_program(e, "exec sleep 1000");
		run_due_timers(e);
	}
	agent_fixture_until(e->f, read_arbiter_runs(e, &pid) == 5);
	env_now_ns += 10 * NS_PER_SEC;
	write_program(e, "exit 3");
	assert_int_equal(kill(pid, SIGKILL), 0);
	wait_for_run(e, 5);
	env_now_ns += 200 * MS;
	run_due_timers(e);
	wait_for_run(e, 6);
}

static void program__that_cannot_be_started_is_tried_every_10_s(void **state)
{
	struct env *e = *state;
	const char *why;
	pid_t pid = 0;

	assert_int_equal(unlink(e->program), 0);
	arbiter_link_set_wanted(e->l, true);
	assert_int_equal(state_of(e, &why), ARBITER_DOWN);
	assert_non_null(strstr(why, "start '"));
	write_program(e, "exit 3");
	env_now_ns += 10 * NS_PER_SEC - 1;
	run_due_timers(e);
	assert_int_equal(read_arbiter_runs(e, &pid), 0);
	env_now_ns++;
	run_due_timers(e);
	wait_for_run(e, 1);
}

static void program__has_its_signal_logged(void **state)
{
	struct env *e = *state;
	const char *why;

	write_program(e, "kill -SEGV $$");
	arbiter_link_set_wanted(e->l, true);
	wait_for_run(e, 1);
	(void)state_of(e, &why);
	assert_string_equal(why, "the arbiter ended by signal 11 (Segmentation fault)");
}

/* The program runs and does not listen: for 2 s it counts as starting, after that the agent reports why it
 * does not answer. */
static void program__that_does_not_listen_is_logged_after_2_s(void **state)
{
	struct env *e = *state;
	const char *why;
	pid_t pid = 0;

	write_program(e, "exec sleep 1000");
	arbiter_link_set_wanted(e->l, true);
	agent_fixture_until(e->f, read_arbiter_runs(e, &pid) == 1);
	env_now_ns += 2 * NS_PER_SEC - 1;
	run_due_timers(e);
	assert_int_equal(state_of(e, &why), ARBITER_DOWN);
	assert_string_equal(why, "the arbiter is starting");
	env_now_ns++;
	run_due_timers(e);
	(void)state_of(e, &why);
	assert_non_null(strstr(why, "connect '"));
	assert_int_equal(read_arbiter_runs(e, &pid), 1);

	/* The arbiter is not wanted any more: the agent asks it to end, although no connection was possible. */
	arbiter_link_set_wanted(e->l, false);
	agent_fixture_until(e->f, kill(pid, 0) < 0);
	assert_int_equal(state_of(e, &why), ARBITER_OFF);
	assert_int_equal(read_arbiter_runs(e, &pid), 1);
}

static void stop__leaves_the_program_running(void **state)
{
	struct env *e = *state;
	pid_t pid = 0;

	write_program(e, "exec sleep 1000");
	arbiter_link_set_wanted(e->l, true);
	agent_fixture_until(e->f, read_arbiter_runs(e, &pid) == 1);
	e->l = arbiter_link_stop(e->l);
	agent_fixture_run_once(e->f);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void new__refuses_a_path_that_is_too_long_for_a_socket(void **state)
{
	struct env *e = *state;
	static const struct arbiter_ops ops = { .read = on_read };
	struct arbiter_link *l = NULL;
	struct error err = ERROR_INIT;
	char dir[200];
	const struct arbiter_link_options o = { .run_dir = dir, .state_dir = "/s" };

	memset(dir, 'd', sizeof(dir) - 1);
	dir[0] = '/';
	dir[sizeof(dir) - 1] = '\0';
	assert_error(arbiter_link_new(&l, &e->f->loop, &o, &ops, e, &err), &err,
		"a unix socket's path has at most");
	assert_null(l);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(status__answers_arrive_in_the_order_of_requests),
		TEST(status__late_answer_is_not_used_for_the_next_request),
		TEST(status__is_answered_at_once_without_an_arbiter),
		TEST(status__answer_without_a_request_is_ignored),
		cmocka_unit_test(connection__answers_all_when_it_ends),
		cmocka_unit_test(connection__is_opened_again_when_it_ends),
		TEST(connection__is_down_after_10_s_without_an_arbiter),
		TEST(watch__sends_a_request_only_without_other_requests),
		TEST(watch__counts_from_the_last_line),
		TEST(reading__requests_no_more_gpus_than_the_limit),
		TEST(reading__that_is_too_long_is_not_sent),
		TEST(program__that_ends_is_restarted_with_back_off),
		TEST(program__that_ran_for_long_restarts_with_the_first_delay),
		TEST(program__that_cannot_be_started_is_tried_every_10_s),
		TEST(program__has_its_signal_logged),
		TEST(program__that_does_not_listen_is_logged_after_2_s),
		TEST(stop__leaves_the_program_running),
		TEST(new__refuses_a_path_that_is_too_long_for_a_socket),
	};

	return cmocka_run_group_tests_name("arbiter-wire", tests, NULL, NULL);
}
