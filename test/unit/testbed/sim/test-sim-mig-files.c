/* SPDX-License-Identifier: Apache-2.0 */

/*
 * State of simulated MIG outside of a process: capability files, the view of a container or another
 * process, writers that are killed, node files.
 */
#include "unit/testbed/sim/nvml/sim-mig-fixture.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/base/time.h"
#include "testbed/sim/fake-root/fake-root.h"
#include "testbed/sim/node-file/node-file.h"

/* --- files --- */

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

static void files__exist_as_long_as_the_instance(void **state)
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

_Noreturn static void repartition_forever(void)
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

static void writer__killed_anywhere_is_repaired_by_the_next(void **state)
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
			repartition_forever();
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
static void random_changes__keep_the_rules(void **state)
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
		room = gi_count_free(gpu, id);
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

/* --- other processes and containers --- */

static void changes__are_visible_across_processes(void **state)
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

static void touch_file(const char *dir, const char *rel)
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
	touch_file(dir, rel);
}

/* A program in a container: initialized again with that /dev. */
static void enter_container(const char *dev)
{
	while (nvmlShutdown() == NVML_SUCCESS)
		;
	assert_int_equal(setenv("GPUSLICE_SIM_DEV", dev, 1), 0);
	assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
}

static void container__has_the_devices_of_its_device_nodes(void **state)
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
	touch_file(dev, "nvidia3");
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
	/* The process has the nodes for all instances and for changes. */
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

/* --- node files --- */

static int parse_mig_node(const char *text, struct sim_node *node, struct error *err)
{
	return sim_node_parse(text, strlen(text), "n.yaml", node, err);
}

static void node_file__partitions_gpus(void **state)
{
	static struct sim_node node;
	struct error err = ERROR_INIT;
	const struct sim_mig *m = &node.gpus[1].mig;

	(void)state;
	assert_ok(parse_mig_node("version: v1\nmodel: p4d.24xlarge\n"
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
	assert_error(parse_mig_node("product: A30\ngpu: {mig: [3g.20gb]}\n", &node, &err), &err,
		"expected a MIG profile of A30");
	assert_error(
		parse_mig_node("product: A30\ngpu: {mig: [4g.24gb, 1g.6gb]}\n", &node, &err),
		&err, "no room for '1g.6gb'");
	assert_error(parse_mig_node("product: A30\ngpu: {mig: [2g.12gb@1]}\n", &node, &err),
		&err, "no room");
	assert_error(parse_mig_node("product: A30\ngpu: {mig: [2g.12gb@x]}\n", &node, &err),
		&err, "behind '@'");
	assert_error(parse_mig_node("product: A30\ngpu: {mig: 1}\n", &node, &err), &err,
		"a list");
	assert_error(parse_mig_node("product: T4\ngpu: {mig: []}\n", &node, &err), &err,
		"no MIG");
}

static void recreate__removes_instances(void **state)
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ON(files__exist_as_long_as_the_instance, p4d),
		ON(writer__killed_anywhere_is_repaired_by_the_next, p4d),
		ON(random_changes__keep_the_rules, h100),
		ON(changes__are_visible_across_processes, p4d),
		ON(container__has_the_devices_of_its_device_nodes, p4d),
		cmocka_unit_test(node_file__partitions_gpus),
		ON(recreate__removes_instances, p4d),
	};

	ONLY_ROOT();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
