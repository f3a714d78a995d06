/* SPDX-License-Identifier: Apache-2.0 */
#include "gate-thread-test.h"

#include "container/gate/internal.h"

bool rests(uint32_t gpu)
{
	struct slice_arbiter_client s = slice_arbiter_client(A, gpu);

	return !s.busy && !s.wants && in_flight(gpu) == 0 && doorbell(gpu);
}

void submit_beside_stream(void)
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

void block_no_work(void)
{
	struct gate_stream_wait wait = gate_stream_wait_begin(TD_ASIDE, 0);

	td_submit_to(TD_ASIDE);
	gate_stream_wait_end(&wait, CUDA_SUCCESS);
}

void block_stream(void)
{
	block_no_work();
	for (int i = 0; i < 3; i++)
		submit_beside_stream();
}

bool is_stream_blocked(void)
{
	return fences_is_blocked(&process()->fences, 0);
}
