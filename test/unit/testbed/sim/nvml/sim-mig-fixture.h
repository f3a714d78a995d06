/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What tests of MIG do again and again, on top of sim-fixture.h. */
#include "unit/testbed/sim/sim-fixture.h"

#include "testbed/sim/mig.h"

/* Profile ids of the seven-slice layout. */
enum { P1G = 19, P1G_ME = 20, P1G_DOUBLE = 15, P2G = 14, P3G = 9, P4G = 5, P7G = 0 };

/* The node of a test and its first GPU. */
static struct sim_fixture f;
static nvmlDevice_t gpu;

static inline void begin(const char *model)
{
	sim_fixture_begin(&f, model);
	gpu = f.gpus[0];
}

#define BEGIN(name, model)                           \
	static inline int begin_##name(void **state) \
	{                                            \
		(void)state;                         \
		begin(model);                        \
		return 0;                            \
	}
BEGIN(a100, "a100-40-1")
BEGIN(p4d, "p4d.24xlarge")
BEGIN(h100, "h100-1")
BEGIN(v100, "p3.2xlarge")
#undef BEGIN

static inline int end(void **state)
{
	(void)state;
	assert_int_equal(unsetenv("GPUSLICE_SIM_DEV"), 0);
	sim_fixture_end(&f);
	return 0;
}

#define ON(test, model) cmocka_unit_test_setup_teardown(test, begin_##model, end)

/* Skips the tests of main(): the driver lets only root change MIG, and so does the simulator. */
#define ONLY_ROOT()                                                         \
	do {                                                                \
		if (geteuid() != 0) {                                       \
			(void)puts("1..0 # SKIP only root may change MIG"); \
			return 0;                                           \
		}                                                           \
	} while (0)

static inline void mig_on(nvmlDevice_t d)
{
	nvmlReturn_t activation = NVML_ERROR_UNKNOWN;

	assert_int_equal(nvmlDeviceSetMigMode(d, NVML_DEVICE_MIG_ENABLE, &activation),
		NVML_SUCCESS);
	assert_int_equal(activation, NVML_SUCCESS);
}

static inline nvmlGpuInstance_t gi_at(nvmlDevice_t d, unsigned int id, unsigned int start)
{
	nvmlGpuInstancePlacement_t placements[16], *at = NULL;
	nvmlGpuInstance_t gi = NULL;
	unsigned int n = 0;

	assert_int_equal(nvmlDeviceGetGpuInstancePossiblePlacements_v2(d, id, NULL, &n), 0);
	assert_in_range(n, 1, ARRAY_LEN(placements));
	assert_int_equal(nvmlDeviceGetGpuInstancePossiblePlacements_v2(d, id, placements, &n),
		0);
	for (unsigned int i = 0; i < n; i++)
		if (placements[i].start == start)
			at = &placements[i];
	assert_non_null(at);
	assert_int_equal(nvmlDeviceCreateGpuInstanceWithPlacement(d, id, at, &gi), 0);
	return gi;
}

/* Creates a GPU instance where the driver places it. */
static inline nvmlGpuInstance_t gi_new(nvmlDevice_t d, unsigned int id)
{
	nvmlGpuInstance_t gi = NULL;

	assert_int_equal(nvmlDeviceCreateGpuInstance(d, id, &gi), NVML_SUCCESS);
	return gi;
}

static inline nvmlComputeInstance_t ci_new(nvmlGpuInstance_t gi, unsigned int number)
{
	nvmlComputeInstance_t ci = NULL;

	assert_int_equal(nvmlGpuInstanceCreateComputeInstance(gi, number, &ci), NVML_SUCCESS);
	return ci;
}

static inline nvmlGpuInstanceInfo_t gi_info(nvmlGpuInstance_t gi)
{
	nvmlGpuInstanceInfo_t info = { .id = 0 };

	assert_int_equal(nvmlGpuInstanceGetInfo(gi, &info), NVML_SUCCESS);
	return info;
}

static inline unsigned int gi_count_free(nvmlDevice_t d, unsigned int id)
{
	unsigned int n = 99;

	assert_int_equal(nvmlDeviceGetGpuInstanceRemainingCapacity(d, id, &n), NVML_SUCCESS);
	return n;
}

static inline nvmlDevice_t mig_device(nvmlDevice_t d, unsigned int index)
{
	nvmlDevice_t mig = NULL;

	assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(d, index, &mig), NVML_SUCCESS);
	return mig;
}

static inline void expect_mode(unsigned int current, unsigned int pending)
{
	unsigned int a = 77, b = 77;

	assert_int_equal(nvmlDeviceGetMigMode(gpu, &a, &b), NVML_SUCCESS);
	assert_int_equal(a, current);
	assert_int_equal(b, pending);
}

static inline void reboot(void)
{
	struct error err = ERROR_INIT;

	assert_ok(sim_control_reboot(&f.control, &err), &err);
	assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &gpu), NVML_SUCCESS);
}
