/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/sched/sched-env.h"

#include "support/test.h"

struct sched_env e;
const struct sched_share_config equal = { .weight = 1 };

static void on_gate(void *arg, struct sched_client *client)
{
	(void)arg;
	(void)client;
	e.gates++;
}

void begin_shares(unsigned int n, const struct sched_share_config *share)
{
	memset(&e, 0, sizeof(e));
	e.now = START;
	e.t = sched_new(on_gate, NULL, NULL);
	assert_non_null(e.t);
	for (unsigned int i = 0; i < n; i++) {
		e.slices[i] = sched_slice_new(e.t, NULL);
		assert_non_null(e.slices[i]);
		assert_int_equal(sched_slice_set_share(e.t, e.slices[i], 0, share, e.now), 0);
		e.clients[i] = sched_client_new(e.t, e.slices[i], 0, NULL, e.now);
		assert_non_null(e.clients[i]);
	}
}

void end_shares(void)
{
	assert_null(sched_free(e.t));
}

void pass_time(uint64_t ns)
{
	uint64_t until = e.now + ns;

	while (sched_next_deadline(e.t) <= until) {
		assert_true(sched_next_deadline(e.t) > e.now);
		e.now = sched_next_deadline(e.t);
		sched_advance_time(e.t, e.now);
	}
	e.now = until;
	sched_update_charges(e.t, e.now);
}

void set_waiting(unsigned int i)
{
	sched_client_set_state(e.t, e.clients[i], e.clients[i]->busy, true, 0, e.now);
}

void set_idle_since(unsigned int i, uint64_t ns)
{
	sched_client_set_state(e.t, e.clients[i], false, false, ns, e.now);
}

struct sched_account get_account(unsigned int i)
{
	struct sched_account a;

	sched_account(e.t, e.slices[i], 0, e.now, &a);
	return a;
}
