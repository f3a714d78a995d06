/* SPDX-License-Identifier: Apache-2.0 */

/* The simulated NVML answers as a real one does: the facts marked "measured" on an H100. */
#include "unit/testbed/sim/sim-fixture.h"

#include <sys/wait.h>

#include "lib/base/time.h"

static struct sim_fixture f;

static int begin_h100(void **state)
{
	(void)state;
	sim_fixture_begin(&f, "h100-1");
	return 0;
}

static int begin_p3(void **state)
{
	(void)state;
	sim_fixture_begin(&f, "p3.8xlarge");
	return 0;
}

static int end(void **state)
{
	(void)state;
	sim_fixture_end(&f);
	return 0;
}

static void error_string__is_the_measured_table(void **state)
{
#define ROW(name, number, text) { number, text },
	static const struct {
		int code;
		const char *text;
	} rows[] = { NVML_RESULTS(ROW) };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_string_equal(nvmlErrorString((nvmlReturn_t)rows[i].code), rows[i].text);
	assert_int_equal(ARRAY_LEN(rows), 32);
	assert_string_equal(nvmlErrorString((nvmlReturn_t)31), "Unknown Error");
	assert_string_equal(nvmlErrorString((nvmlReturn_t)-1), "Unknown Error");
	assert_string_equal(nvmlErrorString(NVML_ERROR_TIMEOUT), "Timeout");
}

static void before_init__all_calls_return_uninitialized(void **state)
{
	unsigned int n;
	nvmlDevice_t d;
	nvmlEventSet_t set;

	(void)state;
	assert_int_equal(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(nvmlDeviceGetCount_v2(NULL), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &d), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(nvmlDeviceGetIndex(NULL, NULL), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(nvmlEventSetCreate(&set), NVML_ERROR_UNINITIALIZED);
}

static void init__is_counted(void **state)
{
	unsigned int n;

	(void)state;
	assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
	assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetCount_v2(&n), NVML_ERROR_UNINITIALIZED);
	assert_int_equal(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
}

static void init__without_a_node_is_a_host_without_driver(void **state)
{
	(void)state;
	assert_int_equal(unsetenv("GPUSLICE_SIM_DIR"), 0);
	assert_int_equal(unsetenv("GPUSLICE_SIM_NODE"), 0);
	assert_int_equal(nvmlInit_v2(), NVML_ERROR_DRIVER_NOT_LOADED);
	assert_int_equal(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
}

static void init__refuses_another_node_in_the_same_directory(void **state)
{
	(void)state;
	assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
	assert_int_equal(setenv("GPUSLICE_SIM_NODE", "g4dn.xlarge", 1), 0);
	assert_int_equal(nvmlInit_v2(), NVML_ERROR_UNKNOWN);
	assert_int_equal(setenv("GPUSLICE_SIM_NODE", "h100-1", 1), 0);
	assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
	assert_int_equal(unsetenv("GPUSLICE_SIM_NODE"), 0); /* the directory alone is enough */
	assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
	assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
}

static void driver__modes_decide_over_init(void **state)
{
	static const struct {
		enum sim_driver driver;
		nvmlReturn_t init, count;
	} rows[] = {
		{ SIM_DRIVER_UNLOADED, NVML_ERROR_DRIVER_NOT_LOADED,
			NVML_ERROR_DRIVER_NOT_LOADED },
		{ SIM_DRIVER_MISMATCH, NVML_ERROR_LIB_RM_VERSION_MISMATCH, NVML_SUCCESS },
		{ SIM_DRIVER_NO_PERMISSION, NVML_ERROR_NO_PERMISSION, NVML_SUCCESS },
		{ SIM_DRIVER_LOADED, NVML_SUCCESS, NVML_SUCCESS },
	};
	struct error err = ERROR_INIT;
	unsigned int n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_ok(sim_control_driver(&f.control, rows[i].driver, &err), &err);
		assert_int_equal(nvmlDeviceGetCount_v2(&n), rows[i].count);
		assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
		assert_int_equal(nvmlInit_v2(), rows[i].init);
		if (rows[i].init == NVML_SUCCESS)
			continue;
		assert_ok(sim_control_driver(&f.control, SIM_DRIVER_LOADED, &err), &err);
		assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
	}
}

static void strings__too_short_is_7_and_writes_nothing(void **state)
{
	char text[96];

	(void)state;
	memset(text, 'x', sizeof(text));
	assert_int_equal(nvmlDeviceGetName(f.gpus[0], text, 4), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(text[0], 'x');
	assert_int_equal(nvmlDeviceGetName(f.gpus[0], text, 21), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(nvmlDeviceGetName(f.gpus[0], text, 22), NVML_SUCCESS);
	assert_string_equal(text, "NVIDIA H100 80GB HBM3");
	assert_int_equal(nvmlDeviceGetName(f.gpus[0], text, 0), NVML_ERROR_INSUFFICIENT_SIZE);
	assert_int_equal(nvmlDeviceGetName(f.gpus[0], NULL, 96), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlSystemGetNVMLVersion(text, sizeof(text)), NVML_SUCCESS);
	assert_string_equal(text, "13.580.159.04");
}

static void lookup__accepts_all_spellings(void **state)
{
	static const struct {
		const char *bus_id;
		nvmlReturn_t want;
	} rows[] = {
		{ "00000000:00:1E.0", NVML_SUCCESS },
		{ "0000:00:1e.0", NVML_SUCCESS },
		{ "00:1e.0", NVML_SUCCESS },
		{ "00000000:FE:00.0", NVML_ERROR_NOT_FOUND },
		{ "fe:00.0", NVML_ERROR_NOT_FOUND },
		{ "fe:00", NVML_ERROR_INVALID_ARGUMENT },
		{ "", NVML_ERROR_INVALID_ARGUMENT },
		{ "zz", NVML_ERROR_INVALID_ARGUMENT },
		{ "0000:00:1e.0x", NVML_ERROR_INVALID_ARGUMENT },
		{ "123456789:00:1e.0", NVML_ERROR_INVALID_ARGUMENT },
	};
	char uuid[96];
	nvmlDevice_t d;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (nvmlDeviceGetHandleByPciBusId_v2(rows[i].bus_id, &d) != rows[i].want)
			fail_msg("'%s' is not %d", rows[i].bus_id, rows[i].want);
	assert_int_equal(nvmlDeviceGetUUID(f.gpus[2], uuid, sizeof(uuid)), NVML_SUCCESS);
	assert_int_equal(strlen(uuid), 40);
	assert_int_equal(nvmlDeviceGetHandleByUUID(uuid, &d), NVML_SUCCESS);
	assert_ptr_equal(d, f.gpus[2]);
	assert_int_equal(nvmlDeviceGetHandleByUUID("", &d), NVML_ERROR_NOT_FOUND);
	assert_int_equal(nvmlDeviceGetHandleByUUID("GPU-x", &d), NVML_ERROR_NOT_FOUND);
	assert_int_equal(nvmlDeviceGetHandleByUUID("MIG-x", &d), NVML_ERROR_NOT_FOUND);
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(4, &d), NVML_ERROR_INVALID_ARGUMENT);
}

static void handles__invalid_and_null_are_refused(void **state)
{
	unsigned int n;
	nvmlDevice_t d = f.gpus[0];

	(void)state;
	assert_int_equal(nvmlDeviceGetIndex(NULL, &n), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetIndex((nvmlDevice_t)&n, &n), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetIndex(d, NULL), NVML_ERROR_INVALID_ARGUMENT);
	/* A handle of another epoch is of a GPU that was in this slot before. */
	d = (nvmlDevice_t)((uintptr_t)d + (UINT64_C(1) << 32));
	assert_int_equal(nvmlDeviceGetIndex(d, &n), NVML_ERROR_INVALID_ARGUMENT);
}

static void versions__wrong_words_are_refused_as_measured(void **state)
{
	nvmlPciInfoExt_v1_t pci = { .version = 1 };
	nvmlMemory_v2_t memory = { .version = 7 };
	nvmlProcessDetailList_v1_t list = { .version = 1 };
	nvmlGpuFabricInfo_v2_t fabric = { .version = 2 };
	nvmlGpmSupport_t gpm = { .version = 2 };

	(void)state;
	assert_int_equal(nvmlDeviceGetPciInfoExt(f.gpus[0], &pci), 25);
	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(f.gpus[0], &memory), 13);
	assert_int_equal(nvmlDeviceGetRunningProcessDetailList(f.gpus[0], &list), 25);
	assert_int_equal(nvmlDeviceGetGpuFabricInfoV(f.gpus[0], &fabric), 25);
	assert_int_equal(nvmlGpmQueryDeviceSupport(f.gpus[0], &gpm), 25);
}

static void memory__v1_used_is_v2_used_and_reserved(void **state)
{
	struct sim_process p = { .pid = 4711, .memory_bytes = 4 * SIM_GIB, .sm_percent = 30 };
	nvmlMemory_v2_t v2 = { .version = NVML_STRUCT_VERSION(v2, 2) };
	struct error err = ERROR_INIT;
	nvmlMemory_t v1;

	(void)state;
	assert_int_equal(nvmlDeviceGetMemoryInfo(f.gpus[0], &v1), NVML_SUCCESS);
	assert_int_equal(v1.total, UINT64_C(85520809984));
	assert_int_equal(v1.used, 503316480);
	assert_int_equal(v1.free, UINT64_C(85017493504));
	assert_ok(sim_control_process_start(&f.control, 0, &p, &err), &err);
	assert_int_equal(nvmlDeviceGetMemoryInfo(f.gpus[0], &v1), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(f.gpus[0], &v2), NVML_SUCCESS);
	assert_int_equal(v2.used, 4 * SIM_GIB);
	assert_int_equal(v2.reserved, 503316480);
	assert_int_equal(v1.used, v2.used + v2.reserved);
	assert_int_equal(v1.free, v2.free);
	assert_int_equal(v2.total, v2.used + v2.reserved + v2.free);
}

static void processes__follow_the_two_call_pattern(void **state)
{
	struct sim_process p = { .memory_bytes = SIM_GIB,
		.gi = SIM_NO_INSTANCE,
		.ci = SIM_NO_INSTANCE };
	struct error err = ERROR_INIT;
	nvmlProcessInfo_t infos[8];
	nvmlProcessInfo_v1_t old[8];
	unsigned int n = 0;

	(void)state;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(f.gpus[0], &n, NULL),
		NVML_SUCCESS);
	assert_int_equal(n, 0);
	for (p.pid = 100; p.pid < 103; p.pid++)
		assert_ok(sim_control_process_start(&f.control, 0, &p, &err), &err);
	n = 0;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(f.gpus[0], &n, NULL), 7);
	assert_int_equal(n, 3);
	n = 2;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(f.gpus[0], &n, infos), 7);
	assert_int_equal(n, 3);
	n = 8;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(f.gpus[0], &n, infos), 0);
	assert_int_equal(n, 3);
	assert_int_equal(infos[2].pid, 102);
	assert_int_equal(infos[2].usedGpuMemory, SIM_GIB);
	assert_int_equal(infos[2].gpuInstanceId, NVML_NO_INSTANCE);
	n = 3;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses(f.gpus[0], &n, old), 0);
	assert_int_equal(old[2].pid, 102);
	n = 1;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(f.gpus[0], &n, NULL), 2);
	n = 8;
	assert_int_equal(nvmlDeviceGetMPSComputeRunningProcesses_v3(f.gpus[0], &n, infos), 0);
	assert_int_equal(n, 0);
	assert_ok(sim_control_process_stop(&f.control, 101, &err), &err);
	n = 8;
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(f.gpus[0], &n, infos), 0);
	assert_int_equal(n, 2);
	assert_int_equal(infos[1].pid, 102);
}

static void process_utilization__has_its_own_pattern(void **state)
{
	struct sim_process p = { .pid = 5, .sm_percent = 40, .mem_percent = 20 };
	nvmlProcessUtilizationSample_t s[72];
	struct error err = ERROR_INIT;
	unsigned int n = 0;

	(void)state;
	assert_int_equal(nvmlDeviceGetProcessUtilization(f.gpus[0], NULL, &n, 0), 7);
	assert_int_equal(n, 72);
	assert_int_equal(nvmlDeviceGetProcessUtilization(f.gpus[0], s, &n, 0), 6);
	assert_int_equal(n, 72);
	assert_ok(sim_control_process_start(&f.control, 0, &p, &err), &err);
	assert_int_equal(nvmlDeviceGetProcessUtilization(f.gpus[0], s, &n, 0), 0);
	assert_int_equal(n, 1);
	assert_int_equal(s[0].pid, 5);
	assert_int_equal(s[0].smUtil, 40);
	n = 72;
	assert_int_equal(nvmlDeviceGetProcessUtilization(f.gpus[0], s, &n, UINT64_MAX), 6);
}

static void load__changes_the_dependent_figures(void **state)
{
	unsigned int idle_mw, busy_mw, idle_c, busy_c;
	unsigned long long reasons;
	struct error err = ERROR_INIT;
	nvmlUtilization_t u;

	(void)state;
	assert_int_equal(nvmlDeviceGetPowerUsage(f.gpus[0], &idle_mw), 0);
	assert_int_equal(nvmlDeviceGetTemperature(f.gpus[0], 0, &idle_c), 0);
	assert_int_equal(nvmlDeviceGetCurrentClocksEventReasons(f.gpus[0], &reasons), 0);
	assert_int_equal(reasons, 1);
	assert_ok(sim_control_set(&f.control, 0, "util_gpu", "100", &err), &err);
	assert_int_equal(nvmlDeviceGetUtilizationRates(f.gpus[0], &u), 0);
	assert_int_equal(u.gpu, 100);
	assert_int_equal(nvmlDeviceGetPowerUsage(f.gpus[0], &busy_mw), 0);
	assert_int_equal(nvmlDeviceGetTemperature(f.gpus[0], 0, &busy_c), 0);
	assert_in_range(busy_mw, idle_mw + 1, 700000);
	assert_in_range(busy_c, idle_c + 1, 86);
}

static void energy__continues_from_its_last_value(void **state)
{
	unsigned long long mj_before, mj_after;
	unsigned int mw;
	struct error err = ERROR_INIT;
	uint64_t start_ns;

	(void)state;
	usleep(50000); /* a past at low power, which a change of load must not make dearer */
	assert_int_equal(nvmlDeviceGetTotalEnergyConsumption(f.gpus[0], &mj_before), 0);
	start_ns = time_mono_ns();
	assert_ok(sim_control_set(&f.control, 0, "util_gpu", "100", &err), &err);
	usleep(5000);
	assert_int_equal(nvmlDeviceGetTotalEnergyConsumption(f.gpus[0], &mj_after), 0);
	assert_int_equal(nvmlDeviceGetPowerUsage(f.gpus[0], &mw), 0);
	assert_in_range(mj_after - mj_before, mw * 4ULL / 1000,
		mw * ((time_mono_ns() - start_ns) / NS_PER_MS + 5) / 1000);
}

static void fields__agree_with_the_plain_calls(void **state)
{
	nvmlFieldValue_t v[] = { { .fieldId = 185 }, { .fieldId = 82 }, { .fieldId = 190 },
		{ .fieldId = 193 }, { .fieldId = 91 }, { .fieldId = 303 }, { .fieldId = 1 } };
	unsigned int mw;

	(void)state;
	assert_int_equal(nvmlDeviceGetPowerUsage(f.gpus[0], &mw), 0);
	assert_int_equal(nvmlDeviceGetFieldValues(f.gpus[0], ARRAY_LEN(v), v), 0);
	assert_int_equal(v[0].nvmlReturn, 0);
	assert_int_equal(v[0].value.uiVal, mw);
	assert_int_equal(v[1].value.uiVal, 37);
	assert_int_equal(v[2].value.uiVal, 700000);
	assert_int_equal(v[3].valueType, NVML_VALUE_TYPE_SIGNED_INT);
	assert_int_equal(v[3].value.siVal, -8);
	assert_int_equal(v[4].nvmlReturn, NVML_ERROR_NOT_SUPPORTED);
	assert_int_equal(v[5].nvmlReturn, NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(v[6].value.ullVal, 1);
	assert_int_equal(nvmlDeviceGetFieldValues(f.gpus[0], 0, v),
		NVML_ERROR_INVALID_ARGUMENT);
}

static void fail__disables_a_group_and_its_fields(void **state)
{
	nvmlFieldValue_t v = { .fieldId = 185 };
	struct error err = ERROR_INIT;
	unsigned int mw;

	(void)state;
	assert_ok(sim_control_fail(&f.control, 0, SIM_GROUP_POWER, 999, &err), &err);
	assert_int_equal(nvmlDeviceGetPowerUsage(f.gpus[0], &mw), NVML_ERROR_UNKNOWN);
	assert_int_equal(nvmlDeviceGetFieldValues(f.gpus[0], 1, &v), NVML_SUCCESS);
	assert_int_equal(v.nvmlReturn, NVML_ERROR_UNKNOWN);
	assert_int_equal(nvmlDeviceGetPowerUsage(f.gpus[1], &mw), NVML_SUCCESS);
	assert_ok(sim_control_reset(&f.control, 0, &err), &err);
	assert_int_equal(nvmlDeviceGetPowerUsage(f.gpus[0], &mw), NVML_SUCCESS);
}

static void lose__makes_every_call_on_the_gpu_fail_and_no_other(void **state)
{
	struct error err = ERROR_INIT;
	unsigned int n;
	nvmlDevice_t d;
	char uuid[96];

	(void)state;
	assert_int_equal(nvmlDeviceGetUUID(f.gpus[1], uuid, sizeof(uuid)), 0);
	assert_ok(sim_control_lose(&f.control, 1, &err), &err);
	assert_int_equal(nvmlDeviceGetIndex(f.gpus[1], &n), NVML_ERROR_GPU_IS_LOST);
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(1, &d), NVML_ERROR_GPU_IS_LOST);
	assert_int_equal(nvmlDeviceGetHandleByUUID(uuid, &d), NVML_ERROR_GPU_IS_LOST);
	assert_int_equal(nvmlDeviceGetIndex(f.gpus[2], &n), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	assert_int_equal(n, 4);
	assert_ok(sim_control_restore(&f.control, 1, &err), &err);
	assert_int_equal(nvmlDeviceGetIndex(f.gpus[1], &n), NVML_SUCCESS);
}

static void hot_plug__changes_count_and_ages_handles(void **state)
{
	struct error err = ERROR_INIT;
	unsigned int n;
	nvmlDevice_t d;
	uint32_t slot;
	char name[96], path[512];

	(void)state;
	assert_ok(sim_control_remove(&f.control, 1, &err), &err);
	assert_int_equal(nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	assert_int_equal(n, 3);
	assert_int_equal(nvmlDeviceGetIndex(f.gpus[1], &n), NVML_ERROR_GPU_IS_LOST);
	assert_int_equal(nvmlDeviceGetIndex(f.gpus[3], &n), NVML_SUCCESS);
	assert_int_equal(n, 2);
	(void)snprintf(path, sizeof(path), "%s/dev/nvidia1", f.dir);
	assert_int_not_equal(access(path, F_OK), 0);
	assert_ok(sim_control_add(&f.control, "T4", &slot, &err), &err);
	assert_int_equal(slot, 1);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(nvmlDeviceGetIndex(f.gpus[1], &n), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(1, &d), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceGetName(d, name, sizeof(name)), NVML_SUCCESS);
	assert_string_equal(name, "Tesla T4");
}

static void setters__require_root_and_affect_other_processes(void **state)
{
	unsigned int mode;
	pid_t pid;
	int status;

	(void)state;
	assert_int_equal(nvmlDeviceSetComputeMode(f.gpus[0], 4), NVML_ERROR_INVALID_ARGUMENT);
	if (geteuid() != 0) {
		assert_int_equal(nvmlDeviceSetComputeMode(f.gpus[0], 3),
			NVML_ERROR_NO_PERMISSION);
		return;
	}
	assert_int_equal(nvmlDeviceSetComputeMode(f.gpus[0], 3), NVML_SUCCESS);
	pid = fork();
	if (pid == 0)
		_exit(nvmlDeviceGetComputeMode(f.gpus[0], &mode) == 0 && mode == 3 ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void mig__is_off_or_unsupported(void **state)
{
	unsigned int a = 7, b = 7;
	nvmlDevice_t d;

	(void)state;
	assert_int_equal(nvmlDeviceGetMigMode(f.gpus[0], &a, &b), NVML_SUCCESS);
	assert_int_equal(a | b, 0);
	assert_int_equal(nvmlDeviceGetMaxMigDeviceCount(f.gpus[0], &a), NVML_SUCCESS);
	assert_int_equal(a, 0);
	assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(f.gpus[0], 0, &d),
		NVML_ERROR_NOT_FOUND);
	assert_int_equal(nvmlDeviceGetGpuInstanceId(f.gpus[0], &a),
		NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(f.gpus[0], &d), 2);
}

static void mig__is_not_supported_before_ampere(void **state)
{
	unsigned int a, b;

	(void)state;
	assert_int_equal(nvmlDeviceGetMigMode(f.gpus[0], &a, &b), NVML_ERROR_NOT_SUPPORTED);
}

static void topology__has_the_hybrid_cube_mesh(void **state)
{
	/* p3.8xlarge: links between each pair of its four GPUs. */
	static const unsigned int want[4][4] = { { 0, 1, 1, 2 }, { 1, 0, 2, 1 }, { 1, 2, 0, 2 },
		{ 2, 1, 2, 0 } };
	unsigned int got[4][4] = { { 0 } }, active, level, status;
	nvmlPciInfo_t pci;
	nvmlDevice_t remote;

	(void)state;
	for (unsigned int i = 0; i < 4; i++)
		for (unsigned int link = 0; link < 6; link++) {
			assert_int_equal(nvmlDeviceGetNvLinkState(f.gpus[i], link, &active), 0);
			if (!active)
				continue;
			assert_int_equal(
				nvmlDeviceGetNvLinkRemotePciInfo_v2(f.gpus[i], link, &pci), 0);
			assert_int_equal(nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &remote),
				0);
			for (unsigned int j = 0; j < 4; j++)
				got[i][j] += f.gpus[j] == remote;
		}
	assert_memory_equal(got, want, sizeof(want));
	assert_int_equal(nvmlDeviceGetNvLinkState(f.gpus[0], 6, &active), 2);
	assert_int_equal(nvmlDeviceGetTopologyCommonAncestor(f.gpus[0], f.gpus[1], &level), 0);
	assert_int_equal(level, NVML_TOPOLOGY_HOSTBRIDGE);
	assert_int_equal(nvmlDeviceGetTopologyCommonAncestor(f.gpus[0], f.gpus[0], &level), 3);
	assert_int_equal(nvmlDeviceGetP2PStatus(f.gpus[0], f.gpus[3], 2, &status), 0);
	assert_int_equal(status, NVML_P2P_STATUS_OK);
}

static void gpm__computes_from_two_samples(void **state)
{
	nvmlGpmSample_t a, b;
	nvmlGpmMetricsGet_t get = { .version = 1, .numMetrics = 3 };
	nvmlGpmSupport_t support = { .version = 1 };
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(nvmlGpmQueryDeviceSupport(f.gpus[0], &support), 0);
	assert_int_equal(support.isSupportedDevice, 1);
	assert_int_equal(nvmlGpmSampleAlloc(&a), 0);
	assert_int_equal(nvmlGpmSampleAlloc(&b), 0);
	assert_ok(sim_control_set(&f.control, 0, "util_gpu", "60", &err), &err);
	assert_int_equal(nvmlGpmSampleGet(f.gpus[0], a), 0);
	assert_int_equal(nvmlGpmSampleGet(f.gpus[0], b), 0);
	get.sample1 = a;
	get.sample2 = b;
	get.metrics[0].metricId = 1;
	get.metrics[1].metricId = 5000;
	get.metrics[2].metricId = 8;
	assert_int_equal(nvmlGpmMetricsGet(&get), 0);
	assert_int_equal((int)get.metrics[0].value, 60);
	assert_string_equal(get.metrics[0].metricInfo.shortName, "gract");
	assert_int_equal(get.metrics[1].nvmlReturn, 2);
	assert_int_equal(get.metrics[2].nvmlReturn, 0);
	assert_null(get.metrics[2].metricInfo.shortName);
	get.sample2 = a;
	assert_int_equal(nvmlGpmMetricsGet(&get), 2);
	get.sample2 = b;
	get.numMetrics = 211;
	assert_int_equal(nvmlGpmMetricsGet(&get), 2);
	get.version = 2;
	assert_int_equal(nvmlGpmMetricsGet(&get), 25);
	assert_int_equal(nvmlGpmMigSampleGet(f.gpus[0], 0, b), 2);
	assert_int_equal(nvmlGpmSampleFree(a), 0);
	assert_int_equal(nvmlGpmSampleFree(b), 0);
}

#define ON(test, begin) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(error_string__is_the_measured_table),
		cmocka_unit_test(before_init__all_calls_return_uninitialized),
		cmocka_unit_test(init__without_a_node_is_a_host_without_driver),
		ON(init__is_counted, begin_h100),
		ON(init__refuses_another_node_in_the_same_directory, begin_h100),
		ON(driver__modes_decide_over_init, begin_h100),
		ON(strings__too_short_is_7_and_writes_nothing, begin_h100),
		ON(lookup__accepts_all_spellings, begin_p3),
		ON(handles__invalid_and_null_are_refused, begin_h100),
		ON(versions__wrong_words_are_refused_as_measured, begin_h100),
		ON(memory__v1_used_is_v2_used_and_reserved, begin_h100),
		ON(processes__follow_the_two_call_pattern, begin_h100),
		ON(process_utilization__has_its_own_pattern, begin_h100),
		ON(load__changes_the_dependent_figures, begin_h100),
		ON(energy__continues_from_its_last_value, begin_h100),
		ON(fields__agree_with_the_plain_calls, begin_h100),
		ON(fail__disables_a_group_and_its_fields, begin_p3),
		ON(lose__makes_every_call_on_the_gpu_fail_and_no_other, begin_p3),
		ON(hot_plug__changes_count_and_ages_handles, begin_p3),
		ON(setters__require_root_and_affect_other_processes, begin_h100),
		ON(mig__is_off_or_unsupported, begin_h100),
		ON(mig__is_not_supported_before_ampere, begin_p3),
		ON(topology__has_the_hybrid_cube_mesh, begin_p3),
		ON(gpm__computes_from_two_samples, begin_h100),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
