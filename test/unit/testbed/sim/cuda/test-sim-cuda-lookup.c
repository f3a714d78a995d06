/* SPDX-License-Identifier: Apache-2.0 */
#include "sim-cuda-fixture.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#define NEWEST 13000

static void *lib_handle;

static int setup(void **state)
{
	(void)state;
	sim_cuda_begin("p5.48xlarge");
	lib_handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	assert_non_null(lib_handle);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)dlclose(lib_handle);
	test_rmdir(sim_cuda_dir);
	return 0;
}

/* One answer: @function NULL: none, with @status. */
static void expect_function(const char *name, int version, uint64_t flags, const char *function,
	unsigned status)
{
	void *p = (void *)1, *old = (void *)1;
	unsigned got = 99;
	CUresult r = cuGetProcAddress_v2(name, &p, version, flags, &got);

	if (r != CUDA_SUCCESS || got != status ||
		p != (function ? dlsym(lib_handle, function) : NULL))
		fail_msg("%s version %d flags %d: %u, status %u, not %s with status %u", name,
			version, (int)flags, r, got, function, status);
	r = cuGetProcAddress(name, &old, version, flags);
	if (old != (function ? p : (void *)1) ||
		r != (function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND))
		fail_msg("%s version %d flags %d: the first version says %u", name, version,
			(int)flags, r);
}

/* "3020=cuMemAlloc_v2 ..." up to the end or a bar. */
static void expect_list(const char *name, const char *list, uint64_t flags)
{
	char now[128] = "", next[128];
	int version, from = 0, used;

	/* NOLINTNEXTLINE(cert-err34-c): a file of this test */
	while (sscanf(list, " %d=%127[^ |\n]%n", &version, next, &used) == 2) {
		if (from == 0)
			expect_function(name, 1000, flags, NULL, 2);
		expect_function(name, version - 1, flags, from ? now : NULL, from ? 0 : 2);
		expect_function(name, version, flags, next, 0);
		from = version;
		memcpy(now, next, sizeof(now));
		list += used;
	}
	assert_true(from > 0);
	expect_function(name, NEWEST, flags, now, 0);
}

static void lookup__answers_like_a_real_driver(void **state)
{
	FILE *f = fopen(TEST_SOURCE "/test/unit/testbed/sim/cuda/cuda-lookups.txt", "re");
	char line[1024], name[128];
	unsigned names = 0;

	(void)state;
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		const char *rest = strchr(line, ' '), *own = strchr(line, '|');
		void *p = (void *)1;
		unsigned status = 7;

		if (line[0] == '#')
			continue;
		names++;
		assert_non_null(rest);
		(void)snprintf(name, sizeof(name), "%.*s", (int)(rest - line), line);
		for (uint64_t flags = 0; flags < 4; flags++) {
			if (rest[1] == '-')
				expect_function(name, NEWEST, flags, NULL, 1);
			else
				expect_list(name, flags >= 2 && own ? own + 1 : rest, flags);
			/* A refused call changes nothing. */
			assert_cuda_is(cuGetProcAddress_v2(name, &p, 13010, flags, &status),
				CUDA_ERROR_INVALID_VALUE);
		}
		assert_cuda_is(cuGetProcAddress_v2(name, &p, 1000, 4, &status),
			CUDA_ERROR_INVALID_VALUE);
		assert_ptr_equal(p, (void *)1);
		assert_int_equal(status, 7);
	}
	(void)fclose(f);
	assert_int_equal(names, 585);
}

static void lookup__works_before_init(void **state)
{
	int version = 0, count;

	(void)state;
	assert_cuda(cuDriverGetVersion(&version));
	assert_int_equal(version, NEWEST);
	assert_cuda_is(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
	assert_cuda_is(cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

static void lookup__refuses_export_tables(void **state)
{
	const void *table = (void *)1;
	CUuuid id = { { 1 } };

	(void)state;
	assert_int_not_equal(cuGetExportTable(&table, &id), CUDA_SUCCESS);
	assert_null(table);
}

/* What is on stderr while the table of @first is asked for; the bytes of it. */
static off_t warned_bytes(char first)
{
	/* The ID of the table without which the CUDA runtime gives up. */
	CUuuid id = { { first, (char)0xd5, (char)0xfb, 0x6c, 0x5b, (char)0xf4, (char)0xe7, 0x4a,
		(char)0x89, (char)0x87, (char)0xd9, 0x39, 0x12, (char)0xfd, (char)0x9d,
		(char)0xf9 } };
	int keep = dup(STDERR_FILENO), file = memfd_create("stderr", MFD_CLOEXEC);
	const void *table;
	off_t bytes;

	assert_true(keep >= 0 && file >= 0);
	assert_int_equal(dup2(file, STDERR_FILENO), STDERR_FILENO);
	assert_cuda_is(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(dup2(keep, STDERR_FILENO), STDERR_FILENO);
	bytes = lseek(file, 0, SEEK_END);
	(void)close(keep);
	(void)close(file);
	return bytes;
}

static void lookup__warns_once_of_the_runtime(void **state)
{
	(void)state;
	assert_int_equal(warned_bytes(0x6a), 0);
	assert_true(warned_bytes(0x6b) > 0);
	assert_int_equal(warned_bytes(0x6b), 0);
}

static void errors__have_the_names_and_texts_of_the_driver(void **state)
{
	const char *text = NULL;

	(void)state;
	assert_cuda(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
	assert_string_equal(text, "CUDA_ERROR_OUT_OF_MEMORY");
	assert_cuda(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
	assert_string_equal(text, "an illegal memory access was encountered");
	assert_cuda_is(cuGetErrorString(12345, &text), CUDA_ERROR_INVALID_VALUE);
	assert_null(text);
}

static void devices__are_those_of_the_node(void **state)
{
	CUdevice d;
	int count, v;
	char name[64], bus[32];
	size_t bytes;

	(void)state;
	assert_cuda(cuInit(0));
	assert_cuda(cuDeviceGetCount(&count));
	assert_int_equal(count, 8);
	assert_cuda(cuDeviceGet(&d, 7));
	assert_cuda_is(cuDeviceGet(&d, 8), CUDA_ERROR_INVALID_DEVICE);
	assert_cuda(cuDeviceGetName(name, sizeof(name), 0));
	assert_string_equal(name, "NVIDIA H100 80GB HBM3");
	assert_cuda(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	assert_int_equal(v, 132);
	assert_cuda_is(cuDeviceGetAttribute(&v, 148, 0), CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuDeviceTotalMem_v2(&bytes, 0));
	assert_int_equal(bytes, 85017493504);
	assert_cuda(cuDeviceGetPCIBusId(bus, sizeof(bus), 3));
	assert_cuda(cuDeviceGetByPCIBusId(&d, bus));
	assert_int_equal(d, 3);
}

static void stubs__return_not_supported(void **state)
{
	(void)state;
	assert_cuda_is(cuMulticastUnbind(0, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookup__works_before_init),
		cmocka_unit_test(lookup__answers_like_a_real_driver),
		cmocka_unit_test(lookup__refuses_export_tables),
		cmocka_unit_test(lookup__warns_once_of_the_runtime),
		cmocka_unit_test(errors__have_the_names_and_texts_of_the_driver),
		cmocka_unit_test(devices__are_those_of_the_node),
		cmocka_unit_test(stubs__return_not_supported),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
