/* SPDX-License-Identifier: Apache-2.0 */

/* When what is to be so in the cluster is tried again, and what is remembered of a failure. */
#include "unit/io/kube-api/api-env.h"

#include "node/agent/api/task.h"

#include <unistd.h>

#define ANSWER(status, body) "HTTP/1.1 " status "\r\nConnection: close\r\n\r\n" body

struct tried {
	struct task task;
	struct env *env;
	const char *method;
	unsigned looks, answers;
};

static void on_look(struct task *t)
{
	struct tried *x = (struct tried *)t;

	x->looks++;
	task_send(t, &(struct api_request){ .method = x->method, .path = "/x" });
}

static void on_done(struct task *t, const struct api_reply *reply, const struct error *err)
{
	(void)reply;
	(void)err;
	((struct tried *)t)->answers++;
}

static void make_quick(struct task *t, struct api *api)
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

static void task__is_over_its_trouble_with_a_write_alone(void **state)
{
	struct env *e = *state;
	struct tried x = { .env = e };

	api_open(e, "secret", NULL);
	task_init(&x.task, &e->loop, "x not done", on_look, on_done);
	x.task.api = e->api; /* its back-off is too long to come in between */
	SCRIPT(e, { .answer = ANSWER("500 No", "{}"), .hang_up = true },
		{ .answer = ANSWER("200 OK", "{}"), .hang_up = true },
		{ .answer = ANSWER("500 No", "{}"), .hang_up = true },
		{ .answer = ANSWER("200 OK", "{}"), .hang_up = true });
	try_for(&x, "PUT");
	assert_int_equal(x.task.backoff.failures, 1);
	assert_int_equal(x.task.trouble.code, ERR_UNAVAILABLE);
	task_complain(&x.task);
	assert_string_equal(x.task.told, x.task.trouble.msg);
	try_for(&x, "GET");
	assert_int_equal(x.task.backoff.failures, 1);
	assert_int_equal(x.task.trouble.code, ERR_UNAVAILABLE);
	try_for(&x, "PUT");
	assert_int_equal(x.task.backoff.failures, 2);
	try_for(&x, "PUT");
	assert_int_equal(x.task.backoff.failures, 0);
	assert_int_equal(x.task.trouble.code, ERR_NONE);
	assert_string_equal(x.task.told, ""); /* the same trouble would be news again */
	task_close(&x.task);
	run_for_ms(e, 1); /* the loop lets go of it */
}

static void task_send__tries_again_what_cannot_be_sent(void **state)
{
	struct env *e = *state;
	struct tried x = { .env = e, .method = "PUT" };
	char *token = write_file(e, "token", "");

	api_open(e, NULL, token);
	assert_int_equal(unlink(token), 0);
	task_init(&x.task, &e->loop, "x not done", on_look, on_done);
	make_quick(&x.task, e->api);
	SCRIPT(e, { .answer = ANSWER("200 OK", "{}"), .hang_up = true });
	task_poke(&x.task);
	run(e, &x.looks, 3);
	assert_int_equal(x.answers, 0);
	assert_true(x.task.backoff.failures >= 3);
	assert_non_null(strstr(x.task.trouble.msg, token));
	assert_string_equal(x.task.told, x.task.trouble.msg);
	free(write_file(e, "token", "secret"));
	run(e, &x.answers, 1);
	assert_int_equal(x.task.trouble.code, ERR_NONE);
	task_close(&x.task);
	run_for_ms(e, 1); /* the loop lets go of it */
	free(token);
}

#define API_TEST(name) cmocka_unit_test_setup_teardown(name, api_env_setup, api_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		API_TEST(task__is_over_its_trouble_with_a_write_alone),
		API_TEST(task_send__tries_again_what_cannot_be_sent),
	};

	return cmocka_run_group_tests_name("api-task", tests, NULL, NULL);
}
