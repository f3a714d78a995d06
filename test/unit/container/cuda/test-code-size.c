/* SPDX-License-Identifier: Apache-2.0 */

/* Images of code, and the hooks that load them: memory/code-size.c and memory/hidden.c. */
#include "unit/container/cuda/fake-driver.h"

#include "container/cuda/memory/code-size.h"

static const char ptx[] = ".version 7.0\n.target sm_70\n";

static void put_le(unsigned char *p, uint64_t n, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		p[i] = (unsigned char)(n >> 8 * i);
}

/* A file with one section of @bytes that are not in the file. */
static size_t make_elf(unsigned char *p, uint64_t bytes)
{
	const uint64_t head = 0x00010102464c457f; /* 0x7f "ELF", 64-bit, little-endian */
	const uint64_t at = 128, flags = 3;
	const uint16_t entry = 64, count = 2;
	const uint32_t nobits = 8;

	memset(p, 0, 256);
	put_le(p, head, 8);
	put_le(p + 40, at, 8);
	put_le(p + 58, entry, 2);
	put_le(p + 60, count, 2);
	put_le(p + at + 64 + 4, nobits, 4);
	put_le(p + at + 64 + 8, flags, 8);
	put_le(p + at + 64 + 32, bytes, 8);
	return 256;
}

static size_t make_fat(unsigned char *p, uint64_t bytes, uint64_t packed)
{
	const uint64_t head = 0x00100001ba55ed50; /* magic, version 1, 16 bytes of header */
	const uint32_t e_header = 64;
	const uint16_t kind = 2;
	uint64_t e_size = make_elf(p + 16 + 64, bytes), size = 64 + e_size;

	memset(p, 0, 16 + 64);
	put_le(p, head, 8);
	put_le(p + 8, size, 8);
	put_le(p + 16, kind, 2);
	put_le(p + 16 + 4, e_header, 4);
	put_le(p + 16 + 8, e_size, 8);
	put_le(p + 16 + 40, packed, 8);
	return 16 + size;
}

static void code_bytes__counts_variables_without_bytes(void **state)
{
	unsigned char p[512];
	struct {
		uint32_t magic, version;
		const void *data;
	} wrapper = { 0x466243b1, 1, p };
	size_t len = make_elf(p, 16 * MIB);

	(void)state;
	assert_int_equal(code_bytes(p, len), len + 16 * MIB);
	assert_int_equal(code_bytes(p, CODE_LEN_UNKNOWN), len + 16 * MIB);
	assert_int_equal(code_bytes(p, len - 1), 0);
	len = make_fat(p, 16 * MIB, 0);
	assert_int_equal(code_bytes(p, len), len + 256 + 16 * MIB);
	assert_int_equal(code_bytes(&wrapper, CODE_LEN_UNKNOWN), len + 256 + 16 * MIB);
	assert_int_equal(code_bytes(&wrapper, sizeof(wrapper)), 0);
	assert_int_equal(code_bytes(p, len - 1), 0);
	len = make_fat(p, 16 * MIB, 0x2000);
	assert_int_equal(code_bytes(p, len), len);
	assert_int_equal(code_bytes(ptx, CODE_LEN_UNKNOWN), sizeof(ptx) - 1);
	assert_int_equal(code_bytes(NULL, CODE_LEN_UNKNOWN), 0);
	assert_int_equal(code_bytes("\1\2\3\4\5\6\7\10", 8), 0);
	make_elf(p, UINT64_MAX);
	assert_true(code_bytes(p, 256) == UINT64_MAX);
}

static CUresult load_fake_module(CUmodule *module, const void *image)
{
	(void)image;
	*module = (CUmodule)0x1000;
	return CUDA_SUCCESS;
}

static CUresult fails(CUmodule *module, const void *image)
{
	(void)module, (void)image;
	return CUDA_ERROR_INVALID_IMAGE;
}

static CUresult unload_fake_module(CUmodule module)
{
	(void)module;
	return CUDA_SUCCESS;
}

static void load__holds_a_bound_until_compared(void **state)
{
	unsigned char p[512];
	CUmodule m;

	(void)state;
	fake_new(64 * MIB);
	forward_slots[SLOT_cuModuleLoadData] = (void *)load_fake_module;
	forward_slots[SLOT_cuModuleUnload] = (void *)unload_fake_module;
	make_elf(p, 60 * MIB);
	assert_int_equal(cuModuleLoadData(&m, p), 0);
	assert_true(fake.compares > 0); /* the fake arbiter finds nothing of it on the GPU */
	assert_int_equal(fake_used(), 0);
	fake.compares = 0;
	assert_int_equal(cuModuleUnload(m), 0);
	assert_int_equal(fake.compares, 1);
	make_elf(p, 100 * MIB);
	assert_int_equal(cuModuleLoadData(&m, p), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(fake_used(), 0);
	forward_slots[SLOT_cuModuleLoadData] = (void *)fails;
	assert_int_equal(cuModuleLoadData(&m, ptx), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(fake_used(), 0);
	assert_int_equal(fake_page.gpus[0].begun, fake_page.gpus[0].done);
	forward_slots[SLOT_cuModuleLoadData] = forward_slots[SLOT_cuModuleUnload] = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_bytes__counts_variables_without_bytes),
		cmocka_unit_test(load__holds_a_bound_until_compared),
	};

	return cmocka_run_group_tests_name("code-size", tests, NULL, NULL);
}
