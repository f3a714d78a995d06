/* SPDX-License-Identifier: Apache-2.0 */

/* Samples of simulated nodes: the real worker, the simulated libnvidia-ml.so.1 and its programs. */
#include "support/test.h"

#include "lib/base/time.h"
#include "sampler-env.h"
#include "testbed/sim/control/control.h"
#include "testbed/sim/device/client/client.h"

#include <limits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static char lib[PATH_MAX], sysfs[PATH_MAX], procfs[PATH_MAX];
static char *dir;
static struct sim_control node;

static int set_up(void **state)
{
	(void)state;
	(void)test_built(lib, "../../src/testbed/sim/nvml/libnvidia-ml.so.1");
	return 0;
}

static void start(struct monitor_watcher *s, const char *model)
{
	struct gpu_monitor_options o = { .nvml_path = lib,
		.sysfs_root = sysfs,
		.procfs_root = procfs,
		.worker_path = built_worker(),
		.call_timeout_ns = CALL_TIMEOUT_NS,
		.stuck_retry_ns = 3600 * NS_PER_SEC };
	struct error err = ERROR_INIT;

	dir = test_tmpdir();
	assert_int_equal(setenv(SIM_ENV_GPU, TEST_SIM_GPU, 1), 0);
	assert_int_equal(setenv("GPUSLICE_SIM_NODE", model, 1), 0);
	assert_int_equal(setenv("GPUSLICE_SIM_DIR", dir, 1), 0);
	(void)snprintf(sysfs, sizeof sysfs, "%s/sys", dir);
	(void)snprintf(procfs, sizeof procfs, "%s/proc", dir);
	assert_ok(sim_control_open(&node, NULL, NULL, &err), &err);
	monitor_watcher_start(s, &o);
	run_until(s, s->inventories > 0);
}

static void stop_sim_monitor(struct monitor_watcher *s)
{
	monitor_watcher_stop(s);
	sim_control_close(&node);
	test_rmdir(dir);
	dir = NULL;
}

static void run_for(struct monitor_watcher *s, uint64_t ns)
{
	uint64_t until = time_mono_ns() + ns;

	while (time_mono_ns() < until)
		(void)uv_run(&s->loop, UV_RUN_ONCE);
}

static size_t all_names(const char **ret)
{
	size_t n = 0;

	for (size_t i = 0; i < n_fields; i++)
		ret[n++] = fields[i].name;
	return n;
}

static void sim__samples_all_fields_of_an_h100(void **state)
{
	static const char *const has[] = { "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK",
		"DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE",
		"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
		"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_ENC_UTIL",
		"DCGM_FI_DEV_DEC_UTIL", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED",
		"DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
		"DCGM_FI_DEV_VGPU_LICENSE_STATUS", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
		"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_ROW_REMAP_FAILURE",
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
		"DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_PCIE_TX_BYTES",
		"DCGM_FI_PROF_PCIE_RX_BYTES", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL" };
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	struct error err = ERROR_INIT;
	const char *names[FIELDS_MAX];
	size_t n = all_names(names);

	(void)state;
	start(&s, "p5.48xlarge");
	assert_ok(sim_control_set(&node, 3, "util_gpu", "40", &err), &err);
	sample_now(&s, &t, names, n);
	sample_now(&s, &t, names, n);
	assert_int_equal(t.sample->n, 8);
	for (uint32_t i = 0; i < 8; i++) {
		const struct sample_device *device = &t.sample->devices[i];

		assert_string_equal(device->uuid, s.inv->gpus[i].uuid);
		assert_string_equal(device->reason, "");
		for (size_t k = 0; k < ARRAY_LEN(has); k++)
			if (!sample_value(device, at(has[k])))
				fail_msg("GPU %u has no %s", i, has[k]);
		assert_null(sample_value(device, at("DCGM_FI_DEV_FAN_SPEED"))); /* passive */
		assert_null(sample_value(device, at("DCGM_FI_DEV_XID_ERRORS")));
		assert_non_null(sample_text(device, at("DCGM_FI_DEV_SERIAL")));
		assert_non_null(sample_text(device, at("DCGM_FI_DEV_ECC_INFOROM_VER")));
		assert_int_equal(int_of(device, "DCGM_FI_DEV_FB_TOTAL"),
			device->memory_total >> 20);
		assert_true(device->busy_known);
	}
	assert_int_equal(int_of(&t.sample->devices[3], "DCGM_FI_DEV_GPU_UTIL"), 40);
	assert_near(real_of(&t.sample->devices[3], "DCGM_FI_PROF_GR_ENGINE_ACTIVE"), 0.4);
	assert_int_equal(t.sample->devices[2].busy_ns, 0);
	print_message("# 8 GPUs, all %zu fields: %llu calls, %llu us\n", n,
		(unsigned long long)t.sample->nvml_calls,
		(unsigned long long)t.sample->nvml_ns / 1000);
	sampled_fini(&t);
	stop_sim_monitor(&s);
}

static void sim__has_no_profiling_before_hopper(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	const char *names[FIELDS_MAX];
	size_t n = all_names(names);

	(void)state;
	start(&s, "g4dn.xlarge");
	sample_now(&s, &t, names, n);
	sample_now(&s, &t, names, n);
	for (uint32_t i = 0; i < t.sample->devices[0].n_values; i++) {
		const char *name = fields[t.sample->devices[0].values[i].field].name;

		if (strncmp(name, "DCGM_FI_PROF_", strlen("DCGM_FI_PROF_")) == 0)
			fail_msg("a T4 has %s", name);
	}
	assert_true(t.sample->devices[0].busy_known); /* by NVML's utilization */
	assert_non_null(sample_value(&t.sample->devices[0], at("DCGM_FI_DEV_GPU_TEMP")));
	sampled_fini(&t);
	stop_sim_monitor(&s);
}

/* --- programs --- */

/* Runs kernels of @kernel_ms with pauses until it has had @n, in a process of its own. */
static pid_t start_kernel_program(uint32_t n, uint64_t kernel_ms, uint64_t pause_ms)
{
	struct sim_device d = SIM_DEVICE_INIT;
	struct sim_device_request request = { .op = SIM_DEVICE_CONTEXT_CREATE };
	struct sim_device_reply r;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	if (sim_device_connect(&d, dir, NULL, NULL) < 0 ||
		sim_device_call(&d, &request, &r, -1, NULL) != 0)
		_exit(1);
	request = (struct sim_device_request){ .op = SIM_DEVICE_STREAM_CREATE,
		.object = r.object };
	if (sim_device_call(&d, &request, &r, -1, NULL) != 0)
		_exit(2);
	for (uint64_t i = 1; i <= n; i++) {
		struct sim_device_command c = { .kind = SIM_DEVICE_KERNEL,
			.stream = r.object,
			.seq = i,
			.amount = kernel_ms * NS_PER_MS };
		struct sim_device_stream_cell *cell = &d.page->streams[r.object];

		if (!sim_device_submit(&d, &c, 1) ||
			!sim_device_wait(&d, &cell->completed, &cell->waiters, i,
				time_mono_ns() + MONITOR_TIMEOUT_NS))
			_exit(3);
		(void)usleep((useconds_t)(pause_ms * 1000));
	}
	sim_device_close(&d);
	_exit(0);
}

struct account {
	uint64_t gpu_ns, all_ns, of_ns[2];
	uint32_t looks;
};

/* One sample into the sums; in each of them the processes have no more than their GPU. */
static void account_sample(struct monitor_watcher *s, struct sampled *t, struct account *a,
	const pid_t *pids)
{
	const struct sample_device *device;
	uint64_t sum = 0;

	sample_now(s, t, NULL, 0);
	device = &t->sample->devices[0];
	assert_true(device->busy_known);
	a->gpu_ns += device->busy_ns;
	a->looks++;
	for (uint32_t i = 0; i < device->n_processes; i++) {
		const struct sample_process *p = &device->processes[i];

		assert_true(p->busy_known);
		sum += p->busy_ns;
		for (int k = 0; k < 2; k++)
			a->of_ns[k] += p->pid == (uint32_t)pids[k] ? p->busy_ns : 0;
	}
	assert_true(sum <= device->busy_ns);
	a->all_ns += sum;
}

static bool has_program_ended(pid_t pid)
{
	int status = 0;

	if (waitpid(pid, &status, WNOHANG) == 0)
		return false;
	assert_int_equal(status, 0);
	return true;
}

/* Two programs with known computing time, and their samples. */
static void sim__accounts_for_programs(void **state)
{
	static const uint64_t kernel_ms[] = { 30, 10 }, pause_ms[] = { 20, 30 };
	static const uint32_t kernels[] = { 60, 80 };
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	struct account a = { .looks = 0 };
	bool done[2] = { false, false };
	uint64_t truth[2], all = 0;
	struct sim_device d = SIM_DEVICE_INIT;
	struct error err = ERROR_INIT;
	pid_t pids[2];

	(void)state;
	start(&s, "p5.48xlarge");
	/* The first that needs a GPU starts the device daemon, which measures from then on. */
	assert_ok(sim_device_connect(&d, dir, NULL, &err), &err);
	run_for(&s, 700 * NS_PER_MS);
	sample_now(&s, &t, NULL, 0);
	for (int i = 0; i < 2; i++) {
		pids[i] = start_kernel_program(kernels[i], kernel_ms[i], pause_ms[i]);
		truth[i] = kernels[i] * kernel_ms[i] * NS_PER_MS;
		all += truth[i];
	}
	while (!done[0] || !done[1]) {
		run_for(&s, 700 * NS_PER_MS);
		account_sample(&s, &t, &a, pids);
		for (int i = 0; i < 2; i++)
			done[i] = done[i] || has_program_ended(pids[i]);
	}
	run_for(&s, 700 * NS_PER_MS);
	account_sample(&s, &t, &a, pids);
	print_message("# truth %llu = %llu + %llu ms; GPU %llu; processes %llu = %llu + %llu\n",
		(unsigned long long)(all / NS_PER_MS),
		(unsigned long long)(truth[0] / NS_PER_MS),
		(unsigned long long)(truth[1] / NS_PER_MS),
		(unsigned long long)(a.gpu_ns / NS_PER_MS),
		(unsigned long long)(a.all_ns / NS_PER_MS),
		(unsigned long long)(a.of_ns[0] / NS_PER_MS),
		(unsigned long long)(a.of_ns[1] / NS_PER_MS));
	assert_true(a.all_ns <= a.gpu_ns);
	/* Wide bounds, for a busy machine; the test prints the figures. */
	assert_in_range(a.gpu_ns, all - all / 4, all + all / 4);
	for (int i = 0; i < 2; i++)
		assert_in_range(a.of_ns[i], truth[i] - truth[i] / 3, truth[i] + truth[i] / 3);
	sim_device_close(&d);
	sampled_fini(&t);
	stop_sim_monitor(&s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sim__samples_all_fields_of_an_h100),
		cmocka_unit_test(sim__has_no_profiling_before_hopper),
		cmocka_unit_test(sim__accounts_for_programs),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
