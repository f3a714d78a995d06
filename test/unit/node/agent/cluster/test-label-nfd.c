/* SPDX-License-Identifier: Apache-2.0 */

/* The NodeFeature object: what the agent reads, compares and writes, the object's owner, and what a refusal
 * means. */
#include "unit/node/agent/api/node-env.h"

#include "node/agent/cluster/label-writer.h"

#define OBJECTS    "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/gpu/nodefeatures"
#define OBJECT     OBJECTS "/nvidia-features-for-" NODE_NAME
#define POD        "/api/v1/namespaces/gpu/pods/gpusliced-x"
#define NODE_LABEL "nfd.node.kubernetes.io/node-name"

#define SPEC(labels)                     \
	"'spec':{'labels':{" labels "}," \
	"'features':{'flags':{},'attributes':{},'instances':{}}}"
#define METADATA(more) "'metadata':{'labels':{'" NODE_LABEL "':'" NODE_NAME "'}" more "}"
#define A1             "'nvidia.com/a':'1'"

static void open_writer(struct label_writer *w, struct env *e)
{
	label_writer_init(w, &e->loop, LABELS_NFD);
	w->node_name = NODE_NAME;
	w->namespace_ = "gpu";
	w->pod_name = "";
	w->task.api = e->api;
}

static void end_writer(struct label_writer *w, struct env *e)
{
	label_writer_close(w);
	run_for_ms(e, 1);
	label_writer_fini(w);
}

/* Answers GET with @object, JSON with ' for ", and PUT and POST well, and says what a writer of nvidia.com/a=1 sends. */
struct answered {
	char *text, *answer;
	struct step steps[2];
};

static void answer_with(struct answered *a, struct env *e, const char *object)
{
	json_t *o = json_of(object);

	a->text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	a->answer = http_answer("200 OK", "Connection: close\r\n", a->text);
	a->steps[0] = (struct step){ .expects = "GET " OBJECT " ",
		.answer = a->answer,
		.hang_up = true };
	a->steps[1] = (struct step)STEP(OBJECTS, "200 OK", "{}");
	stub_script(e, a->steps, ARRAY_LEN(a->steps));
}

static void answered_fini(struct answered *a)
{
	free(a->text);
	free(a->answer);
}

static void set(struct label_writer *w, struct env *e, const char *labels)
{
	label_writer_set(w, labels_of(labels), "");
	task_settle(e, &w->task);
}

/* --- reading and comparing --- */

static void label_writer_nfd__creates_a_missing_object(void **state)
{
	struct env *e = ((struct node_env *)*state)->e;
	struct label_writer w;

	open_writer(&w, e);
	SCRIPT(e, STEP("GET " OBJECT " ", "404 Not Found", "{}"),
		STEP("POST " OBJECTS " ", "201 Created", "{}"));
	set(&w, e, "nvidia.com/a=1");
	assert_int_equal(e->requests, 2);
	assert_json(request_body(e, 1),
		"{'apiVersion':'nfd.k8s-sigs.io/v1alpha1','kind':'NodeFeature','metadata':"
		"{'name':'nvidia-features-for-" NODE_NAME "','namespace':'gpu',"
		"'labels':{'" NODE_LABEL "':'" NODE_NAME "'}}," SPEC(A1) "}");
	assert_true(w.written);
	assert_int_equal(w.task.last_error.code, ERR_NONE); /* the 404 was an answer */
	assert_in_range(task_due_ms(&w.task), 590000, 600000);
	/* Another client deletes it. */
	task_skip(&w.task);
	SCRIPT(e, STEP("GET " OBJECT " ", "404 Not Found", "{}"),
		STEP("POST " OBJECTS " ", "201 Created", "{}"));
	task_settle(e, &w.task);
	assert_int_equal(w.writes, 2);
	end_writer(&w, e);
}

static void label_writer_nfd__writes_only_changes_and_keeps_members_of_others(void **state)
{
	static const struct {
		const char *have, *put; /* NULL: nothing is written */
	} rows[] = {
		{ "{" METADATA("") "," SPEC(A1) "}", NULL },
		{ "{'kind':'x'," METADATA(",'resourceVersion':'7'") "," SPEC(A1) "}", NULL },
		/* The labels are others. */
		{ "{" METADATA(",'resourceVersion':'7'") "," SPEC("'nvidia.com/a':'0'") "}",
			"{" METADATA(",'resourceVersion':'7'") "," SPEC(A1) "}" },
		{ "{" METADATA("") "," SPEC(A1 ",'nvidia.com/b':'0'") "}",
			"{" METADATA("") "," SPEC(A1) "}" },
		{ "{" METADATA("") "}", "{" METADATA("") "," SPEC(A1) "}" },
		/* Something besides labels is in the spec, or the members that NFD wants are not. */
		{ "{" METADATA("") ",'spec':{'labels':{" A1 "}}}",
			"{" METADATA("") "," SPEC(A1) "}" },
		/* The object would belong to no Node, or to another Node. */
		{ "{'metadata':{'labels':{'x':'y'},'annotations':{'b':'c'}}," SPEC(A1) "}",
			"{'metadata':{'labels':{'x':'y','" NODE_LABEL "':'" NODE_NAME
			"'},'annotations':{'b':'c'}}," SPEC(A1) "}" },
		{ "{'metadata':{'labels':null}," SPEC(A1) "}",
			"{" METADATA("") "," SPEC(A1) "}" },
		{ "{'metadata':{'labels':{'" NODE_LABEL "':'n-2'}}," SPEC(A1) "}",
			"{" METADATA("") "," SPEC(A1) "}" },
		/* The agent sets no owner: Kubernetes would delete the object with its owner. */
		{ "{" METADATA(",'ownerReferences':[{'kind':'Pod'}]") "," SPEC(A1) "}",
			"{" METADATA("") "," SPEC(A1) "}" },
	};
	struct env *e = ((struct node_env *)*state)->e;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct label_writer w;
		struct answered a;

		open_writer(&w, e);
		answer_with(&a, e, rows[i].have);
		set(&w, e, "nvidia.com/a=1");
		if (e->requests != (rows[i].put ? 2 : 1))
			fail_msg("row %zu: %u requests", i, e->requests);
		if (rows[i].put) {
			assert_non_null(strstr(e->seen[1], "PUT " OBJECT " "));
			assert_json(request_body(e, 1), rows[i].put);
		}
		assert_true(w.written);
		assert_int_equal(w.writes, rows[i].put ? 1 : 0);
		assert_in_range(task_due_ms(&w.task), 590000, 600000);
		end_writer(&w, e);
		answered_fini(&a);
	}
}

static void label_writer_nfd__keeps_the_existing_timestamp(void **state)
{
	struct env *e = ((struct node_env *)*state)->e;
	struct label_writer w;
	struct answered a;

	open_writer(&w, e);
	answer_with(&a, e,
		"{" METADATA("") "," SPEC(A1 ",'nvidia.com/gfd.timestamp':'100'") "}");
	set(&w, e, "nvidia.com/a=1,nvidia.com/gfd.timestamp=200");
	assert_int_equal(e->requests, 1);
	end_writer(&w, e);
	answered_fini(&a);
}

static void label_writer_nfd__writes_changes_made_during_a_request(void **state)
{
	struct env *e = ((struct node_env *)*state)->e;
	struct label_writer w;

	open_writer(&w, e);
	SCRIPT(e, STEP("GET ", "404 Not Found", "{}"), { .expects = "POST ", .silent = true },
		STEP("GET ", "404 Not Found", "{}"), STEP("POST ", "201 Created", "{}"));
	label_writer_set(&w, labels_of("nvidia.com/a=1"), "");
	run(e, &e->requests, 2);
	label_writer_set(&w, labels_of("nvidia.com/a=2"), "");
	stub_send(e, ANSWER("201 Created", "{}"));
	stub_hang_up(e);
	run(e, &e->requests, 4); /* at once */
	task_settle(e, &w.task);
	assert_non_null(strstr(e->seen[3], "\"nvidia.com/a\":\"2\""));
	assert_true(w.written);
	end_writer(&w, e);
}

/* --- owners --- */

#define SET_REF                                                                      \
	"{'apiVersion':'apps/v1','kind':'DaemonSet','name':'gpusliced','uid':'s-1'," \
	"'controller':true}"
#define POD_REF "{'apiVersion':'v1','kind':'Pod','name':'gpusliced-x','uid':'p-1'}"

static void label_writer_nfd__is_owned_by_our_daemon_set_and_pod(void **state)
{
	static const struct {
		const char *status, *pod, *owners; /* NULL: none */
	} rows[] = {
		{ "200 OK",
			"{'metadata':{'uid':'p-1','ownerReferences':[{'kind':'Job'},{'apiVersion':"
			"'apps/v1','kind':'DaemonSet','name':'gpusliced','uid':'s-1',"
			"'blockOwnerDeletion':true}]}}",
			"[" SET_REF "," POD_REF "]" },
		{ "200 OK", "{'metadata':{'uid':'p-1','ownerReferences':[{'kind':'Job'}]}}",
			NULL },
		{ "200 OK", "{'metadata':{'uid':'p-1'}}", NULL },
		{ "200 OK", "{'metadata':{'ownerReferences':[{'kind':'DaemonSet'}]}}", NULL },
		{ "200 OK", "[1]", NULL },
		/* No permission to read pods, or the pod was removed: the labels are written without an owner. */
		{ "403 Forbidden", "{}", NULL },
		{ "404 Not Found", "{}", NULL },
	};
	struct env *e = ((struct node_env *)*state)->e;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		json_t *pod = json_of(rows[i].pod), *body;
		char *text = json_dumps(pod, JSON_COMPACT);
		char *answer = http_answer(rows[i].status, "Connection: close\r\n", text);
		struct label_writer w;

		open_writer(&w, e);
		w.pod_name = "gpusliced-x";
		SCRIPT(e, { .expects = "GET " POD " ", .answer = answer, .hang_up = true },
			STEP("GET " OBJECT " ", "404 Not Found", "{}"),
			STEP("POST ", "201 Created", "{}"));
		set(&w, e, "nvidia.com/a=1");
		assert_int_equal(e->requests, 3);
		body = request_body(e, 2);
		assert_json(json_incref(json_object_get(json_object_get(body, "metadata"),
				    "ownerReferences")),
			rows[i].owners);
		assert_int_equal(w.task.last_error.code, ERR_NONE);
		json_decref(body);
		json_decref(pod);
		free(text);
		free(answer);
		end_writer(&w, e);
	}
}

static void label_writer_nfd__waits_for_its_owners_while_the_server_is_unavailable(void **state)
{
	struct env *e = ((struct node_env *)*state)->e;
	struct label_writer w;

	open_writer(&w, e);
	w.pod_name = "gpusliced-x";
	SCRIPT(e, STEP("GET " POD " ", "500 No", "{}"),
		STEP("GET " POD " ", "404 Not Found", "{}"),
		STEP("GET " OBJECT " ", "404 Not Found", "{}"),
		STEP("POST ", "201 Created", "{}"), STEP("GET " OBJECT " ", "500 No", "{}"));
	set(&w, e, "nvidia.com/a=1");
	assert_int_equal(e->requests, 1);
	assert_string_equal(w.task.logged_error, w.task.last_error.msg);
	task_skip(&w.task);
	task_settle(e, &w.task);
	assert_true(w.written);
	/* The writer requests the labels once. */
	task_skip(&w.task);
	task_settle(e, &w.task);
	assert_int_equal(e->requests, 5);
	end_writer(&w, e);
}

/* --- refusals --- */

static void label_writer_nfd__reports_missing_node_feature_discovery(void **state)
{
	static const struct {
		const char *read, *write, *says;
		uint64_t min_ms;
	} rows[] = {
		{ "404 Not Found", "404 Not Found", "does not know NodeFeature objects",
			290000 },
		{ "404 Not Found", "403 Forbidden", "403", 290000 },
		{ "403 Forbidden", NULL, "403", 290000 },
		{ "404 Not Found", "500 No", "500", 0 },
	};
	struct env *e = ((struct node_env *)*state)->e;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *read = http_answer(rows[i].read, "Connection: close\r\n", "{}");
		char *write = http_answer(rows[i].write ? rows[i].write : "500 No",
			"Connection: close\r\n", "{}");
		struct label_writer w;

		open_writer(&w, e);
		SCRIPT(e, { .expects = "GET ", .answer = read, .hang_up = true },
			{ .expects = "POST ", .answer = write, .hang_up = true });
		set(&w, e, "nvidia.com/a=1");
		assert_int_equal(e->requests, rows[i].write ? 2 : 1);
		assert_non_null(strstr(w.task.last_error.msg, rows[i].says));
		assert_string_equal(w.task.logged_error, w.task.last_error.msg);
		assert_true(task_due_ms(&w.task) >= rows[i].min_ms);
		assert_false(w.written);
		end_writer(&w, e);
		free(read);
		free(write);
	}
}

static void label_writer_nfd__without_a_namespace_reports_that(void **state)
{
	struct env *e = ((struct node_env *)*state)->e;
	struct label_writer w;

	open_writer(&w, e);
	w.namespace_ = "";
	set(&w, e, "nvidia.com/a=1");
	assert_int_equal(e->requests, 0);
	assert_true(task_is_fault(&w.task));
	assert_non_null(strstr(w.task.logged_error, "--namespace"));
	end_writer(&w, e);
}

static void label_writer__backs_off_from_refused_features(void **state)
{
	static const char *const refusals[] = { ANSWER("409 Conflict", "{}"),
		ANSWER("500 No", "{}"), ANSWER("422 Unprocessable", "{}") };
	struct env *e = ((struct node_env *)*state)->e;

	for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
		struct label_writer w;
		struct step read = { .expects = "GET ",
			.answer = ANSWER("200 OK", "{\"metadata\":{}}"),
			.hang_up = true };
		struct step put = { .expects = "PUT ", .answer = refusals[i], .hang_up = true };
		struct step steps[] = { read, put, read, put, read, put, read, put };

		open_writer(&w, e);
		stub_script(e, steps, ARRAY_LEN(steps));
		label_writer_set(&w, labels_of("nvidia.com/a=1"), "");
		for (unsigned k = 1; k <= 3; k++) {
			task_settle(e, &w.task);
			assert_int_equal(e->requests, 2 * k);
			assert_int_equal(w.task.backoff.failures, k);
			assert_int_not_equal(w.task.last_error.code, ERR_NONE);
			task_skip(&w.task);
		}
		end_writer(&w, e);
	}
}

static void label_writer__tells_objects_apart(void **state)
{
	static const char *const odd[] = { ANSWER("200 OK", "{}"), ANSWER("200 OK", "[]"),
		ANSWER("200 OK", "{\"metadata\":[]}") };
	struct env *e = ((struct node_env *)*state)->e;

	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		struct label_writer w;

		open_writer(&w, e);
		SCRIPT(e, { .expects = "GET ", .answer = odd[i], .hang_up = true });
		set(&w, e, "nvidia.com/a=1");
		assert_int_equal(e->requests, 1);
		assert_int_equal(w.task.last_error.code, ERR_INVALID);
		assert_string_equal(w.task.logged_error, w.task.last_error.msg);
		assert_in_range(task_due_ms(&w.task), 290000, 300000);
		end_writer(&w, e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NODE_TEST(label_writer_nfd__creates_a_missing_object),
		NODE_TEST(label_writer_nfd__writes_only_changes_and_keeps_members_of_others),
		NODE_TEST(label_writer_nfd__keeps_the_existing_timestamp),
		NODE_TEST(label_writer_nfd__writes_changes_made_during_a_request),
		NODE_TEST(label_writer_nfd__is_owned_by_our_daemon_set_and_pod),
		NODE_TEST(
			label_writer_nfd__waits_for_its_owners_while_the_server_is_unavailable),
		NODE_TEST(label_writer_nfd__reports_missing_node_feature_discovery),
		NODE_TEST(label_writer_nfd__without_a_namespace_reports_that),
		NODE_TEST(label_writer__backs_off_from_refused_features),
		NODE_TEST(label_writer__tells_objects_apart),
	};

	return cmocka_run_group_tests_name("label-nfd", tests, NULL, NULL);
}
