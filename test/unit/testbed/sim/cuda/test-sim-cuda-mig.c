/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which MIG device the simulated libcuda.so.1 finds, and the device's attributes. A process searches once, so each
 * case is a child.
 */
#include "sim-cuda-fixture.h"
#include "unit/testbed/sim/nvml/sim-mig-fixture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "lib/base/fd.h"
#include "testbed/sim/fake-root/fake-root.h"

/* What a process sees. */
struct visible_device {
	CUresult init;
	int count, sms;
	size_t bytes;
	char name[96];
	CUuuid uuid;
	CUresult context;
};

static char small[NVML_DEVICE_UUID_V2_BUFFER_SIZE], large[NVML_DEVICE_UUID_V2_BUFFER_SIZE],
	board[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
static unsigned int small_gi, large_gi;

/* GPU 0: 1g.5gb and 3g.20gb; the others as they were. */
static int begin_partitioned_node(void **state)
{
	nvmlGpuInstance_t gi;

	(void)state;
	begin("p4d.24xlarge");
	mig_on(gpu);
	gi = gi_at(gpu, P3G, 4);
	large_gi = gi_info(gi).id;
	(void)ci_new(gi, 2);
	gi = gi_at(gpu, P1G, 0);
	small_gi = gi_info(gi).id;
	(void)ci_new(gi, 0);
	assert_true(large_gi < small_gi);
	assert_int_equal(nvmlDeviceGetUUID(gpu, board, sizeof(board)), 0);
	assert_int_equal(nvmlDeviceGetUUID(mig_device(gpu, 0), large, sizeof(large)), 0);
	assert_int_equal(nvmlDeviceGetUUID(mig_device(gpu, 1), small, sizeof(small)), 0);
	return 0;
}

static int unset_visible_devices(void **state)
{
	assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
	return end(state);
}

static void read_visible_device(struct visible_device *s)
{
	CUcontext c;

	s->init = cuInit(0);
	if (s->init || cuDeviceGetCount(&s->count) || !s->count)
		return;
	(void)cuDeviceGetName(s->name, sizeof(s->name), 0);
	(void)cuDeviceGetUuid_v2(&s->uuid, 0);
	(void)cuDeviceTotalMem_v2(&s->bytes, 0);
	(void)cuDeviceGetAttribute(&s->sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
	s->context = cuDevicePrimaryCtxRetain(&c, 0);
}

/* Reads the device in a process of its own. @visible NULL: CUDA_VISIBLE_DEVICES is not set. */
static struct visible_device read_device_in_child(const char *visible)
{
	struct visible_device s = { .init = CUDA_ERROR_UNKNOWN };
	int ends[2], status;
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(visible ? setenv("CUDA_VISIBLE_DEVICES", visible, 1)
				 : unsetenv("CUDA_VISIBLE_DEVICES"),
		0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		read_visible_device(&s);
		_exit(write(ends[1], &s, sizeof(s)) == (ssize_t)sizeof(s) ? 0 : 1);
	}
	closep(&ends[1]);
	assert_int_equal(read(ends[0], &s, sizeof(s)), sizeof(s));
	closep(&ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return s;
}

static bool is_uuid(const CUuuid *uuid, const char *text)
{
	char hex[64], *at = hex;

	for (size_t i = 0; i < sizeof(uuid->bytes); i++)
		at += snprintf(at, 4, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
			(unsigned char)uuid->bytes[i]);
	return strcmp(hex, text + 4) == 0;
}

static void expect_visible(const char *visible, const char *uuid, const char *name, int sms,
	uint64_t mib)
{
	struct visible_device s = read_device_in_child(visible);

	assert_int_equal(s.init, CUDA_SUCCESS);
	assert_int_equal(s.count, 1);
	assert_string_equal(s.name, name);
	assert_true(is_uuid(&s.uuid, uuid));
	assert_int_equal(s.sms, sms);
	assert_int_equal(s.bytes, mib * MIB);
	assert_int_equal(s.context, CUDA_SUCCESS);
}

#define LARGE "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
#define SMALL "NVIDIA A100-SXM4-40GB MIG 1g.5gb"

static void cuda__has_one_mig_device_at_most(void **state)
{
	char list[256];
	struct visible_device s;

	(void)state;
	expect_visible(NULL, large, LARGE, 42, 20096);
	expect_visible(small, small, SMALL, 14, 4864);
	expect_visible(large, large, LARGE, 42, 20096);
	expect_visible("1", small, SMALL, 14, 4864);
	expect_visible(board, large, LARGE, 42, 20096); /* stands for its first */
	(void)snprintf(list, sizeof(list), "%s,%s", small, large);
	expect_visible(list, small, SMALL, 14, 4864);
	(void)snprintf(list, sizeof(list), "MIG-%s/%u/0", board, small_gi);
	expect_visible(list, small, SMALL, 14, 4864);
	/* No other GPU beside one. */
	(void)snprintf(list, sizeof(list), "2,3,%s", small);
	expect_visible(list, small, SMALL, 14, 4864);
	s = read_device_in_child("2,3");
	assert_int_equal(s.init, CUDA_SUCCESS);
	assert_int_equal(s.count, 2);
	assert_string_equal(s.name, "NVIDIA A100-SXM4-40GB");
	assert_int_equal(read_device_in_child("MIG-00000000-0000-0000-0000-000000000000").init,
		CUDA_ERROR_NO_DEVICE);
}

/* The process sees devices by their device nodes, as in a container. */
static void cuda__has_the_devices_of_the_container(void **state)
{
	char dev[256], path[512];
	struct visible_device s;
	int fd;

	(void)state;
	(void)snprintf(dev, sizeof(dev), "%s/pod", f.dir);
	assert_int_equal(mkdir(dev, 0755), 0);
	assert_int_equal(setenv("GPUSLICE_SIM_DEV", dev, 1), 0);
	assert_int_equal(read_device_in_child(NULL).init, CUDA_ERROR_NO_DEVICE);
	(void)snprintf(path, sizeof(path), "%s/nvidia0", dev);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	closep(&fd);
	assert_int_equal(read_device_in_child(NULL).init, CUDA_ERROR_NO_DEVICE);
	(void)snprintf(path, sizeof(path), "%s/nvidia-caps", dev);
	assert_int_equal(mkdir(path, 0755), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(read_device_in_child(NULL).init, CUDA_ERROR_NO_DEVICE);
		(void)snprintf(path, sizeof(path), "%s/nvidia-caps/nvidia-cap%u", dev,
			sim_cap_minor(0, small_gi, i ? 0 : SIM_NO_INSTANCE));
		fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
		closep(&fd);
	}
	s = read_device_in_child(NULL);
	assert_int_equal(s.init, CUDA_SUCCESS);
	assert_true(is_uuid(&s.uuid, small));
	assert_int_equal(s.context, CUDA_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cuda__has_one_mig_device_at_most,
			begin_partitioned_node, unset_visible_devices),
		cmocka_unit_test_setup_teardown(cuda__has_the_devices_of_the_container,
			begin_partitioned_node, unset_visible_devices),
	};

	ONLY_ROOT();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
