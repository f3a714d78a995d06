/* SPDX-License-Identifier: Apache-2.0 */
#include "abi/cuda-api.h"
#include "abi/cuda-functions.h"
#include "abi/cuda-layout.h"
#include "lib/base/cleanup.h"
#include "cuda-rows.h"
#include "support/test.h"

#include <assert.h>

/* The checks are made at compile time, so that a wrong layout never runs. */
#define S(type, size) static_assert(sizeof(type) == (size), #type);
#define O(type, member, offset) \
	static_assert(offsetof(type, member) == (offset), #type "." #member);
#define C(constant, value) static_assert((constant) == (value), #constant);
CUDA_LAYOUT_SIZES(S)
CUDA_LAYOUT_OFFSETS(O)
CUDA_LAYOUT_CONSTANTS(C)
#undef S
#undef O
#undef C
static_assert(sizeof(CUDA_ARRAY_DESCRIPTOR_v1) == 16, "of 32-bit times");
static_assert(sizeof(CUDA_ARRAY3D_DESCRIPTOR_v1) == 24, "of 32-bit times");
static_assert(sizeof(CUDA_MEMCPY2D_v1) == 96, "of 32-bit times");
static_assert(sizeof(CUDA_MEMCPY3D_v1) == 144, "of 32-bit times");
static_assert(sizeof(CUdeviceptr_v1) == 4, "of 32-bit times");

/* cmocka 1.1.5 says "not ok" for a skipped test in TAP; without the header there is no test. */
#ifdef HAVE_VENDOR_CUDA
#	define S(type, size)           { #        type, sizeof(type) },
#	define O(type, member, offset) { #        type "." #        member, offsetof(type, member) },
#	define C(constant, value)      { #        constant, (unsigned long long)(constant) },
static const struct cuda_row ours[] = { CUDA_LAYOUT_SIZES(S) CUDA_LAYOUT_OFFSETS(O)
		CUDA_LAYOUT_CONSTANTS(C) };

static void cuda_api__agrees_with_the_vendors_header(void **state)
{
	(void)state;
	assert_int_equal(cuda_vendor_count, ARRAY_LEN(ours));
	for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
		assert_string_equal(ours[i].name, cuda_vendor[i].name);
		if (ours[i].value != cuda_vendor[i].value)
			fail_msg("%s: ours %llu, the vendor's %llu", ours[i].name,
				ours[i].value, cuda_vendor[i].value);
	}
}
#endif

static void cuda_functions__are_sorted_and_exported(void **state)
{
	static const char *const names[] = {
#define NAME(name, params) #name,
		CUDA_FUNCTIONS(NAME)
#undef NAME
	};
	FILE *f = fopen(TEST_SOURCE "/src/container/loader/cuda.txt", "re");
	char line[256];
	size_t at = 0;

	(void)state;
	assert_non_null(f);
	/* Each is in the list of exports, which is sorted as well. */
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, " \n")] = '\0';
		if (at < ARRAY_LEN(names) && !strcmp(line, names[at]))
			at++;
	}
	(void)fclose(f);
	if (at < ARRAY_LEN(names))
		fail_msg("%s is no export, or not in order", names[at]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef HAVE_VENDOR_CUDA
		cmocka_unit_test(cuda_api__agrees_with_the_vendors_header),
#endif
		cmocka_unit_test(cuda_functions__are_sorted_and_exported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
