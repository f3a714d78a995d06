/* SPDX-License-Identifier: Apache-2.0 */
#include "fences-test.h"

#include "container/gate/internal.h"

bool is_gate_idle(void)
{
	return in_flight(0) == 0 && !slice_arbiter_client(A, 0).busy;
}

bool is_stuck(void)
{
	return fences_is_stuck(&process()->fences, 0);
}

void wait_fence_polls(void)
{
	int queries =
		atomic_load(&td.queries) + atomic_load(&td.records) + atomic_load(&td.creates);

	gate_test_waits = "polls of the gate thread";
	for (int i = 0; i < 20; i++)
		(void)usleep(1000);
	while (atomic_load(&td.queries) + atomic_load(&td.records) + atomic_load(&td.creates) ==
			queries &&
		!atomic_load(&td.create_error))
		(void)usleep(1000);
}

bool submit_to(CUstream stream, unsigned int flags)
{
	struct turn_gpu_page *g = gate_begin(stream, flags);

	td_submit_to(stream);
	gate_end(g);
	return g;
}

void capture_begins(void)
{
	gate_capture_begins();
	atomic_store(&td.capturing, 1);
}

void capture_ends(void)
{
	atomic_store(&td.capturing, 0);
	gate_capture_ended();
	CHECK(!atomic_load(&td.spoiled) && !atomic_load(&td.blocked_calls));
}
