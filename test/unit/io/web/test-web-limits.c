/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/web/web-env.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include "lib/base/fd.h"
#include "lib/base/time.h"

/* What remote clients send that is no request, too much of one, or one that never ends. */

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

static void still_serves(const struct web_env *e)
{
	web_expect(e, GET("/metrics"), 200);
}

static void web__survives_malformed_requests(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} rows[] = {
#define ROW(s) { s, sizeof(s) - 1 }
		ROW("\0\0\0\0\0\0\0\0\r\n\r\n"),
		ROW("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), /* TLS */
		ROW("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		ROW("\r\n\r\n\r\n\r\n"),
		ROW("GET\r\n\r\n"),
		ROW("GET /metrics\r\n\r\n"),
		ROW("GET /metrics HTTP/9.9\r\nHost: localhost\r\n\r\n"),
		ROW("GET /metrics HTTP/1.1\r\n\r\n"), /* no Host */
		ROW("GET /metrics HTTP/1.1\r\nHost localhost\r\n\r\n"),
		ROW("GET /metrics HTTP/1.1\r\n Host: localhost\r\n\r\n"),
		ROW("GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"),
		ROW("GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n"),
		ROW("GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
		    "Content-Length: 2\r\n\r\nab"),
		ROW("GET /%zz%%%00%ff?%=%&&&==& HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		ROW("GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		ROW("GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		ROW("GET /nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: \0\xff\r\n\r\n"),
		ROW("CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
#undef ROW
	};
	struct web_env *e = *state;

	web_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(closep) int fd = web_connect(e);
		CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);

		web_send(fd, rows[i].bytes, rows[i].len);
		(void)shutdown(fd, SHUT_WR);
		web_read_all(fd, &b);
		if (strstr(buf_str(&b), "gpus 8"))
			fail_msg("row %zu is answered by '%.100s'", i, buf_str(&b));
	}
	assert_int_equal(atomic_load(&e->made), atomic_load(&e->released));
	still_serves(e);
	web_wait_count(e, open, 0);
}

static void web__refuses_headers_that_are_too_large(void **state)
{
	/* The last two are more than libmicrohttpd has room for: it answers, or just closes. */
	static const struct {
		size_t len;
		bool in_path;
		unsigned status;
	} rows[] = {
		{ 8000, false, 200 },
		{ 15000, false, 200 },
		{ WEB_HEADERS_MAX, false, 431 },
		{ 20000, false, 431 },
		{ 60000, false, 0 },
		{ 60000, true, 0 },
	};
	struct web_env *e = *state;

	web_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(buf_fini)
		struct buf request = BUF_INIT(1 << 20), b = BUF_INIT(REPLY_MAX);
		unsigned status;

		buf_puts(&request, rows[i].in_path ? "GET /" : "GET /metrics HTTP/1.1\r\nX: ");
		for (size_t n = 0; n < rows[i].len; n++)
			buf_putc(&request, 'a');
		buf_puts(&request, rows[i].in_path ? " HTTP/1.1" : "");
		buf_puts(&request, "\r\nHost: localhost\r\nConnection: close\r\n\r\n");
		web_talk(e, buf_str(&request), &b);
		status = web_status_of(&b);
		if (rows[i].status ? status != rows[i].status
				   : status != 0 && status / 100 != 4)
			fail_msg("%zu bytes are answered by %u", rows[i].len, status);
	}
	still_serves(e);
}

static void web__closes_connections_with_a_slow_request(void **state)
{
	static const char *const begun[] = { "", "G", "GET /metrics HTTP/1.1\r\n",
		"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: y\r\n" };
	struct web_env *e = *state;
	int fds[ARRAY_LEN(begun)];

	e->options.limits.request_ns = 30 * NS_PER_MS;
	e->options.limits.idle_ns = e->options.limits.reply_ns = 3600 * NS_PER_SEC;
	web_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(begun); i++) {
		fds[i] = web_connect(e);
		web_send_text(fds[i], begun[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(begun); i++) {
		web_wait_closed(fds[i]);
		closep(&fds[i]);
	}
	assert_int_equal(web_counts(e->web).timeouts, ARRAY_LEN(begun));
	web_wait_count(e, open, 0);
}

static void web__gives_a_slow_sender_no_more_time(void **state)
{
	struct web_env *e = *state;
	CLEANUP(closep) int fd = -1;

	e->options.limits.request_ns = 50 * NS_PER_MS;
	web_env_start(e);
	fd = web_connect(e);
	web_send_text(fd, "GET /metrics HTTP/1.1\r\n");
	/* A header that continues until the server disconnects. */
	while (web_counts(e->web).timeouts == 0) {
		web_send_text(fd, "X");
		web_nap();
	}
	web_wait_closed(fd);
}

static void web__closes_connections_that_do_not_read(void **state)
{
	static const char request[] = "GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct web_env *e = *state;
	CLEANUP(closep) int fd = -1;

	e->options.limits.reply_ns = 50 * NS_PER_MS;
	web_env_start(e);
	fd = web_connect(e);
	web_send_text(fd, request);
	web_wait_count(e, timeouts, 1);
	web_wait_count(e, open, 0);
	assert_int_equal(atomic_load(&e->released), 1);
}

static void web__closes_idle_connections(void **state)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct web_env *e = *state;
	CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);
	CLEANUP(closep) int fd = -1;

	e->options.limits.idle_ns = 30 * NS_PER_MS;
	web_env_start(e);
	fd = web_connect(e);
	web_send_text(fd, request);
	web_read_reply(fd, false, &b);
	web_wait_closed(fd);
	web_wait_count(e, open, 0);
	assert_int_equal(web_counts(e->web).timeouts, 0); /* that is no fault */
}

#define FEW 10

static void web__makes_room_for_new_requests(void **state)
{
	struct web_env *e = *state;
	int fds[FEW];

	e->options.limits.connections = FEW;
	web_env_start(e);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < FEW; i++) {
			fds[i] = web_connect(e);
			web_send_text(fds[i], "GET /metrics HT");
			web_wait_count(e, open, (unsigned)i + 1);
		}
		/* The five that came first make room. */
		for (int i = 0; i < FEW / 2; i++) {
			still_serves(e);
			web_wait_closed(fds[i]);
			web_wait_count(e, displaced, (unsigned)(round * FEW / 2 + i + 1));
			closep(&fds[i]);
			fds[i] = web_connect(e);
			web_wait_count(e, open, FEW);
		}
		for (int i = 0; i < FEW; i++) {
			CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);

			web_send_text(fds[i], i < FEW / 2 ? "GET /metrics HT" : "");
			web_send_text(fds[i], "TP/1.1\r\nHost: localhost\r\n\r\n");
			web_read_reply(fds[i], false, &b);
			assert_int_equal(web_status_of(&b), 200);
			closep(&fds[i]);
		}
		web_wait_count(e, open, 0);
	}
	assert_int_equal(web_counts(e->web).refused_full, 0);
	assert_int_equal(web_counts(e->web).malformed, 0);
}

static void web__refuses_more_than_it_can_answer_and_recovers(void **state)
{
	static const char request[] = "GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n";
	struct web_env *e = *state;
	int fds[FEW];

	e->options.limits.connections = FEW;
	web_env_start(e);
	for (unsigned round = 1; round <= 2; round++) {
		for (unsigned i = 0; i < FEW; i++) {
			fds[i] = web_connect(e);
			web_send_text(fds[i], request);
		}
		web_wait_count(e, requests[1], (uint64_t)round * FEW);
		for (int i = 0; i < 2 * FEW; i++) {
			CLEANUP(closep) int fd = web_connect(e);

			web_wait_closed(fd);
		}
		web_wait_count(e, refused_full, (uint64_t)round * 2 * FEW);
		for (int i = 0; i < FEW; i++)
			closep(&fds[i]);
		web_wait_count(e, open, 0);
	}
	still_serves(e);
}

/* Many more at a time than a round accepts. Most clients disconnect before the server reads. */
static void web__survives_many_connections(void **state)
{
	struct web_env *e = *state;
	int fds[300];

	e->options.limits.connections = FEW;
	e->options.limits.per_address = 1000;
	web_env_start(e);
	for (int round = 0; round < 5; round++) {
		for (size_t i = 0; i < ARRAY_LEN(fds); i++)
			fds[i] = web_connect(e);
		for (size_t i = 0; i < ARRAY_LEN(fds); i++)
			closep(&fds[i]);
		still_serves(e);
		web_wait_count(e, open, 0);
	}
}

/* The process has descriptors left, however many clients connect. */
static void web__leaves_descriptors_to_its_process(void **state)
{
	static const struct {
		rlim_t files;
		unsigned connections;
	} rows[] = {
		{ 400, 136 },                /* 400 / 2, and 64 on their way out */
		{ 150, 11 },                 /* 150 / 2 */
		{ 100, WEB_CONNECTIONS_MIN } /* however few */
	};
	struct web_env *e = *state;
	struct rlimit before, few;
	int fds[200];

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	e->options.limits.per_address = 1000;
	for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
		few = (struct rlimit){ rows[r].files, before.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		web_env_start(e);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0); /* for web_connect() */
		for (unsigned i = 0; i <= rows[r].connections; i++) {
			fds[i] = web_connect(e);
			if (i < rows[r].connections)
				web_wait_count(e, open, i + 1);
		}
		web_wait_count(e, displaced, 1);
		for (unsigned i = 0; i <= rows[r].connections; i++)
			closep(&fds[i]);
		e->web = web_stop(e->web);
	}
}

static void web__leaves_room_for_other_addresses(void **state)
{
	struct web_env *e = *state;
	int fds[FEW];

	e->options.limits.per_address = FEW;
	web_env_start(e);
	for (int i = 0; i < FEW; i++)
		fds[i] = web_connect_from(e, "127.0.0.3");
	web_wait_count(e, open, FEW);
	for (int i = 0; i < FEW; i++) {
		CLEANUP(closep) int fd = web_connect_from(e, "127.0.0.3");

		web_wait_closed(fd);
	}
	assert_int_equal(web_counts(e->web).refused_address, FEW);
	still_serves(e);
	for (int i = 0; i < FEW; i++)
		closep(&fds[i]);
	web_wait_count(e, open, 0);
}

static void web__counts_connections_without_a_request(void **state)
{
	struct web_env *e = *state;

	web_env_start(e);
	for (int i = 0; i < 3; i++) {
		CLEANUP(closep) int fd = web_connect(e);

		web_send(fd, "GE", (size_t)i);
	}
	web_wait_count(e, malformed, 3);
	still_serves(e);
	assert_int_equal(web_counts(e->web).malformed, 3);
}

static void web_stop__ends_connections_of_all_kinds(void **state)
{
	static const char *const begun[] = { "", "GET /met",
		"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" };
	struct web_env *e = *state;
	int fds[ARRAY_LEN(begun)];

	web_env_start(e);
	for (size_t i = 0; i < ARRAY_LEN(begun); i++) {
		fds[i] = web_connect(e);
		web_send_text(fds[i], begun[i]);
	}
	web_wait_count(e, requests[1], 3);
	e->web = web_stop(e->web);
	for (size_t i = 0; i < ARRAY_LEN(begun); i++) {
		web_wait_closed(fds[i]);
		closep(&fds[i]);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(web__survives_malformed_requests),
		TEST(web__refuses_headers_that_are_too_large),
		TEST(web__closes_connections_with_a_slow_request),
		TEST(web__gives_a_slow_sender_no_more_time),
		TEST(web__closes_connections_that_do_not_read),
		TEST(web__closes_idle_connections),
		TEST(web__makes_room_for_new_requests),
		TEST(web__refuses_more_than_it_can_answer_and_recovers),
		TEST(web__survives_many_connections),
		TEST(web__leaves_descriptors_to_its_process),
		TEST(web__leaves_room_for_other_addresses),
		TEST(web__counts_connections_without_a_request),
		TEST(web_stop__ends_connections_of_all_kinds),
	};

	return cmocka_run_group_tests_name("web-limits", tests, NULL, NULL);
}
