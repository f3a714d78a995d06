/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/testbed/sim/device/sim-device-env.h"

struct sim_fixture sim_device_env_node;
struct sim_device sim_device_env = SIM_DEVICE_INIT;

int sim_device_env_begin(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(setenv(SIM_ENV_GPU, TEST_SIM_GPU, 1), 0);
	sim_fixture_begin(&sim_device_env_node, "p5.48xlarge");
	assert_ok(sim_device_connect(&sim_device_env, sim_device_env_node.dir, NULL, &err),
		&err);
	return 0;
}

int sim_device_env_begin_unused(void **state)
{
	(void)state;
	assert_int_equal(setenv(SIM_ENV_GPU, TEST_SIM_GPU, 1), 0);
	sim_fixture_begin(&sim_device_env_node, "p5.48xlarge");
	return 0;
}

int sim_device_env_end(void **state)
{
	(void)state;
	sim_device_close(&sim_device_env);
	sim_fixture_end(&sim_device_env_node);
	return 0;
}

uint32_t daemon_call(struct sim_device *to, struct sim_device_request request,
	struct sim_device_reply *r)
{
	return sim_device_call(to, &request, r, -1, NULL);
}

uint32_t daemon_new_context(struct sim_device *to, uint32_t slot)
{
	struct sim_device_reply r;

	assert_int_equal(daemon_call(to,
				 (struct sim_device_request){ .op = SIM_DEVICE_CONTEXT_CREATE,
					 .slot = slot },
				 &r),
		0);
	return r.object;
}

uint32_t daemon_new_stream(struct sim_device *to, uint32_t context)
{
	struct sim_device_reply r;

	assert_int_equal(daemon_call(to,
				 (struct sim_device_request){ .op = SIM_DEVICE_STREAM_CREATE,
					 .object = context },
				 &r),
		0);
	return r.object;
}

uint32_t daemon_allocate(struct sim_device *to, uint32_t slot, uint64_t bytes,
	struct sim_device_reply *r, int *fd)
{
	struct sim_device_request request = { .op = SIM_DEVICE_MEM_ALLOC,
		.slot = slot,
		.bytes = bytes };

	return sim_device_call(to, &request, r, -1, fd);
}

uint32_t daemon_release(struct sim_device *to, uint64_t id)
{
	struct sim_device_reply r;

	return daemon_call(to,
		(struct sim_device_request){ .op = SIM_DEVICE_MEM_RELEASE, .id = id }, &r);
}

bool daemon_wait_stream(struct sim_device *to, uint32_t stream, uint64_t seq)
{
	struct sim_device_stream_cell *cell = &to->page->streams[stream];

	return sim_device_wait(to, &cell->completed, &cell->waiters, seq,
		time_mono_ns() + DAEMON_TIMEOUT_NS);
}

uint64_t nvml_process_bytes(unsigned int gpu, pid_t pid)
{
	nvmlProcessInfo_t rows[SIM_MAX_PROCESSES];
	unsigned int n = SIM_MAX_PROCESSES;

	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(sim_device_env_node.gpus[gpu],
				 &n, rows),
		NVML_SUCCESS);
	for (unsigned int i = 0; i < n; i++)
		if (rows[i].pid == (unsigned int)pid)
			return rows[i].usedGpuMemory;
	return UINT64_MAX;
}

uint64_t nvml_used_bytes(unsigned int gpu)
{
	nvmlMemory_v2_t m = { .version = NVML_STRUCT_VERSION(m, 2) };

	assert_int_equal(nvmlDeviceGetMemoryInfo_v2(sim_device_env_node.gpus[gpu], &m),
		NVML_SUCCESS);
	return m.used;
}

uint64_t daemon_free_bytes(struct sim_device *to, uint32_t slot, uint64_t *total)
{
	struct sim_device_reply r;

	assert_int_equal(
		daemon_call(to,
			(struct sim_device_request){ .op = SIM_DEVICE_MEM_INFO, .slot = slot },
			&r),
		0);
	*total = r.total;
	return r.bytes;
}
