/* SPDX-License-Identifier: Apache-2.0 */

/* Event sets: which set gets which event, when, and how exactly a wait keeps its time. */
#include "unit/testbed/sim/sim-fixture.h"

#include <pthread.h>
#include <sys/wait.h>

#include "lib/base/time.h"

static struct sim_fixture f;

static int begin(void **state)
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

static nvmlEventSet_t listen_to(unsigned int gpu, unsigned long long types)
{
	nvmlEventSet_t set = NULL;

	assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
	assert_int_equal(nvmlDeviceRegisterEvents(f.gpus[gpu], types, set), NVML_SUCCESS);
	return set;
}

static void send_xid(unsigned int gpu, uint64_t xid)
{
	struct error err = ERROR_INIT;

	assert_ok(sim_control_xid(&f.control, gpu, SIM_NO_INSTANCE, SIM_NO_INSTANCE, xid, &err),
		&err);
}

static void register__checks_types_as_measured(void **state)
{
	static const struct {
		unsigned long long types;
		nvmlReturn_t want;
	} rows[] = {
		{ 0, NVML_SUCCESS },
		{ 8, NVML_SUCCESS },
		{ 0x1f, NVML_SUCCESS },
		{ 0x40, NVML_SUCCESS }, /* no type at all, but the driver takes it */
		{ 1ULL << 40, NVML_ERROR_NOT_SUPPORTED },
		{ 8 | 1ULL << 40, NVML_ERROR_NOT_SUPPORTED },
	};
	nvmlEventSet_t set;
	unsigned long long types;

	(void)state;
	assert_int_equal(nvmlEventSetCreate(&set), NVML_SUCCESS);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(nvmlDeviceRegisterEvents(f.gpus[0], rows[i].types, set),
			rows[i].want);
	assert_int_equal(nvmlDeviceGetSupportedEventTypes(f.gpus[0], &types), NVML_SUCCESS);
	assert_int_equal(types & 8, 8);
	assert_int_equal(nvmlEventSetFree(set), NVML_SUCCESS);
	assert_int_equal(nvmlEventSetFree(set), NVML_ERROR_INVALID_ARGUMENT);
	assert_int_equal(nvmlDeviceRegisterEvents(f.gpus[0], 8, set),
		NVML_ERROR_INVALID_ARGUMENT);
}

static void wait__returns_one_event_a_call_in_order(void **state)
{
	nvmlEventSet_t set = listen_to(0, NVML_EVENT_XID_CRITICAL);
	nvmlEventData_t e;

	(void)state;
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), NVML_ERROR_TIMEOUT);
	assert_int_equal(nvmlEventSetWait_v2(set, NULL, 0), NVML_ERROR_INVALID_ARGUMENT);
	send_xid(0, 48);
	send_xid(0, 63);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), NVML_SUCCESS);
	assert_int_equal(e.eventData, 48);
	assert_int_equal(e.eventType, NVML_EVENT_XID_CRITICAL);
	assert_ptr_equal(e.device, f.gpus[0]);
	assert_int_equal(e.gpuInstanceId, NVML_NO_INSTANCE);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), NVML_SUCCESS);
	assert_int_equal(e.eventData, 63);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), NVML_ERROR_TIMEOUT);
}

static void wait__old_call_does_not_set_the_instance_ids(void **state)
{
	nvmlEventSet_t set = listen_to(0, NVML_EVENT_XID_CRITICAL);
	nvmlEventData_t e = { .gpuInstanceId = 77 };

	(void)state;
	send_xid(0, 48);
	assert_int_equal(nvmlEventSetWait(set, &e, 0), NVML_SUCCESS);
	assert_int_equal(e.eventData, 48);
	assert_int_equal(e.gpuInstanceId, 77);
}

static void wait__delivers_to_both_of_two_sets(void **state)
{
	nvmlEventSet_t a = listen_to(1, 8), b = listen_to(1, 8), other = listen_to(2, 8);
	nvmlEventData_t e;

	(void)state;
	send_xid(1, 31);
	assert_int_equal(nvmlEventSetWait_v2(a, &e, 0), NVML_SUCCESS);
	assert_int_equal(nvmlEventSetWait_v2(b, &e, 0), NVML_SUCCESS);
	assert_int_equal(e.eventData, 31);
	assert_int_equal(nvmlEventSetWait_v2(other, &e, 0), NVML_ERROR_TIMEOUT);
}

static void wait__does_not_return_earlier_events(void **state)
{
	nvmlEventSet_t set;
	nvmlEventData_t e;

	(void)state;
	send_xid(0, 1);
	set = listen_to(1, 8);
	send_xid(0, 2);
	assert_int_equal(nvmlDeviceRegisterEvents(f.gpus[0], 8, set), NVML_SUCCESS);
	send_xid(0, 3);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), NVML_SUCCESS);
	assert_int_equal(e.eventData, 3);
}

static void wait__loses_the_oldest_events_of_a_slow_reader(void **state)
{
	nvmlEventSet_t set = listen_to(0, 8);
	nvmlEventData_t e;
	unsigned int n = 0;

	(void)state;
	for (uint64_t i = 0; i < SIM_RING_EVENTS + 10; i++)
		send_xid(0, i);
	while (nvmlEventSetWait_v2(set, &e, 0) == NVML_SUCCESS) {
		if (n == 0)
			assert_int_equal(e.eventData, 10);
		n++;
	}
	assert_int_equal(n, SIM_RING_EVENTS);
	assert_int_equal(e.eventData, SIM_RING_EVENTS + 9);
}

/* Never early, and late by little: the best of several, so that a busy machine does not fail it. */
static void wait__keeps_to_its_timeout(void **state)
{
	nvmlEventSet_t set = listen_to(0, 8);
	uint64_t best_ns = UINT64_MAX;
	nvmlEventData_t e;

	(void)state;
	for (int i = 0; i < 8; i++) {
		uint64_t start_ns = time_mono_ns(), took_ns;

		assert_int_equal(nvmlEventSetWait_v2(set, &e, 20), NVML_ERROR_TIMEOUT);
		took_ns = time_mono_ns() - start_ns;
		assert_true(took_ns >= 20 * NS_PER_MS);
		best_ns = took_ns < best_ns ? took_ns : best_ns;
	}
	assert_true(best_ns < 25 * NS_PER_MS);
}

struct waiter {
	nvmlEventSet_t set;
	nvmlReturn_t result;
	uint64_t woke_ns;
	nvmlEventData_t e;
};

static void *wait_long(void *arg)
{
	struct waiter *w = arg;

	w->result = nvmlEventSetWait_v2(w->set, &w->e, 20000);
	w->woke_ns = time_mono_ns();
	return NULL;
}

static void wait__wakes_at_once(void **state)
{
	struct waiter w = { .set = listen_to(3, 8) };
	pthread_t thread;
	uint64_t sent_ns;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, wait_long, &w), 0);
	usleep(30000);
	sent_ns = time_mono_ns();
	send_xid(3, 119);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(w.result, NVML_SUCCESS);
	assert_int_equal(w.e.eventData, 119);
	assert_in_range(w.woke_ns, sent_ns, sent_ns + 5000 * NS_PER_MS);
}

static void wait__is_not_ended_early_by_events_of_others(void **state)
{
	struct waiter w = { .set = listen_to(3, 8) };
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, wait_long, &w), 0);
	usleep(20000);
	send_xid(0, 48);
	send_xid(1, 48);
	send_xid(3, 62);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(w.result, NVML_SUCCESS);
	assert_int_equal(w.e.eventData, 62);
}

static void lose__is_xid_79_and_then_once_15(void **state)
{
	nvmlEventSet_t set = listen_to(0, 8);
	struct error err = ERROR_INIT;
	nvmlEventData_t e;

	(void)state;
	assert_int_equal(nvmlDeviceRegisterEvents(f.gpus[1], 8, set), NVML_SUCCESS);
	assert_ok(sim_control_lose(&f.control, 0, &err), &err);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), NVML_SUCCESS);
	assert_int_equal(e.eventData, 79);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), NVML_ERROR_GPU_IS_LOST);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), NVML_ERROR_TIMEOUT);
	assert_ok(sim_control_lose(&f.control, 0, &err), &err); /* no news */
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), NVML_SUCCESS);
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), NVML_ERROR_TIMEOUT);
	send_xid(1, 31); /* events of the others still arrive */
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 0), NVML_SUCCESS);
	assert_int_equal(e.eventData, 31);
}

static void wait__receives_events_of_another_process(void **state)
{
	nvmlEventSet_t set = listen_to(2, 8);
	nvmlEventData_t e;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0) {
		struct sim_control c;

		usleep(20000);
		if (sim_control_open(&c, NULL, NULL, NULL) < 0 ||
			sim_control_xid(&c, 2, SIM_NO_INSTANCE, SIM_NO_INSTANCE, 74, NULL) < 0)
			_exit(1);
		_exit(0);
	}
	assert_int_equal(nvmlEventSetWait_v2(set, &e, 10000), NVML_SUCCESS);
	assert_int_equal(e.eventData, 74);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(register__checks_types_as_measured),
		TEST(wait__returns_one_event_a_call_in_order),
		TEST(wait__old_call_does_not_set_the_instance_ids),
		TEST(wait__delivers_to_both_of_two_sets),
		TEST(wait__does_not_return_earlier_events),
		TEST(wait__loses_the_oldest_events_of_a_slow_reader),
		TEST(wait__keeps_to_its_timeout),
		TEST(wait__wakes_at_once),
		TEST(wait__is_not_ended_early_by_events_of_others),
		TEST(lose__is_xid_79_and_then_once_15),
		TEST(wait__receives_events_of_another_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
