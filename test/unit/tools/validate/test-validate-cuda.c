/* SPDX-License-Identifier: Apache-2.0 */

/* The CUDA check against a libcuda in software. This program is also the process that calls it,
 * as gpuslice is for itself. */
#include "support/test.h"

#include <limits.h>

#include "lib/base/fd.h"
#include "tools/validate/cuda/internal.h"
#include "tools/validate/internal.h"
#include "tools/validate/validate.h"

#define A   "GPU-aaaaaaaa-0000-1111-2222-333333333333"
#define B   "GPU-bbbbbbbb-0000-1111-2222-333333333333"
#define SEC UINT64_C(1000000000)

static const char *fake_cuda(void)
{
	static char path[PATH_MAX];

	return test_built(path, "../support/libfake-cuda.so");
}

static void behave(const char *words)
{
	assert_int_equal(setenv("FAKE_CUDA", words, 1), 0);
}

static struct cuda_run run_on(const char *uuids, uint64_t timeout_ns)
{
	struct cuda_run r;
	struct error err = ERROR_INIT;

	assert_ok(cuda_run(&r, fake_cuda(), uuids, timeout_ns, &err), &err);
	return r;
}

static void run__adds_vectors_on_each_device_of_the_list(void **state)
{
	struct cuda_run r;

	(void)state;
	behave("");
	r = run_on(B "," A, 10 * SEC);
	assert_int_equal(r.end, CUDA_END_REPORTED);
	assert_int_equal(r.last.value, CUDA_SUCCESS);
	assert_int_equal(r.count, 2);
	assert_int_equal(r.n_results, 2);
	assert_string_equal(r.results[0].uuid, B);
	assert_string_equal(r.results[1].uuid, A);
	assert_string_equal(r.results[1].bus_id, "0000:02:00.0");
	assert_int_equal(r.results[1].value, CUDA_SUCCESS);
	assert_true(r.results[1].took_ns > 0);
	cuda_run_fini(&r);
}

static void run__detects_each_failing_call(void **state)
{
	static const enum cuda_step steps[] = { CUDA_STEP_cuDeviceGet,
		CUDA_STEP_cuDeviceGetName, CUDA_STEP_cuDeviceGetUuid_v2,
		CUDA_STEP_cuDeviceGetPCIBusId, CUDA_STEP_cuDevicePrimaryCtxRetain,
		CUDA_STEP_cuCtxSetCurrent, CUDA_STEP_cuMemAlloc_v2, CUDA_STEP_cuMemcpyHtoD_v2,
		CUDA_STEP_cuModuleLoadData, CUDA_STEP_cuModuleGetFunction,
		CUDA_STEP_cuLaunchKernel, CUDA_STEP_cuCtxSynchronize,
		CUDA_STEP_cuMemcpyDtoH_v2 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		char words[128];
		struct cuda_run r;

		(void)snprintf(words, sizeof(words), "fail=%s:719:%s", cuda_step_name(steps[i]),
			A);
		behave(words);
		r = run_on(A "," B, 10 * SEC);
		assert_int_equal(r.n_results, 2);
		assert_int_equal(r.results[0].value, 719);
		assert_string_equal(cuda_step_name(r.results[0].step),
			cuda_step_name(steps[i]));
		assert_int_equal(r.results[1].value, CUDA_SUCCESS);
		cuda_run_fini(&r);
	}
}

static void run__reports_where_all_devices_fail(void **state)
{
	static const struct {
		const char *words;
		int value;
		const char *text;
	} rows[] = {
		{ "fail=cuInit:100", 100, "CUDA_ERROR_NO_DEVICE" },
		{ "fail=cuInit:803", 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" },
		{ "fail=cuInit:35", 35, "" },
		{ "fail=cuDeviceGetCount:999", 999, "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct cuda_run r;

		behave(rows[i].words);
		r = run_on(A, 10 * SEC);
		assert_int_equal(r.end, CUDA_END_REPORTED);
		assert_int_equal(r.count, -1);
		assert_int_equal(r.last.value, rows[i].value);
		assert_int_equal(strncmp(r.last.text, rows[i].text, strlen(rows[i].text)), 0);
		cuda_run_fini(&r);
	}
}

static void run__ends_a_hanging_call_and_reports_a_crash(void **state)
{
	struct cuda_run r;

	(void)state;
	behave("hang=cuCtxSynchronize:" B);
	r = run_on(A "," B, 3 * SEC); /* other processes may starve it */
	assert_int_equal(r.end, CUDA_END_HUNG);
	assert_int_equal(r.last.step, CUDA_STEP_cuCtxSynchronize);
	assert_int_equal(r.last.device, 1);
	assert_int_equal(r.n_results, 1);
	cuda_run_fini(&r);
	behave("crash=cuInit");
	r = run_on(A, 10 * SEC);
	assert_int_equal(r.end, CUDA_END_CRASHED);
	assert_int_equal(r.last.step, CUDA_STEP_cuInit);
	assert_true(r.how[0] != '\0');
	cuda_run_fini(&r);
}

static void run__reports_a_missing_or_invalid_library(void **state)
{
	struct error err = ERROR_INIT;
	struct cuda_run r;

	(void)state;
	behave("");
	assert_ok(cuda_run(&r, "/nonexistent/libcuda.so.1", NULL, 10 * SEC, &err), &err);
	assert_int_equal(r.last.value, CUDA_NOTE_NO_LIBRARY);
	assert_non_null(strstr(r.last.text, "/nonexistent"));
	cuda_run_fini(&r);
	assert_ok(cuda_run(&r, "libc.so.6", NULL, 10 * SEC, &err), &err);
	assert_int_equal(r.last.value, CUDA_NOTE_BAD_LIBRARY);
	assert_string_equal(r.last.text, "it has no cuInit");
	cuda_run_fini(&r);
}

static void run__finds_a_wrong_sum_and_a_kernel_that_did_not_run(void **state)
{
	struct cuda_run r;

	(void)state;
	behave("wrong=" A " lazy=" B);
	r = run_on(A "," B, 10 * SEC);
	assert_int_equal(r.n_results, 2);
	assert_int_equal(r.results[0].value, CUDA_NOTE_WRONG_SUM);
	assert_non_null(strstr(r.results[0].text, "1 of 50000"));
	assert_int_equal(r.results[1].value, CUDA_NOTE_WRONG_SUM);
	assert_non_null(strstr(r.results[1].text, "50000 of 50000"));
	assert_non_null(strstr(r.results[1].text, "or its driver computes no kernels"));
	cuda_run_fini(&r);
}

/* --- MIG --- */

struct mig_case {
	bool mig[2]; /* of A and B */
	const char *words;
	bool instances; /* the driver has some on B */
	enum validate_result result, rows[2];
	enum validate_code code;
};

/* A report on two GPUs, as if NVML had listed them. */
static void check_two(const struct mig_case *row, const char *proc, struct validate_report *r)
{
	const struct validate_settings s = { .cuda_path = fake_cuda(),
		.proc_dir = proc,
		.timeout_ns = 10 * SEC };
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	struct error err = ERROR_INIT;
	static const char *const uuids[] = { A, B };

	assert_ok(inventory_new(&inv, 2, &err), &err);
	validate_report_init(r, VALIDATE_CUDA);
	for (uint32_t i = 0; i < 2; i++) {
		inv->gpus[i].index = inv->gpus[i].minor = i;
		inv->gpus[i].mig_enabled = row->mig[i];
		(void)snprintf(inv->gpus[i].uuid, sizeof(inv->gpus[i].uuid), "%s", uuids[i]);
		assert_non_null(report_item(r, uuids[i]));
	}
	behave(row->words);
	validate_cuda_gpus(&s, inv, r);
}

static void cuda__passes_gpus_in_mig_mode_without_instances(void **state)
{
	static const struct mig_case rows[] = {
		{ { false, false }, "", false, VALIDATE_PASS, { VALIDATE_PASS, VALIDATE_PASS },
			VALIDATE_CODE_OK },
		{ { false, true }, "hide=" B, false, VALIDATE_CONDITION,
			{ VALIDATE_PASS, VALIDATE_CONDITION }, VALIDATE_CODE_NO_COMPUTE },
		{ { true, true }, "hide=" A " hide=" B, false, VALIDATE_CONDITION,
			{ VALIDATE_CONDITION, VALIDATE_CONDITION }, VALIDATE_CODE_NO_COMPUTE },
		/* An instance is there, and CUDA does not see it. */
		{ { false, true }, "hide=" B, true, VALIDATE_FAIL,
			{ VALIDATE_PASS, VALIDATE_FAIL }, VALIDATE_CODE_CUDA_HIDDEN },
		/* An instance is there, and works. */
		{ { false, true }, "", true, VALIDATE_PASS, { VALIDATE_PASS, VALIDATE_PASS },
			VALIDATE_CODE_OK },
		/* MIG is no excuse for anything else. */
		{ { false, true }, "fail=cuLaunchKernel:719:" B, false, VALIDATE_FAIL,
			{ VALIDATE_PASS, VALIDATE_FAIL }, VALIDATE_CODE_CUDA_ERROR },
		{ { true, false }, "hide=*", false, VALIDATE_FAIL,
			{ VALIDATE_CONDITION, VALIDATE_FAIL }, VALIDATE_CODE_CUDA_HIDDEN },
	};
	char *proc = test_tmpdir();
	char ci[512];
	struct error err = ERROR_INIT;

	(void)state;
	(void)snprintf(ci, sizeof(ci), "%s/driver/nvidia/capabilities/gpu1/mig/gi7/ci0", proc);
	assert_ok(dir_make(ci, 0755, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct validate_report r;

		check_two(&rows[i], rows[i].instances ? proc : "/nonexistent", &r);
		assert_string_equal(validate_code_name(r.code),
			validate_code_name(rows[i].code));
		assert_int_equal(r.result, rows[i].result);
		assert_int_equal(r.items[0].result, rows[i].rows[0]);
		assert_int_equal(r.items[1].result, rows[i].rows[1]);
		validate_report_fini(&r);
	}
	test_rmdir(proc);
}

#define MIG_A "MIG-a74f29e3-da03-5596-b70d-8abe3f9bc866"
#define MIG_B "MIG-d0662b2b-c694-55c9-b385-3506db6c3324"

/* Two GPUs, the second one in MIG mode with two MIG devices, as if NVML had listed them. */
static void check_mig_devices(const char *words, const char *first_uuid,
	struct validate_report *r)
{
	const struct validate_settings s = { .cuda_path = fake_cuda(),
		.proc_dir = "/nonexistent",
		.timeout_ns = 10 * SEC };
	struct gpu_mig mig[] = { { .index = 0, .profile = "1g.5gb" },
		{ .index = 3, .profile = "1g.5gb", .uuid = MIG_B } };
	CLEANUP(inventory_freep) struct inventory *inv = NULL;
	struct error err = ERROR_INIT;
	static const char *const uuids[] = { A, B };

	(void)snprintf(mig[0].uuid, sizeof(mig[0].uuid), "%s", first_uuid);
	(void)snprintf(mig[0].reason, sizeof(mig[0].reason), "unreadable");
	assert_ok(inventory_new(&inv, 2, &err), &err);
	validate_report_init(r, VALIDATE_CUDA);
	for (uint32_t i = 0; i < 2; i++) {
		inv->gpus[i].index = inv->gpus[i].minor = i;
		(void)snprintf(inv->gpus[i].uuid, sizeof(inv->gpus[i].uuid), "%s", uuids[i]);
		assert_non_null(report_item(r, uuids[i]));
	}
	inv->gpus[1].mig_enabled = true;
	assert_ok(inventory_add_mig(inv, 1, mig, ARRAY_LEN(mig), &err), &err);
	behave(words);
	validate_cuda_gpus(&s, inv, r);
}

static void cuda__tries_each_mig_device(void **state)
{
	struct validate_report r;

	(void)state;
	/* A CUDA process has only one of them: devices after the first in a list are missing. */
	check_mig_devices("", MIG_A, &r);
	assert_int_equal(r.result, VALIDATE_PASS);
	assert_string_equal(r.text,
		"3 devices added vectors right (CUDA driver API only: the CUDA runtime was not tried)");
	assert_int_equal(r.n_items, 4);
	assert_int_equal(r.items[1].result, VALIDATE_SKIP);
	assert_string_equal(r.items[1].text, "in MIG mode: 2 MIG devices");
	assert_string_equal(r.items[2].name, MIG_A);
	assert_int_equal(r.items[2].result, VALIDATE_PASS);
	assert_string_equal(r.items[3].name, MIG_B);
	assert_int_equal(r.items[3].result, VALIDATE_PASS);
	validate_report_fini(&r);

	check_mig_devices("wrong=" MIG_B, MIG_A, &r);
	assert_int_equal(r.result, VALIDATE_FAIL);
	assert_int_equal(r.code, VALIDATE_CODE_CUDA_WRONG);
	assert_int_equal(r.items[2].result, VALIDATE_PASS);
	assert_int_equal(r.items[3].result, VALIDATE_FAIL);
	assert_non_null(strstr(r.text, MIG_B));
	validate_report_fini(&r);

	/* NVML lists it, so it is not a GPU without instances. */
	check_mig_devices("hide=" MIG_A, MIG_A, &r);
	assert_int_equal(r.code, VALIDATE_CODE_CUDA_HIDDEN);
	assert_int_equal(r.items[2].result, VALIDATE_FAIL);
	validate_report_fini(&r);

	check_mig_devices("", "", &r); /* there is no name to try it by */
	assert_int_equal(r.result, VALIDATE_FAIL);
	assert_string_equal(r.items[2].name, "MIG device 1:0");
	assert_string_equal(r.items[2].text, "unreadable");
	assert_int_equal(r.items[3].result, VALIDATE_PASS);
	validate_report_fini(&r);
}

static struct cuda_note make_result_note(void)
{
	return (struct cuda_note){ .magic = CUDA_NOTE_MAGIC,
		.size = sizeof(struct cuda_note),
		.type = CUDA_NOTE_RESULT };
}

static void note__from_a_malfunctioning_process_is_refused(void **state)
{
	struct error err = ERROR_INIT;
	struct cuda_note n = make_result_note();

	(void)state;
	assert_ok(cuda_note_check(&n, sizeof(n), &err), &err);
	assert_error(cuda_note_check(&n, sizeof(n) - 1, &err), &err, "unknown bytes");
	n.magic++;
	assert_error(cuda_note_check(&n, sizeof(n), &err), &err, "unknown bytes");
#define REFUSED(field, value)                                                             \
	do {                                                                              \
		n = make_result_note();                                                   \
		n.field = (value);                                                        \
		assert_error(cuda_note_check(&n, sizeof(n), &err), &err, "out of range"); \
	} while (0)
	REFUSED(type, 0);
	REFUSED(type, CUDA_NOTE_TYPE_COUNT_);
	REFUSED(step, CUDA_STEP_COUNT_);
	REFUSED(device, CUDA_DEVICES_MAX);
	REFUSED(value, -4);
#undef REFUSED
	n = make_result_note();
	n.type = CUDA_NOTE_COUNT;
	n.value = CUDA_DEVICES_MAX + 1;
	assert_error(cuda_note_check(&n, sizeof(n), &err), &err, "out of range");
	n = make_result_note();
	memset(n.name, 'x', sizeof(n.name));
	assert_error(cuda_note_check(&n, sizeof(n), &err), &err, "does not end");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(run__adds_vectors_on_each_device_of_the_list),
		cmocka_unit_test(run__detects_each_failing_call),
		cmocka_unit_test(run__reports_where_all_devices_fail),
		cmocka_unit_test(run__ends_a_hanging_call_and_reports_a_crash),
		cmocka_unit_test(run__reports_a_missing_or_invalid_library),
		cmocka_unit_test(run__finds_a_wrong_sum_and_a_kernel_that_did_not_run),
		cmocka_unit_test(cuda__passes_gpus_in_mig_mode_without_instances),
		cmocka_unit_test(cuda__tries_each_mig_device),
		cmocka_unit_test(note__from_a_malfunctioning_process_is_refused),
	};

	if (argc > 3 && strcmp(argv[2], CUDA_CHILD_WORD) == 0)
		return cuda_child(argv[3]);
	return cmocka_run_group_tests_name("validate-cuda", tests, NULL, NULL);
}
