/* SPDX-License-Identifier: Apache-2.0 */

/* Whether the driver runs the process under MPS: asked once for each context, said in the page, and warned of. */
#include "support/test.h"
#include "unit/container/cuda/memory-test.h"
#include "container/cuda/device.h"

#include <string.h>
#include <unistd.h>

static int warnings; /* to read what was written to standard error */

/* From now on; a CHECK() that fails shows by the exit status alone. */
static void catch_warnings(void)
{
	int ends[2];

	CHECK(!pipe(ends) && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO && !close(ends[1]));
	warnings = ends[0];
}

/* What was written since. */
static void assert_warned(const char *text)
{
	char line[1024] = "";

	(void)!write(STDERR_FILENO, ".", 1);
	CHECK(read(warnings, line, sizeof(line) - 1) > 0);
	CHECK(*text ? strstr(line, text) != NULL : !strcmp(line, "."));
	/* One line. */
	CHECK(!*text || strchr(line, '\n') == strrchr(line, '\n'));
}

static uint32_t said(void)
{
	return atomic_load(&page()->mps);
}

static void compute(uint32_t now)
{
	atomic_store(&link_page()->turns, now);
}

/* As the arbiter does when it has looked, and the last context has gone. */
static void look(void)
{
	atomic_fetch_add(&page()->credit, used());
}

static void outside(void)
{
	CUcontext context;

	catch_warnings();
	CHECK(charges_active() && said() == SLICE_MPS_UNKNOWN);
	compute(SLICE_TURNS_MPS);
	CHECK(!cuDevicePrimaryCtxRetain(&context, 3));
	CHECK(said() == SLICE_MPS_OUTSIDE && md.attributes == 1);
	/* The process reported MPS before it asked the arbiter to compare. */
	CHECK(arbiter->compares == 1);
	assert_warned("gpuslice: this slice is to run under MPS");
	/* The context was made already; and it goes on. */
	CHECK(!cuDevicePrimaryCtxRetain(&context, 3) && md.attributes == 1);
	CHECK(!cuDevicePrimaryCtxRelease_v2(3) && !cuDevicePrimaryCtxRelease_v2(3));
	look();
	CHECK(!cuCtxCreate_v2(&context, 0, 3) && md.attributes == 2);
	assert_warned("");
}

static void mps__is_said_and_warned_of_where_it_is_not(void **state)
{
	(void)state;
	mt_in_child(outside);
}

static void inside(void)
{
	CUcontext context;

	catch_warnings();
	CHECK(charges_active());
	compute(SLICE_TURNS_MPS);
	md.mps = 1;
	CHECK(!cuCtxCreate_v2(&context, 0, 3));
	CHECK(said() == SLICE_MPS_INSIDE);
	/* Its server has gone, and the next context is without. */
	md.mps = 0;
	CHECK(!cuCtxDestroy_v2(context));
	look();
	CHECK(!cuCtxCreate_v2(&context, 0, 3));
	CHECK(said() == SLICE_MPS_OUTSIDE);
	assert_warned("gpuslice: this slice is to run under MPS");
}

static void mps__is_looked_at_with_each_context(void **state)
{
	(void)state;
	mt_in_child(inside);
}

/* Also what is as it should be, so that the status shows it. */
static void turns(void)
{
	CUcontext context;

	catch_warnings();
	CHECK(charges_active());
	compute(SLICE_TURNS_ON);
	CHECK(!cuCtxCreate_v2(&context, 0, 3) && said() == SLICE_MPS_OUTSIDE);
	assert_warned("");
	CHECK(!cuCtxDestroy_v2(context));
	look();
	compute(SLICE_TURNS_NONE);
	md.mps = 1;
	CHECK(!cuCtxCreate_v2(&context, 0, 3) && said() == SLICE_MPS_INSIDE);
	assert_warned("");
}

static void mps__is_said_and_no_more_in_other_slices(void **state)
{
	(void)state;
	mt_in_child(turns);
}

static void old_driver(void)
{
	CUcontext context;

	catch_warnings();
	CHECK(charges_active());
	compute(SLICE_TURNS_MPS);
	md.mps = -1;
	CHECK(!cuCtxCreate_v2(&context, 0, 3) && said() == SLICE_MPS_UNKNOWN);
	/* A context that fails reports nothing. A context on a GPU outside of the slice reports nothing
	 * either. */
	md.mps = 0;
	md.attributes = 0;
	mps_probe_mode(3, CHARGES_NO_GPU, true);
	mps_probe_mode(3, CHARGES_GPU_UNKNOWN, true);
	mps_probe_mode(3, SLICE_GPUS_MAX, true);
	CHECK(said() == SLICE_MPS_UNKNOWN && !md.attributes);
	assert_warned("");
}

static void mps__is_left_open_where_the_driver_does_not_know(void **state)
{
	(void)state;
	mt_in_child(old_driver);
}

/* A context that was made where no hook was. */
static void first_submission(void)
{
	catch_warnings();
	CHECK(charges_active());
	compute(SLICE_TURNS_MPS);
	mps_probe_current();
	CHECK(said() == SLICE_MPS_OUTSIDE && md.attributes == 1);
	assert_warned("gpuslice: this slice is to run under MPS");
	mps_probe_current();
	CHECK(md.attributes == 1);
}

static void mps__is_looked_at_with_the_first_submission(void **state)
{
	(void)state;
	mt_in_child(first_submission);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mps__is_said_and_warned_of_where_it_is_not),
		cmocka_unit_test(mps__is_looked_at_with_each_context),
		cmocka_unit_test(mps__is_said_and_no_more_in_other_slices),
		cmocka_unit_test(mps__is_left_open_where_the_driver_does_not_know),
		cmocka_unit_test(mps__is_looked_at_with_the_first_submission),
	};

	return cmocka_run_group_tests(tests, mt_setup, mt_teardown);
}
