/* SPDX-License-Identifier: Apache-2.0 */

/* The agent as a library, without GPUs and with a kubelet that says nothing. */
#include "lib/test.h"

#include "agent/agent.h"
#include "base/fd.h"
#include "kube/unix-socket.h"

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
	const struct agent_options options = {
		.nvml_path = "/nonexistent/libnvidia-ml.so.1",
		.kubelet_dir = below_dir(kubelet_dir, "kubelet"),
		.run_dir = below_dir(run_dir, "run"),
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
	/* Takes connections, as its queue does, and never says a word. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			agent_stop__answers_a_status_request_that_waits_for_the_kubelet, set_up,
			tear_down),
	};

	return cmocka_run_group_tests_name("agent", tests, NULL, NULL);
}
