/* SPDX-License-Identifier: Apache-2.0 */
/* When the next share is let in (sched.h, "Let in"). */
#include "support/test.h"

#include "unit/model/sched/sched-env.h"

/* One burst of client @i for @ns, once its gate is open and the hardware has switched, beside the other, which waits after
 * 0.3 ms. Returns how long before the end the other's gate opened, in ns. */
static uint64_t run_burst(unsigned int i, uint64_t ns)
{
	struct sched_client *other = e.clients[1 - i];
	uint64_t end, opened = 0;

	while (e.clients[i]->gate == SCHED_GATE_CLOSED)
		pass_time(10 * US);
	pass_time(SCHED_SWITCH_NS);
	end = e.now + ns;
	pass_time(300 * US);
	sched_client_set_state(e.t, other, false, true, 0, e.now);
	while (e.now < end) {
		pass_time(10 * US);
		if (!opened && other->gate != SCHED_GATE_CLOSED)
			opened = end - e.now;
	}
	set_idle_since(i, 0);
	return opened;
}

static void sched_advance_time__lets_the_next_client_in_before_a_burst_ends(void **state)
{
	uint64_t opened = 0;

	(void)state;
	begin_shares(2, &equal);
	set_waiting(0);
	for (unsigned int i = 0; i < 60; i++)
		opened = run_burst(i % 2, 1400 * US);
	assert_in_range(opened, 80 * US, 200 * US);
	/* The bursts of a client have different lengths: their ends are not known. */
	for (unsigned int i = 0; i < 60; i++)
		opened = run_burst(i % 2, i % 2 ? 1400 * US : (800 + i % 7 * 300) * US);
	assert_int_equal(run_burst(0, 1400 * US), 0);
	end_shares();
}

/* The burst goes on: the program had submitted ahead, and is cut off. */
static void sched_client_set_state__lets_in_no_more_after_a_wrong_time(void **state)
{
	(void)state;
	begin_shares(2, &equal);
	set_waiting(0);
	for (unsigned int i = 0; i < 60; i++)
		(void)run_burst(i % 2, 1400 * US);
	pass_time(300 * US);
	sched_client_set_state(e.t, e.clients[1], false, true, 0, e.now);
	while (e.clients[1]->gate == SCHED_GATE_CLOSED)
		pass_time(10 * US);
	set_waiting(0);
	assert_true(e.clients[0]->busy && e.clients[0]->wants);
	pass_time(100 * US);
	sched_client_set_state(e.t, e.clients[0], false, true, 0, e.now);
	(void)run_burst(1, 1400 * US);
	assert_int_equal(run_burst(0, 1400 * US), 0);
	end_shares();
}

/* A client that was let in has its whole burst, whatever the other reports. */
static void sched_client_set_state__ends_no_quantum_by_an_idle_time_long_ago(void **state)
{
	struct sched_client *other;

	(void)state;
	begin_shares(2, &equal);
	set_waiting(0);
	for (unsigned int i = 0; i < 60; i++)
		(void)run_burst(i % 2, 1400 * US);
	pass_time(300 * US);
	other = e.clients[1];
	sched_client_set_state(e.t, other, false, true, 0, e.now);
	while (other->gate == SCHED_GATE_CLOSED)
		pass_time(10 * US);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_CLOSED);
	sched_client_set_state(e.t, e.clients[0], false, true, 1000 * MS, e.now);
	pass_time(MS);
	assert_int_equal(other->gate, SCHED_GATE_THROTTLED);
	end_shares();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			sched_advance_time__lets_the_next_client_in_before_a_burst_ends),
		cmocka_unit_test(sched_client_set_state__lets_in_no_more_after_a_wrong_time),
		cmocka_unit_test(
			sched_client_set_state__ends_no_quantum_by_an_idle_time_long_ago),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
