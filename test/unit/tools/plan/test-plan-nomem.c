/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "support/failing-memory.h"
#include "tools/plan/pools/pools.h"
#include "unit/tools/plan/plan-world.h"

static const char prices[] =
	"version: gpuslice/prices/v1\n"
	"stamp: \"2026-07-20\"\n"
	"types:\n"
	"  g6.xlarge: {gpu: L4, gpus: 1, gpuMemoryMiB: 22888, vcpus: 4, memoryMiB: 16384, pricePerHour: {r: 0.8}}\n";

static const char plan[] =
	"version: gpuslice/plan/v1\n"
	"policy: {regions: [r], modes: [time-slicing], instances: [g6.xlarge]}\n"
	"workloads:\n"
	"- {name: a, replicas: 4, gpu_ref: L4, busy: 0.1, t_solo: 0.05, rate: 2, mem_peak_mib: 2000, cpu: 500m,\n"
	"  slo: {max_slowdown: 9}}\n";

/* A failed allocation must be reported: otherwise a pool whose tenants can all meet would get a note or be
 * split. */
static void pools__fail_with_each_allocation_that_fails(void **state)
{
	struct plan_world w;
	struct error err = ERROR_INIT;
	bool failed = true;
	long n = 0;

	(void)state;
	assert_ok(plan_world_init(&w, prices, plan, &err), &err);
	assert_int_equal(w.a->plan.nodes[0].mode, PLAN_TIME_SLICING);
	assert_true(w.a->plan.nodes[0].slots > 1);
	for (; failed; n++) {
		struct pools *pools = NULL;
		int r;

		error_clear(&err);
		countdown = n;
		r = pools_new(&pools, w.a, &err);
		failed = countdown < 0;
		countdown = -1;
		if (failed != (r < 0) || (failed && err.code != ERR_NOMEM))
			fail_msg("allocation %ld: %d, %s", n, r, err.msg);
		(void)pools_free(pools);
	}
	assert_true(n > 5);
	plan_world_fini(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pools__fail_with_each_allocation_that_fails),
	};

	return cmocka_run_group_tests_name("plan-nomem", tests, NULL, NULL);
}
