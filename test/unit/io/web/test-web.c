/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/web/web-env.h"

#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/http/listen.h"

static int setup(void **state)
{
	struct web_env *e = malloc(sizeof(*e));

	assert_non_null(e);
	web_env_init(e);
	*state = e;
	return 0;
}

static int teardown(void **state)
{
	struct web_env *e = *state;

	web_env_fini(e);
	free(e);
	return 0;
}

static void assert_has(const struct buf *b, const char *text)
{
	if (!strstr(buf_str(b), text))
		fail_msg("expected '%s' in '%.600s'", text, buf_str(b));
}

static void web__serves_routes_with_headers_that_protect(void **state)
{
	static const char *const rows[][2] = {
		{ GET("/metrics"), "\r\n\r\ngpus 8\n" },
		{ GET("/metrics"), "Content-Type: application/openmetrics-text\r\n" },
		{ "GET /metrics HTTP/1.0\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n",
			"Content-Type: text/plain\r\n" },
		{ GET("/healthz"), "\r\n\r\nok\n" },
		{ GET("/items/a%20b/c"), "\r\n\r\na b/c" },
		{ GET("/items/"), "X-Item: yes\r\n" },
		{ GET("/query?b=1&a=x%26y&a=z"), "\r\n\r\nx&y" },
		{ GET("/query?a"), "Content-Length: 0\r\n" },
		{ GET("/query"), "\r\n\r\nnone" },
		{ GET("/unavailable"), "HTTP/1.1 503 " },
		{ GET("/nothing"), "HTTP/1.1 404 " },
		{ GET("/metricsx"), "HTTP/1.1 404 " },
	};
	static const char policy[] =
		"Content-Security-Policy: default-src 'none'; style-src 'self'; script-src 'self'; "
		"connect-src 'self'; img-src 'self' data:; ";
	const char *const headers[] = {
		"X-Content-Type-Options: nosniff\r\n",
		"Referrer-Policy: no-referrer\r\n",
		"Cache-Control: no-store\r\n",
		policy,
	};
	struct web_env *e = *state;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);

	web_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		web_talk(e, rows[i][0], &b);
		assert_has(&b, rows[i][1]);
		for (size_t h = 0; h < ARRAY_LEN(headers); h++)
			assert_has(&b, headers[h]);
	}
}

static void web__is_read_only(void **state)
{
	static const struct {
		const char *request;
		unsigned status;
	} rows[] = {
		{ "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc",
			405 },
		{ "PUT /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405 },
		{ "DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405 },
		{ "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 405 },
		{ "TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405 },
		{ "get /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 405 },
		{ "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc",
			413 },
		{ "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
		  "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
			413 },
		{ "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n"
		  "Expect: 100-continue\r\n\r\n",
			413 },
	};
	struct web_env *e = *state;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);

	web_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		web_expect(e, rows[i].request, rows[i].status);
	web_talk(e, rows[0].request, &b);
	assert_has(&b, "\r\nAllow: GET, HEAD\r\n");
	assert_int_equal(atomic_load(&e->made), 0);
	assert_int_equal(web_counts(e->web).requests[3], ARRAY_LEN(rows) + 1);
}

static void web__answers_head_with_the_length_only(void **state)
{
	struct web_env *e = *state;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);

	web_env_start(e);
	web_talk(e, "HEAD /big HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", &b);
	assert_has(&b, "Content-Length: " BIG_BODY_TEXT "\r\n");
	assert_true(b.len < 2000);
	web_talk(e, GET("/big"), &b);
	assert_true(b.len > BIG_BODY && b.len < BIG_BODY + 2000);
}

static void web__keeps_connections_alive(void **state)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct web_env *e = *state;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);
	CLEANUP(closep) int fd = -1;

	web_env_start(e);
	fd = web_connect(e);
	for (int i = 0; i < 5; i++) {
		web_send_text(fd, request);
		web_read_reply(fd, false, &b);
		assert_int_equal(web_status_of(&b), 200);
		web_wait_count(e, open, 1);
	}
	/* Two at once, and the first byte of a third. */
	web_send_text(fd, request);
	web_send_text(fd, GET("/healthz") "G");
	buf_clear(&b);
	web_read_all(fd, &b);
	assert_has(&b, "gpus 8\n");
	assert_has(&b, "\r\n\r\nok\n");
	web_wait_count(e, open, 0);
	assert_int_equal(web_counts(e->web).requests[1], 7);
}

static void web__answers_304_for_an_unchanged_page(void **state)
{
	static const char tail[] = "\r\nConnection: close\r\n\r\n";
	static const struct {
		const char *known;
		unsigned status;
	} rows[] = {
		{ "\"v7\"", 304 },
		{ "W/\"v6\", W/\"v7\"", 304 },
		{ "*", 304 },
		{ "\"v6\"", 200 },
		{ "v7", 200 },
		{ "\"v7", 200 },
	};
	struct web_env *e = *state;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);

	web_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char request[200];

		(void)snprintf(request, sizeof(request),
			"GET /etag HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: %s%s",
			rows[i].known, tail);
		web_talk(e, request, &b);
		assert_int_equal(web_status_of(&b), rows[i].status);
		assert_has(&b, "ETag: \"v7\"\r\n");
		assert_true(!strstr(buf_str(&b), "version") == (rows[i].status == 304));
	}
}

static void web__refuses_queries_that_are_too_long(void **state)
{
	struct web_env *e = *state;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);

	web_env_start(e);
	buf_puts(&b, "GET /query?a=1");
	for (int i = 1; i < WEB_QUERY_MAX; i++)
		buf_puts(&b, "&b=2");
	buf_puts(&b, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
	web_expect(e, buf_str(&b), 200);
	buf_clear(&b);
	buf_puts(&b, "GET /query?a=1");
	for (int i = 1; i < WEB_QUERY_MAX + 1; i++)
		buf_puts(&b, "&b");
	buf_puts(&b, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
	web_expect(e, buf_str(&b), 400);
	web_expect(e, GET("/query?a=x%00y"), 400);
	web_expect(e, GET("/query?%00=x"), 400);
}

/* A proxy before it might see another request than the server. */
static void web__refuses_ambiguous_requests(void **state)
{
#define GET_WITH(headers) "GET /metrics HTTP/1.1\r\n" headers "\r\n"
	static const struct {
		const char *request;
		unsigned status;
	} rows[] = {
		{ GET_WITH("Host: localhost\r\nContent-Length: 0\r\nConnection: close\r\n"),
			200 },
		{ GET_WITH("Host: localhost\r\nContent-Length: 0\r\nContent-Length: 0\r\n"),
			400 },
		{ GET_WITH(
			  "Host: localhost\r\nContent-Length: 0\r\ncontent-length: 5\r\n") "abcde",
			400 },
		{ GET_WITH("Host: localhost\r\nContent-Length: 5\r\n"
			   "Transfer-Encoding: chunked\r\n") "0\r\n\r\n",
			400 },
		{ GET_WITH("Host: localhost\r\nContent-Length: +0\r\n"), 400 },
		{ GET_WITH("Host: localhost\r\nHost: localhost\r\n"), 400 },
		{ GET_WITH("Host: localhost\r\nHost: evil.example\r\n"), 400 },
		{ GET_WITH("Host: localhost\r\nX-\x01: a\r\n"), 400 },
		{ GET_WITH("Host: localhost\r\nX: a\x01\r\n"), 400 },
		{ GET_WITH("Host: localhost\r\nX Y: a\r\n"), 400 },
		{ "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
		  "Content-Length: 2\r\n\r\nab",
			400 },
		{ "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n"
		  "Connection: close\r\n\r\n",
			404 },
	};
	struct web_env *e = *state;

	web_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		web_expect(e, rows[i].request, rows[i].status);
}

static void web__accepts_only_local_hosts_without_a_token(void **state)
{
	static const struct {
		const char *host;
		unsigned status;
	} rows[] = {
		{ "localhost", 200 },
		{ "LocalHost:1234", 200 },
		{ "127.0.0.1", 200 },
		{ "127.0.0.1:80", 200 },
		{ "[::1]", 200 },
		{ "[::1]:8080", 200 },
		{ "127.0.0.9:9400", 200 }, /* what it listens on */
		{ "evil.example", 403 },
		{ "evil.example:9400", 403 },
		{ "localhost.evil.example", 403 },
		{ "127.0.0.1.evil.example", 403 },
		{ "[::1].evil.example", 403 },
		{ "[::1", 403 },
		{ "127.0.0.2", 403 },
		{ "localhost:9400:evil", 403 },
		{ "localhost:evil", 403 },
		{ "[::1]:1:evil", 403 },
		{ "localhost@evil.example", 403 },
		{ "", 403 },
	};
	struct web_env *e = *state;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);

	e->options.listen = "127.0.0.9:0";
	e->at = "127.0.0.9";
	web_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char request[200];

		(void)snprintf(request, sizeof(request),
			"GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
			rows[i].host);
		web_expect(e, request, rows[i].status);
	}
	web_expect(e, "GET /metrics HTTP/1.0\r\n\r\n", 403);
	web_talk(e, "GET /metrics HTTP/1.0\r\nHost: evil.example\r\n\r\n", &b);
	assert_has(&b, "give it a token");
	/* Open paths need no protection: probes may use any host name. */
	web_expect(e, "GET /healthz HTTP/1.0\r\nHost: evil.example\r\n\r\n", 200);
}

static void web__accepts_any_host_where_it_listens_on_all_addresses(void **state)
{
	struct web_env *e = *state;

	e->options.listen = ":0";
	web_env_start(e);
	web_expect(e, "GET /metrics HTTP/1.0\r\nHost: gpu-node-1.example\r\n\r\n", 200);
}

#define AUTH(path, value)                                                      \
	"GET " path " HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n" \
	"Authorization: " value "\r\n\r\n"

static void web__requires_the_token(void **state)
{
	static const struct {
		const char *request;
		unsigned status;
	} rows[] = {
		{ AUTH("/metrics", "Bearer s3cret"), 200 },
		{ AUTH("/metrics", "bearer   s3cret "), 200 },
		{ AUTH("/metrics", "Bearer s3creT"), 401 },
		{ AUTH("/metrics", "Bearer s3cre"), 401 },
		{ AUTH("/metrics", "Bearer s3crets"), 401 },
		{ AUTH("/metrics", "Bearer"), 401 },
		{ AUTH("/metrics", "Bearer "), 401 },
		{ AUTH("/metrics", "Bearers3cret"), 401 },
		{ AUTH("/metrics", "Basic s3cret"), 401 },
		{ AUTH("/metrics", "s3cret"), 401 },
		{ GET("/metrics"), 401 },
		{ GET("/nothing"),
			401 }, /* what there is, is not for clients without the token */
		{ AUTH("/nothing", "Bearer s3cret"), 404 },
		{ GET("/healthz"), 200 },
	};
	struct web_env *e = *state;
	CLEANUP(freep) char *path = web_env_file(e, "token", " s3cret\n");
	CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);

	e->options.token_file = path;
	web_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		web_expect(e, rows[i].request, rows[i].status);
	web_talk(e, GET("/metrics"), &b);
	assert_has(&b, "\r\nWWW-Authenticate: Bearer realm=\"gpuslice\"\r\n");
}

static void web__follows_the_token_file(void **state)
{
	struct web_env *e = *state;
	CLEANUP(freep) char *path = web_env_file(e, "token", "one");
	struct error why = ERROR_INIT;

	e->options.token_file = path;
	web_env_start(e);
	web_expect(e, AUTH("/metrics", "Bearer one"), 200);
	free(web_env_file(e, "token", "another"));
	web_expect(e, AUTH("/metrics", "Bearer one"), 401);
	web_expect(e, AUTH("/metrics", "Bearer another"), 200);
	/* An unusable token is reported once, and the last good one stays in force. */
	free(web_env_file(e, "token", ""));
	for (int i = 0; i < 3; i++)
		web_expect(e, AUTH("/metrics", "Bearer another"), 200);
	assert_int_equal(atomic_load(&e->notices), 1);
	web_assert_notice(e, path);
	web_assert_notice(e, "found nothing");
	assert_int_equal(unlink(path), 0);
	for (int i = 0; i < 3; i++)
		web_expect(e, AUTH("/metrics", "Bearer another"), 200);
	assert_int_equal(atomic_load(&e->notices), 2);
	assert_int_equal(web_state(e->web, &why), WEB_SERVING);
	assert_non_null(strstr(why.msg, path));
	free(web_env_file(e, "token", "third"));
	web_expect(e, AUTH("/metrics", "Bearer third"), 200);
	web_expect(e, AUTH("/metrics", "Bearer another"), 401);
	assert_int_equal(atomic_load(&e->notices), 2);
	for (unsigned i = 0; web_state(e->web, &why) == WEB_SERVING && why.code != ERR_NONE;
		i++) {
		if (i > WEB_TIMEOUT_S * 1000)
			fail_msg("waited in vain for a state without '%s'", why.msg);
		web_nap();
	}
	assert_int_equal(web_state(e->web, &why), WEB_SERVING);
}

static void web_start__refuses_an_invalid_address(void **state)
{
	static const char *const listens[] = { "nonsense", "127.0.0.1", "127.0.0.1:65536" };
	const struct web_ops ops = { .n_routes = 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(listens); i++) {
		const struct web_options options = { .listen = listens[i],
			.worker_path = TEST_WEB_WORKER };
		struct error err = ERROR_INIT;
		struct web *w = NULL;

		assert_error(web_start(&w, &options, &ops, NULL, &err), &err, listens[i]);
		assert_null(w);
	}
}

static const char *make_web_path(const struct web_env *e, const char *name, char path[512])
{
	if (!name)
		return NULL;
	(void)snprintf(path, 512, "%s/%s", e->dir, name);
	return path;
}

/* The server reports the obstacle, and serves when the obstacle is gone. */
static void web__reports_why_it_cannot_listen(void **state)
{
	static const struct {
		const char *token, *cert, *key, *text;
	} rows[] = {
		{ .token = "none", .text = "none" },
		{ .token = "empty", .text = "empty': expected a token" },
		{ .token = "blank", .text = "blank': expected a token" },
		{ .cert = "empty", .text = "there is only '" },
		{ .cert = "empty", .key = "blank", .text = "expected a PEM chain" },
	};
	struct web_env *e = *state;

	free(web_env_file(e, "empty", " \n"));
	free(web_env_file(e, "blank", "a b"));
	e->options.limits.restart_ns = 10 * NS_PER_MS;
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		char paths[3][512];
		struct error why = ERROR_INIT;

		e->options.token_file = make_web_path(e, rows[i].token, paths[0]);
		e->options.cert_file = make_web_path(e, rows[i].cert, paths[1]);
		e->options.key_file = make_web_path(e, rows[i].key, paths[2]);
		web_env_begin(e);
		web_wait_notices(e, i + 1);
		web_assert_notice(e, rows[i].text);
		assert_int_equal(web_state(e->web, &why), WEB_DOWN);
		assert_non_null(strstr(why.msg, rows[i].text));
		assert_int_equal(web_port(e->web), 0);
		if (rows[i].token) {
			free(web_env_file(e, rows[i].token, "one"));
			web_expect_when_serving(e, AUTH("/metrics", "Bearer one"), 200);
			assert_int_equal(web_state(e->web, &why), WEB_SERVING);
			assert_int_equal(atomic_load(&e->notices), i + 1);
		}
		e->web = web_stop(e->web);
	}
}

static void web__waits_for_an_address_in_use(void **state)
{
	struct web_env *e = *state;
	CLEANUP(closep) int other = -1;
	struct error err = ERROR_INIT;
	char address[32];
	unsigned port;

	assert_ok(http_listen_tcp("127.0.0.1:0", &other, &port, &err), &err);
	(void)snprintf(address, sizeof(address), "127.0.0.1:%u", port);
	e->options.listen = address;
	e->options.limits.restart_ns = 10 * NS_PER_MS;
	web_env_begin(e);
	web_wait_notices(e, 1);
	web_assert_notice(e, "Address already in use");
	closep(&other);
	web_expect_when_serving(e, GET("/metrics"), 200);
	assert_int_equal(web_port(e->web), port);
	assert_int_equal(atomic_load(&e->notices), 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(web__serves_routes_with_headers_that_protect),
		TEST(web__is_read_only),
		TEST(web__answers_head_with_the_length_only),
		TEST(web__keeps_connections_alive),
		TEST(web__answers_304_for_an_unchanged_page),
		TEST(web__refuses_queries_that_are_too_long),
		TEST(web__refuses_ambiguous_requests),
		TEST(web__accepts_only_local_hosts_without_a_token),
		TEST(web__accepts_any_host_where_it_listens_on_all_addresses),
		TEST(web__requires_the_token),
		TEST(web__follows_the_token_file),
		TEST(web_start__refuses_an_invalid_address),
		TEST(web__reports_why_it_cannot_listen),
		TEST(web__waits_for_an_address_in_use),
	};

	return cmocka_run_group_tests_name("web", tests, NULL, NULL);
}
