/* SPDX-License-Identifier: Apache-2.0 */

/* The three places of the labels: what a writer does after a refusal, and whose files it leaves alone. */
#include "unit/node/agent/api/node-env.h"

#include "node/agent/cluster/label-writer.h"

#include <unistd.h>

static void make_quick(struct task *t, struct api *api)
{
	t->api = api;
	t->backoff.min_ns = NS_PER_MS;
	t->backoff.max_ns = 4 * NS_PER_MS;
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
		label_writer_set(&w, labels_of("nvidia.com/a=1"), "");
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
		label_writer_set(&w, labels_of("nvidia.com/a=1"), "");
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
	label_writer_set(&w, labels_of("nvidia.com/a=1"), theirs);
	label_writer_set(&w, labels_of("nvidia.com/a=1"), ours);
	assert_int_equal(access(theirs, F_OK), 0);
	run_for_ms(e, 20);
	assert_int_equal(access(ours, F_OK), 0);
	/* What we wrote goes when another one is named, and what is not written yet stays then. */
	label_writer_set(&w, labels_of("nvidia.com/a=1"), theirs);
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
		API_TEST(label_writer__backs_off_from_refused_features),
		API_TEST(label_writer__takes_no_object_for_another),
		API_TEST(label_writer__leaves_files_of_others),
	};

	return cmocka_run_group_tests_name("label-writer", tests, NULL, NULL);
}
