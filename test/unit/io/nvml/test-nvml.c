/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/fd.h"
#include "io/nvml/nvml.h"

#include <sys/stat.h>
#include <unistd.h>

static const char *lib_path(const char *name)
{
	static char path[PATH_MAX];
	char from_here[64];

	(void)snprintf(from_here, sizeof(from_here), "../support/%s", name);
	return test_built(path, from_here);
}

static void nvml_open__accepts_missing_functions(void **state)
{
	static struct nvml n;
	struct error err = ERROR_INIT;
	nvmlMemory_v2_t memory = { .version = 0 };

	(void)state;
	assert_ok(nvml_open(&n, lib_path("libfake-nvml.so"), &err), &err);
	assert_true(n.has[NVML_CALL_nvmlDeviceGetUUID]);
	assert_false(n.has[NVML_CALL_nvmlDeviceGetSerial]);
	assert_int_equal(n.nvmlDeviceGetMemoryInfo_v2((nvmlDevice_t)(uintptr_t)1000, &memory),
		NVML_ERROR_FUNCTION_NOT_FOUND);
	assert_int_equal(n.nvmlDeviceGetSerial(NULL, NULL, 0), NVML_ERROR_NOT_SUPPORTED);
	assert_string_equal(nvml_strerror(&n, NVML_ERROR_GPU_IS_LOST), "GPU is lost");
	assert_string_equal(nvml_strerror(&n, NVML_ERROR_UNKNOWN), "fake text");
	nvml_close(&n);
}

static void nvml_open__falls_back_to_older_names(void **state)
{
	static struct nvml n;
	struct error err = ERROR_INIT;
	unsigned int count = 0;
	int version;

	(void)state;
	assert_ok(nvml_open(&n, lib_path("libfake-nvml-old.so"), &err), &err);
	assert_ok(nvml_init(&n, &err), &err);
	assert_int_equal(n.nvmlDeviceGetCount_v2(&count), NVML_SUCCESS);
	assert_int_equal(count, 1);
	assert_int_equal(n.nvmlSystemGetCudaDriverVersion_v2(&version),
		NVML_ERROR_NOT_SUPPORTED);
	/* The texts are those of the agent without nvmlErrorString(). */
	assert_string_equal(nvml_strerror(&n, NVML_ERROR_NOT_FOUND), "Not Found");
	assert_string_equal(nvml_strerror(&n, (nvmlReturn_t)77), "Unknown Error");
	nvml_close(&n);
}

static void nvml_open__reports_errors(void **state)
{
	static struct nvml n;
	struct error err = ERROR_INIT;
	char *dir = test_tmpdir(), path[PATH_MAX];

	(void)state;
	assert_error(nvml_open(&n, "/nonexistent/libnvidia-ml.so.1", &err), &err,
		"open NVML library '/nonexistent/libnvidia-ml.so.1': No such file");
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_error(nvml_open(&n, "libgpuslice-is-not-there.so", &err), &err,
		"no libgpuslice-is-not-there.so in the library search path");
	assert_int_equal(err.code, ERR_NOT_FOUND);

	(void)snprintf(path, sizeof path, "%s/text", dir);
	assert_ok(file_write_atomic(path, "not a library at all, but text", 30, 0644, &err),
		&err);
	assert_error(nvml_open(&n, path, &err), &err, "is not a library for this machine");
	assert_int_equal(err.code, ERR_UNSUPPORTED);

	assert_error(nvml_open(&n, "libm.so.6", &err), &err,
		"'libm.so.6' has no nvmlInit_v2: it is not an NVML library");
	assert_int_equal(err.code, ERR_UNSUPPORTED);
	test_rmdir(dir);
}

static void nvml_init__reports_what_to_do(void **state)
{
	static const struct {
		const char *text;
		int code;
		enum error_code class;
	} rows[] = {
		{ "privileged", 4, ERR_PERMISSION },
		{ "nvmlInit_v2: fake text (9): the NVIDIA kernel module is not loaded", 9,
			ERR_UNAVAILABLE },
		{ "reload the module or reboot", 18, ERR_UNAVAILABLE },
		{ "kernel log", 999, ERR_UNAVAILABLE },
		{ "nvmlInit_v2: fake text (20)", 20, ERR_NOMEM },
	};
	static struct nvml n;
	struct error err = ERROR_INIT;
	char *dir = test_tmpdir(), path[PATH_MAX], text[64];

	(void)state;
	(void)snprintf(path, sizeof path, "%s/control", dir);
	assert_int_equal(setenv("FAKE_NVML", path, 1), 0);
	assert_ok(nvml_open(&n, lib_path("libfake-nvml.so"), &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int len =
			snprintf(text, sizeof text, "error nvmlInit_v2 -1 %d\n", rows[i].code);

		assert_ok(file_write_atomic(path, text, (size_t)len, 0644, &err), &err);
		assert_error(nvml_init(&n, &err), &err, rows[i].text);
		assert_int_equal(err.code, rows[i].class);
	}
	nvml_close(&n);
	(void)unsetenv("FAKE_NVML");
	test_rmdir(dir);
}

static void nvml_find__searches_as_nvidias_plugin_does(void **state)
{
	static const struct {
		const char *dir; /* has the library */
		const char *found;
	} rows[] = {
		{ "lib/aarch64-linux-gnu", "lib/aarch64-linux-gnu" }, { "lib64", "lib64" },
		{ "usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu" },
		{ "usr/lib64", "usr/lib64" },
		{ "lib", "usr/lib64" }, /* not searched: the one of before is found again */
	};
	struct error err = ERROR_INIT;
	char *dir = test_tmpdir(), path[PATH_MAX], want[PATH_MAX], ret[PATH_MAX];

	(void)state;
	assert_ok(nvml_find(ret, NULL, dir, &err), &err);
	assert_string_equal(ret, "libnvidia-ml.so.1");
	assert_ok(nvml_find(ret, "", "/", &err), &err);
	assert_string_equal(ret, "libnvidia-ml.so.1");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		(void)snprintf(path, sizeof path, "%s/%s", dir, rows[i].dir);
		assert_ok(dir_make(path, 0755, &err), &err);
		/* A link to a versioned name, as drivers install it, is resolved. */
		(void)snprintf(path, sizeof path, "%s/%s/libnvidia-ml.so.1.2.3", dir,
			rows[i].dir);
		assert_ok(file_write_atomic(path, "", 0, 0644, &err), &err);
		(void)snprintf(path, sizeof path, "%s/%s/libnvidia-ml.so.1", dir, rows[i].dir);
		assert_int_equal(symlink("libnvidia-ml.so.1.2.3", path), 0);
		assert_ok(nvml_find(ret, NULL, dir, &err), &err);
		(void)snprintf(want, sizeof want, "%s/%s/libnvidia-ml.so.1.2.3", dir,
			rows[i].found);
		assert_string_equal(ret, want);
	}
	/* An absolute link leads inside of that root. */
	(void)snprintf(path, sizeof path, "%s/usr/lib64/libnvidia-ml.so.1", dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/lib64/libnvidia-ml.so.1.2.3", path), 0);
	assert_ok(nvml_find(ret, NULL, dir, &err), &err);
	(void)snprintf(want, sizeof want, "%s/lib64/libnvidia-ml.so.1.2.3", dir);
	assert_string_equal(ret, want);
	assert_ok(nvml_find(ret, "/mine.so", dir, &err), &err);
	assert_string_equal(ret, "/mine.so");
	test_rmdir(dir);
}

static void nvml_call_name__answers_for_any_number(void **state)
{
	(void)state;
	assert_string_equal(nvml_call_name(NVML_CALL_nvmlDeviceGetUUID), "nvmlDeviceGetUUID");
	assert_string_equal(nvml_call_name(NVML_CALL_COUNT_), "?");
	assert_string_equal(nvml_call_name(~0U), "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nvml_open__accepts_missing_functions),
		cmocka_unit_test(nvml_open__falls_back_to_older_names),
		cmocka_unit_test(nvml_open__reports_errors),
		cmocka_unit_test(nvml_init__reports_what_to_do),
		cmocka_unit_test(nvml_find__searches_as_nvidias_plugin_does),
		cmocka_unit_test(nvml_call_name__answers_for_any_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
