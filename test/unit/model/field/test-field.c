/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/field/field.h"

#include <string.h>

static void table__is_sorted_by_number_and_names_are_unique(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_fields; i++) {
		const struct field *f = &fields[i];

		if (i > 0)
			assert_true(fields[i - 1].id < f->id);
		assert_int_equal(field_position(f->name), i);
		if (f->alias)
			assert_int_equal(field_position(f->alias), i);
		assert_true(f->kind <= FIELD_TEXT);
		assert_int_not_equal(f->of & FIELD_OF_GPU, 0);
		assert_int_equal(strncmp(f->name, "DCGM_FI_", 8), 0);
	}
}

static void profiling_fields__are_those_that_need_gpm(void **state)
{
	(void)state;
	for (size_t i = 0; i < n_fields; i++)
		assert_int_equal(strncmp(fields[i].name, "DCGM_FI_PROF_", 13) == 0,
			fields[i].id >= FIELD_PROFILING_FIRST &&
				fields[i].id <= FIELD_PROFILING_LAST);
}

static void find__knows_the_default_set_by_both_names(void **state)
{
	static const struct {
		uint16_t id;
		const char *name, *alias;
	} rows[] = {
		{ 1, "DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION" },
		{ 100, "DCGM_FI_DEV_SM_CLOCK", NULL },
		{ 101, "DCGM_FI_DEV_MEM_CLOCK", NULL },
		{ 140, "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS" },
		{ 150, "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS" },
		{ 155, "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS" },
		{ 156, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", NULL },
		{ 202, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "DCGM_FI_DEV_PCIE_REPLAY_TOTAL" },
		{ 203, "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO" },
		{ 204, "DCGM_FI_DEV_MEM_COPY_UTIL", NULL },
		{ 206, "DCGM_FI_DEV_ENC_UTIL", NULL },
		{ 207, "DCGM_FI_DEV_DEC_UTIL", NULL },
		{ 230, "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR" },
		{ 251, "DCGM_FI_DEV_FB_FREE", NULL },
		{ 252, "DCGM_FI_DEV_FB_USED", NULL },
		{ 253, "DCGM_FI_DEV_FB_RESERVED", NULL },
		{ 393, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
			"DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL" },
		{ 394, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
			"DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL" },
		{ 395, "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED" },
		{ 449, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
			"DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL" },
		{ 526, "DCGM_FI_DEV_VGPU_LICENSE_STATUS", NULL },
		{ 1001, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO" },
		{ 1004, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO" },
		{ 1005, "DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO" },
		{ 1009, "DCGM_FI_PROF_PCIE_TX_BYTES", NULL },
		{ 1010, "DCGM_FI_PROF_PCIE_RX_BYTES", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		int at = field_position(rows[i].name);

		assert_true(at >= 0);
		assert_int_equal(fields[at].id, rows[i].id);
		assert_string_equal(fields[at].name, rows[i].name);
		if (rows[i].alias)
			assert_int_equal(field_position(rows[i].alias), at);
	}
	assert_int_equal(fields[field_position("DCGM_FI_DEV_NVLINK_TX_DISCARD_TOTAL")].id,
		1210);
	assert_int_equal(fields[field_position("dcgm_sm_clock")].id, 100);
	assert_int_equal(fields[field_position("dcgm_nvlink_bandwidth_total")].id, 449);
	assert_int_equal(field_position("dcgm_sm_cloc"), -1);
	assert_int_equal(field_position("DCGM_FI_DEV_GPU_TEM"), -1);
	assert_int_equal(field_position(""), -1);
}

static void only_dcgm__lists_fields_that_only_dcgm_has(void **state)
{
	(void)state;
	assert_true(field_is_dcgm_only("DCGM_FI_DEV_DIAG_MEMORY_RESULT"));
	assert_true(field_is_dcgm_only("DCGM_FI_DEV_CPU_UTIL_TOTAL"));
	assert_true(field_is_dcgm_only("DCGM_FI_DEV_CONNECTX_HEALTH"));
	assert_true(field_is_dcgm_only("DCGM_FI_DEV_NVSWITCH_VOLTAGE_MVOLT"));
	assert_true(field_is_dcgm_only("DCGM_FI_DEV_CPU_UTIL_RATIO"));
	assert_true(field_is_dcgm_only("DCGM_FI_DEV_NVLINK_FEC_HISTORY_15_TOTAL"));
	assert_true(field_is_dcgm_only("DCGM_FI_UNKNOWN"));
	assert_false(field_is_dcgm_only("DCGM_FI_DEV_GPU_TEMP"));
	assert_false(field_is_dcgm_only("DCGM_FI_DEV_CPU_UTIL_TOTA"));
	assert_false(field_is_dcgm_only("DEV_CPU_UTIL_TOTAL"));
	assert_false(field_is_dcgm_only("DCGM_FI_"));
	assert_false(field_is_dcgm_only("DCGM_FI_DEV_CPU_UTIL_TOTAL DEV_CPU_UTIL_USER"));
	assert_false(field_is_dcgm_only("DCGM_FI_DEV_NO_SUCH_THING"));
	for (size_t i = 0; i < n_fields; i++) {
		assert_false(field_is_dcgm_only(fields[i].name));
		assert_false(fields[i].alias && field_is_dcgm_only(fields[i].alias));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table__is_sorted_by_number_and_names_are_unique),
		cmocka_unit_test(profiling_fields__are_those_that_need_gpm),
		cmocka_unit_test(find__knows_the_default_set_by_both_names),
		cmocka_unit_test(only_dcgm__lists_fields_that_only_dcgm_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
