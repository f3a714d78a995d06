/* SPDX-License-Identifier: Apache-2.0 */

/*
 * MIG and the rest of the node: modes by generation, processes and events on instances, capability
 * files, what a container sees, other processes, writers that are killed, node files.
 */
#include "sim-mig-fixture.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/time.h"
#include "sim/fake-root.h"
#include "sim/node-file.h"

static struct sim_fixture f;
static nvmlDevice_t gpu; /* the first */

static int begin(const char *model)
{
	sim_fixture_begin(&f, model);
	gpu = f.gpus[0];
	return 0;
}

static int begin_a100(void **state)
{
	(void)state;
	return begin("p4d.24xlarge");
}

static int begin_h100(void **state)
{
	(void)state;
	return begin("h100-1");
}

static int begin_v100(void **state)
{
	(void)state;
	return begin("p3.2xlarge");
}

static int end(void **state)
{
	(void)state;
	assert_int_equal(unsetenv("GPUSLICE_SIM_DEV"), 0);
	sim_fixture_end(&f);
	return 0;
}

/* ---- mode -------------------------------------------------------------------------------------- */

static void set_mode(unsigned int mode, nvmlReturn_t want, nvmlReturn_t want_activation)
{
	nvmlReturn_t activation = 77;

	assert_int_equal(nvmlDeviceSetMigMode(gpu, mode, &activation), want);
	if (want == NVML_SUCCESS)
		assert_int_equal(activation, want_activation);
}

static void expect_mode(unsigned int current, unsigned int pending)
{
	unsigned int a = 77, b = 77;

	assert_int_equal(nvmlDeviceGetMigMode(gpu, &a, &b), NVML_SUCCESS);
	assert_int_equal(a, current);
	assert_int_equal(b, pending);
}

static void set_key(const char *key, const char *value)
{
	struct error err = ERROR_INIT;

	assert_ok(sim_control_set(&f.control, 0, key, value, &err), &err);
}

static void reboot(void)
{
	struct error err = ERROR_INIT;

	assert_ok(sim_control_reboot(&f.control, &err), &err);
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &gpu), NVML_SUCCESS);
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

static void mode__waits_while_the_gpu_is_in_use(void **state)
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

/* ---- processes and events ------------------------------------------------------------------------ */

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
	assert_error(sim_control_process_start(&f.control, 0, &p, &err), &err, "9 and 1");
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
	/* In use: nothing of it can go, and neither can the mode; the other instance can. */
	assert_int_equal(nvmlComputeInstanceDestroy(small_ci), NVML_ERROR_IN_USE);
	assert_int_equal(nvmlGpuInstanceDestroy(small), NVML_ERROR_IN_USE);
	assert_ok(sim_control_process_stop(&f.control, 11, &err), &err);
	assert_int_equal(nvmlComputeInstanceDestroy(big_ci), 0);
	assert_ok(sim_control_process_stop(&f.control, 10, &err), &err);
	assert_int_equal(nvmlComputeInstanceDestroy(small_ci), 0);
	assert_int_equal(nvmlGpuInstanceDestroy(small), 0);
}

static void processes__load_a_share_of_the_gpu(void **state)
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

static void events__say_of_which_instance(void **state)
{
	struct error err = ERROR_INIT;
	nvmlEventData_t e;
	nvmlEventSet_t set;

	(void)state;
	mig_on(gpu);
	(void)ci_new(gi_at(gpu, P2G, 0), 1);
	assert_int_equal(nvmlEventSetCreate(&set), 0);
	assert_int_equal(nvmlDeviceRegisterEvents(gpu, NVML_EVENT_XID_CRITICAL, set), 0);
	assert_ok(sim_control_xid_on(&f.control, 0, 5, 0, 31, &err), &err);
	assert_ok(sim_control_xid(&f.control, 0, 79, &err), &err);
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

/* ---- files --------------------------------------------------------------------------------------- */

static bool read_text(const char *rel, char *ret, size_t cap)
{
	char path[1024];
	size_t n;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", f.dir, rel);
	file = fopen(path, "re");
	if (!file)
		return false;
	n = fread(ret, 1, cap - 1, file);
	ret[n] = '\0';
	(void)fclose(file);
	return true;
}

#define PROC "proc/driver/nvidia/capabilities/"

/* The minor number that mig-minors gives a capability; 0: none. */
static unsigned int minor_of(const char *name)
{
	static char text[256 * 1024];
	char line[64];
	const char *at;
	unsigned int minor = 0;

	assert_true(read_text("proc/driver/nvidia-caps/mig-minors", text, sizeof(text)));
	(void)snprintf(line, sizeof(line), "\n%s ", name);
	at = strstr(text, line);
	if (at && sscanf(at + strlen(line), "%u", &minor) != 1)
		return 0;
	return minor;
}

static bool has_node(unsigned int minor)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/dev/nvidia-caps/nvidia-cap%u", f.dir, minor);
	return access(path, F_OK) == 0;
}

static void files__stand_while_the_instance_does(void **state)
{
	nvmlComputeInstance_t ci;
	nvmlGpuInstance_t gi;
	struct stat st;
	char text[256], want[128], path[512];
	unsigned int minor;

	(void)state;
	assert_true(read_text(PROC "mig/config", text, sizeof(text)));
	assert_string_equal(text,
		"DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n");
	assert_true(read_text(PROC "mig/monitor", text, sizeof(text)));
	assert_string_equal(text,
		"DeviceFileMinor: 2\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
	(void)snprintf(path, sizeof(path), "%s/dev/nvidia-caps/nvidia-cap1", f.dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0400);
	assert_int_equal(minor_of("gpu0/gi0/access"), 3);
	assert_int_equal(minor_of("gpu0/gi0/ci0/access"), 4);
	assert_int_equal(minor_of("gpu0/gi3/access"), 30);
	assert_int_equal(minor_of("gpu31/gi14/ci7/access"), 3 + 32 * 135 - 1);
	gpu = f.gpus[7];
	mig_on(gpu);
	gi = gi_at(gpu, P3G, 4);
	minor = minor_of("gpu7/gi1/access");
	assert_true(has_node(minor));
	assert_false(has_node(minor + 1));
	assert_false(read_text(PROC "gpu7/mig/gi1/ci0/access", text, sizeof(text)));
	ci = ci_new(gi, 2);
	assert_int_equal(minor_of("gpu7/gi1/ci0/access"), minor + 1);
	assert_true(has_node(minor + 1));
	assert_true(read_text(PROC "gpu7/mig/gi1/ci0/access", text, sizeof(text)));
	(void)snprintf(want, sizeof(want),
		"DeviceFileMinor: %u\nDeviceFileMode: 292\nDeviceFileModify: 1\n", minor + 1);
	assert_string_equal(text, want);
	assert_int_equal(nvmlComputeInstanceDestroy(ci), 0);
	assert_false(has_node(minor + 1));
	assert_false(read_text(PROC "gpu7/mig/gi1/ci0/access", text, sizeof(text)));
	assert_true(read_text(PROC "gpu7/mig/gi1/access", text, sizeof(text)));
	(void)ci_new(gi, 2);
	reboot();
	assert_false(has_node(minor));
	assert_false(has_node(minor + 1));
	(void)snprintf(path, sizeof(path), "%s/" PROC "gpu7/mig/gi1", f.dir);
	assert_int_not_equal(access(path, F_OK), 0);
}

/* The nodes of instances that are there, and those that should be: all of each, none else. */
static void assert_files_agree(void)
{
	unsigned int want = 0, have = 0;
	char path[512], text[256];
	const struct dirent *e;
	DIR *dir;

	for (unsigned int i = 0; i < f.count; i++) {
		unsigned int minor, gi, ci;
		nvmlDevice_t mig;

		assert_int_equal(nvmlDeviceGetMinorNumber(f.gpus[i], &minor), 0);
		for (gi = 0; gi < SIM_MIG_GI_IDS; gi++) {
			nvmlGpuInstance_t h;

			if (nvmlDeviceGetGpuInstanceById(f.gpus[i], gi, &h))
				continue;
			want++;
			assert_true(has_node(sim_cap_minor(minor, gi, SIM_NO_INSTANCE)));
			(void)snprintf(path, sizeof(path), PROC "gpu%u/mig/gi%u/access", minor,
				gi);
			assert_true(read_text(path, text, sizeof(text)));
			assert_non_null(strstr(text, "DeviceFileModify: 1\n"));
		}
		for (unsigned int k = 0;
			!nvmlDeviceGetMigDeviceHandleByIndex(f.gpus[i], k, &mig); k++) {
			want++;
			assert_int_equal(nvmlDeviceGetGpuInstanceId(mig, &gi), 0);
			assert_int_equal(nvmlDeviceGetComputeInstanceId(mig, &ci), 0);
			assert_true(has_node(sim_cap_minor(minor, gi, ci)));
			(void)snprintf(path, sizeof(path), PROC "gpu%u/mig/gi%u/ci%u/access",
				minor, gi, ci);
			assert_true(read_text(path, text, sizeof(text)));
			assert_non_null(strstr(text, "DeviceFileModify: 1\n"));
		}
	}
	(void)snprintf(path, sizeof(path), "%s/dev/nvidia-caps", f.dir);
	dir = opendir(path);
	assert_non_null(dir);
	while ((e = readdir(dir)) != NULL)
		have += e->d_name[0] != '.';
	(void)closedir(dir);
	assert_int_equal(have, want + 2); /* config and monitor */
}

_Noreturn static void cut_for_ever(void)
{
	nvmlComputeInstance_t cis[7];
	nvmlGpuInstance_t gis[7];

	for (;;) {
		for (unsigned int i = 0; i < 7; i++)
			if (nvmlDeviceCreateGpuInstance(gpu, P1G, &gis[i]) ||
				nvmlGpuInstanceCreateComputeInstance(gis[i], 0, &cis[i]))
				_exit(1);
		for (unsigned int i = 0; i < 7; i++)
			if (nvmlComputeInstanceDestroy(cis[i]) ||
				nvmlGpuInstanceDestroy(gis[i]))
				_exit(1);
	}
}

static void writer__killed_anywhere_is_made_up_for_by_the_next(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	mig_on(gpu);
	mig_on(f.gpus[1]);
	for (unsigned int round = 0; round < 25; round++) {
		uint64_t before = sim_state_generation(f.control.state);
		nvmlGpuInstance_t gi;
		pid_t pid = fork();

		if (pid == 0)
			cut_for_ever();
		while (sim_state_generation(f.control.state) < before + 3)
			usleep(50);
		usleep(round * 61 % 900);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		/* A change of another GPU puts the files of all right. */
		gi = gi_new(f.gpus[1], P2G);
		assert_files_agree();
		assert_int_equal(nvmlGpuInstanceDestroy(gi), 0);
		assert_ok(sim_control_reset(&f.control, 0, &err), &err);
		assert_files_agree();
	}
}

/* Any order of changes: no overlap, no more than there is, and room where a create succeeds. */
static void random__changes_keep_the_rules(void **state)
{
	static const unsigned int ids[] = { P1G, P1G_ME, P1G_DOUBLE, P2G, P3G, P4G, P7G };
	uint64_t word = 88172645463325252ULL;

	(void)state;
	mig_on(gpu);
	for (unsigned int round = 0; round < 400; round++) {
		unsigned int slots = 0, id, room, have = 0;
		nvmlGpuInstance_t gi, all[SIM_MIG_GI_IDS];
		nvmlReturn_t r;

		word ^= word << 13;
		word ^= word >> 7;
		word ^= word << 17;
		id = ids[word % ARRAY_LEN(ids)];
		room = gi_room(gpu, id);
		r = nvmlDeviceCreateGpuInstance(gpu, id, &gi);
		assert_int_equal(r, room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_RESOURCES);
		if (r == NVML_SUCCESS && word >> 20 & 1)
			assert_int_equal(nvmlGpuInstanceCreateComputeInstance(gi, 0,
						 &(nvmlComputeInstance_t){ NULL }),
				0);
		for (unsigned int k = 0; k < SIM_MIG_GI_IDS; k++)
			if (!nvmlDeviceGetGpuInstanceById(gpu, k, &all[have]))
				have++;
		for (unsigned int k = 0; k < have; k++) {
			nvmlGpuInstancePlacement_t at = gi_info(all[k]).placement;
			unsigned int mask = ((1U << at.size) - 1) << at.start;

			assert_int_equal(slots & mask, 0);
			slots |= mask;
		}
		assert_in_range(slots, 0, 0xFF);
		if (r != NVML_SUCCESS && have) {
			nvmlComputeInstance_t ci;

			gi = all[word % have];
			if (!nvmlGpuInstanceGetComputeInstanceById(gi, 0, &ci)) {
				assert_int_equal(nvmlGpuInstanceDestroy(gi), 19);
				assert_int_equal(nvmlComputeInstanceDestroy(ci), 0);
			}
			assert_int_equal(nvmlGpuInstanceDestroy(gi), 0);
		}
		if (round % 50 == 0)
			assert_files_agree();
	}
}

/* ---- other processes and containers ---------------------------------------------------------------- */

static void changes__are_seen_across_processes(void **state)
{
	nvmlDevice_t d;
	char text[96];
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0) {
		nvmlReturn_t activation;
		nvmlGpuInstance_t gi;
		nvmlComputeInstance_t ci;

		_exit(nvmlDeviceSetMigMode(gpu, 1, &activation) || activation ||
			nvmlDeviceCreateGpuInstance(gpu, P3G, &gi) ||
			nvmlGpuInstanceCreateComputeInstance(gi, 2, &ci));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	d = mig_device(gpu, 0);
	assert_int_equal(nvmlDeviceGetName(d, text, sizeof(text)), 0);
	assert_string_equal(text, "NVIDIA A100-SXM4-40GB MIG 3g.20gb");
	pid = fork(); /* a handle means the same in a child */
	if (pid == 0) {
		nvmlMemory_t m;

		_exit(nvmlDeviceGetMemoryInfo(d, &m) || m.total >> 20 != 20096);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void touch(const char *dir, const char *rel)
{
	char path[512];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, rel);
	file = fopen(path, "we");
	assert_non_null(file);
	(void)fclose(file);
}

static void touch_cap(const char *dir, unsigned int minor)
{
	char rel[64];

	(void)snprintf(rel, sizeof(rel), "nvidia-caps/nvidia-cap%u", minor);
	touch(dir, rel);
}

/* A program in a container: initialized anew with that /dev. */
static void enter_container(const char *dev)
{
	while (nvmlShutdown() == NVML_SUCCESS)
		;
	assert_int_equal(setenv("GPUSLICE_SIM_DEV", dev, 1), 0);
	assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
}

static void container__sees_what_its_device_nodes_are(void **state)
{
	CLEANUP(freep) char *dev = test_tmpdir();
	nvmlGpuInstance_t gi, instance;
	nvmlComputeInstance_t ci;
	nvmlProcessInfo_t infos[4];
	nvmlDevice_t d, mig, only;
	nvmlMemory_t m;
	nvmlReturn_t activation;
	char path[512], uuid[2][96];
	unsigned int n;

	(void)state;
	mig_on(f.gpus[3]);
	gi = gi_at(f.gpus[3], P1G, 6);
	ci = ci_new(gi, 0);
	(void)ci_new(gi_at(f.gpus[3], P3G, 0), 2);
	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(nvmlDeviceGetUUID(mig_device(f.gpus[3], i), uuid[i], 96), 0);
	(void)snprintf(path, sizeof(path), "%s/nvidia-caps", dev);
	assert_int_equal(mkdir(path, 0755), 0);
	enter_container(dev);
	assert_int_equal(nvmlDeviceGetCount_v2(&n), 0);
	assert_int_equal(n, 0);
	touch(dev, "nvidia3");
	touch_cap(dev, sim_cap_minor(3, 9, SIM_NO_INSTANCE));
	assert_int_equal(nvmlDeviceGetCount_v2(&n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &d), 0);
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(1, &mig), 2);
	assert_int_equal(nvmlDeviceGetMinorNumber(d, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(nvmlDeviceGetIndex(d, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(d, 0, &mig),
		6); /* one of two nodes */
	touch_cap(dev, sim_cap_minor(3, 9, 0));
	/* The 1g is the second of the GPU, and the only one here. */
	only = mig_device(d, 0);
	assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(d, 1, &mig), 6);
	assert_int_equal(nvmlDeviceGetIndex(only, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(nvmlDeviceGetMemoryInfo(only, &m), 0);
	assert_int_equal(m.total >> 20, 4864);
	assert_int_equal(nvmlDeviceGetHandleByUUID(uuid[1], &mig), 0);
	assert_ptr_equal(mig, only);
	assert_int_equal(nvmlDeviceGetHandleByUUID(uuid[0], &mig), 6);
	n = ARRAY_LEN(infos);
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(only, &n, infos), 0);
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, infos), 4);
	assert_int_equal(nvmlDeviceGetGpuInstanceById(d, 9, &instance), 0);
	assert_int_equal(nvmlDeviceGetGpuInstanceById(d, 2, &instance), 6);
	assert_int_equal(nvmlDeviceGetGpuInstances(d, P3G, &instance, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(nvmlDeviceCreateGpuInstance(d, P1G, &instance), 4);
	assert_int_equal(nvmlComputeInstanceDestroy(ci), 4);
	assert_int_equal(nvmlDeviceSetMigMode(d, 1, &activation), 4);
	/* With the node of all instances, and that of changing them. */
	touch_cap(dev, SIM_CAP_MONITOR);
	assert_int_equal(nvmlDeviceGetGpuInstanceById(d, 2, &instance), 0);
	assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(d, 1, &mig), 0);
	assert_int_equal(nvmlDeviceGetHandleByUUID(uuid[0], &mig), 0);
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(d, &n, infos), 0);
	assert_int_equal(nvmlDeviceCreateGpuInstance(d, P1G, &instance), 4);
	touch_cap(dev, SIM_CAP_CONFIG);
	if (geteuid() == 0)
		assert_int_equal(nvmlDeviceCreateGpuInstance(d, P1G, &instance), 0);
	enter_container(""); /* out again */
	assert_int_equal(nvmlDeviceGetCount_v2(&n), 0);
	assert_int_equal(n, 8);
	test_rmdir(STEAL_PTR(dev));
}

/* ---- node files ------------------------------------------------------------------------------------ */

static int parse(const char *text, struct sim_node *node, struct error *err)
{
	return sim_node_parse(text, strlen(text), "n.yaml", node, err);
}

static void node_file__cuts_gpus(void **state)
{
	static struct sim_node node;
	struct error err = ERROR_INIT;
	const struct sim_mig *m = &node.gpus[1].mig;

	(void)state;
	assert_ok(parse("version: v1\nmodel: p4d.24xlarge\n"
			"gpu: {mig: []}\n"
			"gpus:\n- {index: 1, mig: [1g.10gb@6, 3g.20gb@0, 1g.5gb]}\n",
			  &node, &err),
		&err);
	assert_int_equal(node.gpus[0].mig.enabled, 1);
	assert_int_equal(node.gpus[0].mig.gi_count, 0);
	assert_int_equal(m->gi_count, 3);
	assert_int_equal(m->gis[0].id, 2); /* 3g at 0 */
	assert_int_equal(m->gis[1].id, 4); /* 1g.10gb at 6 */
	assert_int_equal(m->gis[1].cis[0].number, 7);
	assert_int_equal(m->gis[2].start, 4);
	assert_int_equal(m->gis[2].ci_count, 1);
	assert_error(parse("product: A30\ngpu: {mig: [3g.20gb]}\n", &node, &err), &err,
		"expected a MIG profile of A30");
	assert_error(parse("product: A30\ngpu: {mig: [4g.24gb, 1g.6gb]}\n", &node, &err), &err,
		"no room for '1g.6gb'");
	assert_error(parse("product: A30\ngpu: {mig: [2g.12gb@1]}\n", &node, &err), &err,
		"no room");
	assert_error(parse("product: A30\ngpu: {mig: [2g.12gb@x]}\n", &node, &err), &err,
		"behind '@'");
	assert_error(parse("product: A30\ngpu: {mig: 1}\n", &node, &err), &err, "a list");
	assert_error(parse("product: T4\ngpu: {mig: []}\n", &node, &err), &err, "no MIG");
}

static void recreate__takes_instances_along(void **state)
{
	struct sim_control c = { .state = NULL };
	struct error err = ERROR_INIT;

	(void)state;
	mig_on(gpu);
	(void)ci_new(gi_new(gpu, P3G), 2);
	assert_ok(sim_control_create(&c, "p4d.24xlarge", f.dir, true, 0, &err), &err);
	sim_control_close(&c);
	for (unsigned int i = 0; i < f.count; i++)
		assert_int_equal(nvmlDeviceGetHandleByIndex_v2(i, &f.gpus[i]), 0);
	gpu = f.gpus[0];
	assert_files_agree();
	expect_mode(0, 0);
	mig_on(gpu);
	(void)ci_new(gi_new(gpu, P3G), 2);
	assert_ok(sim_control_remove(&f.control, 0, &err), &err);
	f.count = 7;
	for (unsigned int i = 0; i < f.count; i++)
		assert_int_equal(nvmlDeviceGetHandleByIndex_v2(i, &f.gpus[i]), 0);
	assert_files_agree();
	assert_int_equal(nvmlDeviceGetName(gpu, (char[96]){ 0 }, 96), NVML_ERROR_GPU_IS_LOST);
}

#define ON(test, model) cmocka_unit_test_setup_teardown(test, begin_##model, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ON(mode__changes_at_once_and_stays_on_ampere, a100),
		ON(mode__goes_off_with_a_reboot_since_hopper, h100),
		ON(mode__waits_for_a_reset_where_that_is_not_exposed, a100),
		ON(mode__waits_while_the_gpu_is_in_use, h100),
		ON(mode__stays_on_while_there_are_instances, h100),
		ON(mode__is_not_supported_without_mig, v100),
		ON(processes__belong_to_their_instance, a100),
		ON(processes__load_a_share_of_the_gpu, h100),
		ON(events__say_of_which_instance, a100),
		ON(control__finds_devices_by_all_their_names, a100),
		ON(files__stand_while_the_instance_does, a100),
		ON(writer__killed_anywhere_is_made_up_for_by_the_next, a100),
		ON(random__changes_keep_the_rules, h100),
		ON(changes__are_seen_across_processes, a100),
		ON(container__sees_what_its_device_nodes_are, a100),
		cmocka_unit_test(node_file__cuts_gpus),
		ON(recreate__takes_instances_along, a100),
	};

	ONLY_ROOT();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
