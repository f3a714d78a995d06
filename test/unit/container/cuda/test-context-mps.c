/* SPDX-License-Identifier: Apache-2.0 */

/* Whether the driver runs the process under MPS: the library probes each context once, and reports and warns. */
#include "support/test.h"
#include "unit/container/cuda/memory-test.h"
#include "container/cuda/device.h"

#include <string.h>
#include <unistd.h>

static int warnings; /* to read what was written to standard error */

/* Catches warnings from now on. A CHECK() that fails then shows by the exit status alone. */
static void catch_warnings(void)
{
	int ends[2];

	CHECK(!pipe(ends) && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO && !close(ends[1]));
	warnings = ends[0];
}

/* The text that the library wrote since the last call. */
static void assert_warned(const char *text)
{
	char line[1024] = "";

	(void)!write(STDERR_FILENO, ".", 1);
	CHECK(read(warnings, line, sizeof(line) - 1) > 0);
	CHECK(*text ? strstr(line, text) != NULL : !strcmp(line, "."));
	/* One line. */
	CHECK(!*text || strchr(line, '\n') == strrchr(line, '\n'));
}

static uint32_t get_mps_state(void)
{
	return atomic_load(&page()->mps);
}

static void compute(uint32_t now)
{
	atomic_store(&link_page()->turns, now);
}

/* Returns the bytes to the credit, as the arbiter does after a reading when the last context is destroyed. */
static void probe_once(void)
{
	atomic_fetch_add(&page()->credit, used());
}

static void run_outside_mps(void)
{
	CUcontext context;

	catch_warnings();
	CHECK(charges_active() && get_mps_state() == SLICE_MPS_UNKNOWN);
	compute(SLICE_TURNS_MPS);
	CHECK(!cuDevicePrimaryCtxRetain(&context, 3));
	CHECK(get_mps_state() == SLICE_MPS_OUTSIDE && md.attributes == 1);
	/* The process reported MPS before it asked the arbiter to compare. */
	CHECK(arbiter->compares == 1);
	assert_warned("gpuslice: this slice is to run under MPS");
	/* The context exists already, and stays. */
	CHECK(!cuDevicePrimaryCtxRetain(&context, 3) && md.attributes == 1);
	CHECK(!cuDevicePrimaryCtxRelease_v2(3) && !cuDevicePrimaryCtxRelease_v2(3));
	probe_once();
	CHECK(!cuCtxCreate_v2(&context, 0, 3) && md.attributes == 2);
	assert_warned("");
}

static void mps__reports_and_warns_where_the_process_bypasses_it(void **state)
{
	(void)state;
	mt_in_child(run_outside_mps);
}

static void run_inside_mps(void)
{
	CUcontext context;

	catch_warnings();
	CHECK(charges_active());
	compute(SLICE_TURNS_MPS);
	md.mps = 1;
	CHECK(!cuCtxCreate_v2(&context, 0, 3));
	CHECK(get_mps_state() == SLICE_MPS_INSIDE);
	/* The MPS server ended, and the next context is without MPS. */
	md.mps = 0;
	CHECK(!cuCtxDestroy_v2(context));
	probe_once();
	CHECK(!cuCtxCreate_v2(&context, 0, 3));
	CHECK(get_mps_state() == SLICE_MPS_OUTSIDE);
	assert_warned("gpuslice: this slice is to run under MPS");
}

static void mps__is_probed_with_each_context(void **state)
{
	(void)state;
	mt_in_child(run_inside_mps);
}

/* The library also reports the expected state, so that the status shows it. */
static void run_in_fair_share_slice(void)
{
	CUcontext context;

	catch_warnings();
	CHECK(charges_active());
	compute(SLICE_TURNS_ON);
	CHECK(!cuCtxCreate_v2(&context, 0, 3) && get_mps_state() == SLICE_MPS_OUTSIDE);
	assert_warned("");
	CHECK(!cuCtxDestroy_v2(context));
	probe_once();
	compute(SLICE_TURNS_NONE);
	md.mps = 1;
	CHECK(!cuCtxCreate_v2(&context, 0, 3) && get_mps_state() == SLICE_MPS_INSIDE);
	assert_warned("");
}

static void mps__is_only_reported_in_other_slices(void **state)
{
	(void)state;
	mt_in_child(run_in_fair_share_slice);
}

static void run_with_old_driver(void)
{
	CUcontext context;

	catch_warnings();
	CHECK(charges_active());
	compute(SLICE_TURNS_MPS);
	md.mps = -1;
	CHECK(!cuCtxCreate_v2(&context, 0, 3) && get_mps_state() == SLICE_MPS_UNKNOWN);
	/* A context that fails reports nothing. A context on a GPU outside of the slice reports nothing
	 * either. */
	md.mps = 0;
	md.attributes = 0;
	device_probe_mps(3, CHARGES_NO_GPU, true);
	device_probe_mps(3, CHARGES_GPU_UNKNOWN, true);
	device_probe_mps(3, SLICE_GPUS_MAX, true);
	CHECK(get_mps_state() == SLICE_MPS_UNKNOWN && !md.attributes);
	assert_warned("");
}

static void mps__is_unknown_where_the_driver_lacks_the_query(void **state)
{
	(void)state;
	mt_in_child(run_with_old_driver);
}

/* A context that was made where no hook was. */
static void probe_at_first_submission(void)
{
	catch_warnings();
	CHECK(charges_active());
	compute(SLICE_TURNS_MPS);
	device_probe_current_mps();
	CHECK(get_mps_state() == SLICE_MPS_OUTSIDE && md.attributes == 1);
	assert_warned("gpuslice: this slice is to run under MPS");
	device_probe_current_mps();
	CHECK(md.attributes == 1);
}

static void mps__is_probed_with_the_first_submission(void **state)
{
	(void)state;
	mt_in_child(probe_at_first_submission);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mps__reports_and_warns_where_the_process_bypasses_it),
		cmocka_unit_test(mps__is_probed_with_each_context),
		cmocka_unit_test(mps__is_only_reported_in_other_slices),
		cmocka_unit_test(mps__is_unknown_where_the_driver_lacks_the_query),
		cmocka_unit_test(mps__is_probed_with_the_first_submission),
	};

	return cmocka_run_group_tests(tests, mt_setup, mt_teardown);
}
