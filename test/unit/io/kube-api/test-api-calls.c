/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/kube-api/api-env.h"

#include <unistd.h>

#define OK_ANSWER \
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}"
#define UNAUTHORIZED "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"

/* --- one request --- */

static void api_send__sends_the_request(void **state)
{
	struct env *e = *state;
	struct api_answer a = { .n = 0 };
	struct error err = ERROR_INIT;
	struct api_request req = {
		.method = "PATCH",
		.path = "/api/v1/nodes/n1?fieldManager=gpusliced",
		.content_type = API_MERGE_PATCH,
		.body = "{\"metadata\":{\"labels\":{\"a\":null}}}",
	};

	api_open(e, "secret", NULL);
	SCRIPT(e, { .expects = "PATCH /api/v1/nodes/n1?fieldManager=gpusliced HTTP/1.1\r\n",
			  .answer = OK_ANSWER });
	assert_ok(api_send(e->api, &req, on_answer, &a, NULL, &err), &err);
	run(e, &a.n, 1);
	assert_false(a.has_error);
	assert_int_equal(a.status, 200);
	assert_string_equal(a.body, "{\"a\":1}");
	assert_non_null(strstr(e->seen[0], "Authorization: Bearer secret\r\n"));
	assert_non_null(strstr(e->seen[0], "User-Agent: gpusliced/1.2\r\n"));
	assert_non_null(strstr(e->seen[0], "Accept: application/json\r\n"));
	assert_non_null(strstr(e->seen[0], "Content-Type: application/merge-patch+json\r\n"));
	assert_non_null(strstr(e->seen[0], "\r\n\r\n{\"metadata\":{\"labels\":{\"a\":null}}}"));
	assert_null(strstr(e->seen[0], "Expect"));
	assert_int_equal(api_requests(e->api), 1);
	assert_string_equal(api_server(e->api), e->server);
}

static void api_send__keeps_connection(void **state)
{
	struct env *e = *state;
	struct api_answer a = { .n = 0 };

	api_open(e, NULL, NULL);
	SCRIPT(e, { .expects = "GET /x HTTP/1.1",
			  .refuses = "Authorization",
			  .answer = OK_ANSWER });
	for (int i = 0; i < 5; i++)
		fetch(e, "/x", &a);
	assert_int_equal(e->accepted, 1);
	/* The server may close it in between. */
	stub_hang_up(e);
	fetch(e, "/x", &a);
	assert_false(a.has_error);
	assert_int_equal(e->accepted, 2);
}

static void api_send__maps_status(void **state)
{
	static const struct {
		const char *status;
		enum error_code code;
	} rows[] = {
		{ "200 OK", ERR_NONE },
		{ "201 Created", ERR_NONE },
		{ "302 Found", ERR_UNSUPPORTED },
		{ "400 Bad Request", ERR_INVALID },
		{ "401 Unauthorized", ERR_PERMISSION },
		{ "403 Forbidden", ERR_PERMISSION },
		{ "404 Not Found", ERR_NOT_FOUND },
		{ "405 Method Not Allowed", ERR_UNSUPPORTED },
		{ "408 Request Timeout", ERR_TIMEOUT },
		{ "409 Conflict", ERR_EXISTS },
		{ "410 Gone", ERR_NOT_FOUND },
		{ "413 Request Entity Too Large", ERR_LIMIT },
		{ "415 Unsupported Media Type", ERR_UNSUPPORTED },
		{ "418 I'm a teapot", ERR_INVALID },
		{ "422 Unprocessable Entity", ERR_INVALID },
		{ "429 Too Many Requests", ERR_UNAVAILABLE },
		{ "500 Internal Server Error", ERR_UNAVAILABLE },
		{ "502 Bad Gateway", ERR_UNAVAILABLE },
		{ "503 Service Unavailable", ERR_UNAVAILABLE },
		{ "504 Gateway Timeout", ERR_TIMEOUT },
	};
	struct env *e = *state;
	struct api_answer a = { .n = 0 };

	api_open(e, "secret", NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(freep)
		char *text = http_answer(rows[i].status, "",
			"{\"kind\":\"Status\",\"message\":\"nodes \\\"n\\\"\\tsaid\"}");

		SCRIPT(e, { .answer = text });
		fetch(e, "/api/v1/nodes/n?x=1", &a);
		assert_int_equal(a.err.code, rows[i].code);
		assert_int_equal(a.has_error, rows[i].code != ERR_NONE);
		assert_int_equal(a.status / 100, rows[i].status[0] - '0');
		assert_non_null(strstr(a.body, "Status"));
		if (!a.has_error)
			continue;
		assert_non_null(strstr(a.err.msg, "nodes \"n\"?said"));
		assert_non_null(strstr(a.err.msg, "/api/v1/nodes/n'"));
		assert_null(strstr(a.err.msg, "secret"));
	}
}

static void api_send__truncates_the_message_of_the_server(void **state)
{
	struct env *e = *state;
	struct api_answer a = { .n = 0 };
	char body[4096];
	CLEANUP(freep) char *text = NULL;

	(void)snprintf(body, sizeof(body), "{\"message\":\"\\u001b[2J%03000d\"}", 7);
	text = http_answer("403 Forbidden", "", body);
	api_open(e, NULL, NULL);
	SCRIPT(e, { .answer = text });
	fetch(e, "/x", &a);
	assert_null(strchr(a.err.msg, '\033'));
	assert_true(strlen(a.err.msg) < API_TEXT_MAX + 100);
	assert_non_null(strstr(a.err.msg, "?[2J00000"));
}

static void api_send__retry_after(void **state)
{
	static const struct {
		const char *header;
		uint64_t ns;
	} rows[] = {
		{ "", 0 },
		{ "Retry-After: 1\r\n", NS_PER_SEC },
		{ "Retry-After: 120\r\n", 120 * NS_PER_SEC },
		{ "Retry-After: 99999999999\r\n", API_RETRY_AFTER_MAX_NS },
		{ "Retry-After: -5\r\n", 0 },
		{ "Retry-After: soon\r\n", 0 },
	};
	struct env *e = *state;
	struct api_answer a = { .n = 0 };

	api_open(e, NULL, NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(freep)
		char *text =
			http_answer(i % 2 ? "429 Too Many Requests" : "503 Service Unavailable",
				rows[i].header, "{}");

		SCRIPT(e, { .answer = text });
		fetch(e, "/x", &a);
		assert_int_equal(a.retry_after_ns, rows[i].ns);
	}
}

static void api_send__no_answer(void **state)
{
	struct env *e = *state;
	struct api_answer a = { .n = 0 };
	struct error err = ERROR_INIT;
	struct api_request req = { .method = "GET",
		.path = "/slow",
		.timeout_ns = 50 * NS_PER_MS };
	uint64_t begin;

	api_open(e, NULL, NULL);
	SCRIPT(e, { .answer = NULL });
	fetch(e, "/x", &a);
	assert_int_equal(a.status, 0);
	assert_int_equal(a.err.code, ERR_UNAVAILABLE);
	SCRIPT(e, { .answer = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\"",
			  .hang_up = true });
	fetch(e, "/x", &a);
	assert_int_equal(a.status, 0);
	assert_string_equal(a.body, "");
	assert_int_equal(a.err.code, ERR_UNAVAILABLE);
	SCRIPT(e, { .answer = "no HTTP\r\n\r\n", .hang_up = true });
	fetch(e, "/x", &a);
	assert_int_equal(a.err.code, ERR_UNAVAILABLE);
	SCRIPT(e, { .silent = true });
	begin = time_mono_ns();
	assert_ok(api_send(e->api, &req, on_answer, &a, NULL, &err), &err);
	run(e, &a.n, 4);
	assert_int_equal(a.err.code, ERR_TIMEOUT);
	assert_true(time_mono_ns() - begin >= 49 * NS_PER_MS);
	stub_close(e);
	fetch(e, "/x", &a);
	assert_int_equal(a.err.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(a.err.msg, "refused"));
	assert_null(strstr(a.err.msg, " ms")); /* the same words each time */
}

static void api_send__odd_bodies(void **state)
{
	struct env *e = *state;
	struct api_answer a = { .n = 0 };
	char *big = malloc(API_BODY_MAX + 2);
	CLEANUP(freep) char *text = NULL;

	assert_non_null(big);
	memset(big, ' ', API_BODY_MAX + 1);
	big[API_BODY_MAX + 1] = '\0';
	text = http_answer("200 OK", "", big);
	free(big);
	api_open(e, NULL, NULL);
	SCRIPT(e, { .answer = "HTTP/1.1 204 No Content\r\n\r\n" });
	fetch(e, "/x", &a);
	assert_false(a.has_error);
	assert_string_equal(a.body, "");
	SCRIPT(e, { .answer = "HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\n<htm>" });
	fetch(e, "/x", &a);
	assert_string_equal(a.body, "");
	assert_non_null(strstr(a.err.msg, "answers 403"));
	SCRIPT(e, { .answer = text });
	fetch(e, "/x", &a);
	assert_int_equal(a.err.code, ERR_LIMIT);
	assert_non_null(strstr(a.err.msg, "larger than 8388608"));
}

static void api_send__refuses_path(void **state)
{
	static const char *const paths[] = { "x", "/a b", "/a\r\nX: y", "/\xc3\xa4" };
	struct env *e = *state;
	struct error err = ERROR_INIT;

	api_open(e, NULL, NULL);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct api_request req = { .method = "GET", .path = paths[i] };

		assert_error(api_send(e->api, &req, on_answer, NULL, NULL, &err), &err,
			"no escaped path");
	}
	assert_int_equal(api_requests(e->api), 0);
}

/* --- tokens --- */

static char *token_path;
static void swap_token(void *arg)
{
	free(write_file(arg, "token", "new\n"));
}

static void api_send__repeats_with_new_token(void **state)
{
	struct env *e = *state;
	struct api_answer a = { .n = 0 };

	token_path = write_file(e, "token", "  old\n");
	e->arg = e;
	api_open(e, NULL, token_path);
	SCRIPT(e, { .expects = "Bearer old\r\n", .answer = OK_ANSWER },
		{ .expects = "Bearer old\r\n", .answer = UNAUTHORIZED, .before = swap_token },
		{ .expects = "Bearer new\r\n", .answer = OK_ANSWER },
		{ .expects = "Bearer new\r\n", .answer = UNAUTHORIZED });
	fetch(e, "/x", &a);
	fetch(e, "/x", &a);
	assert_false(a.has_error);
	assert_int_equal(e->requests, 3);
	assert_int_equal(api_requests(e->api), 3);
	/* The same token again would be as bad as before. */
	fetch(e, "/x", &a);
	assert_int_equal(a.status, 401);
	assert_int_equal(a.err.code, ERR_PERMISSION);
	assert_int_equal(e->requests, 4);
	free(token_path);
}

static CURL *fail_easy_init(void)
{
	return NULL;
}

/* The repeat after the answer has newer credentials, but no memory. */
static void swap_token_and_fail(void *arg)
{
	static struct curl_table failing;
	struct env *e = arg;

	swap_token(arg);
	failing = *e->api->curl;
	failing.easy_init = fail_easy_init;
	e->api->curl = &failing;
}

static void api_send__reports_why_it_cannot_repeat(void **state)
{
	struct env *e = *state;
	struct api_answer a = { .n = 0 };

	token_path = write_file(e, "token", "old");
	e->arg = e;
	api_open(e, NULL, token_path);
	SCRIPT(e, { .answer = UNAUTHORIZED, .before = swap_token_and_fail });
	fetch(e, "/x", &a);
	assert_int_equal(e->requests, 1);
	assert_int_equal(a.status, 0);
	assert_int_equal(a.err.code, ERR_NOMEM);
	assert_non_null(strstr(a.err.msg, "GET 'http://"));
	free(token_path);
}

static void spoil_token(void *arg)
{
	static unsigned n;
	char text[32];

	(void)snprintf(text, sizeof(text), "t%u", n++);
	free(write_file(arg, "token", text));
}

static void api_send__repeats_once(void **state)
{
	struct env *e = *state;
	struct api_answer a = { .n = 0 };

	token_path = write_file(e, "token", "old");
	e->arg = e;
	api_open(e, NULL, token_path);
	SCRIPT(e, { .answer = UNAUTHORIZED, .before = spoil_token });
	fetch(e, "/x", &a);
	assert_int_equal(a.status, 401);
	assert_int_equal(e->requests, 2);
	free(token_path);
}

static void api_send__reads_token_again(void **state)
{
	struct env *e = *state;
	struct api_answer a = { .n = 0 };

	token_path = write_file(e, "token", "old");
	api_open(e, NULL, token_path);
	assert_int_equal(e->api->intervals.token_ns, 60 * NS_PER_SEC);
	e->api->intervals.token_ns = 20 * NS_PER_MS;
	SCRIPT(e, { .expects = "Bearer old", .answer = OK_ANSWER },
		{ .expects = "Bearer new", .answer = OK_ANSWER });
	fetch(e, "/x", &a);
	swap_token(e);
	run_for_ms(e, 25);
	fetch(e, "/x", &a);
	/* The client uses the last token while it cannot read the file. */
	assert_int_equal(unlink(token_path), 0);
	run_for_ms(e, 25);
	fetch(e, "/x", &a);
	assert_false(a.has_error);
	free(token_path);
}

static void api_send__bad_token(void **state)
{
	static const char *const bad[] = { "", " \n", "a b", "a\nX-Evil: 1", "a\tb", "\xc3\xa4",
		"a\x7f" };
	struct env *e = *state;
	struct api_request req = { .method = "GET", .path = "/x" };
	struct error err = ERROR_INIT;
	char *big = malloc(API_TOKEN_MAX + 2);

	assert_non_null(big);
	memset(big, 'a', API_TOKEN_MAX + 1);
	big[API_TOKEN_MAX + 1] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		char *path = write_file(e, "token", bad[i]);

		api_open(e, NULL, path);
		assert_error(api_send(e->api, &req, on_answer, NULL, NULL, &err), &err,
			"expected a token");
		assert_null(strstr(err.msg, "Evil"));
		e->api = api_free(e->api);
		free(path);
	}
	token_path = write_file(e, "token", big);
	api_open(e, NULL, token_path);
	assert_error(api_send(e->api, &req, on_answer, NULL, NULL, &err), &err, "larger than");
	free(token_path);
	free(big);
}

/* --- ends --- */

static void cancel_other(struct api_answer *a)
{
	assert_null(api_cancel(a->other));
	assert_null(api_cancel(a->call)); /* itself: nothing to do */
}

static void free_api(struct api_answer *a)
{
	a->env->api = api_free(a->env->api);
}

static void send_another(struct api_answer *a)
{
	a->inside = NULL;
	get(a->env, "/y", a);
}

static void api_cancel__anywhere(void **state)
{
	struct env *e = *state;
	struct api_answer a = { .env = e }, b = { .env = e };

	assert_null(api_cancel(NULL));
	api_open(e, NULL, NULL);
	SCRIPT(e, { .answer = OK_ANSWER });
	get(e, "/x", &a);
	assert_null(api_cancel(a.call)); /* before anything was sent */
	run_for_ms(e, 20);
	assert_int_equal(a.n, 0);
	SCRIPT(e, { .silent = true });
	get(e, "/x", &a);
	run(e, &e->requests, 1);
	assert_null(api_cancel(a.call)); /* half-way */
	run_for_ms(e, 20);
	assert_int_equal(a.n, 0);
	/* A callback cancels another call, and its own. */
	SCRIPT(e, { .silent = true }, { .answer = OK_ANSWER });
	get(e, "/b", &b);
	run(e, &e->requests, 1);
	a.other = b.call;
	a.inside = cancel_other;
	fetch(e, "/x", &a);
	run_for_ms(e, 20);
	assert_int_equal(b.n, 0);
}

static void api_send__inside_callback(void **state)
{
	struct env *e = *state;
	struct api_answer a = { .env = e, .inside = send_another };

	api_open(e, NULL, NULL);
	SCRIPT(e, { .answer = OK_ANSWER });
	get(e, "/x", &a);
	run(e, &a.n, 2);
	assert_false(a.has_error);
}

static void api_free__cancels_calls_in_progress(void **state)
{
	struct env *e = *state;
	struct api_answer a = { .env = e }, b = { .env = e };

	assert_null(api_free(NULL));
	api_open(e, NULL, NULL);
	SCRIPT(e, { .silent = true });
	get(e, "/a", &a);
	run(e, &e->requests, 1);
	get(e, "/b", &b);
	e->api = api_free(e->api);
	run_for_ms(e, 20);
	assert_int_equal(a.n + b.n, 0);
}

static void api_free__inside_callback(void **state)
{
	struct env *e = *state;
	struct api_answer a = { .env = e }, b = { .env = e, .inside = free_api };

	api_open(e, NULL, NULL);
	SCRIPT(e, { .silent = true }, { .answer = OK_ANSWER });
	get(e, "/a", &a);
	run(e, &e->requests, 1);
	get(e, "/b", &b);
	run(e, &b.n, 1);
	run_for_ms(e, 20);
	assert_null(e->api);
	assert_int_equal(a.n, 0);
}

static void curl_open__reports_missing_functions(void **state)
{
	struct curl_table t;
	struct error err = ERROR_INIT;

	(void)state;
	assert_error(curl_open(&t, "libcurl-of-nobody.so.4", &err), &err, "package libcurl4");
	assert_int_equal(err.code, ERR_UNSUPPORTED);
	assert_error(curl_open(&t, "libjansson.so.4", &err), &err,
		"has no curl_easy_cleanup()");
}

#define API_TEST(name) cmocka_unit_test_setup_teardown(name, api_env_setup, api_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		API_TEST(api_send__sends_the_request),
		API_TEST(api_send__keeps_connection),
		API_TEST(api_send__maps_status),
		API_TEST(api_send__truncates_the_message_of_the_server),
		API_TEST(api_send__retry_after),
		API_TEST(api_send__no_answer),
		API_TEST(api_send__odd_bodies),
		API_TEST(api_send__refuses_path),
		API_TEST(api_send__repeats_with_new_token),
		API_TEST(api_send__reports_why_it_cannot_repeat),
		API_TEST(api_send__repeats_once),
		API_TEST(api_send__reads_token_again),
		API_TEST(api_send__bad_token),
		API_TEST(api_cancel__anywhere),
		API_TEST(api_send__inside_callback),
		API_TEST(api_free__cancels_calls_in_progress),
		API_TEST(api_free__inside_callback),
		cmocka_unit_test(curl_open__reports_missing_functions),
	};

	return cmocka_run_group_tests_name("api-calls", tests, NULL, NULL);
}
