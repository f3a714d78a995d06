/* SPDX-License-Identifier: Apache-2.0 */

/* Events for the API server: their rate, their counts, and which ones are dropped. */
#include "unit/node/agent/api/node-env.h"

#include "node/agent/api/event.h"

#define EVENTS_PATH "/api/v1/namespaces/default/events"
#define CREATED     STEP("POST " EVENTS_PATH "?", "201 Created", "{}")

static void open_sender(struct event_sender *s, struct node_env *n)
{
	*s = (struct event_sender){ .node = NODE_NAME };
	event_sender_init(s, &n->e->loop);
	s->task.api = n->e->api;
}

static void send_numbered(struct event_sender *s, unsigned from, unsigned to)
{
	char text[24];

	for (unsigned i = from; i < to; i++) {
		(void)snprintf(text, sizeof(text), "event %u", i);
		event_send(s, NULL, EVENT_NORMAL, "R", text);
	}
}

static json_int_t count_of(const struct env *e, size_t request)
{
	json_t *body = request_body(e, request);
	json_int_t count = json_integer_value(json_object_get(body, "count"));

	json_decref(body);
	return count;
}

/* --- how many --- */

static void event_send__sends_a_burst_and_then_one_every_15_s(void **state)
{
	struct node_env *n = *state;
	struct event_sender s;

	open_sender(&s, n);
	SCRIPT(n->e, CREATED);
	send_numbered(&s, 0, 25);
	task_settle(n->e, &s.task);
	assert_int_equal(n->e->requests, EVENT_BURST);
	assert_in_range(task_due_ms(&s.task), 10000, 15001);
	task_skip(&s.task);
	task_settle(n->e, &s.task);
	assert_int_equal(n->e->requests, EVENT_BURST + 1);
	/* A rest of any length is worth one burst. */
	clock_skip(24 * 3600 * NS_PER_SEC);
	send_numbered(&s, 100, 100 + EVENT_BURST);
	task_wait(&s.task, 0);
	task_settle(n->e, &s.task);
	assert_int_equal(n->e->requests, 2 * EVENT_BURST + 1);
	assert_int_equal(s.dropped, 0);
	task_end(n->e, &s.task);
}

static void event_send__drops_events_beyond_its_limit(void **state)
{
	struct node_env *n = *state;
	struct event_sender s;

	open_sender(&s, n);
	s.task.api = NULL;
	send_numbered(&s, 0, EVENTS_MAX + 2);
	assert_int_equal(s.dropped, 2);
	send_numbered(&s, 0, EVENTS_MAX); /* these are remembered, and counted */
	assert_int_equal(s.dropped, 2);
	/* The server comes: the oldest first. */
	s.task.api = n->e->api;
	SCRIPT(n->e, CREATED);
	task_poke(&s.task);
	task_settle(n->e, &s.task);
	assert_int_equal(n->e->requests, EVENT_BURST);
	assert_non_null(strstr(n->e->seen[0], "\"event 0\""));
	assert_int_equal(count_of(n->e, 0), 2);
	assert_int_equal(s.dropped, 2);
	task_end(n->e, &s.task);
}

static void event_send__keeps_no_event_without_a_node(void **state)
{
	struct node_env *n = *state;
	struct event_sender s;

	open_sender(&s, n);
	s.node = NULL;
	send_numbered(&s, 0, 3);
	assert_null(event_list_next(&s.list));
	assert_int_equal(s.dropped, 0);
	assert_false(uv_is_active((uv_handle_t *)&s.task.timer));
	task_end(n->e, &s.task);
}

/* --- what is sent --- */

static void event_send__counts_repeated_events(void **state)
{
	struct node_env *n = *state;
	struct event_sender s;

	open_sender(&s, n);
	SCRIPT(n->e, { .silent = true },
		{ .expects = "Content-Type: " API_MERGE_PATCH "\r\n",
			.answer = ANSWER("200 OK", "{}"),
			.hang_up = true });
	event_send(&s, NULL, EVENT_WARNING, "R", "m");
	run(n->e, &n->e->requests, 1);
	event_send(&s, NULL, EVENT_WARNING, "R", "m");
	event_send(&s, NULL, EVENT_WARNING, "R", "m");
	assert_int_equal(count_of(n->e, 0), 1);
	stub_send(n->e, ANSWER("201 Created", "{}"));
	stub_hang_up(n->e);
	run(n->e, &n->e->requests, 2);
	task_settle(n->e, &s.task);
	assert_int_equal(n->e->requests, 2);
	assert_int_equal(count_of(n->e, 1), 3);
	assert_non_null(strstr(n->e->seen[1], "PATCH " EVENTS_PATH "/" NODE_NAME "."));
	assert_null(event_list_next(&s.list));
	task_end(n->e, &s.task);
}

static void event_send__puts_an_event_of_a_pod_into_its_namespace(void **state)
{
	struct node_env *n = *state;
	struct event_about about = { .namespace_ = "shop" };
	struct event_sender s;
	json_t *body;
	const char *name;

	open_sender(&s, n);
	SCRIPT(n->e, STEP("POST /api/v1/namespaces/shop/events?", "201 Created", "{}"));
	memset(about.pod, 'p', sizeof(about.pod) - 1); /* the longest name of a pod */
	event_send(&s, &about, EVENT_WARNING, "R", "m");
	task_settle(n->e, &s.task);
	body = request_body(n->e, 0);
	name = json_string_value(json_object_get(json_object_get(body, "metadata"), "name"));
	assert_non_null(name);
	assert_true(strlen(name) <= 253); /* what the server takes */
	assert_non_null(strchr(name, '.'));
	json_decref(body);
	task_end(n->e, &s.task);
}

static void event_send__drops_an_invalid_text_and_sends_the_others(void **state)
{
	struct node_env *n = *state;
	struct event_sender s;

	open_sender(&s, n);
	SCRIPT(n->e, CREATED);
	event_send(&s, NULL, EVENT_NORMAL, "R", "a\xff");
	event_send(&s, NULL, EVENT_NORMAL, "R", "b");
	task_settle(n->e, &s.task);
	assert_int_equal(n->e->requests, 0);
	assert_int_equal(s.dropped, 1);
	task_skip(&s.task);
	task_settle(n->e, &s.task);
	assert_int_equal(n->e->requests, 1);
	assert_non_null(strstr(n->e->seen[0], "\"b\""));
	task_end(n->e, &s.task);
}

/* --- answers of the server --- */

static void event_send__retries_only_what_the_server_may_still_accept(void **state)
{
	static const struct {
		const char *answer;
		bool kept;
	} rows[] = {
		{ ANSWER("500 No", "{}"), true },
		{ ANSWER("429 Slow", "{}"), true },
		{ ANSWER("401 Who", "{}"), true },
		{ NULL, true }, /* no answer at all */
		{ ANSWER("403 Forbidden", "{}"), false },
		{ ANSWER("404 Not Found", "{}"), false }, /* the pod's namespace was removed */
		{ ANSWER("422 Invalid", "{}"), false },
		/* A name that is new is taken: an answer was lost, and the event is there. */
		{ ANSWER("409 Conflict", "{}"), false },
	};
	struct node_env *n = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct event_sender s;
		char *name;

		open_sender(&s, n);
		SCRIPT(n->e, { .answer = rows[i].answer, .hang_up = true }, CREATED);
		event_send(&s, NULL, EVENT_NORMAL, "R", "m");
		task_settle(n->e, &s.task);
		if ((event_list_next(&s.list) != NULL) != rows[i].kept)
			fail_msg("row %zu", i);
		if (rows[i].kept) {
			/* The retry sends the Event under the same name, so the server stores it once. */
			name = strdup(s.list.v[0].name);
			task_skip(&s.task);
			task_settle(n->e, &s.task);
			assert_non_null(strstr(n->e->seen[1], name));
			assert_null(event_list_next(&s.list));
			free(name);
		}
		task_end(n->e, &s.task);
	}
}

static void event_send__continues_after_a_refused_event(void **state)
{
	struct node_env *n = *state;
	struct event_sender s;

	open_sender(&s, n);
	SCRIPT(n->e, STEP("\"event 0\"", "422 Invalid", "{}"),
		STEP("\"event 1\"", "201 Created", "{}"));
	send_numbered(&s, 0, 2);
	task_settle(n->e, &s.task);
	assert_int_equal(n->e->requests, 1);
	assert_string_equal(s.task.logged_error, s.task.last_error.msg);
	task_skip(&s.task);
	task_settle(n->e, &s.task);
	assert_int_equal(n->e->requests, 2);
	assert_int_equal(s.task.last_error.code, ERR_NONE);
	assert_null(event_list_next(&s.list));
	task_end(n->e, &s.task);
}

/* The API server keeps Events for an hour. */
static void event_send__recreates_an_event_that_the_server_expired(void **state)
{
	struct node_env *n = *state;
	struct event_sender s;
	char first[254];

	open_sender(&s, n);
	SCRIPT(n->e, CREATED, STEP("PATCH " EVENTS_PATH "/", "404 Not Found", "{}"), CREATED);
	for (int i = 0; i < 3; i++)
		event_send(&s, NULL, EVENT_NORMAL, "R", "m");
	task_settle(n->e, &s.task);
	assert_int_equal(count_of(n->e, 0), 3);
	(void)snprintf(first, sizeof(first), "%s", s.list.v[0].name);
	for (int i = 0; i < 2; i++)
		event_send(&s, NULL, EVENT_NORMAL, "R", "m");
	task_settle(n->e, &s.task);
	assert_int_equal(count_of(n->e, 1), 5);
	task_skip(&s.task);
	task_settle(n->e, &s.task);
	assert_int_equal(n->e->requests, 3);
	assert_int_equal(count_of(n->e, 2), 2); /* those that the server has not received */
	assert_string_not_equal(s.list.v[0].name, first);
	assert_true(s.list.v[0].first_ns == s.list.v[0].last_ns);
	assert_null(event_list_next(&s.list));
	task_end(n->e, &s.task);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NODE_TEST(event_send__sends_a_burst_and_then_one_every_15_s),
		NODE_TEST(event_send__drops_events_beyond_its_limit),
		NODE_TEST(event_send__keeps_no_event_without_a_node),
		NODE_TEST(event_send__counts_repeated_events),
		NODE_TEST(event_send__puts_an_event_of_a_pod_into_its_namespace),
		NODE_TEST(event_send__drops_an_invalid_text_and_sends_the_others),
		NODE_TEST(event_send__retries_only_what_the_server_may_still_accept),
		NODE_TEST(event_send__continues_after_a_refused_event),
		NODE_TEST(event_send__recreates_an_event_that_the_server_expired),
	};

	return cmocka_run_group_tests_name("event-sender", tests, NULL, NULL);
}
