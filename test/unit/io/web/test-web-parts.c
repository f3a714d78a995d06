/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <arpa/inet.h>

#include "lib/base/time.h"
#include "io/web/worker/conn.h"
#include "io/web/packet/throttle.h"
#include "io/web/packet/parse.h"
#include "io/web/packet/yield.h"

/* The parts of the web server that need neither sockets nor a clock. */

static void web_host_is__compares_the_whole_name(void **state)
{
	static const struct {
		const char *header, *name;
		bool is;
	} rows[] = {
		{ "a", "a", true },
		{ "A:1", "a", true },
		{ " a ", "a", true },
		{ "a:", "a", true },
		{ "ab", "a", false },
		{ "a", "ab", false },
		{ "[::1]", "::1", true },
		{ "[::1]:9", "::1", true },
		{ "[::1]x", "::1", false },
		{ "::1", "::1", false },
		{ "a:65535", "a", true },
		{ "a:1:evil", "a", false },
		{ "a:evil", "a", false },
		{ "a:1@evil", "a", false },
		{ "a:1 evil", "a", false },
		{ "a:123456", "a", false },
		{ "[::1]:1:evil", "::1", false },
		{ "[::1]:evil", "::1", false },
		{ "[", "", false },
		{ "", "a", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (web_host_is(rows[i].header, rows[i].name) != rows[i].is)
			fail_msg("'%s' and '%s'", rows[i].header, rows[i].name);
}

static struct in6_addr parse_address(const char *text)
{
	struct sockaddr_storage s = { .ss_family = AF_INET };

	if (strchr(text, ':')) {
		s.ss_family = AF_INET6;
		assert_int_equal(
			inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&s)->sin6_addr), 1);
	} else {
		assert_int_equal(
			inet_pton(AF_INET, text, &((struct sockaddr_in *)&s)->sin_addr), 1);
	}
	return web_address(&s);
}

static void web_conn_list_admit__counts_addresses_in_both_forms(void **state)
{
	struct web_conn_list list = { .connections = 4, .per_address = 2 };
	struct web_conn c[4] = { { .fd = 0 } };
	static const char *const from[] = { "10.0.0.1", "::ffff:10.0.0.1", "fd00::1",
		"10.0.0.2" };
	struct in6_addr a = parse_address("10.0.0.1"), other = parse_address("10.0.0.3");

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		c[i].addr = parse_address(from[i]);
		assert_int_equal(web_conn_list_admit(&list, &c[i].addr), WEB_ADMITTED);
		web_conn_list_add(&list, &c[i], i);
		assert_int_equal(web_conn_list_admit(&list, &a),
			i == 0 ? WEB_ADMITTED : WEB_ADDRESS_FULL);
	}
	assert_int_equal(web_conn_list_admit(&list, &other), WEB_FULL);
	web_conn_list_set_state(&list, &c[3], WEB_CONN_CUT, 9);
	assert_int_equal(web_conn_list_admit(&list, &other), WEB_ADMITTED);
	web_conn_list_remove(&list, &c[1]);
	assert_int_equal(web_conn_list_admit(&list, &a), WEB_ADMITTED);
	assert_int_equal(list.open, 3);
	assert_int_equal(list.cut, 1);
	assert_int_equal(web_conn_list_oldest_serial(&list), 1);
	web_conn_list_remove(&list, &c[0]);
	assert_int_equal(web_conn_list_oldest_serial(&list), 3);
}

static void web_conn_list_find_new__returns_connections_that_have_not_begun(void **state)
{
	struct web_conn_list list = { .connections = 9, .per_address = 9 };
	struct web_conn c[3] = { { .fd = 7 }, { .fd = 8 }, { .fd = 7 } };

	(void)state;
	assert_null(web_conn_list_find_new(&list, 7));
	web_conn_list_add(&list, &c[0], 1);
	web_conn_list_add(&list, &c[1], 2);
	assert_ptr_equal(web_conn_list_find_new(&list, 7), &c[0]);
	assert_ptr_equal(web_conn_list_find_new(&list, 8), &c[1]);
	assert_null(web_conn_list_find_new(&list, 9));
	c[0].has_request = true;
	assert_null(web_conn_list_find_new(&list, 7));
	/* The number comes again before the end of the first is noticed. */
	web_conn_list_add(&list, &c[2], 3);
	assert_ptr_equal(web_conn_list_find_new(&list, 7), &c[2]);
	web_conn_list_remove(&list, &c[2]);
	assert_null(web_conn_list_find_new(&list, 7));
}

static void web_conn_list_find_due__follows_the_timeout_of_each_state(void **state)
{
	struct web_conn_list list = { .connections = 9,
		.per_address = 9,
		.lasts_ns = { [WEB_CONN_REQUEST] = 10,
			[WEB_CONN_REPLY] = 30,
			[WEB_CONN_IDLE] = 20 } };
	struct web_conn c[3] = { { .fd = 0 } };

	(void)state;
	assert_true(web_conn_list_deadline(&list) == UINT64_MAX);
	web_conn_list_add(&list, &c[0], 100);
	web_conn_list_add(&list, &c[1], 101);
	web_conn_list_add(&list, &c[2], 102);
	assert_int_equal(web_conn_list_deadline(&list), 110);
	web_conn_list_set_state(&list, &c[0], WEB_CONN_REPLY, 105);
	assert_int_equal(web_conn_list_deadline(&list), 111);
	assert_null(web_conn_list_find_due(&list, 110));
	assert_ptr_equal(web_conn_list_find_due(&list, 111), &c[1]);
	web_conn_list_set_state(&list, &c[1], WEB_CONN_CUT, 111);
	assert_ptr_equal(web_conn_list_find_due(&list, 200), &c[2]);
	web_conn_list_remove(&list, &c[2]);
	assert_int_equal(web_conn_list_deadline(&list), 135);
	web_conn_list_set_state(&list, &c[0], WEB_CONN_IDLE, 130);
	assert_int_equal(web_conn_list_deadline(&list), 150);
	assert_ptr_equal(web_conn_list_find_due(&list, 150), &c[0]);
	web_conn_list_set_state(&list, &c[0], WEB_CONN_CUT, 150);
	assert_null(web_conn_list_find_due(&list, 10000));
	assert_int_equal(list.open, 2);
}

static void web_conn_list_find_victim__returns_an_idle_connection(void **state)
{
	struct web_conn_list list = { .connections = 9, .per_address = 9 };
	struct web_conn c[4] = { { .fd = 0 } };

	(void)state;
	for (size_t i = 0; i < 4; i++)
		web_conn_list_add(&list, &c[i], i);
	web_conn_list_set_state(&list, &c[1], WEB_CONN_REPLY, 5);
	web_conn_list_set_state(&list, &c[2], WEB_CONN_IDLE, 6);
	assert_ptr_equal(web_conn_list_find_victim(&list), &c[2]);
	web_conn_list_set_state(&list, &c[2], WEB_CONN_CUT, 7);
	assert_ptr_equal(web_conn_list_find_victim(&list), &c[0]);
	web_conn_list_set_state(&list, &c[0], WEB_CONN_CUT, 7);
	assert_ptr_equal(web_conn_list_find_victim(&list), &c[3]);
	web_conn_list_set_state(&list, &c[3], WEB_CONN_CUT, 7);
	assert_null(web_conn_list_find_victim(&list));
}

static void web_throttle__limits_the_thread_to_its_share(void **state)
{
	struct web_throttle p;
	uint64_t wall = 1000, cpu = 0, began;

	(void)state;
	web_throttle_init(&p, 250, wall, cpu);
	/* Work without end: what it gets over a long time is its part, and the burst once. */
	began = wall;
	for (int i = 0; i < 100000; i++) {
		uint64_t rest;

		wall += 37500;
		cpu += 37500;
		rest = web_throttle_get_pause_ns(&p, wall, cpu);
		wall += rest;
	}
	assert_in_range(cpu - WEB_THROTTLE_BURST_NS, (wall - began) / 1000 * 249,
		(wall - began) / 1000 * 251);
	/* A long sleep earns one burst and no more. */
	wall += 3600 * NS_PER_SEC;
	assert_int_equal(web_throttle_get_pause_ns(&p, wall, cpu), 0);
	cpu += WEB_THROTTLE_BURST_NS;
	assert_int_equal(web_throttle_get_pause_ns(&p, wall, cpu), 0);
	cpu += 1000;
	assert_int_equal(web_throttle_get_pause_ns(&p, wall, cpu), 4000);
}

static void web_spin_wait__grows_to_its_end(void **state)
{
	(void)state;
	assert_int_equal(web_spin_wait_ms(0), 0);
	assert_int_equal(web_spin_wait_ms(WEB_SPIN_FREE - 1), 0);
	assert_int_equal(web_spin_wait_ms(WEB_SPIN_FREE), 1);
	assert_int_equal(web_spin_wait_ms(WEB_SPIN_FREE + 5), 6);
	assert_int_equal(web_spin_wait_ms(UINT32_MAX), WEB_SPIN_MAX_MS);
}

static void web_is_starved__is_true_if_it_waits_most_of_the_time(void **state)
{
	(void)state;
	assert_false(web_is_starved(0, 0));
	assert_false(web_is_starved(0, WEB_STARVED_NS)); /* one long wait */
	assert_true(web_is_starved(0, WEB_STARVED_NS + 4));
	assert_false(web_is_starved(NS_PER_SEC, WEB_STARVED_NS + 4 * NS_PER_SEC));
	assert_true(web_is_starved(NS_PER_SEC, WEB_STARVED_NS + 4 * NS_PER_SEC + 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(web_host_is__compares_the_whole_name),
		cmocka_unit_test(web_conn_list_admit__counts_addresses_in_both_forms),
		cmocka_unit_test(
			web_conn_list_find_new__returns_connections_that_have_not_begun),
		cmocka_unit_test(web_conn_list_find_due__follows_the_timeout_of_each_state),
		cmocka_unit_test(web_conn_list_find_victim__returns_an_idle_connection),
		cmocka_unit_test(web_throttle__limits_the_thread_to_its_share),
		cmocka_unit_test(web_spin_wait__grows_to_its_end),
		cmocka_unit_test(web_is_starved__is_true_if_it_waits_most_of_the_time),
	};

	return cmocka_run_group_tests_name("web-parts", tests, NULL, NULL);
}
