/* SPDX-License-Identifier: Apache-2.0 */

/* The simulated GPUs' daemon, as processes of a node meet it: streams, work, faults. */
#include "unit/testbed/sim/device/sim-device-env.h"

#include <signal.h>
#include <sys/socket.h>

#define BELOW_BASE 11 /* NVML_PERF_POLICY_TOTAL_BASE_CLOCKS */

/* --- streams --- */

static void stream__reports_through_the_page(void **state)
{
	uint32_t stream =
		daemon_new_stream(&sim_device_env, daemon_new_context(&sim_device_env, 0));
	const struct sim_device_command work[] = {
		{ .kind = SIM_DEVICE_KERNEL, .stream = stream, .seq = 1, .amount = NS_PER_MS },
		{ .kind = SIM_DEVICE_HOST, .stream = stream, .seq = 2 },
		{ .kind = SIM_DEVICE_COPY, .stream = stream, .seq = 3, .amount = MIB },
	};
	uint64_t start = time_mono_ns();
	uint32_t word = atomic_load(&sim_device_env.page->host_word);

	(void)state;
	assert_true(sim_device_submit(&sim_device_env, work, ARRAY_LEN(work)));
	assert_true(daemon_wait_stream(&sim_device_env, stream, 1));
	assert_true(time_mono_ns() - start >= NS_PER_MS);
	sim_device_wait_host(&sim_device_env, word, time_mono_ns() + DAEMON_TIMEOUT_NS);
	assert_int_equal(atomic_load(&sim_device_env.page->streams[stream].host_seq), 2);
	assert_int_equal(atomic_load(&sim_device_env.page->streams[stream].completed), 1);
	assert_true(sim_device_host_done(&sim_device_env, stream, 2));
	assert_true(daemon_wait_stream(&sim_device_env, stream, 3));
	assert_int_equal(atomic_load(&sim_device_env.page->contexts[0].busy_ns), NS_PER_MS);
}

static void event__has_the_time(void **state)
{
	struct sim_device other = SIM_DEVICE_INIT;
	struct error err = ERROR_INIT;
	uint32_t stream = daemon_new_stream(&sim_device_env,
			 daemon_new_context(&sim_device_env, 0)),
		 theirs;
	struct sim_device_reply first, second, r;
	struct sim_device_event_cell *cell;

	(void)state;
	assert_ok(sim_device_connect(&other, sim_device_env_node.dir, NULL, &err), &err);
	assert_int_equal(daemon_call(&sim_device_env,
				 (struct sim_device_request){ .op = SIM_DEVICE_EVENT_CREATE },
				 &first),
		0);
	assert_int_equal(daemon_call(&sim_device_env,
				 (struct sim_device_request){ .op = SIM_DEVICE_EVENT_CREATE },
				 &second),
		0);
	assert_int_equal(daemon_call(&other,
				 (struct sim_device_request){ .op = SIM_DEVICE_EVENT_OPEN,
					 .id = second.id,
					 .cookie = second.cookie },
				 &r),
		0);
	theirs = r.object;
	assert_true(sim_device_submit(&sim_device_env,
		(const struct sim_device_command[]){
			{ .kind = SIM_DEVICE_RECORD,
				.stream = stream,
				.seq = 1,
				.object = first.object },
			{ .kind = SIM_DEVICE_KERNEL,
				.stream = stream,
				.seq = 2,
				.amount = 3 * NS_PER_MS },
			{ .kind = SIM_DEVICE_RECORD,
				.stream = stream,
				.seq = 3,
				.object = second.object },
		},
		3));
	/* The other process waits for it too, by its own place. */
	cell = &other.page->events[theirs];
	assert_true(sim_device_wait(&other, &cell->completed, &cell->waiters, 1,
		time_mono_ns() + DAEMON_TIMEOUT_NS));
	assert_int_equal(cell->recorded, 1);
	assert_int_equal(cell->time_ns - sim_device_env.page->events[first.object].time_ns,
		3 * NS_PER_MS);
	sim_device_close(&other);
}

static void busy_process__shows_in_nvml(void **state)
{
	uint32_t stream =
		daemon_new_stream(&sim_device_env, daemon_new_context(&sim_device_env, 0));
	struct sim_device_command c = { .kind = SIM_DEVICE_KERNEL,
		.stream = stream,
		.seq = 1,
		.amount = 3 * NS_PER_SEC };
	nvmlUtilization_t u = { .gpu = 0 };

	(void)state;
	assert_true(sim_device_submit(&sim_device_env, &c, 1));
	for (int i = 0; i < 2500 && u.gpu < 90; i++) {
		(void)usleep(1000);
		assert_int_equal(nvmlDeviceGetUtilizationRates(sim_device_env_node.gpus[0], &u),
			NVML_SUCCESS);
	}
	assert_in_range(u.gpu, 90, 100);
	assert_true(daemon_wait_stream(&sim_device_env, stream, 1));
	for (int i = 0; i < 10000 && u.gpu; i++) {
		(void)usleep(1000);
		assert_int_equal(nvmlDeviceGetUtilizationRates(sim_device_env_node.gpus[0], &u),
			NVML_SUCCESS);
	}
	assert_int_equal(u.gpu, 0);
}

static uint64_t below_base_ns(void)
{
	nvmlViolationTime_t t = { 0 };

	assert_int_equal(
		nvmlDeviceGetViolationStatus(sim_device_env_node.gpus[0], BELOW_BASE, &t),
		NVML_SUCCESS);
	return t.violationTime;
}

/* A host that does not let the GPU run in time makes it slow, and NVML reports that. */
static void lateness__shows_as_time_below_base_clocks(void **state)
{
	uint32_t stream =
		daemon_new_stream(&sim_device_env, daemon_new_context(&sim_device_env, 0));
	struct sim_device_command c = { .kind = SIM_DEVICE_KERNEL,
		.stream = stream,
		.seq = 1,
		.amount = NS_PER_SEC };
	struct sim_device_reply r;
	struct ucred peer;
	socklen_t len = sizeof(peer);
	uint64_t before = below_base_ns(), due, until;

	(void)state;
	assert_int_equal(getsockopt(sim_device_env.fd, SOL_SOCKET, SO_PEERCRED, &peer, &len),
		0);
	assert_true(sim_device_submit(&sim_device_env, &c, 1));
	/* An answer comes after what was submitted before has begun. */
	assert_int_equal(daemon_allocate(&sim_device_env, 0, 1, &r, NULL), 0);
	due = time_mono_ns() + c.amount;
	assert_int_equal(kill(peer.pid, SIGSTOP), 0);
	while (time_mono_ns() < due + 100 * NS_PER_MS)
		(void)usleep(1000);
	assert_int_equal(kill(peer.pid, SIGCONT), 0);
	assert_true(daemon_wait_stream(&sim_device_env, stream, 1));
	until = time_mono_ns() + DAEMON_TIMEOUT_NS;
	while (below_base_ns() - before < 90 * NS_PER_MS && time_mono_ns() < until)
		(void)usleep(1000);
	assert_true(below_base_ns() - before >= 90 * NS_PER_MS);
}

static void invalid_number__ends_the_connection(void **state)
{
	uint32_t stream =
		daemon_new_stream(&sim_device_env, daemon_new_context(&sim_device_env, 0));
	struct sim_device_command c = { .kind = SIM_DEVICE_KERNEL, .stream = stream, .seq = 2 };
	struct sim_device_reply r;

	(void)state;
	assert_true(sim_device_submit(&sim_device_env, &c, 1));
	assert_int_equal(daemon_call(&sim_device_env,
				 (struct sim_device_request){ .op = SIM_DEVICE_MEM_INFO }, &r),
		999);
	assert_false(daemon_wait_stream(&sim_device_env, stream, 1));
	assert_int_equal(nvml_process_bytes(0, getpid()), UINT64_MAX);
}

/* --- faults --- */

static void fault__out_of_memory_at_the_third(void **state)
{
	struct sim_device_reply r;

	(void)state;
	sim_cuda_fault_set(sim_device_env_node.control.state, 0, SIM_CUDA_OOM, 3, 1, 0);
	assert_int_equal(daemon_allocate(&sim_device_env, 0, 1, &r, NULL), 0);
	assert_int_equal(daemon_allocate(&sim_device_env, 1, 1, &r, NULL),
		0); /* another GPU's do not count */
	assert_int_equal(daemon_allocate(&sim_device_env, 0, 1, &r, NULL), 0);
	assert_int_equal(daemon_allocate(&sim_device_env, 0, 1, &r, NULL), 2);
	assert_int_equal(daemon_allocate(&sim_device_env, 0, 1, &r, NULL), 0);
}

static void fault__ends_the_context_and_posts_an_xid(void **state)
{
	uint32_t context = daemon_new_context(&sim_device_env, 0),
		 stream = daemon_new_stream(&sim_device_env, context);
	struct sim_device_command c = { .kind = SIM_DEVICE_KERNEL,
		.stream = stream,
		.seq = 1,
		.amount = 1000 };
	nvmlEventData_t e;
	nvmlEventSet_t set;

	(void)state;
	assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceRegisterEvents(sim_device_env_node.gpus[0],
				 NVML_EVENT_XID_CRITICAL, set),
		NVML_SUCCESS);
	sim_cuda_fault_set(sim_device_env_node.control.state, 0, SIM_CUDA_ERROR, 2, 1, 700);
	assert_true(sim_device_submit(&sim_device_env, &c, 1));
	assert_true(daemon_wait_stream(&sim_device_env, stream, 1));
	assert_int_equal(atomic_load(&sim_device_env.page->contexts[context].error), 0);
	c.seq = 2;
	assert_true(sim_device_submit(&sim_device_env, &c, 1));
	assert_true(daemon_wait_stream(&sim_device_env, stream, 2));
	assert_int_equal(atomic_load(&sim_device_env.page->contexts[context].error), 700);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 5000), NVML_SUCCESS);
	assert_int_equal(e.eventData, 31);
	c.seq = 3;
	assert_true(sim_device_submit(&sim_device_env, &c, 1));
	assert_true(daemon_wait_stream(&sim_device_env, stream, 3));
	assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
}

static void fault__lost_gpu_ends_its_contexts(void **state)
{
	uint32_t context = daemon_new_context(&sim_device_env, 2),
		 stream = daemon_new_stream(&sim_device_env, context);
	struct sim_device_command c = { .kind = SIM_DEVICE_KERNEL,
		.stream = stream,
		.seq = 1,
		.amount = UINT64_MAX };
	struct error err = ERROR_INIT;

	(void)state;
	assert_true(sim_device_submit(&sim_device_env, &c, 1));
	assert_ok(sim_control_lose(&sim_device_env_node.control, 2, &err), &err);
	assert_true(daemon_wait_stream(&sim_device_env, stream, 1));
	assert_int_equal(atomic_load(&sim_device_env.page->contexts[context].error), 719);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(stream__reports_through_the_page),
		TEST(event__has_the_time),
		TEST(busy_process__shows_in_nvml),
		TEST(lateness__shows_as_time_below_base_clocks),
		TEST(invalid_number__ends_the_connection),
		TEST(fault__out_of_memory_at_the_third),
		TEST(fault__ends_the_context_and_posts_an_xid),
		TEST(fault__lost_gpu_ends_its_contexts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
