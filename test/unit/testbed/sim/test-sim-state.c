/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The state file under stress: several writers and readers, writers killed at any instruction,
 * creators racing, GPUs that hang, fork and threads.
 */
#include "sim-fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/base/time.h"
#include "testbed/sim/catalogue/catalogue.h"
#include "testbed/sim/location.h"

static struct sim_fixture f;

static int begin(void **state)
{
	(void)state;
	sim_fixture_begin(&f, "p4d.24xlarge");
	return 0;
}

static int end(void **state)
{
	(void)state;
	sim_fixture_end(&f);
	return 0;
}

/* Sets all GPUs' load and minor to the same number: a torn read shows as a mixture. */
static int write_pattern(struct sim_state *s, uint32_t value)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;

	if (sim_txn_begin(s, &txn, NULL) < 0)
		return -1;
	for (uint32_t i = 0; i < txn.node->head.info.slot_count; i++) {
		txn.node->gpus[i].keys.util_gpu = value;
		txn.node->gpus[i].keys.fabric_state = value;
	}
	txn.node->head.seed = value;
	sim_txn_commit(&txn);
	return 0;
}

/* Whether the node is of one piece. Reads much, so that writers get the chance to disturb it. */
static bool is_whole(const struct sim_state *s)
{
	static struct sim_gpu gpus[8];
	struct sim_node_head first, last;
	struct sim_part parts[] = { SIM_PART_HEAD(&first), SIM_PART_GPU_ALL(0, &gpus[0]),
		SIM_PART_GPU_ALL(1, &gpus[1]), SIM_PART_GPU_ALL(2, &gpus[2]),
		SIM_PART_GPU_ALL(3, &gpus[3]), SIM_PART_GPU_ALL(4, &gpus[4]),
		SIM_PART_GPU_ALL(5, &gpus[5]), SIM_PART_GPU_ALL(6, &gpus[6]),
		SIM_PART_GPU_ALL(7, &gpus[7]), SIM_PART_HEAD(&last) };
	bool whole;

	sim_state_read(s, parts, ARRAY_LEN(parts));
	whole = first.info.slot_count == 8 && first.seed == last.seed;
	for (size_t i = 0; i < ARRAY_LEN(gpus); i++)
		whole = whole && gpus[i].keys.util_gpu == first.seed &&
			gpus[i].keys.fabric_state == first.seed;
	return whole;
}

/* Adds 1 to the node's seed, as a writer that must not lose another's change. */
static int increment_seed(struct sim_state *s)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;

	if (sim_txn_begin(s, &txn, NULL) < 0)
		return -1;
	txn.node->head.seed++;
	sim_txn_commit(&txn);
	return 0;
}

static uint64_t seed_now(const struct sim_state *s)
{
	struct sim_node_head head;

	sim_state_read(s, &SIM_PART_HEAD(&head), 1);
	return head.seed;
}

_Noreturn static void write_for_ever(void)
{
	struct sim_control c;

	if (sim_control_open(&c, NULL, NULL, NULL) < 0)
		_exit(1);
	for (uint32_t i = 0;; i = (i + 1) % 100)
		if (write_pattern(c.state, i) < 0)
			_exit(1);
}

static void change__is_visible_to_another_process_at_its_next_call(void **state)
{
	struct error err = ERROR_INIT;
	int to_child[2], from_child[2];
	char c;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(to_child) | pipe(from_child), 0);
	pid = fork();
	if (pid == 0) {
		unsigned int before, after;
		nvmlReturn_t r = nvmlDeviceGetPowerUsage(f.gpus[0], &before);

		if (write(from_child[1], "r", 1) != 1 || read(to_child[0], &c, 1) != 1)
			_exit(2);
		_exit(r || nvmlDeviceGetPowerUsage(f.gpus[0], &after) || after <= before);
	}
	assert_int_equal(read(from_child[0], &c, 1), 1);
	assert_ok(sim_control_set(&f.control, 0, "util_gpu", "90", &err), &err);
	assert_int_equal(write(to_child[1], "g", 1), 1);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(to_child[0]);
	close(to_child[1]);
	close(from_child[0]);
	close(from_child[1]);
}

static void lock__is_released_when_its_owner_is_killed(void **state)
{
	struct error err = ERROR_INIT;
	int ready[2];
	char c;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct sim_control control;
		struct sim_txn txn;

		if (sim_control_open(&control, NULL, NULL, NULL) < 0 ||
			sim_txn_begin(control.state, &txn, NULL) < 0)
			_exit(1);
		txn.node->gpus[0].keys.util_gpu = 55; /* never committed */
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	/* Readers do not care about the lock at all. */
	assert_int_equal(nvmlDeviceGetIndex(f.gpus[0], &(unsigned int){ 0 }), NVML_SUCCESS);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_ok(sim_control_set(&f.control, 1, "util_gpu", "10", &err), &err);
	nvmlUtilization_t u;
	assert_int_equal(nvmlDeviceGetUtilizationRates(f.gpus[0], &u), NVML_SUCCESS);
	assert_int_equal(u.gpu, 0);
	close(ready[0]);
	close(ready[1]);
}

static void writer__killed_anywhere_leaves_a_consistent_node(void **state)
{
	(void)state;
	assert_int_equal(write_pattern(f.control.state, 3), 0);
	for (unsigned int round = 0; round < 60; round++) {
		uint64_t before = sim_state_generation(f.control.state);
		pid_t pid = fork();

		if (pid == 0)
			write_for_ever();
		/* Kills the writer while it writes, at a moment that differs from round to round. */
		while (sim_state_generation(f.control.state) < before + 2)
			usleep(50);
		usleep(round * 37 % 500);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_true(is_whole(f.control.state));
		assert_int_equal(write_pattern(f.control.state, round % 100), 0);
		assert_true(is_whole(f.control.state));
	}
}

/* Bursts with pauses between them: a long read falls into a burst, but can end in a pause. */
_Noreturn static void write_in_bursts(void)
{
	struct sim_control c;

	if (sim_control_open(&c, NULL, NULL, NULL) < 0)
		_exit(1);
	for (uint32_t i = 0;; i = (i + 1) % 100) {
		if (write_pattern(c.state, i) < 0)
			_exit(1);
		if (i % 10 == 0)
			usleep(20000);
	}
}

static void readers__never_read_a_mixture(void **state)
{
	static struct sim_part parts[400];
	struct sim_node_head first, last;
	unsigned int mixtures = 0, changes = 0;
	uint64_t until_ns, seen = 0;
	pid_t writer;

	(void)state;
	/* One read that is longer than several writes. */
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		parts[i] = SIM_PART_HEAD(i == 0 ? &first : &last);
	assert_int_equal(write_pattern(f.control.state, 0), 0);
	writer = fork();
	if (writer == 0)
		write_in_bursts();
	until_ns = time_mono_ns() + 400 * NS_PER_MS;
	while (time_mono_ns() < until_ns) {
		sim_state_read(f.control.state, parts, ARRAY_LEN(parts));
		mixtures += first.seed != last.seed;
		changes += first.seed != seen;
		seen = first.seed;
	}
	assert_int_equal(kill(writer, SIGKILL), 0);
	assert_int_equal(waitpid(writer, NULL, 0), writer);
	assert_int_equal(mixtures, 0);
	assert_true(changes > 1);
	assert_true(is_whole(f.control.state));
}

static void writers__lose_no_change(void **state)
{
	pid_t pids[2];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct sim_control c;
			int r = sim_control_open(&c, NULL, NULL, NULL);

			for (int n = 0; n < 200 && r == 0; n++)
				r = increment_seed(c.state);
			_exit(r != 0);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(seed_now(f.control.state), 400);
}

/* Each process writes its mark into its node: all marks must be in one node. */
static void create__racing_processes_share_one_node(void **state)
{
	struct sim_control c;
	struct error err = ERROR_INIT;
	CLEANUP(freep) char *dir = test_tmpdir();
	pid_t pids[8];
	int go[2];

	(void)state;
	assert_int_equal(setenv("GPUSLICE_SIM_DIR", dir, 1), 0);
	assert_int_equal(pipe(go), 0);
	while (nvmlShutdown() == NVML_SUCCESS)
		;
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			unsigned int n;
			char end;

			close(go[1]);
			(void)!read(go[0], &end,
				1); /* all start when the parent closes its end */
			_exit(nvmlInit_v2() || nvmlDeviceGetCount_v2(&n) || n != 8 ||
				sim_control_open(&c, NULL, NULL, NULL) ||
				increment_seed(c.state));
		}
	}
	close(go[0]);
	close(go[1]);
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_ok(sim_control_open(&c, NULL, NULL, &err), &err);
	assert_int_equal(seed_now(c.state), ARRAY_LEN(pids));
	sim_control_close(&c);
	test_rmdir(STEAL_PTR(dir));
}

static void state_file__of_another_shape_is_refused(void **state)
{
	struct sim_state *s = NULL;
	struct error err = ERROR_INIT;
	char path[512];
	int fd;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/state", f.dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &(uint32_t){ 99 }, 4, 4), 4);
	assert_error(sim_state_open(f.dir, &s, &err), &err, "another version");
	assert_int_equal(pwrite(fd, &(uint32_t){ SIM_STATE_VERSION }, 4, 4), 4);
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_error(sim_state_open(f.dir, &s, &err), &err, "bytes");
	close(fd);
}

/* --- hanging --- */

struct call {
	nvmlDevice_t gpu;
	nvmlReturn_t result;
	uint64_t took_ns;
	_Atomic bool done;
};

static void *read_index_in_thread(void *arg)
{
	struct call *c = arg;
	uint64_t start_ns = time_mono_ns();
	unsigned int n;

	c->result = nvmlDeviceGetIndex(c->gpu, &n);
	c->took_ns = time_mono_ns() - start_ns;
	atomic_store(&c->done, true);
	return NULL;
}

static void hang__blocks_one_gpu_and_no_other(void **state)
{
	struct call stuck = { .gpu = f.gpus[3] };
	struct error err = ERROR_INIT;
	nvmlEventData_t e;
	nvmlEventSet_t set;
	uint64_t start_ns;
	pthread_t thread;

	(void)state;
	sim_hang_set(f.control.state, 3, SIM_HANG_FOREVER, SIM_HANG_CALLS, UINT64_MAX);
	assert_int_equal(pthread_create(&thread, NULL, read_index_in_thread, &stuck), 0);
	usleep(20000);
	start_ns = time_mono_ns();
	for (unsigned int i = 0; i < 8; i++)
		if (i != 3)
			assert_int_equal(nvmlDeviceGetIndex(f.gpus[i], &(unsigned int){ 0 }),
				0);
	assert_int_equal(nvmlDeviceGetCount_v2(&(unsigned int){ 0 }), NVML_SUCCESS);
	assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
	assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 1), NVML_ERROR_TIMEOUT);
	assert_ok(sim_control_set(&f.control, 3, "util_gpu", "1", &err), &err);
	assert_true(time_mono_ns() - start_ns < 5000 * NS_PER_MS);
	assert_false(atomic_load(&stuck.done));
	sim_hang_set(f.control.state, 3, 0, 0, 0); /* the GPU wakes up */
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(stuck.result, NVML_SUCCESS);
}

static void ignore_signal(int number)
{
	(void)number;
}

static void hang__lasts_its_full_time_in_spite_of_signals(void **state)
{
	struct sigaction act = { .sa_handler = ignore_signal }, old;
	struct call slow = { .gpu = f.gpus[0] };
	pthread_t thread;

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &act, &old), 0);
	sim_hang_set(f.control.state, 0, 80 * NS_PER_MS, SIM_HANG_CALLS, UINT64_MAX);
	assert_int_equal(pthread_create(&thread, NULL, read_index_in_thread, &slow), 0);
	for (int i = 0; i < 3; i++) {
		usleep(10000);
		assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_in_range(slow.took_ns, 80 * NS_PER_MS, 10000 * NS_PER_MS);
	assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
}

static void hang__ends_after_its_calls_or_its_time(void **state)
{
	struct call c = { .gpu = f.gpus[0] };

	(void)state;
	sim_hang_set(f.control.state, 0, 100 * NS_PER_MS, /* calls= */ 2, UINT64_MAX);
	for (int i = 0; i < 3; i++) {
		(void)read_index_in_thread(&c);
		if (i < 2)
			assert_true(c.took_ns >= 100 * NS_PER_MS);
		else
			assert_true(c.took_ns < 100 * NS_PER_MS);
	}
	sim_hang_set(f.control.state, 0, 100 * NS_PER_MS, SIM_HANG_CALLS,
		/* for_ns= */ 10 * NS_PER_MS);
	usleep(15000);
	(void)read_index_in_thread(&c);
	assert_true(c.took_ns < 100 * NS_PER_MS);
}

static void hang__followed_by_a_loss_returns_lost(void **state)
{
	struct call stuck = { .gpu = f.gpus[2] };
	struct error err = ERROR_INIT;
	pthread_t thread;

	(void)state;
	sim_hang_set(f.control.state, 2, SIM_HANG_FOREVER, SIM_HANG_CALLS, UINT64_MAX);
	assert_int_equal(pthread_create(&thread, NULL, read_index_in_thread, &stuck), 0);
	usleep(10000);
	assert_ok(sim_control_lose(&f.control, 2, &err), &err);
	sim_hang_set(f.control.state, 2, 0, 0, 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(stuck.result, NVML_ERROR_GPU_IS_LOST);
}

/* --- threads and fork --- */

static _Atomic bool stop;

static void *read_all(void *arg)
{
	unsigned int *bad = arg, mw;
	nvmlMemory_t m;

	while (!atomic_load(&stop))
		for (unsigned int i = 0; i < 8; i++) {
			*bad += nvmlDeviceGetPowerUsage(f.gpus[i], &mw) != NVML_SUCCESS;
			*bad += nvmlDeviceGetMemoryInfo(f.gpus[i], &m) != NVML_SUCCESS ||
				m.total != m.used + m.free;
		}
	return NULL;
}

static void *init_and_listen(void *arg)
{
	unsigned int *bad = arg;
	nvmlEventData_t e;
	nvmlEventSet_t set;

	while (!atomic_load(&stop)) {
		*bad += nvmlInit_v2() != NVML_SUCCESS;
		*bad += nvmlEventSetCreate(&set) != NVML_SUCCESS;
		*bad += nvmlDeviceRegisterEvents(f.gpus[0], 8, set) != NVML_SUCCESS;
		(void)nvmlEventSetWait_v2(set, &e, 1);
		*bad += nvmlEventSetFree(set) != NVML_SUCCESS;
		*bad += nvmlShutdown() != NVML_SUCCESS;
	}
	return NULL;
}

static void threads__work_beside_a_writer_and_forks(void **state)
{
	unsigned int bad[4] = { 0 };
	struct error err = ERROR_INIT;
	pthread_t threads[4];

	(void)state;
	atomic_store(&stop, false);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
					 i < 2 ? read_all : init_and_listen, &bad[i]),
			0);
	for (unsigned int i = 0; i < 40; i++) {
		char load[8];
		pid_t pid;

		(void)snprintf(load, sizeof(load), "%u", i % 100);
		assert_ok(sim_control_set(&f.control, i % 8, "util_gpu", load, &err), &err);
		assert_ok(sim_control_xid(&f.control, 0, SIM_NO_INSTANCE, SIM_NO_INSTANCE, i,
				  &err),
			&err);
		if (i % 8)
			continue;
		/* A child of a process with busy threads can go on with all of it. */
		pid = fork();
		if (pid == 0) {
			nvmlEventSet_t set;
			unsigned int n;

			alarm(10);
			_exit(nvmlEventSetCreate(&set) || nvmlInit_v2() ||
				nvmlDeviceGetPowerUsage(f.gpus[0], &n) ||
				sim_control_xid(&f.control, 1, SIM_NO_INSTANCE, SIM_NO_INSTANCE,
					1, NULL));
		}
		int status;
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	atomic_store(&stop, true);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(bad[i], 0);
	}
}

static void fake_root__shows_numa_nodes_and_device_files(void **state)
{
	static const char *const files[] = { "dev/nvidia0", "dev/nvidia7", "dev/nvidiactl",
		"dev/nvidia-uvm", "dev/nvidia-uvm-tools", "dev/nvidia-modeset",
		"sys/bus/pci/devices/0000:a0:1d.0/class" };
	char path[512], text[16] = "";
	FILE *file;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", f.dir, files[i]);
		if (access(path, R_OK) != 0)
			fail_msg("%s is not there", path);
	}
	(void)snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/0000:a0:1d.0/numa_node",
		f.dir);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	(void)fclose(file);
	assert_string_equal(text, "1\n");
}

static const char *empty_env(const char *name)
{
	return strcmp(name, "GPUSLICE_SIM_NODE") ? NULL : "p3.2xlarge";
}

static const char *runtime_env(const char *name)
{
	return strcmp(name, "XDG_RUNTIME_DIR") ? empty_env(name) : "/run/user/7";
}

static void location__has_a_default_for_each_user(void **state)
{
	struct error err = ERROR_INIT;
	struct sim_location location;
	char want[128];

	(void)state;
	assert_ok(sim_location_from_env(&location, empty_env, &err), &err);
	(void)snprintf(want, sizeof(want), "/tmp/gpuslice-sim-%u/p3.2xlarge",
		(unsigned)geteuid());
	assert_string_equal(location.dir, want);
	assert_ok(sim_location_from_env(&location, runtime_env, &err), &err);
	assert_string_equal(location.dir, "/run/user/7/gpuslice-sim/p3.2xlarge");
	assert_error(sim_location_resolve(&location, "p3.9xlarge", NULL, &err), &err,
		"unknown node model");
	assert_error(sim_location_resolve(&location, "./no.yaml", NULL, &err), &err,
		"No such file");
}

/* The directory is another user's, in the shared /tmp, with the name of this user's. */
static void location__refuses_a_directory_of_others(void **state)
{
	struct sim_location location = { .node = "p3.2xlarge" };
	struct error err = ERROR_INIT;
	struct sim_state *s = NULL;
	char parent[64];

	(void)state;
	(void)snprintf(parent, sizeof(parent), "/tmp/gpuslice-sim-test%d", (int)getpid());
	(void)snprintf(location.dir, sizeof(location.dir), "%s/node", parent);
	assert_int_equal(mkdir(parent, 0777), 0);
	assert_int_equal(chmod(parent, 0777), 0);
	assert_int_equal(mkdir(location.dir, 0700), 0);
	assert_error(sim_location_open(&location, NULL, &s, &err), &err,
		"belongs to somebody else");
	assert_int_equal(rmdir(location.dir), 0);
	assert_int_equal(rmdir(parent), 0);
}

static void create__with_force_recreates_the_node_in_place(void **state)
{
	struct sim_control c = { .state = NULL };
	struct error err = ERROR_INIT;
	unsigned int n;
	char path[512];

	(void)state;
	assert_error(sim_control_create(&c, "g5.xlarge", f.dir, false, 0, &err), &err,
		"--force");
	sim_control_close(&c);
	assert_ok(sim_control_create(&c, "g5.12xlarge", f.dir, true, 0, &err), &err);
	assert_int_equal(nvmlDeviceGetCount_v2(&n), NVML_SUCCESS);
	assert_int_equal(n, 4);
	assert_int_equal(nvmlDeviceGetIndex(f.gpus[0], &n), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceGetIndex(f.gpus[6], &n), NVML_ERROR_INVALID_ARGUMENT);
	(void)snprintf(path, sizeof(path), "%s/dev/nvidia7", f.dir);
	assert_int_not_equal(access(path, F_OK), 0);
	sim_control_close(&c);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(change__is_visible_to_another_process_at_its_next_call),
		TEST(lock__is_released_when_its_owner_is_killed),
		TEST(writer__killed_anywhere_leaves_a_consistent_node),
		TEST(readers__never_read_a_mixture),
		TEST(writers__lose_no_change),
		TEST(create__racing_processes_share_one_node),
		cmocka_unit_test(location__has_a_default_for_each_user),
		cmocka_unit_test(location__refuses_a_directory_of_others),
		TEST(create__with_force_recreates_the_node_in_place),
		TEST(state_file__of_another_shape_is_refused),
		TEST(hang__blocks_one_gpu_and_no_other),
		TEST(hang__lasts_its_full_time_in_spite_of_signals),
		TEST(hang__ends_after_its_calls_or_its_time),
		TEST(hang__followed_by_a_loss_returns_lost),
		TEST(threads__work_beside_a_writer_and_forks),
		TEST(fake_root__shows_numa_nodes_and_device_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
