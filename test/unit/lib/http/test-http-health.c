/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/http/health/server.h"
#include "lib/http/health/health.h"
#include "support/patience.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT_MS 20000

/* --- decisions --- */

static void health_request_parse__accepts_only_requests_without_a_body(void **state)
{
	static const struct {
		const char *text;
		unsigned status;
		const char *path; /* of 200 */
	} rows[] = {
		{ "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200,
			"/healthz" },
		{ "GET /healthz HTTP/1.0\r\n\r\n", 200, "/healthz" },
		{ "HEAD /readyz?verbose HTTP/1.1\r\n\r\n", 200, "/readyz" },
		{ "GET /healthz HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 200, "/healthz" },
		{ "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 200, "/" },
		{ "GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n", 200, "/a" },
		{ "GET /0123456789012345678901234567890123456789012345678901234567890123456789 "
		  "HTTP/1.1\r\n\r\n",
			200, "" },
		{ "", 0, NULL },
		{ "GET /healthz HTTP/1.1\r\nHost: x\r\n", 0, NULL },
		{ "GET /healthz HTTP/1.1\n\n", 0, NULL },
		{ "\r\n\r\n", 400, NULL },
		{ "GET /healthz\r\n\r\n", 400, NULL },
		{ "GET  HTTP/1.1\r\n\r\n", 400, NULL },
		{ "GET http://x/healthz HTTP/1.1\r\n\r\n", 400, NULL },
		{ "GET /healthz HTTP/1.1\r\nno colon\r\n\r\n", 400, NULL },
		{ "GET /healthz HTTP/1.1\r\nA: b\r\n folded: c\r\n\r\n", 400, NULL },
		{ "GET /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, NULL },
		{ "GET /healthz HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 9\r\n\r\n",
			400, NULL },
		{ "GET /healthz HTTP/1.1 x\r\n\r\n", 505, NULL },
		{ "GET /healthz HTTP/2.0\r\n\r\n", 505, NULL },
		{ "GET /healthz ICY/1.1\r\n\r\n", 400, NULL },
		{ "DELETE /healthz HTTP/1.1\r\n\r\n", 405, NULL },
		{ "POST /healthz HTTP/1.1\r\nContent-Length: 4194304\r\n\r\n", 413, NULL },
		{ "GET /healthz HTTP/1.1\r\ncontent-length: 1\r\n\r\nx", 413, NULL },
		{ "GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct health_request r = { .head = false };
		unsigned status = health_request_parse(&r, rows[i].text, strlen(rows[i].text));

		if (status != rows[i].status)
			fail_msg("row %zu: %u", i, status);
		if (status == 200) {
			assert_string_equal(r.path, rows[i].path);
			assert_int_equal(r.head, rows[i].text[0] == 'H');
		}
	}
}

static void health_request_parse__ends_at_its_limit(void **state)
{
	static const char begin[] = "GET /healthz HTTP/1.1\r\nX: ";
	static const char end[] = { '\r', '\n', '\r', '\n' };
	char text[HEALTH_REQUEST_MAX + 1];
	struct health_request r;

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, begin, sizeof(begin) - 1);
	assert_int_equal(health_request_parse(&r, text, HEALTH_REQUEST_MAX - 1), 0);
	assert_int_equal(health_request_parse(&r, text, HEALTH_REQUEST_MAX), 431);
	memcpy(text + HEALTH_REQUEST_MAX - sizeof(end), end, sizeof(end));
	assert_int_equal(health_request_parse(&r, text, HEALTH_REQUEST_MAX), 200);
	text[HEALTH_REQUEST_MAX - sizeof(end)] = 'x';
	memcpy(text + sizeof(text) - sizeof(end), end, sizeof(end));
	assert_int_equal(health_request_parse(&r, text, sizeof(text)), 431);
}

static void health_peers_evict__selects_the_oldest_of_the_largest_peer(void **state)
{
	static const struct {
		const char *peers; /* a letter for each connection, in the order of arrival */
		size_t victim;
	} rows[] = {
		{ "a", 0 },
		{ "aa", 0 },
		{ "ab", 0 },
		{ "abc", 0 },
		{ "kaa", 1 }, /* a probe that is older stays */
		{ "kaaa", 1 },
		{ "aabb", 0 },
		{ "kbaab", 1 },
		{ "kabb", 2 },
		{ "aaak", 0 }, /* one that is new, too */
		{ "kbbbaaaa", 4 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct in6_addr peers[16] = { { .s6_addr = { 0 } } };
		size_t n = strlen(rows[i].peers), victim;

		for (size_t k = 0; k < n; k++)
			peers[k].s6_addr[15] = (uint8_t)rows[i].peers[k];
		victim = health_peers_evict(peers, n);
		if (victim != rows[i].victim)
			fail_msg("row %zu: %zu", i, victim);
	}
}

/* --- the server --- */

struct fixture {
	uv_loop_t loop;
	struct patience patience;
	struct health_server *server;
	unsigned asked; /* requests that the handler got */
};

static struct health_response answer_health_path(void *arg, const char *path)
{
	struct fixture *f = arg;

	f->asked++;
	return !strcmp(path, "/healthz")
		       ? (struct health_response){ .status = 200, .text = "ok\n" }
		       : (struct health_response){ .status = 404, .text = "nothing\n" };
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct error err = ERROR_INIT;

	assert_non_null(f);
	assert_int_equal(uv_loop_init(&f->loop), 0);
	patience_init(&f->patience, &f->loop);
	assert_ok(health_server_start(&f->server, &f->loop, "127.0.0.1:0", answer_health_path,
			  f, &err),
		&err);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	f->server = health_server_stop(f->server);
	patience_close(&f->patience);
	(void)uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	free(f);
	return 0;
}

/* Connects from 127.0.0.@host. */
static int connect_from_host(const struct fixture *f, unsigned host, const char *text)
{
	const struct sockaddr_in from = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x7f000000 | host) };
	const struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)health_server_port(f->server)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	return fd;
}

/* Runs the loop until the server closes @fd's connection; @ret has what came before. */
static void read_all(struct fixture *f, int fd, char *ret, size_t cap)
{
	size_t len = 0;

	patience_start(&f->patience, LIMIT_MS);
	for (;;) {
		ssize_t n = recv(fd, ret + len, cap - 1 - len, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			break;
		len += n > 0 ? (size_t)n : 0;
		if (!patience_run_once(&f->patience))
			fail_msg("the connection stays open");
	}
	patience_stop(&f->patience);
	ret[len] = '\0';
}

static bool is_open(int fd)
{
	char c;

	return recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

static void health_server__answers_and_closes(void **state)
{
	static const struct {
		const char *request, *status, *text;
	} rows[] = {
		{ "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n",
			"\r\n\r\nok\n" },
		{ "HEAD /healthz HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n",
			"Content-Length: 3\r\nConnection: close\r\n\r\n" },
		{ "GET /v1/status HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\n",
			"\r\n\r\nnothing\n" },
		{ "POST / HTTP/1.1\r\nContent-Length: 4194304\r\n\r\n",
			"HTTP/1.1 413 Content Too Large\r\n", "a body is refused\n" },
		{ "PUT / HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n",
			"Allow: GET, HEAD\r\n" },
	};
	char text[1024];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(closep) int fd = connect_from_host(*state, 1, rows[i].request);
		const char *end;

		read_all(*state, fd, text, sizeof(text));
		end = strstr(text, rows[i].text);
		if (strncmp(text, rows[i].status, strlen(rows[i].status)) != 0 || !end ||
			(rows[i].request[0] == 'H' && strlen(end) != strlen(rows[i].text)))
			fail_msg("row %zu: %s", i, text);
	}
}

static void health_server__evicts_slow_peers_and_not_those_with_few_connections(void **state)
{
	enum { SLOW = 3 * HEALTH_CONNECTIONS };
	struct fixture *f = *state;
	CLEANUP(closep) int early = connect_from_host(f, 2, "GET /heal");
	char text[1024];
	int fds[SLOW];
	unsigned open = 0;

	(void)uv_run(&f->loop, UV_RUN_NOWAIT);
	for (size_t i = 0; i < SLOW; i++) {
		CLEANUP(closep) int probe = -1;

		fds[i] = connect_from_host(f, 1, "GET /healthz HTTP/1.1\r\n");
		probe = connect_from_host(f, 1, "GET /healthz HTTP/1.1\r\n\r\n");
		read_all(f, probe, text, sizeof(text));
		assert_non_null(strstr(text, "200 OK"));
	}
	for (size_t i = 0; i < SLOW; i++)
		open += is_open(fds[i]);
	assert_in_range(open, 1, HEALTH_CONNECTIONS - 1);
	assert_false(is_open(fds[0]));
	assert_true(is_open(fds[SLOW - 1]));
	assert_int_equal(write(early, "thz HTTP/1.1\r\n\r\n", 16), 16);
	read_all(f, early, text, sizeof(text));
	assert_non_null(strstr(text, "200 OK"));
	for (size_t i = 0; i < SLOW; i++)
		(void)close(fds[i]);
	assert_int_equal(f->asked, SLOW + 1);
}

/* A byte in each millisecond does not prolong it. */
static void health_server__disconnects_a_slow_sender_at_the_deadline(void **state)
{
	struct fixture *f = *state;
	uint64_t begin_ns = time_mono_ns(), last_ms = 0;
	CLEANUP(closep) int fd = connect_from_host(f, 1, "GET /healthz HTTP/1.1\r\nX: ");

	patience_start(&f->patience, LIMIT_MS);
	while (is_open(fd)) {
		if (uv_now(&f->loop) != last_ms)
			(void)send(fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		last_ms = uv_now(&f->loop);
		if (!patience_run_once(&f->patience))
			fail_msg("the connection stays open");
	}
	patience_stop(&f->patience);
	assert_true(time_mono_ns() - begin_ns >= (HEALTH_DEADLINE_MS - 100) * NS_PER_MS);
	assert_int_equal(f->asked, 0);
}

static void health_server_start__refuses_a_used_or_invalid_address(void **state)
{
	static const char *const rows[][2] = {
		{ "nonsense", "expected host:port" },
		{ "127.0.0.1:999999", "expected a port from 0 to 65535, found '999999'" },
		{ "127.0.0.1:65536", "from 0 to 65535, found '65536'" },
		{ ":65537", "from 0 to 65535, found '65537'" },
		{ ":-1", "from 0 to 65535, found '-1'" },
		{ "[::1]:4294967296", "from 0 to 65535, found '4294967296'" },
		{ "127.0.0.1:http", "from 0 to 65535, found 'http'" },
		{ "127.0.0.1:80x", "from 0 to 65535, found '80x'" },
	};
	struct fixture *f = *state;
	struct health_server *second = NULL;
	struct error err = ERROR_INIT;
	char address[32];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_error(health_server_start(&second, &f->loop, rows[i][0],
				     answer_health_path, f, &err),
			&err, rows[i][1]);
	(void)snprintf(address, sizeof(address), "127.0.0.1:%u", health_server_port(f->server));
	assert_error(
		health_server_start(&second, &f->loop, address, answer_health_path, f, &err),
		&err, "listen on");
	assert_null(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(health_request_parse__accepts_only_requests_without_a_body),
		cmocka_unit_test(health_request_parse__ends_at_its_limit),
		cmocka_unit_test(health_peers_evict__selects_the_oldest_of_the_largest_peer),
		cmocka_unit_test_setup_teardown(health_server__answers_and_closes, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			health_server__evicts_slow_peers_and_not_those_with_few_connections,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			health_server__disconnects_a_slow_sender_at_the_deadline, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			health_server_start__refuses_a_used_or_invalid_address, set_up,
			tear_down),
	};

	return cmocka_run_group_tests_name("http-health", tests, NULL, NULL);
}
