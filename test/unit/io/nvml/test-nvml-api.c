/* SPDX-License-Identifier: Apache-2.0 */
#include "abi/nvml-api.h"
#include "support/test.h"
#include "nvml-layout.h"

#include <assert.h>

/* The checks are made at compile time, so that a wrong layout never runs. */
#define S(type, size) static_assert(sizeof(type) == (size), #type);
#define O(type, member, offset) \
	static_assert(offsetof(type, member) == (offset), #type "." #member);
#define C(ours, vendor, number) static_assert((unsigned long long)(ours) == (number), #ours);
LAYOUT_SIZES(S)
LAYOUT_OFFSETS(O)
LAYOUT_CONSTANTS(C)
#undef S
#undef O
#undef C

/* cmocka 1.1.5 says "not ok" for a skipped test in TAP; without the header there is no test. */
#ifdef HAVE_VENDOR_NVML
#	define S(type, size)           { #        type, sizeof(type) },
#	define O(type, member, offset) { #        type "." #        member, offsetof(type, member) },
#	define C(ours, vendor, number) { #        ours, (unsigned long long)(ours) },
static const struct layout_row ours[] = { LAYOUT_SIZES(S) LAYOUT_OFFSETS(O)
		LAYOUT_CONSTANTS(C) };

static void nvml_api__agrees_with_the_vendors_header(void **state)
{
	(void)state;
	assert_int_equal(layout_vendor_count, ARRAY_LEN(ours));
	for (size_t i = 0; i < ARRAY_LEN(ours); i++) {
		assert_string_equal(ours[i].name, layout_vendor[i].name);
		if (ours[i].value != layout_vendor[i].value)
			fail_msg("%s: ours %llu, the vendor's %llu", ours[i].name,
				ours[i].value, layout_vendor[i].value);
	}
}
#endif

static void nvml_api__version_words_are_the_documented_ones(void **state)
{
	static const struct {
		const char *name;
		unsigned int got, want;
	} rows[] = {
		{ "memory v2", NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2), 0x02000028 },
		{ "gi profile v2", NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2),
			0x02000098 },
		{ "gi profile v3", NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v3_t, 3),
			0x03000098 },
		{ "ci profile v2", NVML_STRUCT_VERSION(nvmlComputeInstanceProfileInfo_v2_t, 2),
			0x02000088 },
		{ "ci profile v3", NVML_STRUCT_VERSION(nvmlComputeInstanceProfileInfo_v3_t, 3),
			0x0300008C },
		{ "pci info ext", NVML_STRUCT_VERSION(nvmlPciInfoExt_v1_t, 1), 0x01000040 },
		{ "process list", NVML_STRUCT_VERSION(nvmlProcessDetailList_v1_t, 1),
			0x01000018 },
		{ "fabric v2", NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v2_t, 2), 0x02000024 },
		{ "fabric v3", NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v3_t, 3), 0x03000028 },
		{ "temperature", NVML_STRUCT_VERSION(nvmlTemperature_v1_t, 1), 0x0100000C },
		{ "margin", NVML_STRUCT_VERSION(nvmlMarginTemperature_v1_t, 1), 0x01000008 },
		{ "platform", NVML_STRUCT_VERSION(nvmlPlatformInfo_v2_t, 2), 0x0200002C },
		{ "addressing", NVML_STRUCT_VERSION(nvmlDeviceAddressingMode_v1_t, 1),
			0x01000008 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].got != rows[i].want)
			fail_msg("%s: %08x, expected %08x", rows[i].name, rows[i].got,
				rows[i].want);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(nvml_api__version_words_are_the_documented_ones),
#ifdef HAVE_VENDOR_NVML
		cmocka_unit_test(nvml_api__agrees_with_the_vendors_header),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
