/* SPDX-License-Identifier: Apache-2.0 */

/* The command language of the simulated MPS, and its figures: NVIDIA's, as an H100's daemon has them. */
#include "support/test.h"

#include <string.h>

#include "testbed/sim/mps/command.h"
#include "testbed/sim/mps/limits.h"

static void percentages__are_parsed_and_printed_like_nvidias(void **state)
{
	static const struct {
		const char *text;
		uint32_t value;
		const char *shown;
	} rows[] = {
		{ "25", 25000, "25.0" },
		{ "12.5", 12500, "12.5" },
		{ "100", 100000, "100.0" },
		{ "250", 0, "0.0" },
		{ "0", 0, "0.0" },
		{ "-5", 0, "0.0" },
		{ "xyz", 0, "0.0" },
		{ "", 0, "0.0" },
		{ "33%", 33000, "33.0" },
		{ "0.0001", 1, "0.0" },
	};
	char shown[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(mps_percent_parse(rows[i].text), rows[i].value);
		mps_percent_format(rows[i].value, shown, sizeof(shown));
		assert_string_equal(shown, rows[i].shown);
	}
}

static void multiprocessors__are_whole_pairs(void **state)
{
	(void)state;
	/* Measured: 25 % of 132 are 32, 10 % are 12. */
	assert_int_equal(mps_width(132, 25000), 32);
	assert_int_equal(mps_width(132, 10000), 12);
	assert_int_equal(mps_width(132, 100000), 132);
	assert_int_equal(mps_width(132, 1), 2);
	assert_int_equal(mps_width(1, 50000), 1);
	assert_int_equal(mps_width(15, 100000), 15);
	assert_int_equal(mps_width(0, 50000), 0);
}

static void memory__is_shown_in_the_largest_unit(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
		const char *shown;
	} rows[] = {
		{ "20389M", UINT64_C(20389) << 20, "19G" },
		{ "60G", UINT64_C(60) << 30, "60G" },
		{ "512M", UINT64_C(512) << 20, "512M" },
		{ "64K", 65536, "64K" },
		{ "100", 100, "100" },
		{ "512MB", UINT64_C(512) << 20, "512M" },
		{ "0M", 0, "0" },
		{ "xyz", 0, "0" },
		{ "", 0, "0" },
		{ "99999999999999999999999999G", 0, "0" },
	};
	char shown[32];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(mps_limit_parse(rows[i].text), rows[i].bytes);
		mps_limit_format(rows[i].bytes, shown, sizeof(shown));
		assert_string_equal(shown, rows[i].shown);
	}
	/* No sum of such overflows. */
	assert_int_equal(mps_limit_parse("18446744073709551615G"), UINT64_C(1) << 50);
}

static const char *const *variables;

static const char *get_variable(const char *name)
{
	for (const char *const *v = variables; *v; v++)
		if (!strncmp(*v, name, strlen(name)) && (*v)[strlen(name)] == '=')
			return *v + strlen(name) + 1;
	return NULL;
}

static void client__may_lower_its_limit_and_not_raise_it(void **state)
{
	static const char *const own[] = { "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=10",
		"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G,1=512MB,2=9G,x=1G,64=1G,=3,3",
		"CUDA_MPS_CLIENT_PRIORITY=1", NULL };
	static const char *const none[] = { NULL };
	struct mps_settings server = { .percent = 25000 }, asked, got;

	(void)state;
	server.limits[1] = UINT64_C(1) << 30;
	server.limits[2] = UINT64_C(1) << 30;
	variables = own;
	mps_settings_from_env(&asked, get_variable);
	mps_settings_lower(&got, &server, &asked);
	assert_int_equal(got.percent, 10000);
	assert_int_equal(got.priority, 1);
	assert_int_equal(got.limits[0], UINT64_C(1) << 30);
	assert_int_equal(got.limits[1], UINT64_C(512) << 20);
	assert_int_equal(got.limits[2], UINT64_C(1) << 30);
	assert_int_equal(got.limits[3], 0);
	asked.percent = 50000;
	mps_settings_lower(&got, &server, &asked);
	assert_int_equal(got.percent, 25000);
	variables = none;
	mps_settings_from_env(&asked, get_variable);
	server.priority = 1;
	mps_settings_lower(&got, &server, &asked);
	assert_int_equal(got.percent, 25000);
	assert_int_equal(got.priority, 1);
	assert_int_equal(got.limits[0], 0);
}

static void commands__are_parsed(void **state)
{
	struct sim_mps_command c;

	(void)state;
	mps_command_parse(&c, "  set_default_device_pinned_mem_limit 3 20389M\n");
	assert_int_equal(c.id, MPS_CMD_SET_DEF_LIMIT);
	assert_int_equal(c.device, 3);
	assert_string_equal(c.value, "20389M");
	assert_true(c.changes);
	mps_command_parse(&c, "set_device_pinned_mem_limit 609 1 60G");
	assert_int_equal(c.id, MPS_CMD_SET_LIMIT);
	assert_int_equal(c.pid, 609);
	assert_int_equal(c.device, 1);
	assert_string_equal(c.value, "60G");
	mps_command_parse(&c, "terminate_client 609 960");
	assert_int_equal(c.id, MPS_CMD_TERMINATE);
	assert_int_equal(c.pid, 609);
	assert_int_equal(c.client, 960);
	assert_true(c.served);
	mps_command_parse(&c, "start_server -uid 0");
	assert_int_equal(c.id, MPS_CMD_START_SERVER);
	assert_true(c.has_uid);
	mps_command_parse(&c, "start_server");
	assert_false(c.has_uid);
	mps_command_parse(&c, "quit -t 12");
	assert_int_equal(c.id, MPS_CMD_QUIT);
	assert_int_equal(c.timeout_s, 12);
	mps_command_parse(&c, "shutdown_server 5 -f");
	assert_int_equal(c.pid, 5);
	assert_true(c.force);
	mps_command_parse(&c, "get_client_list");
	assert_true(c.short_of);
	mps_command_parse(&c, "Quit now\n");
	assert_int_equal(c.id, MPS_CMD_UNKNOWN);
	assert_string_equal(c.name, "Quit now");
	mps_command_parse(&c, "");
	assert_int_equal(c.id, MPS_CMD_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentages__are_parsed_and_printed_like_nvidias),
		cmocka_unit_test(multiprocessors__are_whole_pairs),
		cmocka_unit_test(memory__is_shown_in_the_largest_unit),
		cmocka_unit_test(client__may_lower_its_limit_and_not_raise_it),
		cmocka_unit_test(commands__are_parsed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
