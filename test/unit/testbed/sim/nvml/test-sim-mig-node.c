/* SPDX-License-Identifier: Apache-2.0 */

/*
 * MIG and the rest of the node: modes by generation, processes and events on instances. Files and
 * containers: test-sim-mig-files.c.
 */
#include "sim-mig-fixture.h"

#include <stdio.h>

/* --- mode --- */

static void set_mode(unsigned int mode, nvmlReturn_t want, nvmlReturn_t want_activation)
{
	nvmlReturn_t activation = 77;

	assert_int_equal(nvmlDeviceSetMigMode(gpu, mode, &activation), want);
	if (want == NVML_SUCCESS)
		assert_int_equal(activation, want_activation);
}

static void set_key(const char *key, const char *value)
{
	struct error err = ERROR_INIT;

	assert_ok(sim_control_set(&f.control, 0, key, value, &err), &err);
}

static void reset(void)
{
	struct error err = ERROR_INIT;

	assert_ok(sim_control_reset(&f.control, 0, &err), &err);
}

static void mode__changes_at_once_and_stays_on_ampere(void **state)
{
	nvmlFieldValue_t field = { .fieldId = 184 };

	(void)state;
	expect_mode(0, 0);
	set_mode(1, 0, 0);
	expect_mode(1, 1);
	assert_int_equal(nvmlDeviceGetFieldValues(gpu, 1, &field), 0);
	assert_int_equal(field.value.uiVal, 0); /* by a reset of its own */
	reboot();
	expect_mode(1, 1);
	set_mode(0, 0, 0);
	expect_mode(0, 0);
	set_mode(2, 2, 0);
	assert_int_equal(nvmlDeviceSetMigMode(gpu, 1, NULL), 2);
}

static void mode__goes_off_with_a_reboot_since_hopper(void **state)
{
	nvmlFieldValue_t field = { .fieldId = 184 };

	(void)state;
	set_mode(1, 0, 0);
	assert_int_equal(nvmlDeviceGetFieldValues(gpu, 1, &field), 0);
	assert_int_equal(field.value.uiVal, 1);
	reset();
	expect_mode(1, 1);
	reboot();
	expect_mode(0, 0);
}

static void mode__waits_for_a_reset_where_that_is_not_exposed(void **state)
{
	nvmlGpuInstance_t gi;

	(void)state;
	set_key("mig_reset_required", "1");
	set_mode(1, 0, NVML_ERROR_RESET_REQUIRED);
	expect_mode(0, 1);
	assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, P1G, &gi), NVML_ERROR_NOT_SUPPORTED);
	set_mode(0, 0, 0); /* nothing to wait for any more */
	expect_mode(0, 0);
	set_mode(1, 0, NVML_ERROR_RESET_REQUIRED);
	reboot();
	expect_mode(1, 1);
	set_mode(0, 0, NVML_ERROR_RESET_REQUIRED); /* the key has stayed */
	expect_mode(1, 0);
	reset();
	expect_mode(0, 0);
}

static void mode__is_pending_while_the_gpu_is_in_use(void **state)
{
	struct sim_process p = { .pid = 5 };
	struct error err = ERROR_INIT;
	nvmlGpuInstance_t gi;

	(void)state;
	set_key("mig_busy", "1");
	set_mode(1, 0, NVML_ERROR_IN_USE);
	expect_mode(0, 1);
	set_key("mig_busy", "0");
	assert_ok(sim_control_process_start(&f.control, 0, &p, &err), &err);
	set_mode(1, 0, NVML_ERROR_IN_USE);
	assert_ok(sim_control_process_stop(&f.control, 5, &err), &err);
	expect_mode(0, 1);
	set_mode(1, 0, 0);
	expect_mode(1, 1);
	set_key("mig_busy", "1");
	assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, P1G, &gi), NVML_ERROR_IN_USE);
}

static void mode__stays_on_while_there_are_instances(void **state)
{
	nvmlGpuInstance_t gi;

	(void)state;
	mig_on(gpu);
	gi = gi_new(gpu, P7G);
	set_mode(0, NVML_ERROR_IN_USE, 0);
	expect_mode(1, 1);
	set_mode(1, 0, 0);
	assert_int_equal(nvmlGpuInstanceDestroy(gi), 0);
	set_mode(0, 0, 0);
	expect_mode(0, 0);
}

static void mode__is_not_supported_without_mig(void **state)
{
	nvmlGpuInstance_t gi;
	unsigned int n;

	(void)state;
	set_mode(1, NVML_ERROR_NOT_SUPPORTED, 0);
	assert_int_equal(nvmlDeviceGetMigMode(gpu, &n, &n), 3);
	assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, P1G, &gi), 3);
	assert_int_equal(nvmlDeviceGetGpuInstances(gpu, P1G, &gi, &n), 3);
	assert_int_equal(nvmlDeviceGetMaxMigDeviceCount(gpu, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(access(f.dir, F_OK), 0);
	/* No product that can do it, no capability files. */
	char path[512];
	(void)snprintf(path, sizeof(path), "%s/dev/nvidia-caps", f.dir);
	assert_int_not_equal(access(path, F_OK), 0);
}

/* --- processes and events --- */

static void processes__belong_to_their_instance(void **state)
{
	struct sim_process p = { .pid = 10, .memory_bytes = SIM_GIB, .sm_percent = 100 };
	nvmlComputeInstance_t small_ci, big_ci;
	nvmlGpuInstance_t small;
	struct error err = ERROR_INIT;
	nvmlProcessInfo_t infos[4];
	nvmlMemory_t m;
	nvmlDevice_t d;
	unsigned int n;

	(void)state;
	mig_on(gpu);
	small = gi_at(gpu, P1G, 6);
	small_ci = ci_new(small, 0);
	big_ci = ci_new(gi_at(gpu, P3G, 0), 2);
	d = mig_device(gpu, 1); /* the 1g: its id is 9, that of the 3g is 2 */
	assert_error(sim_control_process_start(&f.control, 0, &p, &err), &err, "MIG is on");
	p.gi = 9;
	p.ci = 1;
	assert_error(sim_control_process_start(&f.control, 0, &p, &err), &err,
		"GPU instance 9 and compute instance 1");
	p.ci = 0;
	p.memory_bytes = 5 * SIM_GIB;
	assert_error(sim_control_process_start(&f.control, 0, &p, &err), &err, "GPU instance");
	p.memory_bytes = SIM_GIB;
	assert_ok(sim_control_process_start(&f.control, 0, &p, &err), &err);
	p = (struct sim_process){ .pid = 11, .memory_bytes = 2 * SIM_GIB, .gi = 2 };
	assert_ok(sim_control_process_start(&f.control, 0, &p, &err), &err);
	n = ARRAY_LEN(infos);
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, infos), 0);
	assert_int_equal(n, 1);
	assert_int_equal(infos[0].pid, 10);
	assert_int_equal(infos[0].gpuInstanceId, 9);
	assert_int_equal(infos[0].computeInstanceId, 0);
	n = ARRAY_LEN(infos);
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(gpu, &n, infos), 0);
	assert_int_equal(n, 2);
	assert_int_equal(infos[1].gpuInstanceId, 2);
	assert_int_equal(nvmlDeviceGetMemoryInfo(d, &m), 0);
	assert_int_equal(m.used, SIM_GIB + (19ULL << 20));
	assert_int_equal(nvmlDeviceGetMemoryInfo(gpu, &m), 0);
	assert_int_equal(m.used, 3 * SIM_GIB + ((2 * 19ULL + 518) << 20));
	/* The small instance is in use: no part of it can be destroyed, and the mode cannot change. The
	 * other instance can be destroyed. */
	assert_int_equal(nvmlComputeInstanceDestroy(small_ci), NVML_ERROR_IN_USE);
	assert_int_equal(nvmlGpuInstanceDestroy(small), NVML_ERROR_IN_USE);
	assert_ok(sim_control_process_stop(&f.control, 11, &err), &err);
	assert_int_equal(nvmlComputeInstanceDestroy(big_ci), 0);
	assert_ok(sim_control_process_stop(&f.control, 10, &err), &err);
	assert_int_equal(nvmlComputeInstanceDestroy(small_ci), 0);
	assert_int_equal(nvmlGpuInstanceDestroy(small), 0);
}

static void processes__utilize_a_share_of_the_gpu(void **state)
{
	struct sim_process p = { .pid = 10, .sm_percent = 100, .gi = 1 };
	nvmlGpmSample_t a, b;
	nvmlGpmMetricsGet_t get = { .version = 1, .numMetrics = 1 };
	unsigned int idle_mw, one_mw, full_mw;
	struct error err = ERROR_INIT;

	(void)state;
	mig_on(gpu);
	(void)ci_new(gi_at(gpu, P3G, 4), 2);
	assert_int_equal(nvmlDeviceGetPowerUsage(gpu, &idle_mw), 0);
	assert_ok(sim_control_process_start(&f.control, 0, &p, &err), &err);
	assert_int_equal(nvmlDeviceGetPowerUsage(gpu, &one_mw), 0);
	set_key("util_gpu", "100");
	assert_int_equal(nvmlDeviceGetPowerUsage(gpu, &full_mw), 0);
	/* 60 of 132 multiprocessors. */
	assert_in_range((one_mw - idle_mw) * 100 / (full_mw - idle_mw), 44, 47);
	assert_int_equal(nvmlGpmSampleAlloc(&a), 0);
	assert_int_equal(nvmlGpmSampleAlloc(&b), 0);
	assert_int_equal(nvmlGpmMigSampleGet(gpu, 2, a), 2);
	assert_int_equal(nvmlGpmMigSampleGet(gpu, 1, a), 0);
	assert_int_equal(nvmlGpmMigSampleGet(gpu, 1, b), 0);
	get.sample1 = a;
	get.sample2 = b;
	get.metrics[0].metricId = 1;
	assert_int_equal(nvmlGpmMetricsGet(&get), 0);
	assert_int_equal((int)get.metrics[0].value, 100); /* all of its instance */
	assert_int_equal(nvmlGpmSampleGet(mig_device(gpu, 0), b), 0);
	assert_int_equal(nvmlGpmMetricsGet(&get), 2); /* samples of two things */
	assert_int_equal(nvmlGpmSampleFree(a), 0);
	assert_int_equal(nvmlGpmSampleFree(b), 0);
}

static void events__name_the_instance(void **state)
{
	struct error err = ERROR_INIT;
	nvmlEventData_t e;
	nvmlEventSet_t set;

	(void)state;
	mig_on(gpu);
	(void)ci_new(gi_at(gpu, P2G, 0), 1);
	assert_int_equal(nvmlEventSetCreate(&set), 0);
	assert_int_equal(nvmlDeviceRegisterEvents(gpu, NVML_EVENT_XID_CRITICAL, set), 0);
	assert_ok(sim_control_xid(&f.control, 0, 5, 0, 31, &err), &err);
	assert_ok(sim_control_xid(&f.control, 0, SIM_NO_INSTANCE, SIM_NO_INSTANCE, 79, &err),
		&err);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), 0);
	assert_ptr_equal(e.device, gpu);
	assert_int_equal(e.eventData, 31);
	assert_int_equal(e.gpuInstanceId, 5);
	assert_int_equal(e.computeInstanceId, 0);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), 0);
	assert_int_equal(e.gpuInstanceId, NVML_NO_INSTANCE);
}

static void control__finds_devices_by_all_their_names(void **state)
{
	uint32_t slot, gi, ci;
	struct error err = ERROR_INIT;
	char uuid[96], old[128];

	(void)state;
	gpu = f.gpus[2];
	mig_on(gpu);
	(void)ci_new(gi_at(gpu, P2G, 0), 1);
	assert_ok(sim_control_find_device(&f.control, "2:5:0", &slot, &gi, &ci, &err), &err);
	assert_int_equal(slot, 2);
	assert_int_equal(gi, 5);
	assert_int_equal(nvmlDeviceGetUUID(mig_device(gpu, 0), uuid, sizeof(uuid)), 0);
	gi = 0;
	assert_ok(sim_control_find_device(&f.control, uuid, &slot, &gi, &ci, &err), &err);
	assert_int_equal(gi, 5);
	assert_int_equal(nvmlDeviceGetUUID(gpu, uuid, sizeof(uuid)), 0);
	(void)snprintf(old, sizeof(old), "MIG-%s/5/0", uuid);
	assert_ok(sim_control_find_device(&f.control, old, &slot, &gi, &ci, &err), &err);
	assert_int_equal(slot, 2);
	assert_ok(sim_control_find_device(&f.control, uuid, &slot, &gi, &ci, &err), &err);
	assert_int_equal(gi, SIM_NO_INSTANCE);
	assert_ok(sim_control_find_device(&f.control, "0000:10:1c.0", &slot, &gi, &ci, &err),
		&err);
	assert_int_equal(slot, 0);
	assert_error(sim_control_find_device(&f.control, "2:6:0", &slot, &gi, &ci, &err), &err,
		"no MIG device");
	assert_error(sim_control_find_device(&f.control, "MIG-x", &slot, &gi, &ci, &err), &err,
		"no MIG device");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ON(mode__changes_at_once_and_stays_on_ampere, p4d),
		ON(mode__goes_off_with_a_reboot_since_hopper, h100),
		ON(mode__waits_for_a_reset_where_that_is_not_exposed, p4d),
		ON(mode__is_pending_while_the_gpu_is_in_use, h100),
		ON(mode__stays_on_while_there_are_instances, h100),
		ON(mode__is_not_supported_without_mig, v100),
		ON(processes__belong_to_their_instance, p4d),
		ON(processes__utilize_a_share_of_the_gpu, h100),
		ON(events__name_the_instance, p4d),
		ON(control__finds_devices_by_all_their_names, p4d),
	};

	ONLY_ROOT();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
