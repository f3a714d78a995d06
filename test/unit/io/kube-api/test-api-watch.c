/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/kube-api/api-env.h"

#define NODES "/api/v1/nodes"

#define LIST_REQUEST "GET /api/v1/nodes?fieldSelector=metadata.name%3Dn-1 HTTP/1.1\r\n"
#define WATCH_FROM(v)                                                                          \
	"GET /api/v1/nodes?fieldSelector=metadata.name%3Dn-1&watch=1&allowWatchBookmarks=true" \
	"&timeoutSeconds=300&resourceVersion=" v " HTTP/1.1\r\n"

#define OBJECT(v, label)                                           \
	"{\"metadata\":{\"name\":\"n-1\",\"resourceVersion\":\"" v \
	"\",\"labels\":{\"a\":\"" label "\"}}}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define BOOKMARK(v)         EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"" v "\"}}")
#define STATUS(code)        "{\"kind\":\"Status\",\"code\":" code ",\"message\":\"too old\"}"
#define ANSWER(status)      "HTTP/1.1 " status "\r\nConnection: close\r\n\r\n"
#define LIST(v, items) \
	ANSWER("200 OK") "{\"metadata\":{\"resourceVersion\":\"" v "\"},\"items\":[" items "]}"
#define HEAD "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#define END  "0\r\n\r\n"

struct watcher {
	unsigned objects, states, over;
	bool absent;
	char label[32];
	struct error why; /* ERR_NONE: in touch */
	struct api_watch *watch;
	struct env *env;
	enum { NOTHING, STOP_IN_OBJECT, STOP_IN_STATE, FREE_IN_OBJECT, FREE_IN_STATE } inside;
};

static void react_in_callback(struct watcher *w, bool object)
{
	bool stops = w->inside == (object ? STOP_IN_OBJECT : STOP_IN_STATE);
	bool frees = w->inside == (object ? FREE_IN_OBJECT : FREE_IN_STATE);

	assert_int_equal(w->over, 0); /* no callback comes after the end */
	if (stops)
		w->watch = api_watch_stop(w->watch);
	if (frees)
		w->env->api = api_free(w->env->api);
	w->over = stops || frees;
}

static void on_object(void *arg, json_t *object)
{
	struct watcher *w = arg;
	json_t *labels = json_object_get(json_object_get(object, "metadata"), "labels");

	w->objects++;
	w->absent = !object;
	(void)snprintf(w->label, sizeof(w->label), "%s",
		object ? json_string_value(json_object_get(labels, "a")) : "-");
	react_in_callback(w, true);
}

static void on_state(void *arg, const struct error *why)
{
	struct watcher *w = arg;

	w->states++;
	error_clear(&w->why);
	error_copy(&w->why, why);
	react_in_callback(w, false);
}

static const struct api_watch_ops ops = { .object = on_object, .state = on_state };

static void start_test_watch(struct env *e, struct watcher *w)
{
	struct error err = ERROR_INIT;

	if (!e->api)
		api_open(e, "secret", NULL);
	e->api->intervals.watch_min_s = e->api->intervals.watch_max_s = 300;
	w->env = e;
	assert_ok(api_watch_start(&w->watch, e->api, NODES, "n-1", &ops, w, &err), &err);
	assert_int_equal(w->objects + w->states, 0);
}

/* One chunk of the stream. */
static void send_line(struct env *e, const char *line)
{
	char text[4096];

	assert_true(strlen(line) < sizeof(text) - 32);
	(void)snprintf(text, sizeof(text), "%zx\r\n%s\r\n", strlen(line), line);
	stub_send(e, text);
}

static void stop_test_watch(struct watcher *w)
{
	w->watch = api_watch_stop(w->watch);
}

static void api_watch__follows_object(void **state)
{
	struct env *e = *state;
	struct watcher w = { .objects = 0 };

	SCRIPT(e,
		{ .expects = LIST_REQUEST,
			.answer = LIST("10", OBJECT("7", "one")),
			.hang_up = true },
		{ .expects = WATCH_FROM("10"), .answer = HEAD });
	start_test_watch(e, &w);
	run(e, &e->requests, 2);
	assert_int_equal(w.objects, 1);
	assert_string_equal(w.label, "one");
	assert_int_equal(w.states, 1);
	assert_int_equal(w.why.code, ERR_NONE);
	/* The watch ignores an object that it repeats. */
	send_line(e, EVENT("ADDED", OBJECT("7", "one")));
	send_line(e, EVENT("MODIFIED", OBJECT("11", "two")));
	run(e, &w.objects, 2);
	assert_string_equal(w.label, "two");
	send_line(e, BOOKMARK("12"));
	send_line(e, EVENT("DELETED", OBJECT("13", "two")));
	run(e, &w.objects, 3);
	assert_true(w.absent);
	send_line(e, EVENT("DELETED", OBJECT("13", "two")));
	send_line(e,
		EVENT("ADDED", "{\"metadata\":{\"name\":\"n-2\",\"resourceVersion\":\"14\"}}"));
	send_line(e, EVENT("ADDED", OBJECT("15", "three")));
	run(e, &w.objects, 4);
	assert_string_equal(w.label, "three");
	assert_int_equal(w.states, 1);
	assert_int_equal(e->requests, 2);
	stop_test_watch(&w);
	run_for_ms(e, 10);
	assert_int_equal(w.objects, 4);
}

static void api_watch__continues_after_the_end_of_a_stream(void **state)
{
	struct env *e = *state;
	struct watcher w = { .objects = 0 };

	SCRIPT(e, { .answer = LIST("10", OBJECT("7", "one")), .hang_up = true },
		{ .expects = WATCH_FROM("10"), .answer = HEAD },
		{ .expects = WATCH_FROM("42%2Fx"), .answer = HEAD },
		{ .expects = WATCH_FROM("43"), .answer = HEAD });
	start_test_watch(e, &w);
	run(e, &e->requests, 2);
	run_for_ms(e, 60);
	send_line(e, BOOKMARK("42/x"));
	stub_send(e, END);
	run(e, &e->requests, 3);
	send_line(e, EVENT("MODIFIED", OBJECT("43", "two")));
	run(e, &w.objects, 2);
	run_for_ms(e, 60);
	stub_send(e, END);
	run(e, &e->requests, 4);
	assert_int_equal(w.states, 1);
	stop_test_watch(&w);
}

static void api_watch__absent_at_list(void **state)
{
	struct env *e = *state;
	struct watcher w = { .objects = 0 };

	SCRIPT(e, { .answer = LIST("10", ""), .hang_up = true },
		{ .expects = WATCH_FROM("10"), .answer = ANSWER("410 Gone"), .hang_up = true },
		{ .answer = ANSWER(
			  "200 OK") "{\"metadata\":{\"resourceVersion\":\"11\"},\"items\":null}",
			.hang_up = true },
		{ .expects = WATCH_FROM("11"), .answer = HEAD });
	start_test_watch(e, &w);
	run(e, &e->requests, 4);
	assert_int_equal(w.objects, 1);
	assert_true(w.absent);
	assert_int_equal(w.states, 1);
	stop_test_watch(&w);
}

static void api_watch__lists_again_after_410(void **state)
{
	/* The server sends 410 as the status of the answer, and as an event. */
	static const char *const answers[] = { ANSWER("410 Gone") STATUS("410"),
		ANSWER("200 OK") EVENT("ERROR", STATUS("410")) };
	struct env *e = *state;

	api_open(e, NULL, NULL);
	e->api->intervals.quick_ns = 60 * NS_PER_SEC; /* however slow this machine is */
	e->api->intervals.backoff =
		(struct backoff){ .min_ns = 200 * NS_PER_MS, .max_ns = NS_PER_SEC };
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		struct watcher w = { .objects = 0 };
		uint64_t begin;

		SCRIPT(e, { .answer = LIST("10", OBJECT("7", "one")), .hang_up = true },
			{ .expects = WATCH_FROM("10"), .answer = answers[i], .hang_up = true },
			{ .expects = LIST_REQUEST,
				.answer = LIST("20", OBJECT("19", "two")),
				.hang_up = true },
			{ .expects = WATCH_FROM("20"), .answer = answers[i], .hang_up = true },
			{ .expects = LIST_REQUEST, .answer = LIST("30", ""), .hang_up = true },
			{ .expects = WATCH_FROM("30"), .answer = HEAD });
		start_test_watch(e, &w);
		run(e, &e->requests, 3);
		begin = time_mono_ns();
		/* The client lists again at once. If the next list is of no use, the client backs off. */
		run(e, &e->requests, 6);
		assert_true(time_mono_ns() - begin >= 95 * NS_PER_MS);
		assert_int_equal(w.objects, 3);
		assert_true(w.absent);
		assert_int_equal(w.states, 1);
		stop_test_watch(&w);
		run_for_ms(e, 5);
	}
}

static void api_watch__survives_an_interruption_at_every_byte(void **state)
{
	static const char lines[] = EVENT("MODIFIED", OBJECT("11", "two")) BOOKMARK("12");
	struct env *e = *state;
	char answer[sizeof(lines) + 128];

	(void)snprintf(answer, sizeof(answer), "%s%zx\r\n%s\r\n%s", HEAD, strlen(lines), lines,
		END);
	api_open(e, NULL, NULL);
	e->api->intervals.quick_ns = 0;
	for (size_t cut = 1; cut < strlen(answer); cut++) {
		struct watcher w = { .objects = 0 };

		SCRIPT(e, { .answer = LIST("10", OBJECT("7", "one")), .hang_up = true },
			{ .expects = WATCH_FROM("10"), .answer = answer, .split = cut },
			{ .expects = WATCH_FROM("12"), .answer = HEAD });
		start_test_watch(e, &w);
		run(e, &e->requests, 3);
		assert_int_equal(w.objects, 2);
		assert_string_equal(w.label, "two");
		assert_int_equal(w.states, 1);
		stop_test_watch(&w);
	}
}

static void api_watch__reports_a_loss_once(void **state)
{
	struct env *e = *state;
	struct watcher w = { .objects = 0 };
	uint64_t sent;

	SCRIPT(e, { .answer = LIST("10", OBJECT("7", "one")), .hang_up = true },
		{ .answer = HEAD });
	start_test_watch(e, &w);
	run(e, &e->requests, 2);
	run_for_ms(e, 5);
	send_line(e, "{\"type\":\"MODI");
	run_for_ms(e, 5);
	stub_close(e); /* in the middle of a line */
	run(e, &w.states, 2);
	assert_int_equal(w.why.code, ERR_UNAVAILABLE);
	run(e, &w.states, 3); /* the next attempts have another reason: refused */
	assert_non_null(strstr(w.why.msg, "refused"));
	assert_null(strstr(w.why.msg, "secret"));
	sent = api_requests(e->api);
	while (api_requests(e->api) < sent + 5)
		(void)uv_run(&e->loop, UV_RUN_ONCE);
	assert_int_equal(w.states, 3);
	assert_int_equal(w.objects, 1);
	SCRIPT(e,
		{ .expects = LIST_REQUEST, /* after several failures */
			.answer = LIST("20", OBJECT("19", "two")),
			.hang_up = true },
		{ .expects = WATCH_FROM("20"), .answer = HEAD });
	stub_listen(e);
	run(e, &w.objects, 2);
	assert_int_equal(w.states, 4);
	assert_int_equal(w.why.code, ERR_NONE);
	stop_test_watch(&w);
}

static void api_watch__notices_broken_streams(void **state)
{
	static const struct {
		const char *answer, *text;
		enum error_code code;
		bool lists; /* does not continue from its version */
	} rows[] = {
		{ ANSWER("403 Forbidden") STATUS("403"), "answers 403: too old", ERR_PERMISSION,
			false },
		{ ANSWER("500 X"), "answers 500", ERR_UNAVAILABLE, false },
		{ ANSWER("204 No Content"), "answers 204", ERR_UNSUPPORTED, false },
		{ ANSWER("200 OK") "{\"type\":\"ADD", "ended within an event", ERR_UNAVAILABLE,
			false },
		{ ANSWER("200 OK") "<html>\n", "no JSON", ERR_INVALID, true },
		{ ANSWER("200 OK") "{\"type\":\"WHAT\",\"object\":{}}\n", "known \"type\"",
			ERR_INVALID, true },
		{ ANSWER("200 OK") "{\"type\":\"ADDED\"}\n", "no event", ERR_INVALID, true },
		{ ANSWER("200 OK") EVENT("ERROR", STATUS("500")), "says 500: too old",
			ERR_UNAVAILABLE, false },
		{ ANSWER("200 OK") EVENT("ERROR", "{}"), "no message", ERR_UNAVAILABLE, false },
		{ HEAD "zz\r\n", "", ERR_UNAVAILABLE, false },
	};
	struct env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct watcher w = { .objects = 0 };

		SCRIPT(e, { .answer = LIST("10", OBJECT("7", "one")), .hang_up = true },
			{ .answer = rows[i].answer, .hang_up = true },
			{ .expects = rows[i].lists ? LIST_REQUEST : WATCH_FROM("10"),
				.answer = rows[i].lists ? LIST("10", OBJECT("7", "one")) : HEAD,
				.hang_up = rows[i].lists });
		start_test_watch(e, &w);
		run(e, &e->requests, 2);
		for (int k = 0; k < 1000 && w.why.code == ERR_NONE; k++)
			(void)uv_run(&e->loop, UV_RUN_ONCE);
		assert_int_equal(w.why.code, rows[i].code);
		assert_non_null(strstr(w.why.msg, rows[i].text));
		run(e, &w.states, rows[i].code == ERR_NONE ? 1 : 3); /* and back in touch */
		assert_int_equal(w.objects, 1);
		stop_test_watch(&w);
		run_for_ms(e, 2);
	}
}

static void api_watch__refuses_invalid_lists(void **state)
{
	static const struct {
		const char *answer, *text;
	} rows[] = {
		{ ANSWER("200 OK") "{}", "expected a list" },
		{ ANSWER("200 OK") "[]", "expected a list" },
		{ ANSWER("200 OK") "", "expected a list" },
		{ ANSWER("200 OK") "{\"items\":[]}", "expected a list" },
		{ ANSWER("200 OK") "{\"items\":3,\"metadata\":{\"resourceVersion\":\"1\"}}",
			"expected a list" },
		{ ANSWER("403 Forbidden") STATUS("403"), "answers 403: too old" },
		{ ANSWER("401 Unauthorized"), "answers 401" },
	};
	struct env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct watcher w = { .objects = 0 };

		SCRIPT(e, { .answer = rows[i].answer, .hang_up = true },
			{ .answer = rows[i].answer, .hang_up = true },
			{ .answer = LIST("10", ""), .hang_up = true }, { .answer = HEAD });
		start_test_watch(e, &w);
		run(e, &w.states, 1);
		assert_non_null(strstr(w.why.msg, rows[i].text));
		run(e, &e->requests, 4);
		assert_int_equal(w.states, 2);
		assert_int_equal(w.objects, 1);
		stop_test_watch(&w);
		run_for_ms(e, 2);
	}
}

static void api_watch__limits_events(void **state)
{
	struct env *e = *state;
	struct watcher w = { .objects = 0 };
	size_t len = strlen(HEAD) + 16 + API_EVENT_MAX;
	char *big = malloc(len + 1);
	int n;

	assert_non_null(big);
	memset(big, 'x', len);
	n = snprintf(big, len, "%s%x\r\n{", HEAD, API_EVENT_MAX + 100);
	big[n] = 'x';
	api_open(e, NULL, NULL);
	SCRIPT(e, { .answer = LIST("10", OBJECT("7", "one")), .hang_up = true },
		{ .answer = big, .len = len },
		{ .expects = LIST_REQUEST, .answer = LIST("11", ""), .hang_up = true },
		{ .answer = HEAD });
	start_test_watch(e, &w);
	run(e, &w.states, 2);
	assert_int_equal(w.why.code, ERR_LIMIT);
	assert_non_null(strstr(w.why.msg, "longer than 4194304 bytes"));
	run(e, &e->requests, 4);
	stop_test_watch(&w);
	free(big);
}

static void api_watch__idle_connection(void **state)
{
	struct env *e = *state;
	struct watcher w = { .objects = 0 };

	api_open(e, NULL, NULL);
	SCRIPT(e, { .answer = LIST("10", OBJECT("7", "one")), .hang_up = true },
		{ .answer = HEAD });
	start_test_watch(e, &w);
	e->api->intervals.watch_min_s = e->api->intervals.watch_max_s = 0;
	e->api->intervals.idle_ns = NS_PER_SEC;
	run(e, &e->requests, 2);
	assert_non_null(strstr(e->seen[1], "timeoutSeconds=0&"));
	for (int i = 0; i < 12; i++) {
		send_line(e, BOOKMARK("11"));
		run_for_ms(e, 100);
	}
	assert_int_equal(w.states, 1);
	run(e, &w.states, 2);
	assert_int_equal(w.why.code, ERR_TIMEOUT);
	run(e, &w.states, 3);
	assert_int_equal(w.why.code, ERR_NONE);
	assert_non_null(strstr(e->seen[2], "resourceVersion=11 "));
	stop_test_watch(&w);
}

/* Connected, and no answer: that is no quiet watch. */
static void api_watch__needs_a_head_in_time(void **state)
{
	struct env *e = *state;
	struct watcher w = { .objects = 0 };

	SCRIPT(e, { .answer = LIST("10", ""), .hang_up = true }, { .silent = true },
		{ .silent = true }, { .answer = HEAD });
	start_test_watch(e, &w);
	e->api->intervals.call_ns = 200 * NS_PER_MS;
	run(e, &w.states, 2);
	assert_int_equal(w.why.code, ERR_TIMEOUT);
	assert_non_null(strstr(w.why.msg, "no answer in time"));
	assert_int_equal(e->requests, 2);
	/* The next silent connection does not clear the failure. A head clears it, and it stays cleared. */
	run(e, &w.states, 3);
	assert_int_equal(w.why.code, ERR_NONE);
	assert_int_equal(e->requests, 4);
	run_for_ms(e, 500);
	assert_int_equal(w.states, 3);
	assert_int_equal(e->requests, 4);
	stop_test_watch(&w);
}

static void api_watch__requests_a_random_timeout(void **state)
{
	struct env *e = *state;
	struct watcher w = { .objects = 0 };
	bool differ = false;
	char *first;

	SCRIPT(e, { .answer = LIST("10", ""), .hang_up = true },
		{ .answer = ANSWER("200 OK"), .hang_up = true });
	start_test_watch(e, &w);
	e->api->intervals.watch_min_s = 300;
	e->api->intervals.watch_max_s = 600;
	e->api->intervals.quick_ns = 0;
	run(e, &e->requests, 12);
	first = strstr(e->seen[1], "timeoutSeconds=");
	for (unsigned i = 1; i < 12; i++) {
		char *p = strstr(e->seen[i], "timeoutSeconds=");

		assert_non_null(p);
		assert_true(strncmp(p + 15, "300", 3) >= 0 && strncmp(p + 15, "600", 3) <= 0 &&
			    p[18] == '&');
		differ |= strncmp(first, p, 18) != 0;
	}
	assert_true(differ);
	stop_test_watch(&w);
}

static void api_watch__quick_ends_back_off(void **state)
{
	struct env *e = *state;
	struct watcher w = { .objects = 0 };
	unsigned before;
	uint64_t begin, max;

	api_open(e, NULL, NULL);
	e->api->intervals.quick_ns = 60 * NS_PER_SEC;
	SCRIPT(e, { .answer = LIST("10", ""), .hang_up = true },
		{ .answer = ANSWER("200 OK") BOOKMARK("11"), .hang_up = true });
	start_test_watch(e, &w);
	run(e, &e->requests, 3);
	before = e->requests;
	begin = time_mono_ns();
	run_for_ms(e, 300);
	/* The client sends one request in 20 ms at most: half of 40. */
	max = (time_mono_ns() - begin) / (20 * NS_PER_MS) + 2;
	assert_in_range(e->requests - before, 1, max);
	assert_int_equal(w.why.code, ERR_INVALID); /* a list came back as a stream, by script */
	stop_test_watch(&w);
}

static char *token_path;
static void swap_token(void *arg)
{
	free(write_file(arg, "token", "new"));
}

static void api_watch__repeats_with_new_token(void **state)
{
	struct env *e = *state;
	struct watcher w = { .objects = 0 };

	token_path = write_file(e, "token", "old");
	e->arg = e;
	api_open(e, NULL, token_path);
	SCRIPT(e, { .answer = LIST("10", OBJECT("7", "one")), .hang_up = true },
		{ .expects = "Bearer old",
			.answer = ANSWER("401 Unauthorized"),
			.hang_up = true,
			.before = swap_token },
		{ .expects = "Bearer new", .answer = HEAD });
	start_test_watch(e, &w);
	run(e, &e->requests, 3);
	run_for_ms(e, 10);
	assert_int_equal(w.states, 1); /* the watch has not noticed yet */
	stop_test_watch(&w);
	free(token_path);
}

static void api_watch__retry_after(void **state)
{
	struct env *e = *state;
	struct watcher w = { .objects = 0 };
	uint64_t begin;

	SCRIPT(e,
		{ .answer = "HTTP/1.1 429 Slow down\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n" },
		{ .answer = LIST("10", ""), .hang_up = true }, { .answer = HEAD });
	start_test_watch(e, &w);
	run(e, &w.states, 1);
	begin = time_mono_ns();
	run(e, &w.states, 2);
	assert_true(time_mono_ns() - begin >= 990 * NS_PER_MS);
	stop_test_watch(&w);
}

static void api_watch__bad_token_file(void **state)
{
	struct env *e = *state;
	struct watcher w = { .objects = 0 };
	char path[512];
	struct error err = ERROR_INIT;

	(void)snprintf(path, sizeof(path), "%s/none", e->dir);
	api_open(e, NULL, path);
	SCRIPT(e, { .expects = "Bearer late", .answer = LIST("10", ""), .hang_up = true },
		{ .answer = HEAD });
	start_test_watch(e, &w);
	run(e, &w.states, 1);
	assert_int_equal(w.why.code, ERR_NOT_FOUND);
	free(write_file(e, "none", "late"));
	run(e, &w.states, 2);
	assert_int_equal(w.why.code, ERR_NONE);
	stop_test_watch(&w);
	assert_error(api_watch_start(&w.watch, e->api, NODES, "", &ops, &w, &err), &err,
		"expected a name");
}

/* What makes the watch call the user. */
enum cause { LISTED, LOST, REFUSED, EVENTS };

static void end_inside(struct env *e, int inside, enum cause cause)
{
	struct watcher w = { .inside = cause == LISTED ? inside : NOTHING };
	bool in_object = inside == STOP_IN_OBJECT || inside == FREE_IN_OBJECT;

	SCRIPT(e, { .answer = LIST("10", OBJECT("7", "one")), .hang_up = true },
		{ .answer = cause == REFUSED ? ANSWER("500 X") : HEAD,
			.hang_up = cause == REFUSED },
		{ .answer = HEAD });
	start_test_watch(e, &w);
	if (cause != LISTED) {
		run(e, &w.objects, 1);
		w.inside = inside;
		run(e, &e->requests, 2);
	}
	if (cause == LOST)
		stub_hang_up(e);
	if (cause == EVENTS)
		send_line(e, EVENT("MODIFIED", OBJECT("11", "two"))
				     EVENT("DELETED", OBJECT("12", "two")));
	if (cause == LISTED || in_object == (cause == EVENTS))
		run(e, &w.over, 1);
	run_for_ms(e, 30);
	if (!w.over)
		stop_test_watch(&w);
	e->api = api_free(e->api);
	run_for_ms(e, 2);
}

static void api_watch__ends_inside_callbacks(void **state)
{
	for (int inside = STOP_IN_OBJECT; inside <= FREE_IN_STATE; inside++)
		for (int cause = LISTED; cause <= EVENTS; cause++)
			end_inside(*state, inside, (enum cause)cause);
	assert_null(api_watch_stop(NULL));
}

#define API_TEST(name) cmocka_unit_test_setup_teardown(name, api_env_setup, api_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		API_TEST(api_watch__follows_object),
		API_TEST(api_watch__continues_after_the_end_of_a_stream),
		API_TEST(api_watch__absent_at_list),
		API_TEST(api_watch__lists_again_after_410),
		API_TEST(api_watch__survives_an_interruption_at_every_byte),
		API_TEST(api_watch__reports_a_loss_once),
		API_TEST(api_watch__notices_broken_streams),
		API_TEST(api_watch__refuses_invalid_lists),
		API_TEST(api_watch__limits_events),
		API_TEST(api_watch__idle_connection),
		API_TEST(api_watch__needs_a_head_in_time),
		API_TEST(api_watch__requests_a_random_timeout),
		API_TEST(api_watch__quick_ends_back_off),
		API_TEST(api_watch__repeats_with_new_token),
		API_TEST(api_watch__retry_after),
		API_TEST(api_watch__bad_token_file),
		API_TEST(api_watch__ends_inside_callbacks),
	};

	return cmocka_run_group_tests_name("api-watch", tests, NULL, NULL);
}
