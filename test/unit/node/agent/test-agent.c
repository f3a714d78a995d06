/* SPDX-License-Identifier: Apache-2.0 */

/* The agent as a library, without GPUs and with a kubelet that does not answer. */
#include "support/test.h"

#include "node/agent/agent.h"
#include "node/agent/kubelet/host.h"
#include "lib/base/fd.h"
#include "lib/base/unix-socket.h"

#include <limits.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char *dir;

static char *below_dir(char path[PATH_MAX], const char *name)
{
	struct error err = ERROR_INIT;

	assert_ok(path_join(path, PATH_MAX, dir, name, &err), &err);
	return path;
}

static void make_dir(const char *name)
{
	char path[PATH_MAX];
	struct error err = ERROR_INIT;

	assert_ok(dir_make(below_dir(path, name), 0755, &err), &err);
}

static int set_up(void **state)
{
	(void)state;
	dir = test_tmpdir();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	test_rmdir(dir);
	return 0;
}

/* --- the host's device nodes --- */

static struct config *config_of(const char *text)
{
	struct config *c = NULL;
	struct error err = ERROR_INIT;
	char yaml[PATH_MAX + 200];
	int n = snprintf(yaml, sizeof(yaml), "flags: {plugin: {containerDriverRoot: '%s'}}\n%s",
		dir, text);

	assert_true(n > 0 && (size_t)n < sizeof(yaml));
	assert_ok(config_parse(&c, "test", 0, yaml, (size_t)n, NULL, NULL, &err), &err);
	return c;
}

static void host_has_node__searches_the_driver_root_and_our_own_dev(void **state)
{
	CLEANUP(config_freep) struct config *c = config_of("");

	(void)state;
	assert_true(host_has_node(c, "/dev/null"));
	assert_false(host_has_node(c, "/dev/gpuslice-test"));
	make_dir("dev/gpuslice-test");
	assert_true(host_has_node(c, "/dev/gpuslice-test"));
	/* A driver root with a /dev of its own does not hide what the runtime gave us. */
	assert_true(host_has_node(c, "/dev/null"));
}

static void alloc_host_probe__checks_the_required_imex_channels(void **state)
{
	static const struct {
		const char *config;
		bool there, fails, channel;
	} rows[] = {
		{ "", false, false, false },
		{ "", true, false, false },
		{ "imex: {required: true}", false, false, false },
		{ "imex: {channelIDs: [0]}", false, false, false },
		{ "imex: {channelIDs: [0]}", true, false, true },
		{ "imex: {channelIDs: [0], required: true}", false, true, false },
		{ "imex: {channelIDs: [0], required: true}", true, false, true },
	};

	(void)state;
	for (int there = 0; there < 2; there++) {
		if (there)
			make_dir("dev/nvidia-caps-imex-channels/channel0");
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			CLEANUP(config_freep) struct config *c = NULL;
			struct alloc_host host = { .control_nodes = STRV_INIT };
			struct error err = ERROR_INIT;

			if (rows[i].there != there)
				continue;
			c = config_of(rows[i].config);
			if (rows[i].fails)
				assert_error(alloc_host_probe(&host, c, &err), &err,
					"requested IMEX channel channel0 does not exist");
			else
				assert_ok(alloc_host_probe(&host, c, &err), &err);
			assert_int_equal(host.imex_channel0, rows[i].channel);
			alloc_host_fini(&host);
		}
	}
}

/* --- the end --- */

static void on_time(uv_timer_t *t)
{
	uv_stop(t->loop);
}

static void run_for_ms(uv_loop_t *loop, unsigned ms)
{
	uv_timer_t t;

	(void)uv_timer_init(loop, &t);
	(void)uv_timer_start(&t, on_time, ms, 0);
	(void)uv_run(loop, UV_RUN_DEFAULT);
	uv_close((uv_handle_t *)&t, NULL);
	(void)uv_run(loop, UV_RUN_NOWAIT);
}

static void agent_stop__answers_a_status_request_that_waits_for_the_kubelet(void **state)
{
	static const char request[] = "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n";
	char kubelet_dir[PATH_MAX], pods[PATH_MAX], run_dir[PATH_MAX], path[PATH_MAX];
	char state_dir[PATH_MAX];
	const struct agent_options options = {
		.nvml_path = "/nonexistent/libnvidia-ml.so.1",
		.kubelet_dir = below_dir(kubelet_dir, "kubelet"),
		.run_dir = below_dir(run_dir, "run"),
		.slices.state_dir = below_dir(state_dir, "state"),
	};
	CLEANUP(closep) int kubelet = -1;
	CLEANUP(closep) int client = -1;
	char answer[4096] = "";
	struct error err = ERROR_INIT;
	struct agent *a = NULL;
	struct file_id id;
	uv_loop_t loop;

	(void)state;
	make_dir("kubelet/device-plugins");
	make_dir("kubelet/pod-resources");
	/* Accepts connections by its queue, and never answers. */
	assert_ok(unix_listen(below_dir(pods, "kubelet/pod-resources/kubelet.sock"), &kubelet,
			  &id, &err),
		&err);
	assert_int_equal(uv_loop_init(&loop), 0);
	assert_ok(agent_start(&a, &loop, &options, &err), &err);
	assert_ok(unix_connect(below_dir(path, "run/gpusliced.sock"), &client, &err), &err);
	assert_int_equal(write(client, request, sizeof(request) - 1), sizeof(request) - 1);
	run_for_ms(&loop, 300);
	assert_int_equal(recv(client, answer, sizeof(answer) - 1, MSG_DONTWAIT), -1);
	a = agent_stop(a);
	assert_true(recv(client, answer, sizeof(answer) - 1, MSG_DONTWAIT) > 0);
	assert_non_null(strstr(answer, " 200 "));
	assert_int_equal(uv_loop_close(&loop), 0);
}

/* --- the config file --- */

static void link_config(const char *target)
{
	char path[PATH_MAX], fresh[PATH_MAX];

	assert_int_equal(symlink(target, below_dir(fresh, "config.new")), 0);
	assert_int_equal(rename(fresh, below_dir(path, "config.yaml")), 0);
}

/* The agent's status is in @answer. */
static void get_status(uv_loop_t *loop, char *answer, size_t cap)
{
	static const char request[] = "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n";
	CLEANUP(closep) int client = -1;
	struct error err = ERROR_INIT;
	char path[PATH_MAX];
	ssize_t n;

	assert_ok(unix_connect(below_dir(path, "run/gpusliced.sock"), &client, &err), &err);
	assert_int_equal(write(client, request, sizeof(request) - 1), sizeof(request) - 1);
	run_for_ms(loop, 50);
	n = recv(client, answer, cap - 1, MSG_DONTWAIT);
	answer[n > 0 ? n : 0] = '\0';
}

static void agent__treats_dev_null_as_no_config(void **state)
{
	static const struct {
		const char *target, *generation, *says;
	} rows[] = {
		{ "/dev/null", "\"generation\":1", "\"sharing\":\"none\"" },
		{ "shared.yaml", "\"generation\":2", "\"sharing\":\"time-slicing\"" },
		{ "/dev/null", "\"generation\":3", "\"sharing\":\"none\"" },
		/* An emptied file is a mistake, not a config. */
		{ "empty.yaml", "\"generation\":3", "is empty" },
	};
	static const char shared[] =
		"sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu,"
		" replicas: 4}]}}\n";
	char kubelet_dir[PATH_MAX], run_dir[PATH_MAX], config[PATH_MAX], path[PATH_MAX];
	char state_dir[PATH_MAX];
	const struct agent_options options = {
		.nvml_path = "/nonexistent/libnvidia-ml.so.1",
		.kubelet_dir = below_dir(kubelet_dir, "kubelet"),
		.run_dir = below_dir(run_dir, "run"),
		.slices.state_dir = below_dir(state_dir, "state"),
		.config_path = below_dir(config, "config.yaml"),
	};
	struct error err = ERROR_INIT;
	struct agent *a = NULL;
	char answer[8192];
	uv_loop_t loop;

	(void)state;
	assert_ok(file_write_atomic(below_dir(path, "shared.yaml"), shared, sizeof(shared) - 1,
			  0644, &err),
		&err);
	assert_ok(file_write_atomic(below_dir(path, "empty.yaml"), "\n", 1, 0644, &err), &err);
	assert_int_equal(uv_loop_init(&loop), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		link_config(rows[i].target);
		if (!a)
			assert_ok(agent_start(&a, &loop, &options, &err), &err);
		for (int tries = 0;; tries++) {
			get_status(&loop, answer, sizeof(answer));
			if (strstr(answer, rows[i].generation) && strstr(answer, rows[i].says))
				break;
			if (tries == 100)
				fail_msg("row %zu: %s", i, answer);
		}
	}
	a = agent_stop(a);
	assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			host_has_node__searches_the_driver_root_and_our_own_dev, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			alloc_host_probe__checks_the_required_imex_channels, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			agent_stop__answers_a_status_request_that_waits_for_the_kubelet, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(agent__treats_dev_null_as_no_config, set_up,
			tear_down),
	};

	return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
