/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "tools/validate/cdi/spec.h"
#include "tools/validate/child.h"
#include "tools/validate/files.h"
#include "tools/validate/internal.h"
#include "tools/validate/plugin/resources.h"

static char *dir;

static int set_up(void **state)
{
	(void)state;
	dir = test_tmpdir();
	return dir ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	test_rmdir(dir);
	return 0;
}

/* --- codes and names --- */

static void codes__have_unique_names_and_failures_have_advice(void **state)
{
	(void)state;
	for (int i = 0; i < VALIDATE_CODE_COUNT_; i++) {
		const char *name = validate_code_name((enum validate_code)i);

		assert_true(name && name[0]);
		for (const char *p = name; *p; p++)
			assert_true((*p >= 'a' && *p <= 'z') || *p == '-');
		for (int k = 0; k < i; k++)
			assert_string_not_equal(name,
				validate_code_name((enum validate_code)k));
		if (i > VALIDATE_CODE_SKIPPED)
			assert_true(strlen(validate_code_advice((enum validate_code)i)) > 10);
	}
	assert_string_equal(validate_code_name((enum validate_code)9999), "internal");
}

static void components__of_the_operator_are_refused_with_advice(void **state)
{
	static const char *const others[] = { "mofed", "vfio-pci", "vgpu-manager",
		"vgpu-devices", "cc-manager", "nvidia-fs", "gdrcopy", "nvidia-peermem",
		"metrics" };
	enum validate_component c = VALIDATE_COUNT_;
	const char *advice = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		assert_false(validate_component_find(others[i], &c, &advice));
		assert_non_null(advice);
	}
	assert_false(validate_component_find("drivers", &c, &advice));
	assert_null(advice);
	assert_true(validate_component_find("cuda", &c, &advice));
	assert_int_equal(c, VALIDATE_CUDA);
}

static void require__accepts_names_with_and_without_a_count(void **state)
{
	static const struct {
		const char *text, *name;
		uint64_t count;
	} rows[] = {
		{ "nvidia.com/gpu", "nvidia.com/gpu", 1 },
		{ "nvidia.com/gpu=8", "nvidia.com/gpu", 8 },
		{ "example.com/x.shared=0", "example.com/x.shared", 0 },
		{ "", NULL, 0 },
		{ "=3", NULL, 0 },
		{ "a=", NULL, 0 },
		{ "a=-1", NULL, 0 },
		{ "a=1x", NULL, 0 },
	};
	char name[32];
	uint64_t count;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bool ok = validate_require_parse(rows[i].text, name, sizeof(name), &count);

		assert_int_equal(ok, rows[i].name != NULL);
		if (!ok)
			continue;
		assert_string_equal(name, rows[i].name);
		assert_int_equal(count, rows[i].count);
	}
	assert_false(validate_require_parse("a-name-of-more-than-32-characters/x", name,
		sizeof(name), &count));
}

/* --- NVML's errors --- */

static void nvml__numbers_in_the_text_become_codes(void **state)
{
	static const struct {
		enum error_code class;
		const char *text;
		enum validate_code code;
	} rows[] = {
		{ ERR_UNAVAILABLE, "nvmlInit_v2: Driver Not Loaded (9): do this (18)",
			VALIDATE_CODE_NOT_LOADED },
		{ ERR_UNAVAILABLE, "nvmlInit_v2: Driver/library version mismatch (18): x",
			VALIDATE_CODE_MISMATCH },
		{ ERR_PERMISSION, "nvmlInit_v2: Insufficient Permissions (4)",
			VALIDATE_CODE_NO_PERMISSION },
		{ ERR_UNAVAILABLE, "nvmlDeviceGetCount_v2: Unknown Error (999)",
			VALIDATE_CODE_NVML_ERROR },
		{ ERR_UNAVAILABLE, "nvmlInit_v2: odd (text)", VALIDATE_CODE_NVML_ERROR },
		{ ERR_UNAVAILABLE, "nvmlInit_v2: odd (", VALIDATE_CODE_NVML_ERROR },
		{ ERR_TIMEOUT, "nvmlInit_v2 did not come back in time", VALIDATE_CODE_HANGS },
		{ ERR_UNAVAILABLE, "the NVML worker ended by signal 11 in nvmlInit_v2",
			VALIDATE_CODE_CRASHED },
		{ ERR_NOT_FOUND, "no libnvidia-ml.so.1 in the library search path",
			VALIDATE_CODE_LIBRARY_MISSING },
		{ ERR_UNSUPPORTED, "'x' is not a library for this machine: y",
			VALIDATE_CODE_LIBRARY_BAD },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct error err = ERROR_INIT;

		(void)error_set(&err, rows[i].class, "%s", rows[i].text);
		assert_string_equal(validate_code_name(nvml_failure_code(&err)),
			validate_code_name(rows[i].code));
	}
}

/* --- status files --- */

static void assign__is_read_back_unchanged_by_a_shell(void **state)
{
	static const char *const values[] = { "", "/", "/run/nvidia/driver", "a b", "it's",
		"$(touch x)", "`x`", "a;b", "a\nb", "\"", "\\", "~", "#", "''", "!x" };
	CLEANUP(buf_fini) struct buf script = BUF_INIT(4096);
	CLEANUP(buf_fini) struct buf want = BUF_INIT(4096);
	CLEANUP(buf_fini) struct buf got = BUF_INIT(4096);
	const char *argv[] = { "/bin/sh", "-uc", NULL, NULL };
	const struct child_options o = { .argv = argv };
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		files_assign(&script, "V", values[i]);
		buf_puts(&script, "printf '%s|' \"$V\"\n");
		buf_printf(&want, "%s|", values[i]);
	}
	argv[2] = buf_str(&script);
	assert_ok(child_run(&o, 10 * UINT64_C(1000000000), &got, &err), &err);
	assert_string_equal(buf_str(&got), buf_str(&want));
}

static bool does_file_exist(const char *name)
{
	char path[512];

	assert_ok(path_join(path, sizeof(path), dir, name, NULL), &(struct error)ERROR_INIT);
	return access(path, F_OK) == 0;
}

static void touch_test_file(const char *name)
{
	char path[512];
	struct error err = ERROR_INIT;

	assert_ok(path_join(path, sizeof(path), dir, name, &err), &err);
	assert_ok(file_write_atomic(path, "x", 1, 0644, &err), &err);
}

static void files__are_created_by_a_pass_and_removed_by_a_failure(void **state)
{
	struct error err = ERROR_INIT;
	struct validate_report r;
	char sub[512];
	CLEANUP(buf_fini) struct buf text = BUF_INIT(65536);
	json_t *json;

	(void)state;
	assert_ok(path_join(sub, sizeof(sub), dir, "a/b", &err), &err);
	assert_ok(files_begin(sub, VALIDATE_DRIVER, &err), &err); /* makes the directory */
	validate_report_init(&r, VALIDATE_DRIVER);
	files_assign(&r.ready, "IS_HOST_DRIVER", "true");
	report_set(&r, VALIDATE_CONDITION, VALIDATE_CODE_NO_SMI, "a \x01 \"text\"");
	assert_ok(files_write(sub, &r, &err), &err);
	assert_true(does_file_exist("a/b/driver-ready"));
	assert_ok(path_join(sub, sizeof(sub), dir, "a/b/driver.json", &err), &err);
	assert_ok(file_read(sub, &text, &err), &err);
	json = json_loads(buf_str(&text), 0, NULL);
	assert_non_null(json);
	assert_string_equal(json_string_value(json_object_get(json, "code")), "no-nvidia-smi");
	assert_string_equal(json_string_value(json_object_get(json, "text")), "a ? \"text\"");
	assert_int_equal(strlen(json_string_value(json_object_get(json, "bootId"))), 36);
	json_decref(json);
	assert_ok(path_join(sub, sizeof(sub), dir, "a/b", &err), &err);
	report_set(&r, VALIDATE_FAIL, VALIDATE_CODE_NOT_LOADED, "gone");
	assert_ok(files_write(sub, &r, &err), &err);
	assert_false(does_file_exist("a/b/driver-ready"));
	assert_true(does_file_exist("a/b/driver.json"));
	validate_report_fini(&r);
}

static void files__of_an_earlier_run_are_removed_before_the_next(void **state)
{
	struct error err = ERROR_INIT;

	(void)state;
	touch_test_file("cuda-ready");
	touch_test_file("cuda.json");
	touch_test_file("driver.json");
	assert_ok(files_begin(dir, VALIDATE_CUDA, &err), &err);
	assert_false(does_file_exist("cuda-ready"));
	assert_false(does_file_exist("cuda.json"));
	assert_true(does_file_exist("driver.json"));
}

static void files__of_a_pass_end_with_a_failure_that_cannot_be_written(void **state)
{
	struct error err = ERROR_INIT;
	struct validate_report r;
	char sub[512];

	(void)state;
	/* No file can take the place of a directory. */
	assert_ok(path_join(sub, sizeof(sub), dir, "driver.json", &err), &err);
	assert_int_equal(mkdir(sub, 0755), 0);
	touch_test_file("driver-ready");
	validate_report_init(&r, VALIDATE_DRIVER);
	report_set(&r, VALIDATE_FAIL, VALIDATE_CODE_NOT_LOADED, "gone");
	assert_error(files_write(dir, &r, &err), &err, "Is a directory");
	assert_false(does_file_exist("driver-ready"));
	validate_report_fini(&r);
}

static void cleanup__keeps_other_than_status_files(void **state)
{
	static const char *const gone[] = { "driver-ready", "mofed-ready", "cuda-ready",
		"driver.json", "plugin.json", ".driver-ready.a1B2c3", ".plugin.json.XyZ019" };
	static const char *const stays[] = { ".driver-ctr-ready", "workload-type", "x.json",
		"-ready", ".driver-ctr-ready.a1B2c3", ".driver-ready", ".driver-ready.a1B2c",
		".cuda.json.a1B2c3d" };
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(gone); i++)
		touch_test_file(gone[i]);
	for (size_t i = 0; i < ARRAY_LEN(stays); i++)
		touch_test_file(stays[i]);
	assert_ok(files_cleanup(dir, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(gone); i++)
		assert_false(does_file_exist(gone[i]));
	for (size_t i = 0; i < ARRAY_LEN(stays); i++)
		assert_true(does_file_exist(stays[i]));
	assert_ok(files_cleanup("/nonexistent/x", &err), &err);
}

/* --- CDI --- */

static void cdi_spec__names_devices_in_json_and_yaml(void **state)
{
	static const struct {
		const char *text, *wrong;
	} rows[] = {
		{ "{\"cdiVersion\":\"0.5.0\",\"kind\":\"nvidia.com/gpu\",\"devices\":[{\"name\":\"0\"},{\"name\":\"GPU-x\"}]}",
			NULL },
		{ "cdiVersion: \"0.5.0\"\nkind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n- {name: GPU-x, containerEdits: {}}\n",
			NULL },
		{ "", "one object" },
		{ "[]", "one object" },
		{ "{", ":1:" },
		{ "kind: nvidia.com/gpu", "no cdiVersion" },
		{ "cdiVersion: \"1\"\nkind: gpu\ndevices: []", "VENDOR/CLASS" },
		{ "cdiVersion: \"1\"\nkind: a/b", "expected a list" },
		{ "cdiVersion: \"1\"\nkind: a/b\ndevices: [x]", ":3:" },
		{ "cdiVersion: \"1\"\nkind: a/b\ndevices: [{name: \"\"}]", "no name" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct cdi_spec s = { .kind = "" };
		struct error err = ERROR_INIT;

		if (rows[i].wrong) {
			assert_error(cdi_spec_read(&s, "f", rows[i].text, strlen(rows[i].text),
					     &err),
				&err, rows[i].wrong);
			continue;
		}
		assert_ok(cdi_spec_read(&s, "f", rows[i].text, strlen(rows[i].text), &err),
			&err);
		assert_string_equal(s.kind, "nvidia.com/gpu");
		assert_int_equal(s.devices.n, 2);
		assert_string_equal(s.devices.v[0], "0");
		assert_string_equal(s.devices.v[1], "GPU-x");
		cdi_spec_fini(&s);
	}
}

/* --- the agent's answer --- */

static void offers__are_read_from_the_status_of_the_agent(void **state)
{
	static const char good[] =
		"{\"resources\":[{\"name\":\"example.com/v100.shared\",\"state\":\"registered\","
		"\"capacity\":40,\"allocatable\":30},{\"name\":\"b\\u0007\",\"capacity\":-4}]}";
	static const char *const bad[] = { "", "{}", "[]", "{\"resources\":3}" };
	static struct offers o;
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(offers_read_status(&o, good, strlen(good), &err), &err);
	assert_int_equal(o.n, 2);
	assert_string_equal(o.v[0].name, "example.com/v100.shared");
	assert_int_equal(o.v[0].devices, 40);
	assert_int_equal(o.v[0].healthy, 30);
	assert_string_equal(o.v[1].name, "b?");
	assert_int_equal(o.v[1].devices, 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_error(offers_read_status(&o, bad[i], strlen(bad[i]), &err), &err,
			"the a");
}

/* --- child processes --- */

static void child__has_its_status_and_last_output_reported(void **state)
{
	static const struct {
		const char *script, *text;
	} rows[] = {
		{ "exit 0", NULL },
		{ "echo one; echo two >&2; exit 9", "exited with status 9: two" },
		{ "kill -SEGV $$", "ended by signal 11 (Segmentation fault)" },
		{ "sleep 100 & exec sleep 100", "did not come back in time" },
		{ "exec >&- 2>&-; sleep 100", "did not end in time" },
		{ "test \"$A$B\" = 1two", NULL },
	};

	(void)state;
	assert_int_equal(setenv("A", "zero", 1), 0);
	assert_int_equal(setenv("B", "two", 1), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *argv[] = { "/bin/sh", "-c", rows[i].script, NULL };
		const char *env[] = { "A=1", NULL };
		const struct child_options o = { .argv = argv, .env = env };
		CLEANUP(buf_fini) struct buf out = BUF_INIT(64);
		struct error err = ERROR_INIT;

		if (rows[i].text)
			assert_error(child_run(&o, 300000000, &out, &err), &err, rows[i].text);
		else
			assert_ok(child_run(&o, UINT64_C(10000000000), &out, &err), &err);
	}
}

/* Gone, or dead and not yet collected. */
static bool is_dead(const char *pid)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
	return file_read(path, &b, NULL) < 0 || b.len == 0;
}

static void child__is_ended_with_its_own_children(void **state)
{
	const char *argv[] = { "/bin/sh", "-c", "sleep 100 & echo $!; exec sleep 100", NULL };
	const struct child_options o = { .argv = argv };
	CLEANUP(buf_fini) struct buf out = BUF_INIT(64);
	struct error err = ERROR_INIT;
	char pid[24];

	(void)state;
	assert_error(child_run(&o, 500000000, &out, &err), &err, "did not come back in time");
	assert_int_equal(sscanf(buf_str(&out), "%23s", pid), 1);
	for (int i = 0; i < 200 && !is_dead(pid); i++)
		(void)usleep(10000);
	assert_true(is_dead(pid));
}

static void child__that_cannot_start_reports_why(void **state)
{
	const char *argv[] = { "/nonexistent/x", NULL };
	struct child_options o = { .argv = argv };
	CLEANUP(buf_fini) struct buf out = BUF_INIT(64);
	struct error err = ERROR_INIT;

	(void)state;
	assert_error(child_run(&o, 1000000000, &out, &err), &err,
		"run '/nonexistent/x': No such file");
	assert_int_equal(err.code, ERR_NOT_FOUND);
	o.root = "/nonexistent";
	assert_error(child_run(&o, 1000000000, &out, &err), &err, "change the root to");
}

/* The child does not execute in time, as on a file system that does not answer. */
static void child__that_does_not_execute_in_time_is_ended(void **state)
{
	const char *argv[] = { "/bin/sleep", "100", NULL };
	struct child_options o = { .argv = argv, .deadline_ns = 1 };
	CLEANUP(child_fini) struct validate_child c = CHILD_INIT;
	struct error err = ERROR_INIT;

	(void)state;
	assert_error(child_start(&c, &o, &err), &err,
		"'/bin/sleep' could not be started in time");
	assert_int_equal(err.code, ERR_TIMEOUT);
	assert_int_equal(waitpid(-1, NULL, 0), -1); /* none is left */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes__have_unique_names_and_failures_have_advice),
		cmocka_unit_test(components__of_the_operator_are_refused_with_advice),
		cmocka_unit_test(require__accepts_names_with_and_without_a_count),
		cmocka_unit_test(nvml__numbers_in_the_text_become_codes),
		cmocka_unit_test(assign__is_read_back_unchanged_by_a_shell),
		cmocka_unit_test_setup_teardown(
			files__are_created_by_a_pass_and_removed_by_a_failure, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			files__of_an_earlier_run_are_removed_before_the_next, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			files__of_a_pass_end_with_a_failure_that_cannot_be_written, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(cleanup__keeps_other_than_status_files, set_up,
			tear_down),
		cmocka_unit_test(cdi_spec__names_devices_in_json_and_yaml),
		cmocka_unit_test(offers__are_read_from_the_status_of_the_agent),
		cmocka_unit_test(child__has_its_status_and_last_output_reported),
		cmocka_unit_test(child__is_ended_with_its_own_children),
		cmocka_unit_test(child__that_cannot_start_reports_why),
		cmocka_unit_test(child__that_does_not_execute_in_time_is_ended),
	};

	return cmocka_run_group_tests_name("validate", tests, NULL, NULL);
}
