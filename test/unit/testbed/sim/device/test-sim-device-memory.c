/* SPDX-License-Identifier: Apache-2.0 */

/* Memory of the simulated GPUs' daemon: its figures in NVML, how processes share it, when it ends. */
#include "unit/testbed/sim/device/sim-device-env.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

static void memory__shows_in_nvml_at_once(void **state)
{
	uint64_t total, nothing = daemon_free_bytes(&sim_device_env, 0, &total);
	nvmlMemory_v2_t m = { .version = NVML_STRUCT_VERSION(m, 2) };
	struct sim_device_reply r;
	uint32_t context;

	(void)state;
	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(sim_device_env_node.gpus[0], &m),
		NVML_SUCCESS);
	assert_int_equal(total, m.total - m.reserved);
	assert_int_equal(nothing, total);
	assert_int_equal(nvml_process_bytes(0, getpid()), UINT64_MAX);
	context = daemon_new_context(&sim_device_env, 0);
	assert_int_equal(nvml_process_bytes(0, getpid()), CONTEXT);
	assert_int_equal(daemon_allocate(&sim_device_env, 0, 3 * MIB, &r, NULL), 0);
	assert_int_equal(r.bytes, 4 * MIB);
	assert_int_equal(nvml_process_bytes(0, getpid()), CONTEXT + 4 * MIB);
	assert_int_equal(nvml_used_bytes(0), CONTEXT + 4 * MIB);
	assert_int_equal(daemon_free_bytes(&sim_device_env, 0, &total),
		total - CONTEXT - 4 * MIB);
	assert_int_equal(nvml_process_bytes(1, getpid()), UINT64_MAX);
	assert_int_equal(daemon_release(&sim_device_env, r.id), 0);
	assert_int_equal(nvml_process_bytes(0, getpid()), CONTEXT);
	assert_int_equal(daemon_release(&sim_device_env, r.id), 400);
	assert_int_equal(daemon_call(&sim_device_env,
				 (struct sim_device_request){ .op = SIM_DEVICE_CONTEXT_DESTROY,
					 .object = context },
				 &r),
		0);
	assert_int_equal(nvml_process_bytes(0, getpid()), UINT64_MAX);
	assert_int_equal(nvml_used_bytes(0), 0);
}

static void memory__is_limited(void **state)
{
	uint64_t total, left = daemon_free_bytes(&sim_device_env, 0, &total);
	struct sim_device_reply r;

	(void)state;
	assert_int_equal(daemon_allocate(&sim_device_env, 0, left + 1, &r, NULL), 2);
	assert_int_equal(daemon_allocate(&sim_device_env, 0, left - 2 * MIB, &r, NULL), 0);
	assert_int_equal(daemon_allocate(&sim_device_env, 0, 4 * MIB, &r, NULL), 2);
	assert_int_equal(daemon_allocate(&sim_device_env, 0, 0, &r, NULL), 1);
	assert_int_equal(daemon_allocate(&sim_device_env, 0, UINT64_MAX, &r, NULL), 2);
	assert_int_equal(daemon_allocate(&sim_device_env, SLOT_MISS, 1, &r, NULL), 101);
	assert_int_equal(daemon_allocate(&sim_device_env, 1, 1, &r, NULL), 0); /* another GPU */
}

static void stack__uses_memory(void **state)
{
	uint32_t context = daemon_new_context(&sim_device_env, 0);
	struct sim_device_request request = { .op = SIM_DEVICE_CONTEXT_STACK,
		.object = context,
		.bytes = 16384 };
	struct sim_device_reply r;

	(void)state;
	assert_int_equal(sim_device_call(&sim_device_env, &request, &r, -1, NULL), 0);
	/* 15 KiB more for each of 132 x 2048 threads. */
	assert_int_equal(nvml_process_bytes(0, getpid()), CONTEXT + 15360ULL * 132 * 2048);
	request.bytes = 512 << 10;
	assert_int_equal(sim_device_call(&sim_device_env, &request, &r, -1, NULL), 2);
	request.bytes = 1024;
	assert_int_equal(sim_device_call(&sim_device_env, &request, &r, -1, NULL), 0);
	assert_int_equal(nvml_process_bytes(0, getpid()), CONTEXT);
	/* A second context of the process takes less than the first. */
	(void)daemon_new_context(&sim_device_env, 0);
	assert_int_equal(nvml_process_bytes(0, getpid()), CONTEXT + (264 + 32) * MIB);
}

static void managed_memory__is_not_shown(void **state)
{
	struct sim_device_request request = { .op = SIM_DEVICE_MEM_ALLOC,
		.bytes = 10 * MIB,
		.flags = SIM_DEVICE_MEM_MANAGED };
	struct sim_device_reply r;

	(void)state;
	(void)daemon_new_context(&sim_device_env, 0);
	assert_int_equal(sim_device_call(&sim_device_env, &request, &r, -1, NULL), 0);
	assert_int_equal(nvml_process_bytes(0, getpid()), CONTEXT);
	assert_int_equal(daemon_release(&sim_device_env, r.id), 0);
	assert_int_equal(nvml_process_bytes(0, getpid()), CONTEXT);
}

static char *map_shared(int fd, size_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* Two processes: the second one is a second connection, which the daemon cannot distinguish. */
static void memory__is_shared_by_descriptor(void **state)
{
	struct sim_device other = SIM_DEVICE_INIT;
	struct error err = ERROR_INIT;
	struct sim_device_request request = { .op = SIM_DEVICE_MEM_EXPORT };
	struct sim_device_reply r;
	int fd, shared, fd_of_other;
	char *a, *b;
	uint64_t id;

	(void)state;
	assert_ok(sim_device_connect(&other, sim_device_env_node.dir, NULL, &err), &err);
	assert_int_equal(daemon_allocate(&sim_device_env, 0, 2 * MIB, &r, &fd), 0);
	id = request.id = r.id;
	assert_int_equal(sim_device_call(&sim_device_env, &request, &r, -1, &shared), 0);
	request = (struct sim_device_request){ .op = SIM_DEVICE_MEM_IMPORT };
	assert_int_equal(sim_device_call(&other, &request, &r, shared, &fd_of_other), 0);
	assert_int_equal(r.id, id);
	assert_int_equal(r.bytes, 2 * MIB);
	a = map_shared(fd, 2 * MIB);
	b = map_shared(fd_of_other, 2 * MIB);
	memcpy(a + MIB, "hello", 6);
	assert_string_equal(b + MIB, "hello");
	assert_int_equal(nvml_used_bytes(0), 2 * MIB);
	/* The memory lives as long as any process has it, or a descriptor of it. */
	assert_int_equal(daemon_release(&sim_device_env, id), 0);
	assert_int_equal(nvml_used_bytes(0), 2 * MIB);
	assert_int_equal(daemon_release(&other, id), 0);
	assert_int_equal(nvml_used_bytes(0), 2 * MIB);
	assert_int_equal(nvml_process_bytes(0, getpid()), 0);
	(void)close(shared);
	for (int i = 0; i < 2000 && nvml_used_bytes(0); i++)
		(void)usleep(1000);
	assert_int_equal(nvml_used_bytes(0), 0);
	/* Something else than what was exported is refused. */
	assert_int_equal(sim_device_call(&other, &request, &r, fd, NULL), 400);
	assert_int_equal(sim_device_call(&other, &request, &r, -1, NULL), 400);
	(void)munmap(a, 2 * MIB);
	(void)munmap(b, 2 * MIB);
	(void)close(fd);
	(void)close(fd_of_other);
	sim_device_close(&other);
}

static void memory__is_opened_by_id_and_cookie(void **state)
{
	struct sim_device other = SIM_DEVICE_INIT;
	struct error err = ERROR_INIT;
	struct sim_device_request request = { .op = SIM_DEVICE_MEM_OPEN };
	struct sim_device_reply r;

	(void)state;
	assert_ok(sim_device_connect(&other, sim_device_env_node.dir, NULL, &err), &err);
	assert_int_equal(daemon_allocate(&sim_device_env, 0, 2 * MIB, &r, NULL), 0);
	request.id = r.id;
	request.cookie = r.cookie + 1;
	assert_int_equal(sim_device_call(&other, &request, &r, -1, NULL), 400);
	request.cookie--;
	assert_int_equal(sim_device_call(&other, &request, &r, -1, NULL), 0);
	assert_int_equal(daemon_release(&sim_device_env, request.id), 0);
	assert_int_equal(nvml_used_bytes(0), 2 * MIB);
	sim_device_close(&other);
	for (int i = 0; i < 2000 && nvml_used_bytes(0); i++)
		(void)usleep(1000);
	assert_int_equal(nvml_used_bytes(0), 0);
}

/* The sum of all processes is never above what they may have together. */
struct racer {
	pthread_t thread;
	struct sim_device *device;
	_Atomic uint64_t *granted;
};

#define RACE_LIMIT (64 * 2 * MIB)

static void *run_memory_racer(void *arg)
{
	struct racer *x = arg;

	for (int i = 0; i < 300; i++) {
		struct sim_device_reply r;

		if (atomic_fetch_add(x->granted, 2 * MIB) + 2 * MIB > RACE_LIMIT) {
			atomic_fetch_sub(x->granted, 2 * MIB);
			continue;
		}
		if (daemon_allocate(x->device, 0, 2 * MIB, &r, NULL) == 0)
			(void)daemon_release(x->device, r.id);
		atomic_fetch_sub(x->granted, 2 * MIB);
	}
	return NULL;
}

static void nvml__never_shows_more_than_was_granted(void **state)
{
	enum { RACERS = 8 };
	struct sim_device others[RACERS];
	struct racer racers[RACERS];
	struct error err = ERROR_INIT;
	_Atomic uint64_t granted = 0;

	(void)state;
	for (int i = 0; i < RACERS; i++) {
		others[i] = (struct sim_device)SIM_DEVICE_INIT;
		assert_ok(sim_device_connect(&others[i], sim_device_env_node.dir, NULL, &err),
			&err);
		racers[i] = (struct racer){ .device = &others[i], .granted = &granted };
		assert_int_equal(
			pthread_create(&racers[i].thread, NULL, run_memory_racer, &racers[i]),
			0);
	}
	for (int i = 0; i < 300; i++) {
		uint64_t used = nvml_used_bytes(0);

		assert_true(used <= RACE_LIMIT);
	}
	for (int i = 0; i < RACERS; i++) {
		assert_int_equal(pthread_join(racers[i].thread, NULL), 0);
		sim_device_close(&others[i]);
	}
	assert_int_equal(nvml_used_bytes(0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(memory__shows_in_nvml_at_once),
		TEST(memory__is_limited),
		TEST(stack__uses_memory),
		TEST(managed_memory__is_not_shown),
		TEST(memory__is_shared_by_descriptor),
		TEST(memory__is_opened_by_id_and_cookie),
		TEST(nvml__never_shows_more_than_was_granted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
