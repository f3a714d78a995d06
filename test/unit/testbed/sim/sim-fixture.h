/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A simulated node in a directory of its own for one test. The tests link the simulated
 * libnvidia-ml.so.1 as any program would, and change the node through testbed/sim/control/control.h, which is
 * another copy of the code with another mapping: as if from another process.
 */
#include "support/test.h"
#include "testbed/sim/control/control.h"
#include "testbed/sim/nvml/prototypes.h"

#include <unistd.h>

struct sim_fixture {
	char *dir;
	struct sim_control control;
	nvmlDevice_t gpus[SIM_MAX_GPUS];
	unsigned int count;
};

/* Makes a node of @model, opens it and initializes NVML. */
static inline void sim_fixture_begin(struct sim_fixture *f, const char *model)
{
	struct error err = ERROR_INIT;

	f->dir = test_tmpdir();
	assert_non_null(f->dir);
	assert_int_equal(setenv("GPUSLICE_SIM_DIR", f->dir, 1), 0);
	assert_int_equal(setenv("GPUSLICE_SIM_NODE", model, 1), 0);
	assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
	assert_ok(sim_control_open(&f->control, NULL, NULL, &err), &err);
	assert_int_equal(nvmlDeviceGetCount_v2(&f->count), NVML_SUCCESS);
	for (unsigned int i = 0; i < f->count; i++)
		assert_int_equal(nvmlDeviceGetHandleByIndex_v2(i, &f->gpus[i]), NVML_SUCCESS);
}

static inline void sim_fixture_end(struct sim_fixture *f)
{
	sim_control_close(&f->control);
	while (nvmlShutdown() == NVML_SUCCESS)
		;
	test_rmdir(f->dir);
}
