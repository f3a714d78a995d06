/* SPDX-License-Identifier: Apache-2.0 */

/* Contexts that share a server of MPS on the simulated GPUs' daemon. */
#include "unit/testbed/sim/device/sim-device-env.h"

static uint32_t start_mps_on_gpu(struct sim_device *to)
{
	struct sim_device_reply r;

	assert_int_equal(
		daemon_call(to, (struct sim_device_request){ .op = SIM_DEVICE_MPS_SERVE }, &r),
		0);
	return r.object;
}

static uint32_t mps_ticket(struct sim_device *to, uint32_t object, uint64_t limit,
	struct sim_device_reply *r)
{
	return daemon_call(to,
		(struct sim_device_request){ .op = SIM_DEVICE_MPS_TICKET,
			.object = object,
			.bytes = limit,
			.percent = 32 },
		r);
}

static uint32_t join_server(struct sim_device *to, const struct sim_device_reply *ticket,
	struct sim_device_reply *r)
{
	return daemon_call(to,
		(struct sim_device_request){ .op = SIM_DEVICE_CONTEXT_CREATE,
			.id = ticket->id,
			.cookie = ticket->cookie },
		r);
}

static void mps__ticket_is_one_context_with_its_limit(void **state)
{
	struct sim_device server = SIM_DEVICE_INIT;
	struct error err = ERROR_INIT;
	struct sim_device_reply t, r;
	uint64_t total, free;
	uint32_t object;

	(void)state;
	assert_ok(sim_device_connect(&server, sim_device_env_node.dir, NULL, &err), &err);
	object = start_mps_on_gpu(&server);
	assert_int_equal(mps_ticket(&server, object, 1024 * MIB, &t), 0);
	/* A ticket is not guessed, and is good once. */
	t.cookie++;
	assert_int_equal(join_server(&sim_device_env, &t, &r), 806);
	t.cookie--;
	assert_int_equal(join_server(&sim_device_env, &t, &r), 0);
	assert_in_range(r.bytes, 144 * MIB, 150 * MIB); /* of 32 multiprocessors: measured */
	assert_int_equal(
		join_server(&sim_device_env, &t, &(struct sim_device_reply){ .op = 0 }), 806);
	free = daemon_free_bytes(&sim_device_env, 0, &total);
	assert_int_equal(free, 1024 * MIB - r.bytes);
	assert_int_equal(daemon_allocate(&sim_device_env, 0, free + 1, &t, NULL), 2);
	assert_int_equal(daemon_allocate(&sim_device_env, 0, free, &t, NULL), 0);
	assert_int_equal(daemon_allocate(&sim_device_env, 0, 1, &t, NULL), 2);
	assert_true(daemon_free_bytes(&server, 0, &total) > 1024 * MIB);
	/* The server ends, and its clients with it. */
	sim_device_close(&server);
	for (int i = 0;
		i < 5000 && !atomic_load(&sim_device_env.page->contexts[r.object].error); i++)
		(void)usleep(1000);
	assert_int_equal(atomic_load(&sim_device_env.page->contexts[r.object].error), 806);
	/* A process that is no server has no tickets; numbers are checked. */
	assert_int_equal(mps_ticket(&sim_device_env, r.object, 0, &t), 201);
	assert_int_equal(mps_ticket(&sim_device_env, UINT32_MAX, 0, &t), 201);
}

static void mps__fault_is_reported_to_the_server(void **state)
{
	struct sim_device server = SIM_DEVICE_INIT;
	struct error err = ERROR_INIT;
	struct sim_device_reply t[2], r[2], other;
	nvmlEventSet_t set;
	nvmlEventData_t e;
	uint32_t object;

	(void)state;
	assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceRegisterEvents(sim_device_env_node.gpus[0],
				 NVML_EVENT_XID_CRITICAL, set),
		NVML_SUCCESS);
	assert_ok(sim_device_connect(&server, sim_device_env_node.dir, NULL, &err), &err);
	object = start_mps_on_gpu(&server);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(mps_ticket(&server, object, 0, &t[i]), 0);
		assert_int_equal(join_server(&sim_device_env, &t[i], &r[i]), 0);
	}
	assert_int_equal(daemon_call(&sim_device_env,
				 (struct sim_device_request){ .op = SIM_DEVICE_CONTEXT_FAULT,
					 .object = r[0].object,
					 .flags = 700 },
				 &other),
		0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(atomic_load(&sim_device_env.page->contexts[r[i].object].error),
			700);
	assert_int_equal(atomic_load(&server.page->contexts[object].error), 700);
	/* No client joins a failed context; one fault is one event. */
	assert_int_equal(mps_ticket(&server, object, 0, &other), 700);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 5000), NVML_SUCCESS);
	assert_int_equal(e.eventData, 31);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 50), NVML_ERROR_TIMEOUT);
	assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
	sim_device_close(&server);
}

static void mps__server_ends_one_context(void **state)
{
	struct sim_device server = SIM_DEVICE_INIT;
	struct error err = ERROR_INIT;
	struct sim_device_reply t[2], r[2], other;
	struct sim_device_request end = { .op = SIM_DEVICE_MPS_END, .flags = 810 };
	uint32_t object;

	(void)state;
	assert_ok(sim_device_connect(&server, sim_device_env_node.dir, NULL, &err), &err);
	object = start_mps_on_gpu(&server);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(mps_ticket(&server, object, 0, &t[i]), 0);
		assert_int_equal(join_server(&sim_device_env, &t[i], &r[i]), 0);
	}
	end.id = t[1].id;
	assert_int_equal(daemon_call(&sim_device_env, end, &other), 400); /* not its server */
	assert_int_equal(daemon_call(&server, end, &other), 0);
	assert_int_equal(atomic_load(&sim_device_env.page->contexts[r[0].object].error), 0);
	assert_int_equal(atomic_load(&sim_device_env.page->contexts[r[1].object].error), 810);
	assert_int_equal(atomic_load(&server.page->contexts[object].error), 0);
	sim_device_close(&server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(mps__ticket_is_one_context_with_its_limit),
		TEST(mps__fault_is_reported_to_the_server),
		TEST(mps__server_ends_one_context),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
