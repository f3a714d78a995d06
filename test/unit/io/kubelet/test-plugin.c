/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/io/kubelet/plugin-env.h"

#include <unistd.h>

#include "lib/base/unix-socket.h"

/* --- registration --- */

static void plugin__registers_and_is_watched(void **state)
{
	struct kubelet *k = &env.kubelet;
	const char *why;

	(void)state;
	kubelet_start(k);
	start_plugin();
	run_until(is_up(), 5000);
	assert_string_equal(k->version, "v1beta1");
	assert_string_equal(k->endpoint, "nvidia-gpu.sock");
	assert_string_equal(k->resource, RESOURCE);
	assert_int_equal(k->registers, 1);
	assert_int_equal(k->options, 1); /* answered inside Register */
	assert_true(k->announced.preferred_allocation && !k->announced.pre_start_required);
	assert_true(k->answered.preferred_allocation && !k->answered.pre_start_required);
	assert_int_equal(k->devices.n, 2);
	assert_string_equal(k->devices.v[0].id, "GPU-0");
	assert_true(k->devices.v[0].healthy);
	assert_int_equal(k->devices.v[0].numa_node, 0);
	assert_int_equal(k->devices.v[1].numa_node, -1);
	assert_int_equal(plugin_state(env.plugin, &why), PLUGIN_REGISTERED);
	assert_string_equal(why, "");
	assert_true(env.registered);
}

static void plugin__waits_for_kubelet(void **state)
{
	const char *why;

	(void)state;
	start_plugin();
	run_for_ms(50);
	assert_int_equal(plugin_state(env.plugin, &why), PLUGIN_WAITING);
	assert_non_null(strstr(why, "waiting for the kubelet's socket"));
	kubelet_start(&env.kubelet); /* which deletes our socket */
	plugin_sync(env.plugin);     /* what inotify would do */
	run_until(is_up(), 1000);
}

static void plugin__detects_the_kubelet_without_an_event(void **state)
{
	(void)state;
	start_plugin();
	run_for_ms(20);
	kubelet_start(&env.kubelet);
	run_until(is_up(), 4000);
}

static void plugin__retries_after_a_refusal(void **state)
{
	uint64_t begin = time_mono_ns();

	(void)state;
	env.kubelet.mode = KUBELET_REFUSES;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(env.kubelet.registers == 3, 5000);
	assert_true(time_mono_ns() - begin > 550 * NS_PER_MS); /* 0.2 s, then 0.4 s */
	assert_true(time_mono_ns() - begin < 3 * NS_PER_SEC);
	run_until(!env.registered && strstr(env.why, "the resource name is invalid"), 1000);
	env.kubelet.mode = KUBELET_GOOD;
	run_until(is_up(), 5000);
}

static void plugin__trusts_the_watch_when_the_answer_is_lost(void **state)
{
	(void)state;
	env.kubelet.mode = KUBELET_SILENT;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(env.kubelet.stream && env.kubelet.lists == 1, 2000);
	assert_int_equal(plugin_state(env.plugin, NULL), PLUGIN_REGISTERING);
	run_until(plugin_state(env.plugin, NULL) == PLUGIN_REGISTERED, 7000); /* its 5 s */
	run_for_ms(500);
	assert_int_equal(env.kubelet.registers, 1);
	assert_int_equal(env.kubelet.ends, 0);
	rpc_reply(env.kubelet.register_call, "", 0);
}

static void plugin__outlives_kubelet_that_dies_in_register(void **state)
{
	(void)state;
	env.kubelet.mode = KUBELET_DIES;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(env.kubelet.registers == 1, 2000);
	run_until(plugin_state(env.plugin, NULL) == PLUGIN_WAITING, 2000);
	env.kubelet.mode = KUBELET_GOOD;
	kubelet_start(&env.kubelet);
	plugin_sync(env.plugin);
	run_until(is_up(), 1000);
}

static void plugin__follows_restarts(void **state)
{
	struct kubelet *k = &env.kubelet;
	unsigned i;

	(void)state;
	kubelet_start(k);
	start_plugin();
	run_until(is_up(), 2000);
	for (i = 2; i < 12; i++) {
		uint64_t begin;

		kubelet_stop(k);
		if (i % 2) /* otherwise the new one comes before the plugin has noticed */
			run_until(!env.registered, 2000);
		k->lists = 0;
		kubelet_start(k);
		begin = time_mono_ns();
		plugin_sync(env.plugin);
		run_until(is_up(), 2000);
		assert_true(time_mono_ns() - begin < 1500 * NS_PER_MS);
		assert_int_equal(k->registers, i);
		assert_int_equal(k->devices.n, 2);
	}
}

static void plugin__follows_new_kubelet_while_the_old_one_hangs(void **state)
{
	struct kubelet old;

	(void)state;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(is_up(), 2000);
	/* A second kubelet takes the directory; the first one's connection stays open. */
	old = env.kubelet;
	memset(&env.kubelet.devices, 0, sizeof(env.kubelet.devices));
	env.kubelet.client = NULL;
	env.kubelet.lists = env.kubelet.registers = 0;
	kubelet_start(&env.kubelet);
	plugin_sync(env.plugin);
	run_until(is_up(), 4000);
	assert_int_equal(env.kubelet.registers, 1);
	rpc_client_close(old.client);
	rpc_server_close(old.server);
	run_for_ms(100);
	assert_true(is_up());
	plugin_devices_fini(&old.devices);
}

static void plugin__registers_again_when_stream_is_reset(void **state)
{
	struct kubelet *k = &env.kubelet;
	unsigned i;

	(void)state;
	kubelet_start(k);
	start_plugin();
	run_until(is_up(), 2000);
	for (i = 2; i < 5; i++) {
		k->lists = 0;
		rpc_stream_cancel(k->stream);
		run_until(is_up(), 3000);
		assert_int_equal(k->registers, i);
	}
}

static void plugin__waits_for_hangup_before_it_registers_again(void **state)
{
	struct kubelet *k = &env.kubelet;

	(void)state;
	k->closes_late = true;
	kubelet_start(k);
	start_plugin();
	run_until(is_up(), 2000);
	/* Back off is 0.2 s and the kubelet's delay 0.1 s: make the delay the longer one. */
	k->lists = 0;
	rpc_stream_cancel(k->stream);
	run_until(k->ends == 1, 1000);
	(void)uv_timer_start(&k->late, kubelet_disconnect_late, 500, 0);
	run_until(is_up(), 3000);
	assert_int_equal(k->registers, 2);
	assert_int_equal(k->disconnects, 1);
	assert_true(k->registered_ns - k->ended_ns > 450 * NS_PER_MS);
	/* The race would strike now: the late end of the old stream takes the new client. */
	run_for_ms(800);
	assert_true(is_up());
	assert_int_equal(k->disconnects, 1);
}

static void plugin__waits_for_a_disconnect_until_a_timeout(void **state)
{
	struct error err = ERROR_INIT;
	int fd = -1;

	(void)state;
	kubelet_start(&env.kubelet);
	start_plugin();
	assert_ok(unix_connect(env.plugin_path, &fd, &err), &err); /* stays open */
	run_until(is_up(), 3000);
	(void)close(fd);
}

static void plugin__recreates_its_socket_and_stays_registered(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(64);
	struct kubelet *k = &env.kubelet;

	(void)state;
	kubelet_start(k);
	start_plugin();
	run_until(is_up(), 2000);
	assert_int_equal(unlink(env.plugin_path), 0);
	plugin_sync(env.plugin);
	assert_int_equal(access(env.plugin_path, F_OK), 0);
	run_for_ms(300);
	assert_true(is_up());
	assert_int_equal(k->registers, 1);
	/* The kubelet dials the plugin under the same name again. */
	rpc_client_close(STEAL_PTR(k->client));
	run_until(k->registers == 2, 3000);
	run_until(is_up(), 2000);
	call(METHOD_PLUGIN_OPTIONS, &b);
	assert_int_equal(got.status, RPC_OK);
}

static void plugin__never_registers_with_registration_switched_off(void **state)
{
	struct error err = ERROR_INIT;
	const char *why;

	(void)state;
	kubelet_start(&env.kubelet);
	assert_ok(plugin_start(&env.plugin, env.rpc, env.dir, "", RESOURCE, &plugin_env_ops,
			  NULL, &err),
		&err);
	run_for_ms(100);
	assert_int_equal(plugin_state(env.plugin, &why), PLUGIN_WAITING);
	assert_string_equal(why, "registration is switched off");
	assert_int_equal(env.kubelet.registers, 0);
}

static void plugin_stop__while_registering(void **state)
{
	(void)state;
	env.kubelet.mode = KUBELET_SILENT;
	kubelet_start(&env.kubelet);
	start_plugin();
	run_until(env.kubelet.registers == 1, 2000);
	env.plugin = plugin_stop(env.plugin);
	run_for_ms(50);
	rpc_reply(env.kubelet.register_call, "", 0);
}

static void plugin_start__refuses(void **state)
{
	static const struct {
		const char *name, *text;
	} rows[] = {
		{ "gpu", "is not <domain>/<name>" },
		{ "/gpu", "is not <domain>/<name>" },
		{ "nvidia.com/", "is not <domain>/<name>" },
		{ "nvidia.com/../x", "is not <domain>/<name>" },
		{ "nvidia.com/gpu", "another process serves" },
		{ "nvidia.com/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		  "aaaaaaaaaaaaaaaaaaaa",
			"at most 107" },
	};
	struct error err = ERROR_INIT;
	struct plugin *p = NULL;
	size_t i;

	(void)state;
	start_plugin();
	for (i = 0; i < ARRAY_LEN(rows); i++)
		assert_error(plugin_start(&p, env.rpc, env.dir, NULL, rows[i].name,
				     &plugin_env_ops, NULL, &err),
			&err, rows[i].text);
	assert_ok(plugin_start(&p, env.rpc, env.dir, NULL, "example.com/gpu", &plugin_env_ops,
			  NULL, &err),
		&err);
	assert_null(plugin_stop(p));
}

#define T(f) cmocka_unit_test_setup_teardown(f, plugin_env_setup, plugin_env_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(plugin__registers_and_is_watched),
		T(plugin__waits_for_kubelet),
		T(plugin__detects_the_kubelet_without_an_event),
		T(plugin__retries_after_a_refusal),
		T(plugin__trusts_the_watch_when_the_answer_is_lost),
		T(plugin__outlives_kubelet_that_dies_in_register),
		T(plugin__follows_restarts),
		T(plugin__follows_new_kubelet_while_the_old_one_hangs),
		T(plugin__registers_again_when_stream_is_reset),
		T(plugin__waits_for_hangup_before_it_registers_again),
		T(plugin__waits_for_a_disconnect_until_a_timeout),
		T(plugin__recreates_its_socket_and_stays_registered),
		T(plugin__never_registers_with_registration_switched_off),
		T(plugin_stop__while_registering),
		T(plugin_start__refuses),
	};

	return cmocka_run_group_tests_name("plugin", tests, NULL, NULL);
}
