/* SPDX-License-Identifier: Apache-2.0 */

/* Samples of a monitor with the real worker, and a fake library whose figures are in a file. */
#include "support/test.h"

#include "lib/base/fd.h"
#include "unit/io/nvml/fake-nvml-env.h"
#include "unit/io/nvml/monitor/monitor-env.h"
#include "sampler-env.h"

#include <limits.h>
#include <unistd.h>

static int set_up(void **state)
{
	(void)state;
	fake_nvml_begin();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fake_nvml_end();
	return 0;
}

static void start_sample_monitor(struct monitor_watcher *s, const char *text)
{
	struct gpu_monitor_options o = { .nvml_path = fake_nvml_lib,
		.sysfs_root = fake_nvml_dir,
		.procfs_root = fake_nvml_dir,
		.worker_path = built_worker(),
		.call_timeout_ns = CALL_TIMEOUT_NS,
		.stuck_retry_ns = 3600 * NS_PER_SEC };

	fake_nvml(text);
	monitor_watcher_start(s, &o);
	run_until(s, s->inventories > 0);
}

#define CALLS "control.calls"

/* How often a call was made since the last count_new_calls() for it. */
static int count_new_calls(const char *what)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(1U << 20);
	char path[PATH_MAX];
	int n = 0;

	(void)snprintf(path, sizeof path, "%s/" CALLS, fake_nvml_dir);
	if (file_read(path, &b, NULL) < 0)
		return 0;
	for (const char *at = strstr(buf_str(&b), what); at; at = strstr(at + 1, what))
		n++;
	return n;
}

static void forget_calls(void)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof path, "%s/" CALLS, fake_nvml_dir);
	(void)unlink(path);
}

static void sample__without_fields_has_memory_and_processes(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	const struct sample_device *device;

	(void)state;
	start_sample_monitor(&s,
		"gpus 2\nnogpm\nprocess compute 1 77 3 -1 -1\nprocess graphics 1 77 2 -1 -1\n"
		"process mps 1 78 4 -1 -1\n");
	sample_now(&s, &t, NULL, 0);
	assert_int_equal(t.sample->n, 2);
	device = &t.sample->devices[1];
	assert_string_equal(device->uuid, "GPU-fake-1");
	assert_int_equal(device->gpu, 1);
	assert_int_equal(device->gi, GPU_NO_INSTANCE);
	assert_string_equal(device->reason, "");
	assert_true(device->memory_known && device->reserved_known);
	assert_int_equal(device->memory_total, 1000);
	assert_int_equal(device->memory_used, 20);
	assert_int_equal(device->memory_reserved, 80);
	assert_int_equal(device->memory_free, 900);
	assert_int_equal(device->n_values, 0);
	assert_int_equal(device->interval_ns, 0);
	assert_false(device->busy_known); /* of what? */
	assert_true(device->processes_known);
	assert_int_equal(device->n_processes, 2);
	assert_int_equal(device->processes[0].pid, 77);
	assert_int_equal(device->processes[0].bytes, 3U << 20);
	assert_int_equal(device->processes[1].pid, 78);
	assert_true(t.sample->nvml_calls > 0);
	assert_true(t.sample->devices[0].processes_known);
	assert_int_equal(t.sample->devices[0].n_processes, 0);
	sampled_fini(&t);
	monitor_watcher_stop(&s);
}

static void sample__converts_as_dcgm_does(void **state)
{
	static const char *const names[] = { "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE",
		"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_TEMP",
		"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_FB_USED",
		"DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_USED_PERCENT", "DCGM_FI_DEV_GPU_UTIL",
		"DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_FAN_SPEED", "DCGM_FI_DEV_PSTATE",
		"DCGM_FI_DEV_POWER_USAGE_INSTANT", "DCGM_FI_DEV_NAME", "DCGM_FI_DRIVER_VERSION",
		"DCGM_FI_DEV_PCI_BUSID", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_SM_CLOCK_HERTZ",
		"DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", "DCGM_FI_DEV_FAN_SPEED_RATIO" };
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	const struct sample_device *device;

	(void)state;
	start_sample_monitor(&s, "gpus 1\nnogpm\nmemory 81559\n"
				 "figure nvmlDeviceGetTemperature 0 0 37\n"
				 "figure nvmlDeviceGetPowerUsage 0 0 120092\n"
				 "figure nvmlDeviceGetClockInfo 0 1 540\n"
				 "figure nvmlDeviceGetClockInfo 0 2 2619\n"
				 "figure nvmlDeviceGetFieldValues 0 82 41\n"
				 "figure nvmlDeviceGetFieldValues 0 83 2132964\n"
				 "figure nvmlDeviceGetFieldValues 0 186 119500\n"
				 "figure nvmlDeviceGetUtilizationRates 0 0 55\n"
				 "figure nvmlDeviceGetUtilizationRates 0 1 0\n"
				 "figure nvmlDeviceGetPerformanceState 0 0 32\n");
	sample_now(&s, &t, names, ARRAY_LEN(names));
	device = &t.sample->devices[0];
	assert_int_equal(int_of(device, "DCGM_FI_DEV_GPU_TEMP"), 37);
	assert_int_equal(int_of(device, "DCGM_FI_DEV_SM_CLOCK"), 540);
	assert_true(sample_value(device, at("DCGM_FI_DEV_SM_CLOCK_HERTZ"))->i == 540000000);
	assert_near(real_of(device, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL"), 2132.964);
	assert_null(sample_value(device, at("DCGM_FI_DEV_FAN_SPEED_RATIO")));
	assert_int_equal(int_of(device, "DCGM_FI_DEV_MEM_CLOCK"), 2619);
	assert_int_equal(int_of(device, "DCGM_FI_DEV_MEMORY_TEMP"), 41);
	assert_int_equal(int_of(device, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"), 2132964);
	assert_int_equal(int_of(device, "DCGM_FI_DEV_FB_TOTAL"), 81559);
	assert_int_equal(int_of(device, "DCGM_FI_DEV_FB_USED"), 0); /* truncated */
	assert_int_equal(int_of(device, "DCGM_FI_DEV_GPU_UTIL"), 55);
	assert_int_equal(int_of(device, "DCGM_FI_DEV_MEM_COPY_UTIL"), 0);
	assert_near(real_of(device, "DCGM_FI_DEV_POWER_USAGE"), 120.092);
	assert_near(real_of(device, "DCGM_FI_DEV_POWER_USAGE_INSTANT"), 119.5);
	assert_string_equal(sample_text(device, at("DCGM_FI_DRIVER_VERSION")), "1.2.3");
	assert_string_equal(sample_text(device, at("DCGM_FI_DEV_NAME")), "Fake ?GPU");
	assert_string_equal(sample_text(device, at("DCGM_FI_DEV_PCI_BUSID")),
		"00000000:A0:1E.0");
	/* Absent, not zero: not supported, not known (32), and not from here. */
	assert_null(sample_value(device, at("DCGM_FI_DEV_FAN_SPEED")));
	assert_null(sample_value(device, at("DCGM_FI_DEV_PSTATE")));
	assert_null(sample_value(device, at("DCGM_FI_DEV_XID_ERRORS")));
	/* Fields that were not requested are absent. */
	assert_null(sample_value(device, at("DCGM_FI_DEV_VIDEO_CLOCK")));
	/* The values are in the order of their fields. */
	for (uint32_t i = 1; i < device->n_values; i++)
		assert_true(device->values[i - 1].field < device->values[i].field);
	sampled_fini(&t);
	monitor_watcher_stop(&s);
}

static void sample__does_not_request_refused_fields_again(void **state)
{
	static const char *const names[] = { "DCGM_FI_DEV_FAN_SPEED", "DCGM_FI_DEV_POWER_USAGE",
		"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_NAME",
		"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION" };
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };

	(void)state;
	start_sample_monitor(&s, "gpus 1\nlog\nnogpm\nerror nvmlDeviceGetPowerUsage 0 4\n"
				 "figure nvmlDeviceGetTemperature 0 0 37\n"
				 "figure nvmlDeviceGetFieldValues 0 83 5\n");
	forget_calls();
	for (int i = 0; i < 3; i++)
		sample_now(&s, &t, names, ARRAY_LEN(names));
	assert_int_equal(count_new_calls("nvmlDeviceGetFanSpeed 0"), 1);   /* not supported */
	assert_int_equal(count_new_calls("nvmlDeviceGetPowerUsage 0"), 1); /* no permission */
	assert_int_equal(count_new_calls("nvmlGpmQueryDeviceSupport 0"), 1);
	assert_int_equal(count_new_calls("nvmlDeviceGetUtilizationRates 0"),
		1); /* for the busy time */
	assert_int_equal(count_new_calls("nvmlDeviceGetTemperature 0"), 3);
	/* Costly and fixed figures are not requested again, and stay. */
	assert_int_equal(count_new_calls("nvmlDeviceGetFieldValues 0"), 1);
	assert_int_equal(count_new_calls("nvmlDeviceGetName 0"), 1);
	assert_int_equal(int_of(&t.sample->devices[0], "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"),
		5);
	assert_non_null(sample_text(&t.sample->devices[0], at("DCGM_FI_DEV_NAME")));
	/* What just went wrong is. */
	fake_nvml("gpus 1\nlog\nnogpm\nerror nvmlDeviceGetTemperature 0 999\n");
	forget_calls();
	sample_now(&s, &t, names, ARRAY_LEN(names));
	sample_now(&s, &t, names, ARRAY_LEN(names));
	assert_int_equal(count_new_calls("nvmlDeviceGetTemperature 0"), 2);
	assert_null(sample_value(&t.sample->devices[0], at("DCGM_FI_DEV_GPU_TEMP")));
	/* A new session, a new chance. */
	gpu_monitor_release(s.m);
	gpu_monitor_probe(s.m);
	s.inventories = 0;
	run_until(&s, s.inventories > 0);
	forget_calls();
	sample_now(&s, &t, names, ARRAY_LEN(names));
	assert_int_equal(count_new_calls("nvmlDeviceGetFanSpeed 0"), 1);
	sampled_fini(&t);
	monitor_watcher_stop(&s);
}

static void sample__uses_busy_times_and_units_of_gpm(void **state)
{
	static const char *const names[] = { "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
		"DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_SM_ACTIVE",
		"DCGM_FI_PROF_NVDEC0_ACTIVE", "DCGM_FI_PROF_NVLINK_L17_RX_BYTES" };
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	const struct sample_device *device;

	(void)state;
	start_sample_monitor(&s, "gpus 1\nfigure nvmlGpmMetricsGet 0 1 25000\n"
				 "figure nvmlGpmMetricsGet 0 2 103000\n"
				 "figure nvmlGpmMetricsGet 0 20 3500\n"
				 "figure nvmlGpmMetricsGet 0 96 1000\n");
	sample_now(&s, &t, names, ARRAY_LEN(names));
	assert_null(sample_value(&t.sample->devices[0], at("DCGM_FI_PROF_GR_ENGINE_ACTIVE")));
	sample_now(&s, &t, names, ARRAY_LEN(names));
	device = &t.sample->devices[0];
	assert_near(real_of(device, "DCGM_FI_PROF_GR_ENGINE_ACTIVE"), 0.25);
	assert_near(real_of(device, "DCGM_FI_PROF_SM_ACTIVE"), 1.0); /* not 1.03 */
	assert_int_equal(int_of(device, "DCGM_FI_PROF_PCIE_TX_BYTES"),
		3670016); /* MiB to bytes */
	assert_int_equal(int_of(device, "DCGM_FI_PROF_NVLINK_L17_RX_BYTES"), 1048576);
	/* A number without a name is of an engine that there is not. */
	assert_null(sample_value(device, at("DCGM_FI_PROF_NVDEC0_ACTIVE")));
	assert_true(device->interval_ns > 0);
	assert_true(device->busy_known);
	assert_in_range(device->busy_ns, device->interval_ns / 4 - 1,
		device->interval_ns / 4 + 1);
	sampled_fini(&t);
	monitor_watcher_stop(&s);
}

static void sample__has_more_metrics_than_go_into_one_call(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	char text[8192] = "gpus 1\nlog\n";
	const char *names[FIELDS_MAX];
	size_t n = 0;

	(void)state;
	for (unsigned int i = 1; i < 98; i++)
		(void)snprintf(text + strlen(text), sizeof text - strlen(text),
			"figure nvmlGpmMetricsGet 0 %u %u\n", i, i * 1000);
	for (size_t i = 0; i < n_fields; i++)
		if (fields[i].id >= FIELD_PROFILING_FIRST &&
			fields[i].id <= FIELD_PROFILING_LAST)
			names[n++] = fields[i].name;
	start_sample_monitor(&s, text);
	sample_now(&s, &t, names, n);
	forget_calls();
	sample_now(&s, &t, names, n);
	assert_int_equal(t.sample->devices[0].n_values, n);
	assert_int_equal(count_new_calls("nvmlGpmMetricsGet"), (n + 1 + 31) / 32);
	assert_int_equal(int_of(&t.sample->devices[0], "DCGM_FI_PROF_NVLINK_L17_TX_BYTES"),
		97 * 1048576);
	assert_near(real_of(&t.sample->devices[0], "DCGM_FI_PROF_GR_ENGINE_ACTIVE"), 0.01);
	sampled_fini(&t);
	monitor_watcher_stop(&s);
}

static void sample__shares_the_busy_time_among_processes(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	const struct sample_device *device;

	(void)state;
	start_sample_monitor(&s,
		"gpus 1\nprocess compute 0 77 1 -1 -1\nprocess compute 0 78 1 -1 -1\n"
		"process compute 0 79 1 -1 -1\nfigure nvmlGpmMetricsGet 0 1 10000\n"
		"utilization 0 77 0 60\nutilization 0 78 0 30\n");
	sample_now(&s, &t, NULL, 0);
	assert_false(t.sample->devices[0].processes[0].busy_known);
	sample_now(&s, &t, NULL, 0);
	device = &t.sample->devices[0];
	assert_int_equal(device->n_processes, 3);
	for (int i = 0; i < 3; i++)
		assert_true(device->processes[i].busy_known);
	/* 90 % of the time by the processes, 10 % by the GPU: the GPU is right, and the ratio stays. */
	assert_true(
		device->processes[0].busy_ns + device->processes[1].busy_ns <= device->busy_ns);
	assert_true(
		device->busy_ns - device->processes[0].busy_ns - device->processes[1].busy_ns <
		3);
	assert_in_range(device->processes[0].busy_ns, 2 * device->processes[1].busy_ns - 3,
		2 * device->processes[1].busy_ns + 3);
	assert_int_equal(device->processes[2].busy_ns, 0);
	sampled_fini(&t);
	monitor_watcher_stop(&s);
}

/* The driver has no samples of MPS clients: the samples of the MPS server have the time of all its clients. */
static void sample__reports_the_time_of_an_mps_client_as_unknown(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	const struct sample_device *device;

	(void)state;
	start_sample_monitor(&s,
		"gpus 1\nprocess compute 0 77 1 -1 -1\nprocess mps 0 77 1 -1 -1\n"
		"process compute 0 78 1 -1 -1\nprocess mps 0 78 1 -1 -1\n"
		"process compute 0 79 1 -1 -1\nfigure nvmlGpmMetricsGet 0 1 10000\n"
		"utilization 0 79 0 60\n");
	sample_now(&s, &t, NULL, 0);
	sample_now(&s, &t, NULL, 0);
	device = &t.sample->devices[0];
	assert_int_equal(device->n_processes, 3);
	assert_false(device->processes[0].busy_known);
	assert_false(device->processes[1].busy_known);
	assert_true(device->processes[2].busy_known);
	assert_true(device->processes[2].busy_ns > 0);
	sampled_fini(&t);
	monitor_watcher_stop(&s);
}

static void sample__falls_back_to_utilization(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	const struct sample_device *device;

	(void)state;
	start_sample_monitor(&s, "gpus 1\nnogpm\nfigure nvmlDeviceGetUtilizationRates 0 0 50\n"
				 "figure nvmlDeviceGetUtilizationRates 0 1 10\n");
	sample_now(&s, &t, NULL, 0);
	sample_now(&s, &t, NULL, 0);
	device = &t.sample->devices[0];
	assert_true(device->busy_known);
	assert_in_range(device->busy_ns, device->interval_ns / 2 - 1,
		device->interval_ns / 2 + 1);
	/* The busy time is unknown with neither of the two. The processes' times are then only limited to
	 * the interval. */
	fake_nvml("gpus 1\nnogpm\nprocess compute 0 77 1 -1 -1\n");
	sample_now(&s, &t, NULL, 0);
	assert_false(t.sample->devices[0].busy_known);
	sampled_fini(&t);
	monitor_watcher_stop(&s);
}

static void sample__computes_a_rate_of_nvlink_counters(void **state)
{
	static const char *const names[] = { "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
		"DCGM_FI_DEV_NVLINK_BANDWIDTH_L3", "DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL" };
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	double seconds;
	int64_t want, rate;

	(void)state;
	start_sample_monitor(&s, "gpus 1\nfigure nvmlDeviceGetFieldValues 0 138 1000000\n"
				 "figure nvmlDeviceGetFieldValues 0 139 5000000\n");
	sample_now(&s, &t, names, ARRAY_LEN(names));
	assert_null(sample_value(&t.sample->devices[0], at(names[0])));
	fake_nvml("gpus 1\nfigure nvmlDeviceGetFieldValues 0 138 3000000\n"
		  "figure nvmlDeviceGetFieldValues 0 139 9000000\n");
	sample_now(&s, &t, names, ARRAY_LEN(names));
	seconds = (double)t.sample->devices[0].interval_ns / NS_PER_SEC;
	want = (int64_t)(6000 / seconds);
	rate = int_of(&t.sample->devices[0], names[0]);
	assert_in_range(rate, want - want / 100 - 1, want + want / 100 + 1);
	assert_int_equal(int_of(&t.sample->devices[0], names[1]), rate);
	rate = int_of(&t.sample->devices[0], names[2]);
	assert_in_range(rate, want / 3 - want / 100 - 1, want / 3 + want / 100 + 1);
	/* Counters that were reset. */
	fake_nvml("gpus 1\nfigure nvmlDeviceGetFieldValues 0 138 1\n"
		  "figure nvmlDeviceGetFieldValues 0 139 9000000\n");
	sample_now(&s, &t, names, ARRAY_LEN(names));
	assert_null(sample_value(&t.sample->devices[0], at(names[0])));
	sampled_fini(&t);
	monitor_watcher_stop(&s);
}

static void sample__omits_a_hanging_gpu(void **state)
{
	static const char *const names[] = { "DCGM_FI_DEV_GPU_TEMP" };
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	const char *text = "gpus 3\nfigure nvmlDeviceGetTemperature 0 0 30\n"
			   "figure nvmlDeviceGetTemperature 2 0 32\n";
	char hangs[512];

	(void)state;
	(void)snprintf(hangs, sizeof hangs, "%shang nvmlDeviceGetTemperature 1\n", text);
	start_sample_monitor(&s, hangs);
	s.inventories = 0;
	sample_request_and_wait(&s, &t, names, 1);
	run_until(&s, t.times == 1);
	assert_null(t.sample);
	assert_string_equal(t.err.msg, "the NVML worker ended meanwhile");
	run_until(&s, s.inventories > 1 && s.inv->gpus[1].fault == GPU_FAULT_STUCK);
	sample_now(&s, &t, names, 1);
	assert_int_equal(t.sample->n, 3);
	assert_int_equal(int_of(&t.sample->devices[0], names[0]), 30);
	assert_int_equal(int_of(&t.sample->devices[2], names[0]), 32);
	assert_string_equal(t.sample->devices[1].uuid, "GPU-fake-1");
	assert_int_equal(t.sample->devices[1].n_values, 0);
	assert_false(t.sample->devices[1].memory_known);
	assert_non_null(strstr(t.sample->devices[1].reason, "did not come back in time"));
	assert_int_equal(s.downs, 0);
	sampled_fini(&t);
	monitor_watcher_stop(&s);
}

static void sample__stops_at_a_gpu_that_is_lost(void **state)
{
	static const char *const names[] = { "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_NAME" };
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };

	(void)state;
	start_sample_monitor(&s, "gpus 2\n");
	fake_nvml("gpus 2\nlog\nerror nvmlDeviceGetName 0 15\n"
		  "figure nvmlDeviceGetTemperature 0 0 30\n"
		  "figure nvmlDeviceGetTemperature 1 0 31\n");
	s.inventories = 0;
	sample_now(&s, &t, names, ARRAY_LEN(names));
	assert_string_equal(t.sample->devices[0].reason, "GPU is lost");
	assert_int_equal(count_new_calls("nvmlDeviceGetTemperature 0"), 0);
	assert_int_equal(int_of(&t.sample->devices[1], names[0]), 31);
	/* The monitor gets a notice and probes. */
	run_until(&s, s.inventories > 0 && s.inv->gpus[0].fault == GPU_FAULT_LOST);
	sample_now(&s, &t, names, ARRAY_LEN(names));
	assert_non_null(strstr(t.sample->devices[0].reason, "GPU is lost"));
	sampled_fini(&t);
	monitor_watcher_stop(&s);
}

static void sample__reads_mig_devices(void **state)
{
	static const char *const names[] = { "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_TOTAL",
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PCIE_TX_BYTES",
		"DCGM_FI_DEV_UUID" };
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	const struct sample_device *device;

	(void)state;
	test_write(fake_nvml_dir, "driver/nvidia-caps/mig-minors",
		"gpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n"
		"gpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\n",
		strlen("gpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\n"
		       "gpu0/gi2/access 21\ngpu0/gi2/ci0/access 22\n"),
		0644);
	/* A whole 3g, and a part of another one. */
	start_sample_monitor(&s,
		"gpus 2\nmigmode 0 1\nmig 0 0 1 0 9 3\nmig 0 2 2 0 9 1\n"
		"figure nvmlDeviceGetTemperature 0 0 30\n"
		"process compute 0 77 3 1 0\nprocess compute 0 78 4 2 0\n"
		"process compute 1 79 5 -1 -1\n"
		"figure nvmlGpmMetricsGet 101 1 50000\nfigure nvmlGpmMetricsGet 102 1 90000\n"
		"figure nvmlGpmMetricsGet 101 20 1000\n"
		"figure nvmlDeviceGetUtilizationRates 1 0 0\n"
		"figure nvmlDeviceGetUtilizationRates 1 1 0\n");
	assert_int_equal(s.inv->n_mig, 2);
	sample_now(&s, &t, names, ARRAY_LEN(names));
	sample_now(&s, &t, names, ARRAY_LEN(names));
	assert_int_equal(t.sample->n, 4);
	device = &t.sample->devices[0]; /* the board */
	assert_string_equal(device->uuid, "GPU-fake-0");
	assert_int_equal(int_of(device, names[0]), 30);
	assert_false(device->processes_known);
	device = &t.sample->devices[1];
	assert_string_equal(device->uuid, "MIG-fake-0-1-0");
	assert_int_equal(device->gi, 1);
	assert_int_equal(device->ci, 0);
	assert_null(sample_value(device, at(names[0])));
	assert_non_null(sample_value(device, at(names[1])));
	assert_near(real_of(device, names[2]), 0.5);
	assert_null(sample_value(device, at(names[3]))); /* is of GPUs only */
	assert_string_equal(sample_text(device, at(names[4])), "MIG-fake-0-1-0");
	assert_true(device->busy_known);
	assert_in_range(device->busy_ns, device->interval_ns / 2 - 1,
		device->interval_ns / 2 + 1);
	assert_int_equal(device->n_processes, 1);
	assert_int_equal(device->processes[0].pid, 77);
	assert_false(device->processes[0].busy_known);
	device = &t.sample->devices[2];
	assert_int_equal(device->gi, 2);
	assert_near(real_of(device, names[2]), 0.9); /* of the whole instance */
	assert_false(device->busy_known); /* so the busy time of this share is unknown */
	assert_int_equal(device->processes[0].pid, 78);
	assert_int_equal(t.sample->devices[3].gpu, 1);
	assert_int_equal(t.sample->devices[3].processes[0].pid, 79);
	sampled_fini(&t);
	monitor_watcher_stop(&s);
}

static void sample__is_one_at_a_time(void **state)
{
	struct monitor_watcher s = { .m = NULL };
	struct sampled t = { .times = 0 };
	struct gpu_sample_request rq = { .interval_ns = NS_PER_SEC };
	struct error err = ERROR_INIT;

	(void)state;
	start_sample_monitor(&s, "gpus 1\n");
	sample_request_and_wait(&s, &t, NULL, 0);
	assert_int_equal(gpu_monitor_sample(s.m, &rq, on_sampled, &t, &err), -1);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	/* The worker goes in the middle of it. */
	gpu_monitor_release(s.m);
	run_until(&s, t.times == 1);
	assert_null(t.sample);
	assert_int_equal(gpu_monitor_sample(s.m, &rq, on_sampled, &t, &err), -1);
	gpu_monitor_probe(s.m);
	s.inventories = 0;
	run_until(&s, s.inventories > 0);
	/* The monitor stops: no callback comes. */
	sample_request_and_wait(&s, &t, NULL, 0);
	t.times = 0;
	monitor_watcher_stop(&s);
	assert_int_equal(t.times, 0);
	sampled_fini(&t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sample__without_fields_has_memory_and_processes),
		cmocka_unit_test(sample__converts_as_dcgm_does),
		cmocka_unit_test(sample__does_not_request_refused_fields_again),
		cmocka_unit_test(sample__uses_busy_times_and_units_of_gpm),
		cmocka_unit_test(sample__has_more_metrics_than_go_into_one_call),
		cmocka_unit_test(sample__shares_the_busy_time_among_processes),
		cmocka_unit_test(sample__reports_the_time_of_an_mps_client_as_unknown),
		cmocka_unit_test(sample__falls_back_to_utilization),
		cmocka_unit_test(sample__computes_a_rate_of_nvlink_counters),
		cmocka_unit_test(sample__omits_a_hanging_gpu),
		cmocka_unit_test(sample__stops_at_a_gpu_that_is_lost),
		cmocka_unit_test(sample__reads_mig_devices),
		cmocka_unit_test(sample__is_one_at_a_time),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
