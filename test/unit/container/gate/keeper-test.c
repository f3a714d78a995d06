/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper-test.h"

#include "container/gate/process.h"

bool rests(uint32_t gpu)
{
	struct turn_seat s = tu_seat(A, gpu);

	return !s.busy && !s.wants && in_flight(gpu) == 0 && bell(gpu);
}

void submit_aside(void)
{
	struct turn_gpu_page *g = gate_begin(TD_ASIDE, 0);

	CHECK(g);
	td_submit_to(TD_ASIDE);
	gate_end(g);
}

void aside_ends(void)
{
	atomic_store(&td.aside_done, atomic_load(&td.aside_submitted));
}

void park_nothing(void)
{
	struct gate_park k = gate_park(TD_ASIDE, 0);

	td_submit_to(TD_ASIDE);
	gate_parked(&k, CUDA_SUCCESS);
}

void park(void)
{
	park_nothing();
	for (int i = 0; i < 3; i++)
		submit_aside();
}

bool is_parked(void)
{
	return marks_parked(&process()->marks, 0);
}
