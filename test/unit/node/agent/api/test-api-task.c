/* SPDX-License-Identifier: Apache-2.0 */

/* When a task tries again to make the cluster as desired, and what the task remembers of a failure. */
#include "unit/node/agent/api/node-env.h"

#include <unistd.h>

struct tried {
	struct api_task task;
	struct env *env;
	const char *method;
	unsigned n_runs, answers;
};

static void on_test_task_due(struct api_task *t)
{
	struct tried *x = (struct tried *)t;

	x->n_runs++;
	task_send(t, &(struct api_request){ .method = x->method, .path = "/x" });
}

static void on_done(struct api_task *t, const struct api_reply *reply, const struct error *err)
{
	(void)reply;
	(void)err;
	((struct tried *)t)->answers++;
}

static void make_quick(struct api_task *t, struct api *api)
{
	t->api = api;
	t->backoff.min_ns = NS_PER_MS;
	t->backoff.max_ns = 4 * NS_PER_MS;
}

static void try_for(struct tried *x, const char *method)
{
	x->method = method;
	task_wait(&x->task, 0);
	run(x->env, &x->answers, x->answers + 1);
	(void)uv_timer_stop(&x->task.timer);
}

static void task__recovers_only_with_a_successful_write(void **state)
{
	struct env *e = *state;
	struct tried x = { .env = e };

	api_open(e, "secret", NULL);
	task_init(&x.task, &e->loop, "x not done", on_test_task_due, on_done);
	x.task.api = e->api; /* its back-off is too long to come in between */
	SCRIPT(e, { .answer = ANSWER("500 No", "{}"), .hang_up = true },
		{ .answer = ANSWER("200 OK", "{}"), .hang_up = true },
		{ .answer = ANSWER("500 No", "{}"), .hang_up = true },
		{ .answer = ANSWER("200 OK", "{}"), .hang_up = true });
	try_for(&x, "PUT");
	assert_int_equal(x.task.backoff.failures, 1);
	assert_int_equal(x.task.last_error.code, ERR_UNAVAILABLE);
	task_complain(&x.task);
	assert_string_equal(x.task.logged_error, x.task.last_error.msg);
	try_for(&x, "GET");
	assert_int_equal(x.task.backoff.failures, 1);
	assert_int_equal(x.task.last_error.code, ERR_UNAVAILABLE);
	try_for(&x, "PUT");
	assert_int_equal(x.task.backoff.failures, 2);
	try_for(&x, "PUT");
	assert_int_equal(x.task.backoff.failures, 0);
	assert_int_equal(x.task.last_error.code, ERR_NONE);
	assert_string_equal(x.task.logged_error, ""); /* the same trouble would be news again */
	task_end(e, &x.task);
}

static void task_send__retries_a_request_that_cannot_be_sent(void **state)
{
	struct env *e = *state;
	struct tried x = { .env = e, .method = "PUT" };
	char *token = write_file(e, "token", "");

	api_open(e, NULL, token);
	assert_int_equal(unlink(token), 0);
	task_init(&x.task, &e->loop, "x not done", on_test_task_due, on_done);
	make_quick(&x.task, e->api);
	SCRIPT(e, { .answer = ANSWER("200 OK", "{}"), .hang_up = true });
	task_poke(&x.task);
	run(e, &x.n_runs, 3);
	assert_int_equal(x.answers, 0);
	assert_true(x.task.backoff.failures >= 3);
	assert_non_null(strstr(x.task.last_error.msg, token));
	assert_string_equal(x.task.logged_error, x.task.last_error.msg);
	free(write_file(e, "token", "secret"));
	run(e, &x.answers, 1);
	assert_int_equal(x.task.last_error.code, ERR_NONE);
	task_end(e, &x.task);
	free(token);
}

/* --- when --- */

/* The server is asked once, and answers @status; afterwards the task waits. */
static uint64_t wait_after(struct tried *x, const char *method, const char *status)
{
	char *answer = http_answer(status, "", "{}");
	unsigned before = x->answers;
	struct step step = { .answer = answer };

	x->method = method;
	stub_script(x->env, &step, 1);
	task_wait(&x->task, 0);
	run(x->env, &x->answers, before + 1);
	free(answer);
	return task_due_ms(&x->task);
}

static void open_task(struct tried *x, struct env *e)
{
	*x = (struct tried){ .env = e, .method = "PUT" };
	api_open(e, "secret", NULL);
	task_init(&x->task, &e->loop, "x not done", on_test_task_due, on_done);
	x->task.api = e->api;
}

static void task__waits_as_long_as_the_answer_demands(void **state)
{
	static const struct {
		const char *status;
		enum error_code code;
		uint64_t min_ms, max_ms;
	} rows[] = {
		{ "500 No", ERR_UNAVAILABLE, 200, 500 },
		{ "409 Conflict", ERR_EXISTS, 200, 500 },
		{ "404 Not Found", ERR_NOT_FOUND, 200, 500 },
		/* Only an administrator can grant a missing permission. */
		{ "403 Forbidden", ERR_PERMISSION, 59000, 75000 },
		{ "429 Slow\r\nRetry-After: 7", ERR_UNAVAILABLE, 6900, 8750 },
		{ "503 No\r\nRetry-After: 90", ERR_UNAVAILABLE, 89900, 112500 },
	};
	struct tried x;

	open_task(&x, *state);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t ms;

		backoff_reset(&x.task.backoff);
		ms = wait_after(&x, "PUT", rows[i].status);
		assert_int_equal(x.task.last_error.code, rows[i].code);
		if (ms < rows[i].min_ms || ms > rows[i].max_ms)
			fail_msg("after %s it waits %llu ms", rows[i].status,
				(unsigned long long)ms);
	}
	task_end(x.env, &x.task);
}

static void task__waits_longer_after_each_failure_up_to_half_a_minute(void **state)
{
	uint64_t max = 500;
	struct tried x;

	open_task(&x, *state);
	for (unsigned i = 0; i < 9; i++) {
		uint64_t ms = wait_after(&x, "PUT", "500 No");

		assert_in_range(ms, max / 2 - 100, max);
		assert_int_equal(task_fails_often(&x.task), i >= 3);
		max = max * 2 > 30000 ? 30000 : max * 2;
	}
	task_end(x.env, &x.task);
}

static void task_wait__replaces_an_earlier_wait(void **state)
{
	struct tried x;

	open_task(&x, *state);
	SCRIPT(x.env, STEP(NULL, "200 OK", "{}"));
	task_wait(&x.task, 3600 * NS_PER_SEC);
	assert_true(task_due_ms(&x.task) > 3500000);
	task_poke(&x.task); /* does not end a wait */
	assert_true(task_due_ms(&x.task) > 3500000);
	task_wait(&x.task, 1); /* never early: rounded up */
	assert_int_equal(task_due_ms(&x.task), 1);
	run(x.env, &x.answers, 1);
	task_end(x.env, &x.task);
}

/* --- a request that is under way --- */

static void task_poke__during_a_request_runs_the_task_once_after_it(void **state)
{
	struct tried x;

	open_task(&x, *state);
	SCRIPT(x.env, { .silent = true }, STEP("PUT", "200 OK", "{}"));
	task_poke(&x.task);
	run(x.env, &x.env->requests, 1);
	for (unsigned i = 0; i < 3; i++)
		task_poke(&x.task);
	assert_int_equal(x.n_runs, 1); /* one request at a time */
	stub_send(x.env, ANSWER("200 OK", "{}"));
	stub_hang_up(x.env);
	run(x.env, &x.answers, 2);
	assert_int_equal(x.n_runs, 2);
	assert_false(uv_is_active((uv_handle_t *)&x.task.timer));
	task_end(x.env, &x.task);
}

static void task_poke__does_not_shorten_the_wait_after_a_failure(void **state)
{
	struct tried x;

	open_task(&x, *state);
	SCRIPT(x.env, { .silent = true });
	task_poke(&x.task);
	run(x.env, &x.env->requests, 1);
	task_poke(&x.task);
	stub_send(x.env, ANSWER("403 Forbidden", "{}"));
	stub_hang_up(x.env);
	run(x.env, &x.answers, 1);
	assert_true(task_due_ms(&x.task) > 50000);
	task_poke(&x.task);
	assert_true(task_due_ms(&x.task) > 50000);
	task_end(x.env, &x.task);
}

static void send_the_next(struct api_task *t, const struct api_reply *reply,
	const struct error *err)
{
	on_done(t, reply, err);
	if (((struct tried *)t)->answers == 1)
		task_send(t, &(struct api_request){ .method = "PUT", .path = "/y" });
}

static void task_send__from_an_answer_does_not_run_the_task_again(void **state)
{
	struct tried x;

	open_task(&x, *state);
	x.task.done = send_the_next;
	x.method = "GET";
	SCRIPT(x.env, STEP("GET /x", "404 Not Found", "{}"), STEP("PUT /y", "200 OK", "{}"));
	task_poke(&x.task);
	run(x.env, &x.answers, 2);
	assert_int_equal(x.n_runs, 1);
	/* The 404 was an answer, and the wait for it is over with the next request. */
	assert_int_equal(x.task.last_error.code, ERR_NONE);
	assert_int_equal(x.task.backoff.failures, 0);
	assert_false(uv_is_active((uv_handle_t *)&x.task.timer));
	task_end(x.env, &x.task);
}

static void task_close__ends_a_request_without_an_answer(void **state)
{
	struct tried x;

	open_task(&x, *state);
	SCRIPT(x.env, { .silent = true });
	task_poke(&x.task);
	run(x.env, &x.env->requests, 1);
	task_close(&x.task);
	task_poke(&x.task);
	assert_null(x.task.call);
	run_for_ms(x.env, 1);
	assert_int_equal(x.answers, 0);
	assert_int_equal(x.n_runs, 1);
}

/* --- without a server --- */

static void count_task_run(struct api_task *t)
{
	((struct tried *)t)->n_runs++;
}

static void task_poke__waits_for_an_api_server_unless_the_task_is_local(void **state)
{
	struct env *e = *state;
	struct tried x = { .env = e };

	task_init(&x.task, &e->loop, "x not done", count_task_run, on_done);
	task_poke(&x.task);
	assert_false(uv_is_active((uv_handle_t *)&x.task.timer));
	task_wait(&x.task, 0); /* planned before, and the server became unavailable since */
	run_for_ms(e, 1);
	assert_int_equal(x.n_runs, 0);
	x.task.local = true;
	task_poke(&x.task);
	task_poke(&x.task);
	assert_int_equal(x.n_runs, 0); /* never from inside of the caller of task_poke() */
	run(e, &x.n_runs, 1);
	assert_false(uv_is_active((uv_handle_t *)&x.task.timer));
	task_end(e, &x.task);
}

/* --- what is reported --- */

static void task_is_fault__is_true_for_errors_that_do_not_pass_by_themselves(void **state)
{
	static const struct {
		enum error_code code;
		bool fault;
	} rows[] = {
		{ ERR_NONE, false },
		{ ERR_UNAVAILABLE, false },
		{ ERR_TIMEOUT, false },
		{ ERR_EXISTS, false },
		{ ERR_PERMISSION, true },
		{ ERR_NOT_FOUND, true },
		{ ERR_INVALID, true },
		{ ERR_IO, true },
		{ ERR_NOMEM, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct api_task t = { .last_error = { .code = rows[i].code } };

		assert_int_equal(task_is_fault(&t), rows[i].fault);
	}
}

static void task_complain__remembers_what_it_logged_until_it_works(void **state)
{
	struct tried x;

	open_task(&x, *state);
	(void)wait_after(&x, "PUT", "500 No");
	assert_string_equal(x.task.logged_error, ""); /* the owner decides whether to log it */
	task_complain(&x.task);
	(void)wait_after(&x, "PUT", "403 Forbidden");
	assert_non_null(strstr(x.task.logged_error, "500"));
	task_complain(&x.task);
	assert_non_null(strstr(x.task.logged_error, "403"));
	task_reached(&x.task);
	assert_string_equal(x.task.logged_error, "");
	assert_int_equal(x.task.last_error.code, ERR_NONE);
	task_end(x.env, &x.task);
}

#define API_TEST(name) cmocka_unit_test_setup_teardown(name, api_env_setup, api_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		API_TEST(task__recovers_only_with_a_successful_write),
		API_TEST(task_send__retries_a_request_that_cannot_be_sent),
		API_TEST(task__waits_as_long_as_the_answer_demands),
		API_TEST(task__waits_longer_after_each_failure_up_to_half_a_minute),
		API_TEST(task_wait__replaces_an_earlier_wait),
		API_TEST(task_poke__during_a_request_runs_the_task_once_after_it),
		API_TEST(task_poke__does_not_shorten_the_wait_after_a_failure),
		API_TEST(task_send__from_an_answer_does_not_run_the_task_again),
		API_TEST(task_close__ends_a_request_without_an_answer),
		API_TEST(task_poke__waits_for_an_api_server_unless_the_task_is_local),
		API_TEST(task_is_fault__is_true_for_errors_that_do_not_pass_by_themselves),
		API_TEST(task_complain__remembers_what_it_logged_until_it_works),
	};

	return cmocka_run_group_tests_name("api-task", tests, NULL, NULL);
}
