/* SPDX-License-Identifier: Apache-2.0 */
#include "fake-nvml-env.h"

#include "support/test.h"

#define CONTROL "control"

char *fake_nvml_dir;
char fake_nvml_lib[PATH_MAX];

void fake_nvml_begin(void)
{
	char path[PATH_MAX];

	(void)test_built(fake_nvml_lib, "../support/libfake-nvml.so");
	fake_nvml_dir = test_tmpdir();
	(void)snprintf(path, sizeof(path), "%s/" CONTROL, fake_nvml_dir);
	assert_int_equal(setenv("FAKE_NVML", path, 1), 0);
}

void fake_nvml_end(void)
{
	test_rmdir(fake_nvml_dir);
	fake_nvml_dir = NULL;
}

void fake_nvml(const char *text)
{
	test_write(fake_nvml_dir, CONTROL, text, strlen(text), 0644);
}
