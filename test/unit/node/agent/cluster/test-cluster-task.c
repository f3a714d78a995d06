/* SPDX-License-Identifier: Apache-2.0 */

/* When what is to be so in the cluster is tried again, and what is remembered of a failure. */
#include "unit/io/kube-api/api-env.h"

#include "node/agent/cluster/label-writer.h"
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

static struct labels *one_label(void)
{
	struct labels *l = calloc(1, sizeof(*l));

	assert_non_null(l);
	l->v = calloc(1, sizeof(*l->v));
	assert_non_null(l->v);
	l->v[0].key = strdup("nvidia.com/a");
	l->v[0].value = strdup("1");
	l->n = 1;
	return l;
}

static void label_writer__backs_off_from_refused_features(void **state)
{
	static const char *const refusals[] = { ANSWER("409 Conflict", "{}"),
		ANSWER("500 No", "{}"), ANSWER("422 Unprocessable", "{}") };
	struct env *e = *state;

	api_open(e, "secret", NULL);
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
		struct label_writer w;
		struct step read = { .expects = "GET ",
			.answer = ANSWER("200 OK", "{\"metadata\":{}}"),
			.hang_up = true };
		struct step put = { .expects = "PUT ", .answer = refusals[i], .hang_up = true };
		struct step steps[] = { read, put, read, put, read, put, read, put };

		label_writer_init(&w, &e->loop, LABELS_NFD);
		w.node_name = "n-1";
		w.namespace_ = "gpu";
		w.pod_name = "";
		make_quick(&w.task, e->api);
		stub_script(e, steps, ARRAY_LEN(steps));
		label_writer_set(&w, one_label(), "");
		run(e, &e->requests, 7);
		assert_int_equal(w.task.backoff.failures, 3);
		assert_int_not_equal(w.task.trouble.code, ERR_NONE);
		label_writer_close(&w);
		run_for_ms(e, 10);
		label_writer_fini(&w);
	}
}

static void label_writer__takes_no_object_for_another(void **state)
{
	static const char *const odd[] = { ANSWER("200 OK", "{}"), ANSWER("200 OK", "[]"),
		ANSWER("200 OK", "{\"metadata\":[]}") };
	struct env *e = *state;

	api_open(e, "secret", NULL);
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		struct label_writer w;

		label_writer_init(&w, &e->loop, LABELS_NFD);
		w.node_name = "n-1";
		w.namespace_ = "gpu";
		w.pod_name = "";
		make_quick(&w.task, e->api);
		SCRIPT(e, { .expects = "GET ", .answer = odd[i], .hang_up = true });
		label_writer_set(&w, one_label(), "");
		run(e, &e->requests, 1);
		run_for_ms(e, 20);
		assert_int_equal(w.task.trouble.code, ERR_INVALID);
		assert_string_equal(w.task.told, w.task.trouble.msg);
		label_writer_close(&w);
		run_for_ms(e, 10);
		label_writer_fini(&w);
	}
}

static void label_writer__leaves_files_of_others(void **state)
{
	struct env *e = *state;
	struct label_writer w;
	char *theirs = write_file(e, "theirs", "x=y\n"), *ours = write_file(e, "ours", "");

	assert_int_equal(unlink(ours), 0);
	label_writer_init(&w, &e->loop, LABELS_FILE);
	/* Named, and another one named before anything was written. */
	label_writer_set(&w, one_label(), theirs);
	label_writer_set(&w, one_label(), ours);
	assert_int_equal(access(theirs, F_OK), 0);
	run_for_ms(e, 20);
	assert_int_equal(access(ours, F_OK), 0);
	/* What we wrote goes when another one is named, and what is not written yet stays then. */
	label_writer_set(&w, one_label(), theirs);
	assert_int_equal(access(ours, F_OK), -1);
	label_writer_close(&w);
	assert_int_equal(access(theirs, F_OK), 0);
	run_for_ms(e, 1);
	label_writer_fini(&w);
	free(theirs);
	free(ours);
}

#define API_TEST(name) cmocka_unit_test_setup_teardown(name, api_env_setup, api_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		API_TEST(task__is_over_its_trouble_with_a_write_alone),
		API_TEST(task_send__tries_again_what_cannot_be_sent),
		API_TEST(label_writer__backs_off_from_refused_features),
		API_TEST(label_writer__takes_no_object_for_another),
		API_TEST(label_writer__leaves_files_of_others),
	};

	return cmocka_run_group_tests_name("cluster-task", tests, NULL, NULL);
}
