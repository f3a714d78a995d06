/* SPDX-License-Identifier: Apache-2.0 */

/* MIG devices of the simulated GPUs' daemon, as processes meet them. The mode and the instances are cut by NVML. */
#include "unit/testbed/sim/nvml/sim-mig-fixture.h"

#include "lib/base/time.h"
#include "testbed/sim/device/client/client.h"

#define DAEMON_TIMEOUT_NS (20 * NS_PER_SEC)

static struct sim_device a = SIM_DEVICE_INIT, b = SIM_DEVICE_INIT;
static unsigned int small,
	large; /* GPU instances: 1g.10gb and 3g.40gb, one compute instance in each */
static nvmlComputeInstance_t small_ci;

static int begin_mig_node(void **state)
{
	struct error err = ERROR_INIT;
	nvmlGpuInstance_t gi;

	(void)state;
	assert_int_equal(setenv(SIM_ENV_GPU, TEST_SIM_GPU, 1), 0);
	begin("p5.48xlarge");
	mig_on(gpu);
	gi = gi_at(gpu, P1G, 0);
	small = gi_info(gi).id;
	small_ci = ci_new(gi, 0);
	gi = gi_at(gpu, P3G, 4);
	large = gi_info(gi).id;
	(void)ci_new(gi, 2);
	assert_ok(sim_device_connect(&a, f.dir, NULL, &err), &err);
	assert_ok(sim_device_connect(&b, f.dir, NULL, &err), &err);
	return 0;
}

static int leave(void **state)
{
	sim_device_close(&a);
	sim_device_close(&b);
	return end(state);
}

/* --- requests --- */

static uint32_t call_mig_daemon(struct sim_device *to, struct sim_device_request request,
	struct sim_device_reply *r)
{
	return sim_device_call(to, &request, r, -1, NULL);
}

static uint32_t use(struct sim_device *to, uint32_t slot, uint32_t gi)
{
	struct sim_device_reply r;

	return call_mig_daemon(to,
		(struct sim_device_request){ .op = SIM_DEVICE_INSTANCE,
			.slot = slot,
			.id = gi },
		&r);
}

static uint32_t new_context(struct sim_device *to, uint32_t slot, uint32_t *ret)
{
	struct sim_device_reply r;
	uint32_t status = call_mig_daemon(to,
		(struct sim_device_request){ .op = SIM_DEVICE_CONTEXT_CREATE, .slot = slot },
		&r);

	*ret = r.object;
	return status;
}

static uint32_t allocate_on_instance(struct sim_device *to, uint64_t bytes)
{
	struct sim_device_reply r;

	return call_mig_daemon(to,
		(struct sim_device_request){ .op = SIM_DEVICE_MEM_ALLOC, .bytes = bytes }, &r);
}

static struct sim_device_reply get_memory_info(struct sim_device *to)
{
	struct sim_device_reply r;

	assert_int_equal(call_mig_daemon(to,
				 (struct sim_device_request){ .op = SIM_DEVICE_MEM_INFO }, &r),
		0);
	return r;
}

/* A stream of a new context, and an event. */
static void new_work(struct sim_device *to, uint32_t *stream, uint32_t *event)
{
	struct sim_device_reply r;
	uint32_t context;

	assert_int_equal(new_context(to, 0, &context), 0);
	assert_int_equal(call_mig_daemon(to,
				 (struct sim_device_request){ .op = SIM_DEVICE_STREAM_CREATE,
					 .object = context },
				 &r),
		0);
	*stream = r.object;
	assert_int_equal(call_mig_daemon(to,
				 (struct sim_device_request){ .op = SIM_DEVICE_EVENT_CREATE },
				 &r),
		0);
	*event = r.object;
}

static bool wait_stream(struct sim_device *to, uint32_t stream, uint64_t seq)
{
	struct sim_device_stream_cell *cell = &to->page->streams[stream];

	return sim_device_wait(to, &cell->completed, &cell->waiters, seq,
		time_mono_ns() + DAEMON_TIMEOUT_NS);
}

/* --- tests --- */

static void instance__is_set_once_and_before_all_other_requests(void **state)
{
	uint32_t context;

	(void)state;
	assert_int_equal(new_context(&a, 0, &context),
		801); /* a GPU in MIG mode is none itself */
	assert_int_equal(use(&a, 0, 7), 101);
	assert_int_equal(use(&a, 1, small), 101); /* MIG is off there */
	assert_int_equal(use(&a, SIM_MAX_GPUS, small), 101);
	assert_int_equal(use(&a, 0, UINT32_MAX), 101);
	assert_int_equal(use(&a, 0, small), 0);
	assert_int_equal(use(&a, 0, large), 1);
	assert_int_equal(new_context(&a, 0, &context), 0);
	assert_int_equal(new_context(&a, 1, &context), 101); /* nor is any other */
	assert_int_equal(new_context(&b, 1, &context), 0);
	assert_int_equal(use(&b, 0, large), 1);
}

static void instance__has_memory_of_its_own(void **state)
{
	nvmlDevice_t device = mig_device(gpu, 1); /* by the id of the GPU instance */
	nvmlProcessInfo_t rows[4];
	unsigned int n = ARRAY_LEN(rows);
	struct sim_device_reply before;
	bool gone = false;
	uint32_t context;
	nvmlMemory_t m;

	(void)state;
	assert_int_equal(use(&a, 0, small), 0);
	assert_int_equal(use(&b, 0, large), 0);
	assert_int_equal(nvmlDeviceGetMemoryInfo(device, &m), NVML_SUCCESS);
	before = get_memory_info(&b);
	assert_int_equal(get_memory_info(&a).total, m.total);
	assert_in_range(before.total, 39 * SIM_GIB, 41 * SIM_GIB);
	assert_int_equal(new_context(&a, 0, &context), 0);
	assert_int_equal(allocate_on_instance(&a, 8 * SIM_GIB), 0);
	assert_int_equal(allocate_on_instance(&a, 2 * SIM_GIB), 2);
	assert_int_equal(get_memory_info(&b).bytes, before.bytes); /* nothing of the other's */
	/* NVML has the process and its memory there. */
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, rows), 0);
	assert_int_equal(n, 1);
	assert_int_equal(rows[0].pid, getpid());
	assert_int_equal(rows[0].gpuInstanceId, small);
	assert_in_range(rows[0].usedGpuMemory, 8 * SIM_GIB, 9 * SIM_GIB);
	assert_int_equal(nvmlDeviceGetMemoryInfo(device, &m), NVML_SUCCESS);
	assert_in_range(m.used, 8 * SIM_GIB, 9 * SIM_GIB);
	n = ARRAY_LEN(rows);
	assert_int_equal(nvmlDeviceGetComputeRunningProcesses_v3(mig_device(gpu, 0), &n, rows),
		0);
	assert_int_equal(n, 0);
	assert_int_equal(nvmlComputeInstanceDestroy(small_ci), NVML_ERROR_IN_USE);
	assert_int_equal(allocate_on_instance(&b, 30 * SIM_GIB), 0);
	sim_device_close(&b);
	sim_device_close(&a);
	for (int i = 0; !gone && i < 2000; i++) {
		gone = nvmlComputeInstanceDestroy(small_ci) == NVML_SUCCESS;
		(void)usleep(10000);
	}
	assert_true(gone);
}

/* The time is that of the simulated clock: 5 ms of one instance take 5 ms, whatever the other does. */
static void instances__compute_side_by_side(void **state)
{
	uint32_t stream, event, theirs, end;
	struct sim_device_reply r;

	(void)state;
	assert_int_equal(use(&a, 0, small), 0);
	assert_int_equal(use(&b, 0, large), 0);
	new_work(&b, &theirs, &event);
	assert_true(sim_device_submit(&b,
		&(struct sim_device_command){ .kind = SIM_DEVICE_KERNEL,
			.stream = theirs,
			.seq = 1,
			.amount = 600 * NS_PER_SEC },
		1));
	new_work(&a, &stream, &event);
	assert_int_equal(call_mig_daemon(&a,
				 (struct sim_device_request){ .op = SIM_DEVICE_EVENT_CREATE },
				 &r),
		0);
	end = r.object;
	assert_true(sim_device_submit(&a,
		(const struct sim_device_command[]){
			{ .kind = SIM_DEVICE_RECORD,
				.stream = stream,
				.seq = 1,
				.object = event },
			{ .kind = SIM_DEVICE_KERNEL,
				.stream = stream,
				.seq = 2,
				.amount = 5 * NS_PER_MS },
			{ .kind = SIM_DEVICE_RECORD,
				.stream = stream,
				.seq = 3,
				.object = end },
		},
		3));
	assert_true(wait_stream(&a, stream, 3));
	assert_int_equal(a.page->events[end].time_ns - a.page->events[event].time_ns,
		5 * NS_PER_MS);
	assert_int_equal(b.page->streams[theirs].completed, 0);
}

static void instance__of_a_fault_is_in_the_xid(void **state)
{
	uint32_t stream, event;
	nvmlEventData_t e;
	nvmlEventSet_t set;

	(void)state;
	assert_int_equal(use(&a, 0, large), 0);
	assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceRegisterEvents(gpu, NVML_EVENT_XID_CRITICAL, set), 0);
	sim_cuda_fault_set(f.control.state, 0, SIM_CUDA_ERROR, 1, 1, 700);
	new_work(&a, &stream, &event);
	assert_true(sim_device_submit(&a,
		&(struct sim_device_command){ .kind = SIM_DEVICE_KERNEL,
			.stream = stream,
			.seq = 1,
			.amount = 1000 },
		1));
	assert_true(wait_stream(&a, stream, 1));
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 5000), NVML_SUCCESS);
	assert_int_equal(e.eventData, 31);
	assert_int_equal(e.gpuInstanceId, large);
	assert_int_equal(e.computeInstanceId, 0);
	assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
}

static void reset__kills_what_ran_on_an_instance(void **state)
{
	struct error err = ERROR_INIT;
	uint32_t stream, event, context;
	nvmlEventData_t e;
	nvmlEventSet_t set;
	nvmlGpuInstance_t gi;

	(void)state;
	assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceRegisterEvents(gpu, NVML_EVENT_XID_CRITICAL, set), 0);
	assert_int_equal(use(&a, 0, small), 0);
	new_work(&a, &stream, &event);
	assert_true(sim_device_submit(&a,
		&(struct sim_device_command){ .kind = SIM_DEVICE_KERNEL,
			.stream = stream,
			.seq = 1,
			.amount = 600 * NS_PER_SEC },
		1));
	assert_ok(sim_control_reset(&f.control, 0, &err), &err);
	assert_true(wait_stream(&a, stream, 1));
	assert_int_equal(atomic_load(&a.page->contexts[0].error), 719);
	assert_int_equal(new_context(&a, 0, &context), 46);
	assert_int_equal(use(&b, 0, small), 101);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 100), NVML_ERROR_TIMEOUT); /* no fault */
	assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
	/* A newer one with the same ids is another. */
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &gpu), NVML_SUCCESS);
	gi = gi_at(gpu, P1G, 0);
	assert_int_equal(gi_info(gi).id, small);
	(void)ci_new(gi, 0);
	assert_int_equal(new_context(&a, 0, &context), 46);
	assert_int_equal(use(&b, 0, small), 0);
	assert_int_equal(new_context(&b, 0, &context), 0);
}

static void instance__of_a_lost_gpu_returns_with_it(void **state)
{
	struct error err = ERROR_INIT;
	uint32_t context;

	(void)state;
	assert_int_equal(use(&a, 0, small), 0);
	assert_int_equal(new_context(&a, 0, &context), 0);
	assert_ok(sim_control_lose(&f.control, 0, &err), &err);
	assert_int_equal(new_context(&a, 0, &context), 46);
	assert_ok(sim_control_restore(&f.control, 0, &err), &err);
	assert_int_equal(new_context(&a, 0, &context), 0);
	assert_int_equal(use(&b, 0, small), 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin_mig_node, leave)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(instance__is_set_once_and_before_all_other_requests),
		TEST(instance__has_memory_of_its_own),
		TEST(instances__compute_side_by_side),
		TEST(instance__of_a_fault_is_in_the_xid),
		TEST(reset__kills_what_ran_on_an_instance),
		TEST(instance__of_a_lost_gpu_returns_with_it),
	};

	ONLY_ROOT();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
