/* SPDX-License-Identifier: Apache-2.0 */

/* The simulated library as a file that other programs load: stubs, and what init costs. */
#include "unit/testbed/sim/sim-fixture.h"

#include <dlfcn.h>

#include "lib/base/time.h"

typedef int stub_fn(void);

static stub_fn *find_stub(const char *name)
{
	void *lib = dlopen(NVML_SONAME, RTLD_NOW | RTLD_NOLOAD);
	stub_fn *fn = NULL;

	assert_non_null(lib);
	*(void **)&fn = dlsym(lib, name);
	if (!fn)
		fail_msg("%s is not exported", name);
	(void)dlclose(lib);
	return fn;
}

static void stubs__return_the_codes_of_a_real_library(void **state)
{
	static const char *const names[] = { "nvmlDeviceGetGridLicensableFeatures_v4",
		"nvmlVgpuTypeGetClass", "nvmlUnitGetCount", "nvmlDeviceGetBridgeChipInfo" };
	struct sim_fixture f;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_int_equal(find_stub(names[i])(), NVML_ERROR_UNINITIALIZED);
	sim_fixture_begin(&f, "g4dn.xlarge");
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_int_equal(find_stub(names[i])(), NVML_ERROR_NOT_SUPPORTED);
	sim_fixture_end(&f);
}

/* The best of several, so that a busy machine does not fail it. */
static void init__costs_less_than_a_millisecond(void **state)
{
	uint64_t best_ns = UINT64_MAX;
	struct sim_fixture f;

	(void)state;
	sim_fixture_begin(&f, "p5.48xlarge");
	assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
	for (int i = 0; i < 20; i++) {
		uint64_t start_ns = time_mono_ns(), took_ns;

		assert_int_equal(nvmlInit_v2(), NVML_SUCCESS);
		took_ns = time_mono_ns() - start_ns;
		assert_int_equal(nvmlShutdown(), NVML_SUCCESS);
		best_ns = took_ns < best_ns ? took_ns : best_ns;
	}
	assert_true(best_ns < NS_PER_MS);
	sim_fixture_end(&f);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(stubs__return_the_codes_of_a_real_library),
		cmocka_unit_test(init__costs_less_than_a_millisecond),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
