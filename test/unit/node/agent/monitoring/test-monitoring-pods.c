/* SPDX-License-Identifier: Apache-2.0 */

/* When the agent requests labels of pods from the API server, and what stays after an error. */
#include "unit/io/kube-api/api-env.h"

#include "node/agent/monitoring/pods.h"

#define ANSWER(status, body) "HTTP/1.1 " status "\r\nConnection: close\r\n\r\n" body
#define POD(name, team)                                                                       \
	"{\"metadata\":{\"namespace\":\"ml\",\"name\":\"" name "\",\"uid\":\"uid-" name "\"," \
	"\"labels\":{\"team\":\"" team "\"}}}"
#define LIST_OF(items) ANSWER("200 OK", "{\"items\":[" items "]}")
#define INTERVAL_NS    (5 * NS_PER_SEC)

struct scene {
	struct env *e;
	struct monitoring_pods pods;
	struct strv patterns;
	struct monitoring_allocation allocation_list[2];
	struct monitoring_allocations allocations;
	uint64_t now_ns;
};

static void scene_init(struct scene *s, struct env *e)
{
	struct error err = ERROR_INIT;

	*s = (struct scene){ .e = e,
		.now_ns = time_mono_ns(),
		.allocations.v = s->allocation_list };
	assert_ok(strv_add(&s->patterns, "team", &err), &err);
	monitoring_pods_init(&s->pods, &e->loop, &s->patterns, "node a", INTERVAL_NS);
	api_open(e, "secret", NULL);
	s->pods.task.api = e->api;
}

static void scene_fini(struct scene *s)
{
	monitoring_pods_close(&s->pods);
	run_for_ms(s->e, 1); /* the loop lets go of it */
	monitoring_pods_fini(&s->pods);
	strv_fini(&s->patterns);
}

static void allocate_test_device(struct scene *s, const char *pod, const char *uid)
{
	s->allocation_list[s->allocations.n++] =
		(struct monitoring_allocation){ .namespace_ = (char *)(uintptr_t) "ml",
			.pod = (char *)(uintptr_t)pod,
			.uid = (char *)(uintptr_t)uid };
}

/* A round, @after_ns after the round before. Whether the agent sends a request in it. */
static bool sends_request(struct scene *s, uint64_t after_ns)
{
	unsigned before = s->e->requests;
	uint64_t planned = s->pods.not_before_ns;

	s->now_ns += after_ns;
	monitoring_pods_sync(&s->pods, &s->allocations, s->now_ns);
	if (s->pods.not_before_ns == planned)
		return false;
	run(s->e, &s->e->requests, before + 1);
	while (s->pods.task.call)
		(void)uv_run(&s->e->loop, UV_RUN_ONCE);
	return true;
}

static const char *team_of(const struct scene *s, const char *pod, const char *uid)
{
	const struct monitoring_pod *p =
		monitoring_pod_list_find(&s->pods.list, "ml", pod, uid);

	return p && p->n_labels ? p->labels[0].value : "";
}

static void pods__are_requested_where_one_is_unknown(void **state)
{
	struct env *e = *state;
	struct scene s;

	scene_init(&s, e);
	SCRIPT(e, { .expects = "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dnode%20a"
			       "&resourceVersion=0",
			  .answer = LIST_OF(POD("one", "vision")),
			  .hang_up = true });
	assert_false(sends_request(&s, 0)); /* no pod has an allocation */
	allocate_test_device(&s, "one", "uid-one");
	assert_true(sends_request(&s, 0));
	assert_string_equal(team_of(&s, "one", "uid-one"), "vision");
	assert_false(sends_request(&s, INTERVAL_NS)); /* the pod is known, for a minute */
	assert_false(sends_request(&s, 50 * NS_PER_SEC));
	/* The same name is another pod. */
	s.allocation_list[0].uid = (char *)(uintptr_t) "uid-other";
	assert_true(sends_request(&s, 0));
	scene_fini(&s);
}

static void pods__are_requested_once_a_minute_where_all_are_known(void **state)
{
	struct env *e = *state;
	struct scene s;

	scene_init(&s, e);
	SCRIPT(e, { .answer = LIST_OF(POD("one", "vision")), .hang_up = true },
		{ .answer = LIST_OF(POD("one", "speech")), .hang_up = true });
	allocate_test_device(&s, "one", "");
	assert_true(sends_request(&s, 0));
	s.pods.next_ns = s.now_ns + 60 * NS_PER_SEC; /* as if the answer had taken no time */
	assert_false(sends_request(&s, 60 * NS_PER_SEC - 1));
	assert_true(sends_request(&s, 1));
	assert_string_equal(team_of(&s, "one", ""), "speech");
	scene_fini(&s);
}

/* A pod that is in no list: after 5, 10, 20, 40 seconds, then once a minute. */
static void pods__missing_from_the_list_are_requested_with_back_off(void **state)
{
	static const uint64_t waits_s[] = { 5, 10, 20, 40, 60, 60, 60, 60, 60, 60 };
	struct env *e = *state;
	struct scene s;

	scene_init(&s, e);
	SCRIPT(e, { .answer = LIST_OF(POD("one", "vision")), .hang_up = true });
	allocate_test_device(&s, "gone", "uid-gone");
	assert_true(sends_request(&s, 0));
	for (size_t i = 0; i < ARRAY_LEN(waits_s); i++) {
		assert_false(sends_request(&s, waits_s[i] * NS_PER_SEC - 1));
		assert_true(sends_request(&s, 1));
	}
	/* A known pod ends the growing pauses: the next new pod is requested soon. */
	s.allocations.n = 0;
	allocate_test_device(&s, "one", "uid-one");
	(void)sends_request(&s, 0);
	assert_int_equal(s.pods.incomplete_lists, 0);
	scene_fini(&s);
}

static void pods__stay_known_while_the_server_fails(void **state)
{
	static const char *const bad[] = { ANSWER("500 No", "{}"),
		ANSWER("403 Forbidden", "{\"message\":\"pods is forbidden\"}") };
	struct env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct scene s;

		scene_init(&s, e);
		SCRIPT(e, { .answer = LIST_OF(POD("one", "vision")), .hang_up = true },
			{ .answer = bad[i], .hang_up = true });
		allocate_test_device(&s, "one", "uid-one");
		assert_true(sends_request(&s, 0));
		allocate_test_device(&s, "two", "uid-two");
		assert_true(sends_request(&s, 60 * NS_PER_SEC));
		assert_string_equal(team_of(&s, "one", "uid-one"), "vision");
		assert_string_not_equal(s.pods.task.last_error.msg, "");
		scene_fini(&s);
		e->api = api_free(e->api);
	}
}

/* An answer that is no list of pods is one without pods. */
static void pods__of_an_invalid_answer_are_ignored(void **state)
{
	struct env *e = *state;
	struct scene s;

	scene_init(&s, e);
	SCRIPT(e, { .answer = ANSWER("200 OK", "[]"), .hang_up = true });
	allocate_test_device(&s, "one", "uid-one");
	assert_true(sends_request(&s, 0));
	assert_int_equal(s.pods.list.n, 0);
	assert_string_equal(s.pods.task.last_error.msg, "");
	scene_fini(&s);
}

static void pods__are_not_requested_without_patterns_or_server(void **state)
{
	struct env *e = *state;
	struct scene s;

	scene_init(&s, e);
	allocate_test_device(&s, "one", "uid-one");
	s.pods.task.api = NULL;
	assert_false(sends_request(&s, 0));
	scene_fini(&s);

	s.allocations.n = 0;
	allocate_test_device(&s, "one", "uid-one");
	monitoring_pods_init(&s.pods, &e->loop, NULL, "node a", INTERVAL_NS);
	s.pods.task.api = e->api;
	assert_false(sends_request(&s, 0));
	assert_int_equal(e->requests, 0);
	scene_fini(&s);
}

#define PODS_TEST(f) cmocka_unit_test_setup_teardown(f, api_env_setup, api_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PODS_TEST(pods__are_requested_where_one_is_unknown),
		PODS_TEST(pods__are_requested_once_a_minute_where_all_are_known),
		PODS_TEST(pods__missing_from_the_list_are_requested_with_back_off),
		PODS_TEST(pods__stay_known_while_the_server_fails),
		PODS_TEST(pods__of_an_invalid_answer_are_ignored),
		PODS_TEST(pods__are_not_requested_without_patterns_or_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
