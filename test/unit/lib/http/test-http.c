/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "lib/http/client/client.h"
#include "lib/http/health/server.h"
#include "lib/http/server/server.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct fixture {
	uv_loop_t loop;
	uv_timer_t later;
	struct http_exchange *waiting;
	struct http_server *server;
	char *dir, address[128];
	bool done;
};

static void reply_from_timer(uv_timer_t *t)
{
	struct fixture *f = t->data;

	http_reply(f->waiting, 200, "text/plain", "late", 4);
	f->waiting = NULL;
}

static void handle_request(void *arg, struct http_exchange *x, const struct http_request *req)
{
	struct fixture *f = arg;

	if (!strcmp(req->path, "/echo")) {
		http_reply(x, 200, "text/plain", req->body, req->body_len);
	} else if (!strcmp(req->path, "/query")) {
		const char *v = http_query(x, "a");

		http_reply(x, 200, "text/plain", v ? v : "-", v ? strlen(v) : 1);
	} else if (!strcmp(req->path, "/later")) {
		f->waiting = x;
		(void)uv_timer_start(&f->later, reply_from_timer, 20, 0);
	} else if (!strcmp(req->path, "/never")) {
		f->waiting = x;
	} else {
		struct error err = ERROR_INIT;

		(void)error_set(&err, ERR_NOT_FOUND, "no such path '%s'", req->path);
		http_reply_error(x, &err);
	}
}

/* The blocking client runs on a thread of its own, the loop in the test. */
struct client_call {
	struct fixture *f;
	const char *method, *path, *body;
	uint64_t timeout_ns;
	struct buf reply;
	struct error err;
	int r;
	uv_async_t finished;
};

static void *client_main(void *arg)
{
	struct client_call *c = arg;

	c->r = http_call_json(c->f->address, c->method, c->path, c->body, c->timeout_ns,
		&c->reply, &c->err);
	(void)uv_async_send(&c->finished);
	return NULL;
}

static void on_finished(uv_async_t *h)
{
	uv_close((uv_handle_t *)h, NULL);
	uv_stop(h->loop);
}

static void call(struct fixture *f, struct client_call *c, const char *method, const char *path,
	const char *body, uint64_t timeout_ns)
{
	pthread_t thread;

	*c = (struct client_call){ .f = f,
		.method = method,
		.path = path,
		.body = body,
		.timeout_ns = timeout_ns,
		.reply = BUF_INIT(1 << 20) };
	assert_int_equal(uv_async_init(&f->loop, &c->finished, on_finished), 0);
	assert_int_equal(pthread_create(&thread, NULL, client_main, c), 0);
	(void)uv_run(&f->loop, UV_RUN_DEFAULT);
	pthread_join(thread, NULL);
	(void)uv_run(&f->loop, UV_RUN_NOWAIT);
}

static void start_http_server(struct fixture *f)
{
	struct error err = ERROR_INIT;

	*f = (struct fixture){ .dir = test_tmpdir() };
	(void)snprintf(f->address, sizeof(f->address), "unix:%s/s", f->dir);
	(void)uv_loop_init(&f->loop);
	(void)uv_timer_init(&f->loop, &f->later);
	f->later.data = f;
	assert_ok(http_server_start(&f->server, &f->loop, f->address, 0600, handle_request, f,
			  &err),
		&err);
}

static void stop_http_server(struct fixture *f)
{
	f->server = http_server_stop(f->server);
	uv_close((uv_handle_t *)&f->later, NULL);
	(void)uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	test_rmdir(f->dir);
}

static void http_server__answers_at_once_or_later(void **state)
{
	struct fixture f;
	struct client_call c;

	(void)state;
	start_http_server(&f);
	call(&f, &c, "POST", "/echo", "hello", NS_PER_SEC);
	assert_ok(c.r, &c.err);
	assert_string_equal(buf_str(&c.reply), "hello");
	buf_fini(&c.reply);
	call(&f, &c, "GET", "/query?a=b%20c", NULL, NS_PER_SEC);
	assert_string_equal(buf_str(&c.reply), "b c");
	buf_fini(&c.reply);
	call(&f, &c, "GET", "/later", NULL, NS_PER_SEC);
	assert_ok(c.r, &c.err);
	assert_string_equal(buf_str(&c.reply), "late");
	buf_fini(&c.reply);
	call(&f, &c, "GET", "/nowhere", NULL, NS_PER_SEC);
	assert_int_equal(c.r, -1);
	assert_int_equal(c.err.code, ERR_NOT_FOUND);
	assert_string_equal(c.err.msg, "no such path '/nowhere'");
	buf_fini(&c.reply);
	stop_http_server(&f);
}

static struct health_response answer_health(void *arg, const char *path)
{
	(void)arg;
	(void)path;
	return (struct health_response){ .status = 200, .text = "ok\n" };
}

/* The client's other kind of address. */
static void http_call__reads_an_answer_over_tcp(void **state)
{
	struct health_server *server = NULL;
	struct error err = ERROR_INIT;
	struct fixture f;
	struct client_call c;

	(void)state;
	start_http_server(&f);
	assert_ok(
		health_server_start(&server, &f.loop, "127.0.0.1:0", answer_health, NULL, &err),
		&err);
	(void)snprintf(f.address, sizeof(f.address), "127.0.0.1:%u",
		health_server_port(server));
	call(&f, &c, "GET", "/", NULL, NS_PER_SEC);
	assert_ok(c.r, &c.err);
	assert_string_equal(buf_str(&c.reply), "ok\n");
	buf_fini(&c.reply);
	server = health_server_stop(server);
	stop_http_server(&f);
}

static void http_server__survives_a_client_that_gives_up(void **state)
{
	struct fixture f;
	struct client_call c;

	(void)state;
	start_http_server(&f);
	call(&f, &c, "GET", "/never", NULL, 50 * NS_PER_MS);
	assert_int_equal(c.r, -1);
	assert_int_equal(c.err.code, ERR_TIMEOUT);
	buf_fini(&c.reply);
	stop_http_server(&f);
}

/* The status of the answer to these bytes, as libcurl sends no such request. */
static uint32_t status_of(struct fixture *f, const char *request)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t until_ns = time_mono_ns() + 20 * NS_PER_SEC;
	char answer[64] = "";
	uint32_t status = 0;
	ssize_t n = 0;

	(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", f->address + strlen("unix:"));
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(write(fd, request, strlen(request)), strlen(request));
	while (n <= 0 && time_mono_ns() < until_ns) {
		(void)uv_run(&f->loop, UV_RUN_NOWAIT);
		n = recv(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT);
	}
	(void)close(fd);
	assert_true(n > 12 && !strncmp(answer, "HTTP/1.1 ", 9));
	answer[12] = '\0';
	assert_true(parse_u32(answer + 9, &status));
	return status;
}

static void http_server__refuses_ambiguous_requests(void **state)
{
#define POST_WITH(headers) "POST /echo HTTP/1.1\r\nHost: a\r\n" headers "\r\nab"
	static const struct {
		const char *request;
		unsigned status;
	} rows[] = {
		{ POST_WITH("Content-Length: 2\r\n"), 200 },
		{ POST_WITH("Content-Length: 2\r\nContent-Length: 1\r\n"), 400 },
		{ POST_WITH("Content-Length: 2\r\nContent-Length: 2\r\n"), 400 },
		{ POST_WITH("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n"), 400 },
		{ POST_WITH("Host: b\r\nContent-Length: 2\r\n"), 400 },
	};
	struct fixture f;

	(void)state;
	start_http_server(&f);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(status_of(&f, rows[i].request), rows[i].status);
	stop_http_server(&f);
}

static void http_server__refuses_a_used_and_an_invalid_address(void **state)
{
	struct error err = ERROR_INIT;
	struct http_server *second = NULL;
	struct fixture f;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(100);
	int status;

	(void)state;
	start_http_server(&f);
	assert_error(
		http_server_start(&second, &f.loop, f.address, 0600, handle_request, &f, &err),
		&err, "another process serves it");
	assert_error(
		http_server_start(&second, &f.loop, "127.0.0.1:0", 0, handle_request, &f, &err),
		&err, "expected unix:/path");
	assert_null(second);
	stop_http_server(&f);
	assert_error(http_call(f.address, "GET", "/", NULL, NS_PER_SEC, &status, &b, &err),
		&err, "connect to 'unix:");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(http_server__answers_at_once_or_later),
		cmocka_unit_test(http_call__reads_an_answer_over_tcp),
		cmocka_unit_test(http_server__survives_a_client_that_gives_up),
		cmocka_unit_test(http_server__refuses_ambiguous_requests),
		cmocka_unit_test(http_server__refuses_a_used_and_an_invalid_address),
	};

	return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
