/* SPDX-License-Identifier: Apache-2.0 */

/* Arrays against a limit: memory/array-size.c and memory/array.c. */
#include "unit/container/cuda/fake-driver.h"

#include "container/cuda/memory/memory.h"
#include "container/charges/alloc-table.h"
#include "container/charges/charges.h"

#include <sys/wait.h>
#include <unistd.h>

#define FLOAT 0x20

/* What arrays of an H100 (driver 580.159.04) took of the GPU's memory. */
static const struct {
	CUDA_ARRAY3D_DESCRIPTOR d;
	unsigned int levels, count;
	uint64_t mib; /* all together */
} measured[] = {
	{ { 1024, 1024, 0, FLOAT, 1, 0 }, 1, 1, 4 },
	{ { 1000, 1000, 0, FLOAT, 1, 0 }, 1, 10, 40 },
	{ { 4096, 4096, 0, FLOAT, 1, 0 }, 1, 1, 64 },
	{ { 4097, 4097, 0, FLOAT, 1, 0 }, 1, 1, 68 },
	{ { 16385, 16385, 0, 1, 1, 0 }, 1, 1, 260 },
	{ { 4100, 33, 0, FLOAT, 4, 0 }, 1, 10, 60 },
	{ { 16000, 20, 0, FLOAT, 4, 0 }, 1, 10, 80 },
	{ { 100, 100, 100, FLOAT, 1, 0 }, 1, 10, 60 },
	{ { 129, 129, 129, FLOAT, 4, 0 }, 1, 4, 160 },
	{ { 256, 256, 256, FLOAT, 1, 0 }, 1, 1, 64 },
	{ { 300, 300, 33, FLOAT, 4, 0 }, 1, 4, 272 },
	{ { 1000, 1000, 7, FLOAT, 1, 1 }, 1, 4, 112 },
	{ { 777, 777, 50, FLOAT, 2, 1 }, 1, 2, 536 },
	{ { 1000, 1000, 6, FLOAT, 1, 4 }, 1, 4, 96 },
	{ { 130000, 0, 0, FLOAT, 4, 0 }, 1, 10, 160 },
	{ { 30000, 0, 100, FLOAT, 1, 1 }, 1, 1, 92 },
	{ { 1024, 1024, 0, FLOAT, 1, 0 }, 11, 4, 24 },
	{ { 1000, 1000, 0, FLOAT, 4, 0 }, 10, 4, 88 },
	{ { 100, 100, 100, FLOAT, 4, 0 }, 7, 4, 88 },
	{ { 1000, 1000, 6, FLOAT, 1, 1 }, 10, 2, 64 },
	{ { 1000, 1000, 0, FLOAT, 4, 0x40 }, 1, 4, 0 },
	{ { 1000, 1000, 0, FLOAT, 4, 0x80 }, 1, 4, 0 },
	{ { 1000, 1000, 0, FLOAT, 4, 2 }, 1, 4, 64 },
	{ { 4096, 4096, 0, 0x9d, 4, 0 }, 1, 1, 16 },
	/* The arrays of these rows share chunks. */
	{ { 64, 64, 0, FLOAT, 1, 0 }, 1, 1, 2 },
	{ { 64, 64, 0, FLOAT, 1, 0 }, 1, 100, 2 },
	{ { 64, 64, 0, FLOAT, 1, 0 }, 1, 1000, 16 },
	{ { 512, 512, 0, FLOAT, 1, 0 }, 1, 1, 2 },
	{ { 512, 512, 0, FLOAT, 1, 0 }, 1, 16, 16 },
	{ { 500, 500, 0, FLOAT, 1, 0 }, 1, 16, 16 },
};

static CUarray arrays[1000];

static CUresult create_array(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	return levels > 1 ? cuMipmappedArrayCreate((CUmipmappedArray *)a, d, levels)
			  : cuArray3DCreate_v2(a, d);
}

static CUresult destroy(CUarray a, unsigned int levels)
{
	return levels > 1 ? cuMipmappedArrayDestroy((CUmipmappedArray)a) : cuArrayDestroy(a);
}

static void create__charges_the_measured_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(measured) / sizeof(*measured); i++) {
		fake_new(1024 * MIB);
		assert_true(array_texels(&measured[i].d, measured[i].levels) <=
			    array_bytes(&measured[i].d, measured[i].levels));
		for (unsigned int k = 0; k < measured[i].count; k++)
			assert_int_equal(
				create_array(&arrays[k], &measured[i].d, measured[i].levels),
				0);
		if (fake_used() != measured[i].mib * MIB)
			fail_msg("row %zu: %llu MiB charged, %llu taken", i,
				(unsigned long long)(fake_used() / MIB),
				(unsigned long long)measured[i].mib);
		for (unsigned int k = 0; k < measured[i].count; k++)
			assert_int_equal(destroy(arrays[k], measured[i].levels), 0);
		assert_int_equal(fake_used(), 0);
		assert_int_equal(fake_page.gpus[0].seen, 0);
	}
}

static void create__is_refused_at_the_limit(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 4096, 4096, 0, FLOAT, 1, 0 };
	CUarray a, b;

	(void)state;
	fake_new(100 * MIB);
	assert_int_equal(cuArray3DCreate_v2(&a, &d), 0);
	assert_int_equal(cuArray3DCreate_v2(&b, &d), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(fake_used(), 64 * MIB);
	assert_int_equal(cuArrayDestroy(a), 0);
	assert_int_equal(cuArray3DCreate_v2(&b, &d), 0);
	assert_int_equal(cuArrayDestroy(b), 0);
	assert_int_equal(fake_used(), 0);
	/* The library has not charged these handles: the hook returns the driver's result. */
	assert_int_equal(cuArrayDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(cuArrayDestroy((CUarray)0x123450), 0);
	assert_int_equal(fake_used(), 0);
}

static void small_arrays__free_a_chunk_with_its_last_array(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 512, 512, 0, FLOAT, 1, 0 };

	(void)state;
	fake_new(100 * MIB);
	for (int i = 0; i < 4; i++)
		assert_int_equal(cuArray3DCreate_v2(&arrays[i], &d), 0);
	assert_int_equal(fake_used(), 4 * MIB);
	assert_int_equal(fake_page.gpus[0].packed, 4 * MIB);
	assert_int_equal(fake_page.gpus[0].packed_in, 4 * MIB);
	assert_int_equal(cuArrayDestroy(arrays[0]), 0);
	assert_int_equal(cuArrayDestroy(arrays[2]), 0);
	assert_int_equal(fake_used(), 4 * MIB);
	/* Two arrays are left, which the driver may have in one chunk. */
	assert_int_equal(fake_page.gpus[0].packed, 2 * MIB);
	assert_int_equal(fake_page.gpus[0].packed_in, 4 * MIB);
	assert_int_equal(cuArrayDestroy(arrays[1]), 0);
	assert_int_equal(fake_used(), 2 * MIB);
	assert_int_equal(cuArrayDestroy(arrays[3]), 0);
	assert_int_equal(fake_used(), 0);
	assert_int_equal(fake_page.gpus[0].packed, 0);
	assert_int_equal(fake_page.gpus[0].packed_in, 0);
}

static void array_bytes__returns_a_number_for_an_invalid_description(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { SIZE_MAX, SIZE_MAX, SIZE_MAX, 0xffff, UINT32_MAX, 0 };

	(void)state;
	assert_true(array_bytes(&d, UINT32_MAX) == UINT64_MAX);
	assert_true(round_up_to_granule(array_bytes(&d, 1)) == UINT64_MAX);
	/* NV12: a plane of a byte, and half of that; unknown formats are taken for the largest. */
	d = (CUDA_ARRAY3D_DESCRIPTOR){ 1024, 1024, 0, 0xb0, 3, 0 };
	assert_true(array_bytes(&d, 1) >= 3 * MIB / 2);
	assert_int_equal(array_texels(&d, 1), MIB);
	d.Format = 0x77;
	assert_true(array_bytes(&d, 1) >= 36 * MIB);
	assert_int_equal(array_texels(&d, 1), 0);
}

/* A child counts arrays of its own, whatever lock its parent held. */
static void chunks__are_gone_in_a_child(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 64, 64, 0, FLOAT, 1, 0 };
	int status = -1;
	pid_t pid;

	(void)state;
	fake_new(1024 * MIB);
	assert_int_equal(create_array(&arrays[0], &d, 1), 0);
	assert_int_equal(destroy(arrays[0], 1), 0);
	assert_int_equal(create_array(&arrays[0], &d, 1), 0); /* a second chunk */
	pid = fork();
	if (!pid)
		_exit(create_array(&arrays[1], &d, 1) != 0 ||
			alloc_table_count(ALLOC_ARRAY_CHUNK, 1, 1, NULL) < 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(destroy(arrays[0], 1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create__charges_the_measured_bytes),
		cmocka_unit_test(create__is_refused_at_the_limit),
		cmocka_unit_test(small_arrays__free_a_chunk_with_its_last_array),
		cmocka_unit_test(array_bytes__returns_a_number_for_an_invalid_description),
		cmocka_unit_test(chunks__are_gone_in_a_child),
	};

	return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}
