/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/web/web-env.h"

#include "lib/base/fd.h"

/* When libmicrohttpd begins with a connection; web-order.c makes it do so in each way. */

static int setup(void **state)
{
	struct web_env *e = malloc(sizeof(*e));

	assert_non_null(e);
	web_env_init(e);
	e->options.worker_path = TEST_WEB_ORDER;
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

/* Starts the server; the first connections come in that order. */
static void start_in_order(struct web_env *e, const char *order)
{
	assert_int_equal(setenv("TEST_WEB_ORDER", order, 1), 0);
	web_env_start(e);
}

static void web__serves_whenever_libmicrohttpd_begins(void **state)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
	static const char *const rows[] = { "as-it-is:1000", "next-run:1000" };
	CLEANUP(buf_fini) struct buf b = BUF_INIT(REPLY_MAX);
	struct web_env *e = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CLEANUP(closep) int kept = -1;

		start_in_order(e, rows[i]);
		kept = web_connect(e);
		for (int n = 0; n < 3; n++) {
			web_send_text(kept, request);
			web_read_reply(kept, false, &b);
			assert_int_equal(web_status_of(&b), 200);
			web_expect(e, GET("/healthz"), 200);
		}
		web_wait_count(e, open, 1);
		closep(&kept);
		web_wait_count(e, open, 0);
		assert_int_equal(web_counts(e->web).malformed, 0);
		assert_int_equal(atomic_load(&e->notices), 0);
		e->web = web_stop(e->web);
	}
}

#define FEW 4

/* A connection that libmicrohttpd has not begun with counts against the limit, too. */
static void web__counts_connections_that_wait_to_begin(void **state)
{
	struct web_env *e = *state;
	int fds[3 * FEW];

	e->options.limits.connections = FEW;
	start_in_order(e, "next-run:1000");
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = web_connect(e);
	web_wait_count(e, displaced, ARRAY_LEN(fds) - FEW);
	web_wait_count(e, open, FEW);
	web_expect(e, GET("/metrics"), 200);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		closep(&fds[i]);
	web_wait_count(e, open, 0);
}

static void web__drops_connections_that_never_begin(void **state)
{
	static const char *const rows[] = { "dropped:8", "refused:8", "second-run:8" };
	struct web_env *e = *state;

	e->options.limits.connections = FEW;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		start_in_order(e, rows[i]);
		for (int n = 0; n < 2 * FEW; n++) {
			CLEANUP(closep) int fd = web_connect(e);

			web_wait_closed(fd);
		}
		web_wait_count(e, open, 0);
		/* The next connections get the descriptor numbers of these. */
		for (int n = 0; n < 2 * FEW; n++)
			web_expect(e, GET("/metrics"), 200);
		web_wait_count(e, open, 0);
		assert_int_equal(web_counts(e->web).displaced, 0);
		assert_int_equal(web_counts(e->web).refused_full, 0);
		assert_int_equal(atomic_load(&e->notices), 0);
		e->web = web_stop(e->web);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(web__serves_whenever_libmicrohttpd_begins),
		TEST(web__counts_connections_that_wait_to_begin),
		TEST(web__drops_connections_that_never_begin),
	};

	return cmocka_run_group_tests_name("web-order", tests, NULL, NULL);
}
