/* SPDX-License-Identifier: Apache-2.0 */

/* The catalogue against the figures that are known of real GPUs and of AWS's instance types. */
#include "sim-fixture.h"

#include "abi/nvml-api.h"
#include "testbed/sim/catalogue/catalogue.h"

#define MIB (UINT64_C(1) << 20)

static void products__have_the_known_figures(void **state)
{
	static const struct {
		const char *product, *name;
		uint32_t pci_id, cc_major, cc_minor, sm_count;
		uint64_t total_mib, reserved_mib, bar1_mib; /* 0: not known */
		uint32_t power_w, sm_mhz, mem_mhz;
	} rows[] = {
		{ "V100-SXM2-16GB", "Tesla V100-SXM2-16GB", 0x1DB1, 7, 0, 80, 16384, 0, 16384,
			300, 1530, 877 },
		{ "V100-SXM2-32GB", "Tesla V100-SXM2-32GB", 0x1DB5, 7, 0, 80, 32768, 0, 32768,
			300, 1530, 877 },
		{ "T4", "Tesla T4", 0x1EB8, 7, 5, 40, 15360, 448, 256, 70, 1590, 5001 },
		{ "A10G", "NVIDIA A10G", 0x2237, 8, 6, 80, 23028, 0, 32768, 300, 1710, 6251 },
		{ "L4", "NVIDIA L4", 0x27B8, 8, 9, 58, 23034, 0, 32768, 72, 2040, 6251 },
		{ "L40S", "NVIDIA L40S", 0x26B9, 8, 9, 142, 46068, 609, 65536, 350, 2520,
			9001 },
		{ "A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB", 0x20B0, 8, 0, 108, 40960, 518,
			65536, 400, 1410, 1215 },
		{ "A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", 0x20B2, 8, 0, 108, 81920, 0,
			131072, 400, 1410, 1593 },
		{ "A30", "NVIDIA A30", 0x20B7, 8, 0, 56, 24576, 0, 32768, 165, 1440, 1215 },
		{ "H100-SXM5-80GB", "NVIDIA H100 80GB HBM3", 0x2330, 9, 0, 132, 81559, 480,
			131072, 700, 1980, 2619 },
		{ "H200-SXM5-141GB", "NVIDIA H200", 0x2335, 9, 0, 132, 143771, 616, 262144, 700,
			1980, 3201 },
		{ "B200-180GB", "NVIDIA B200", 0x2901, 10, 0, 148, 183359, 728, 262144, 1000,
			1965, 3996 },
		{ "GB200-186GB", "NVIDIA GB200", 0x2941, 10, 0, 152, 189471, 742, 0, 1200, 0,
			0 },
		{ "RTX-PRO-6000-BSE", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 0x2BB5,
			12, 0, 188, 97887, 0, 131072, 600, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct sim_product *p = sim_product_find(rows[i].product);
		const struct sim_keys *k;

		if (!p)
			fail_msg("%s is missing", rows[i].product);
		k = &p->keys;
		assert_string_equal(k->name, rows[i].name);
		assert_int_equal(k->pci_device_id, rows[i].pci_id);
		assert_int_equal(k->cc_major, rows[i].cc_major);
		assert_int_equal(k->cc_minor, rows[i].cc_minor);
		assert_int_equal(k->sm_count, rows[i].sm_count);
		assert_int_equal(k->memory_total / MIB, rows[i].total_mib);
		assert_int_equal(k->power_limit_mw, rows[i].power_w * 1000);
		if (rows[i].reserved_mib)
			assert_int_equal(k->memory_reserved, rows[i].reserved_mib * MIB);
		if (rows[i].bar1_mib)
			assert_int_equal(k->bar1_total, rows[i].bar1_mib * MIB);
		if (rows[i].sm_mhz) {
			assert_int_equal(k->clock_sm_max_mhz, rows[i].sm_mhz);
			assert_int_equal(k->clock_mem_max_mhz, rows[i].mem_mhz);
		}
	}
}

static void models__have_the_gpus_of_the_instance_types(void **state)
{
	static const struct {
		const char *models; /* separated by blanks */
		uint32_t count;
		const char *product;
	} rows[] = {
		{ "p3.2xlarge", 1, "V100-SXM2-16GB" },
		{ "p3.8xlarge", 4, "V100-SXM2-16GB" },
		{ "p3.16xlarge", 8, "V100-SXM2-16GB" },
		{ "p3dn.24xlarge", 8, "V100-SXM2-32GB" },
		{ "g4dn.xlarge g4dn.2xlarge g4dn.4xlarge g4dn.8xlarge g4dn.16xlarge", 1, "T4" },
		{ "g4dn.12xlarge", 4, "T4" },
		{ "g4dn.metal", 8, "T4" },
		{ "g5.xlarge g5.2xlarge g5.4xlarge g5.8xlarge g5.16xlarge", 1, "A10G" },
		{ "g5.12xlarge g5.24xlarge", 4, "A10G" },
		{ "g5.48xlarge", 8, "A10G" },
		{ "g5g.xlarge g5g.2xlarge g5g.4xlarge g5g.8xlarge", 1, "T4G" },
		{ "g5g.16xlarge g5g.metal", 2, "T4G" },
		{ "g6.xlarge g6.2xlarge g6.4xlarge g6.8xlarge g6.16xlarge gr6.4xlarge gr6.8xlarge",
			1, "L4" },
		{ "g6.12xlarge g6.24xlarge", 4, "L4" },
		{ "g6.48xlarge", 8, "L4" },
		{ "g6e.xlarge g6e.2xlarge g6e.4xlarge g6e.8xlarge g6e.16xlarge", 1, "L40S" },
		{ "g6e.12xlarge g6e.24xlarge", 4, "L40S" },
		{ "g6e.48xlarge", 8, "L40S" },
		{ "g7.2xlarge g7.4xlarge g7.8xlarge", 1, "RTX-PRO-4500-BSE" },
		{ "g7.12xlarge", 2, "RTX-PRO-4500-BSE" },
		{ "g7.48xlarge", 8, "RTX-PRO-4500-BSE" },
		{ "g7e.2xlarge g7e.4xlarge g7e.8xlarge", 1, "RTX-PRO-6000-BSE" },
		{ "g7e.12xlarge", 2, "RTX-PRO-6000-BSE" },
		{ "g7e.24xlarge", 4, "RTX-PRO-6000-BSE" },
		{ "g7e.48xlarge", 8, "RTX-PRO-6000-BSE" },
		{ "p4d.24xlarge", 8, "A100-SXM4-40GB" },
		{ "p4de.24xlarge", 8, "A100-SXM4-80GB" },
		{ "p5.4xlarge", 1, "H100-SXM5-80GB" },
		{ "p5.48xlarge", 8, "H100-SXM5-80GB" },
		{ "p5e.48xlarge p5en.48xlarge", 8, "H200-SXM5-141GB" },
		{ "p6-b200.48xlarge", 8, "B200-180GB" },
		{ "p6-b300.48xlarge", 8, "B300-288GB" },
		{ "p6e-gb200.36xlarge", 4, "GB200-186GB" },
		{ "h100-1", 1, "H100-SXM5-80GB" },
	};
	char names[256], *save, *name;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		(void)snprintf(names, sizeof(names), "%s", rows[i].models);
		for (name = strtok_r(names, " ", &save); name;
			name = strtok_r(NULL, " ", &save)) {
			const struct sim_node_model *m = sim_node_model_find(name);

			if (!m)
				fail_msg("%s is missing", name);
			assert_int_equal(sim_layouts[m->layout].count, rows[i].count);
			assert_string_equal(sim_products[m->product].keys.product,
				rows[i].product);
		}
	}
}

static struct sim_node *build_node(const char *model, uint32_t count, uint64_t seed)
{
	struct sim_node *n = calloc(1, sizeof(*n));
	struct error err = ERROR_INIT;

	assert_non_null(n);
	sim_node_init(n, model, model, seed);
	assert_ok(sim_node_fill(n, sim_node_model_find(model), count, &err), &err);
	return n;
}

static bool is_same_pci_address(const struct sim_keys *a, const struct sim_keys *b)
{
	return a->pci_domain == b->pci_domain && a->pci_bus == b->pci_bus &&
	       a->pci_device == b->pci_device;
}

static void every_model__is_consistent(void **state)
{
	(void)state;
	for (size_t i = 0; i < sim_node_model_count; i++) {
		CLEANUP(freep) struct sim_node *n = build_node(sim_node_models[i].name, 0, 0);

		for (uint32_t a = 0; a < n->head.info.slot_count; a++) {
			const struct sim_keys *k = &n->gpus[a].keys;
			uint32_t links = 0;

			assert_int_equal(strncmp(k->uuid, "GPU-", 4), 0);
			assert_int_equal(k->minor, a);
			assert_true(k->memory_reserved < k->memory_total);
			assert_true(k->power_min_mw <= k->power_limit_mw);
			assert_true(k->power_idle_mw < k->power_limit_mw);
			assert_true(k->temperature_load_c < k->temperature_gpu_max_c);
			for (uint32_t l = 0; l < SIM_MAX_LINKS; l++)
				links += n->gpus[a].links[l].active;
			assert_true(links <= k->nvlink_links);
			for (uint32_t b = 0; b < a; b++) {
				assert_string_not_equal(k->uuid, n->gpus[b].keys.uuid);
				assert_false(is_same_pci_address(k, &n->gpus[b].keys));
			}
		}
	}
}

/* Every link has its other end. */
static void nvlink__is_symmetric_and_uses_all_links(void **state)
{
	CLEANUP(freep) struct sim_node *n = build_node("p3.16xlarge", 0, 0);
	CLEANUP(freep) struct sim_node *a100 = build_node("p4d.24xlarge", 0, 0);
	CLEANUP(freep) struct sim_node *h100 = build_node("p5.48xlarge", 0, 0);
	unsigned int count[8][8] = { { 0 } };

	(void)state;
	for (uint32_t i = 0; i < 8; i++) {
		unsigned int to_switch = 0;

		for (uint32_t l = 0; l < 6; l++) {
			assert_int_equal(n->gpus[i].links[l].active, 1);
			count[i][n->gpus[i].links[l].remote_slot]++;
		}
		for (uint32_t l = 0; l < SIM_MAX_LINKS; l++)
			to_switch += a100->gpus[i].links[l].remote_type ==
				     NVML_NVLINK_DEVICE_TYPE_SWITCH;
		assert_int_equal(to_switch, 12);
		assert_int_equal(h100->gpus[i].links[17].active, 1);
	}
	for (uint32_t i = 0; i < 8; i++)
		for (uint32_t j = 0; j < 8; j++)
			assert_int_equal(count[i][j], count[j][i]);
	assert_int_equal(count[0][3], 2);
	assert_int_equal(count[0][7], 0);
}

static void build__depends_on_model_and_seed_only(void **state)
{
	CLEANUP(freep) struct sim_node *a = build_node("p3.8xlarge", 0, 0);
	CLEANUP(freep) struct sim_node *b = build_node("p3.8xlarge", 0, 0);
	CLEANUP(freep) struct sim_node *c = build_node("p3.8xlarge", 0, 1);
	CLEANUP(freep) struct sim_node *many = build_node("p3.8xlarge", 256, 0);
	struct error err = ERROR_INIT;
	uint32_t slot;

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		assert_string_equal(a->gpus[i].keys.uuid, b->gpus[i].keys.uuid);
		assert_string_not_equal(a->gpus[i].keys.uuid, c->gpus[i].keys.uuid);
	}
	assert_int_equal(many->head.info.slot_count, 256);
	assert_false(is_same_pci_address(&many->gpus[254].keys, &many->gpus[255].keys));
	assert_error(sim_node_add(many, sim_product_find("T4"), &slot, &err), &err,
		"at most 256 GPUs");
}

static void keys__refuse_invalid_values(void **state)
{
	static const struct {
		const char *key, *value, *want; /* want NULL: accepted */
	} rows[] = {
		{ "util_gpu", "100", NULL },
		{ "util_gpu", "101", "from 0 to 100" },
		{ "util_gpu", "-1", "from 0 to 100" },
		{ "util_gpu", "1x", "found '1x'" },
		{ "numa_node", "-1", NULL },
		{ "numa_node", "-2", "from -1" },
		{ "memory_total", "16Gi", NULL },
		{ "memory_total", "16GiB", "like 16Gi" },
		{ "memory_total", "9000000Ti", "like 16Gi" },
		{ "serial", "0123456789012345678901234567890", NULL },
		{ "serial", "01234567890123456789012345678901", "at most 31 bytes" },
		{ "name", "a\nb", "printable" },
		{ "ecc_corrected_volatile", "9223372036854775807", NULL },
		{ "ecc_corrected_volatile", "-1", "from 0" },
	};
	struct sim_keys keys = { 0 };
	struct error err = ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct sim_key *key = sim_key_find(rows[i].key);

		assert_non_null(key);
		if (rows[i].want)
			assert_error(sim_key_set(&keys, key, rows[i].value, &err), &err,
				rows[i].want);
		else
			assert_ok(sim_key_set(&keys, key, rows[i].value, &err), &err);
	}
	assert_int_equal(keys.memory_total, 16 * SIM_GIB);
	assert_int_equal(keys.numa_node, -1);
	assert_null(sim_key_find("no_such_key"));
}

static void codes__are_read_by_number_and_name(void **state)
{
	static const struct {
		const char *text;
		int want; /* -1: refused */
	} rows[] = {
		{ "3", 3 },
		{ "999", 999 },
		{ "31", -1 },
		{ "GPU_IS_LOST", 15 },
		{ "gpu_is_lost", 15 },
		{ "NVML_ERROR_GPU_IS_LOST", 15 },
		{ "SUCCESS", 0 },
		{ "NVML_SUCCESS", 0 },
		{ "", -1 },
		{ "LOST", -1 },
	};
	uint32_t code;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bool ok = sim_code_parse(rows[i].text, &code);

		assert_int_equal(ok, rows[i].want >= 0);
		if (ok)
			assert_int_equal(code, rows[i].want);
	}
	assert_string_equal(sim_code_name(15), "GPU_IS_LOST");
	assert_string_equal(sim_code_name(500), "UNKNOWN");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(products__have_the_known_figures),
		cmocka_unit_test(models__have_the_gpus_of_the_instance_types),
		cmocka_unit_test(every_model__is_consistent),
		cmocka_unit_test(nvlink__is_symmetric_and_uses_all_links),
		cmocka_unit_test(build__depends_on_model_and_seed_only),
		cmocka_unit_test(keys__refuse_invalid_values),
		cmocka_unit_test(codes__are_read_by_number_and_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
