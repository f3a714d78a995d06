/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/kubelet/plugin-env.h"

/* --- devices --- */

static struct plugin_devices second;
static unsigned second_lists, second_ends;

static void on_second(void *arg, const uint8_t *data, size_t len)
{
	struct error err = ERROR_INIT;

	(void)arg;
	plugin_devices_fini(&second);
	assert_ok(plugin_devices_decode(&second, data, len, &err), &err);
	second_lists++;
}

static void on_second_end(void *arg, enum rpc_status status, const char *text)
{
	(void)arg;
	(void)status;
	(void)text;
	second_ends++;
}

static void plugin_set_devices__reaches_every_stream(void **state)
{
	static const struct plugin_device bad = { .id = "GPU-\xff", .numa_node = -1 };
	struct kubelet *k = &env.kubelet;
	struct error err = ERROR_INIT;
	struct rpc_stream *s;

	(void)state;
	second_lists = second_ends = 0;
	kubelet_start(k);
	start_plugin();
	run_until(is_up(), 2000);
	assert_ok(rpc_stream_open(k->client, METHOD_LIST_AND_WATCH, "", 0, on_second,
			  on_second_end, NULL, &s, &err),
		&err);
	run_until(second_lists == 1, 2000);
	set_devices(false);
	run_until(k->lists == 2 && second_lists == 2, 2000);
	assert_int_equal(k->devices.n, 2); /* always complete */
	assert_false(k->devices.v[1].healthy);
	assert_false(second.v[1].healthy);
	set_devices(false); /* nothing new */
	assert_error(plugin_set_devices(env.plugin, &bad, 1, &err), &err, "not UTF-8");
	run_for_ms(50);
	assert_int_equal(k->lists, 2);
	set_devices(true);
	run_until(k->lists == 3 && second_lists == 3, 2000);
	assert_true(k->devices.v[1].healthy);
	env.plugin = plugin_stop(env.plugin);
	run_until(second_ends == 1, 2000);
	plugin_devices_fini(&second);
}

/* --- allocation --- */

static void plugin__answers_allocate(void **state)
{
	static const char *const good[] = { "GPU-0" }, *const bad[] = { "GPU-7" };
	struct id_list list = { .v = good, .n = 1 };
	struct buf b = BUF_INIT(1 << 20);
	struct allocate_response r = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(is_up(), 2000);
	assert_ok(allocate_request_encode(&b, &list, 1, &err), &err);
	call(METHOD_ALLOCATE, &b);
	assert_int_equal(got.status, RPC_OK);
	assert_ok(allocate_response_decode(&r, (const uint8_t *)buf_str(&got.reply),
			  got.reply.len, &err),
		&err);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.v[0].n_envs, 1);
	assert_string_equal(r.v[0].envs[0].value, "GPU-0");
	assert_string_equal(r.v[0].devices[0].permissions, "rw");
	allocate_response_fini(&r);

	list.v = bad;
	assert_ok(allocate_request_encode(&b, &list, 1, &err), &err);
	call(METHOD_ALLOCATE, &b);
	assert_int_equal(got.status, RPC_UNKNOWN);
	assert_string_equal(got.text,
		"invalid allocation request for \"nvidia.com/gpu\": unknown device: GPU-7");

	buf_add(&b, "\x0a\xff", 2);
	call(METHOD_ALLOCATE, &b);
	assert_int_equal(got.status, RPC_INVALID_ARGUMENT);

	list.v = good;
	assert_ok(pre_start_request_encode(&b, &list, &err), &err);
	call(METHOD_PRE_START, &b);
	assert_int_equal(got.status, RPC_OK);
	assert_int_equal(got.reply.len, 0);
	buf_fini(&got.reply);
}

static void plugin__answers_preferred_allocation(void **state)
{
	static const char *const ids[] = { "a", "b", "c" };
	struct prefer_request reqs[2] = {
		{ .available = ids, .n_available = 3, .size = 2 },
		{ .available = ids, .n_available = 2, .size = 1 },
	};
	struct buf b = BUF_INIT(1 << 20);
	struct id_lists r = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(is_up(), 2000);
	assert_ok(prefer_request_encode(&b, reqs, 2, &err), &err);
	call(METHOD_PREFER, &b);
	assert_int_equal(got.status, RPC_OK);
	assert_ok(prefer_response_decode(&r, (const uint8_t *)buf_str(&got.reply),
			  got.reply.len, &err),
		&err);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.v[0].n, 2);
	assert_string_equal(r.v[0].v[0], "c");
	assert_string_equal(r.v[0].v[1], "b");
	assert_int_equal(r.v[1].n, 1);
	assert_string_equal(r.v[1].v[0], "b");
	id_lists_fini(&r);

	reqs[0].size = 4;
	assert_ok(prefer_request_encode(&b, reqs, 1, &err), &err);
	call(METHOD_PREFER, &b);
	assert_int_equal(got.status, RPC_UNKNOWN);
	assert_string_equal(got.text,
		"error getting list of preferred allocation devices: not enough available devices");

	reqs[0].size = MESSAGE_DEVICES_MAX + 1;
	assert_ok(prefer_request_encode(&b, reqs, 1, &err), &err);
	call(METHOD_PREFER, &b);
	assert_int_equal(got.status, RPC_INVALID_ARGUMENT);
	buf_fini(&got.reply);
}

#define T(f) cmocka_unit_test_setup_teardown(f, plugin_env_setup, plugin_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(plugin_set_devices__reaches_every_stream),
		T(plugin__answers_allocate),
		T(plugin__answers_preferred_allocation),
	};

	return cmocka_run_group_tests_name("plugin-serve", tests, NULL, NULL);
}
