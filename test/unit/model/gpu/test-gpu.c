/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/model/core-fixture.h"

static void inventory_new__has_unknown_links(void **state)
{
	struct inventory *inv = fixture_inventory(3);
	struct error err = ERROR_INIT;

	(void)state;
	assert_int_equal(inventory_link(inv, 0, 2).level, GPU_LEVEL_UNKNOWN);
	assert_int_equal(inventory_link(inv, 0, 2).nvlinks, 0);
	assert_int_equal(inventory_link(inv, 3, 0).level, GPU_LEVEL_UNKNOWN);
	assert_int_equal(inventory_link(inv, 0, 3).level, GPU_LEVEL_UNKNOWN);
	free(inv->links);
	inv->links = NULL;
	assert_int_equal(inventory_link(inv, 0, 1).level, GPU_LEVEL_UNKNOWN);
	inv = inventory_free(inv);
	assert_null(inv);
	assert_null(inventory_free(NULL));
	assert_error(inventory_new(&inv, GPU_NODE_MAX + 1, &err), &err, "257 GPUs");
	assert_int_equal(err.code, ERR_LIMIT);
	assert_null(inv);
}

static void inventory_copy__copies_all(void **state)
{
	struct inventory *inv = fixture_inventory(2), *copy = NULL;
	struct error err = ERROR_INIT;

	(void)state;
	(void)snprintf(inv->driver_version, sizeof(inv->driver_version), "580.159.04");
	inv->cuda_version = 13000;
	inv->links[1] = (struct gpu_link){ .level = GPU_LEVEL_SAME_CPU, .nvlinks = 4 };
	inv->n_mig = 2;
	inv->mig = calloc(inv->n_mig, sizeof(*inv->mig));
	assert_non_null(inv->mig);
	inv->mig[1] = (struct gpu_mig){ .gpu = 1, .profile = "1g.5gb", .ofa = 3 };
	assert_ok(inventory_copy(&copy, inv, &err), &err);
	inventory_free(inv);
	assert_string_equal(copy->driver_version, "580.159.04");
	assert_int_equal(copy->cuda_version, 13000);
	assert_string_equal(copy->gpus[1].uuid, "GPU-1");
	assert_int_equal(inventory_link(copy, 0, 1).nvlinks, 4);
	assert_int_equal(copy->n_mig, 2);
	assert_string_equal(copy->mig[1].profile, "1g.5gb");
	assert_int_equal(copy->mig[1].ofa, 3);
	inventory_free(copy);
	inv = fixture_inventory(0);
	assert_ok(inventory_copy(&copy, inv, &err), &err);
	assert_int_equal(copy->n, 0);
	inventory_free(copy);
	inventory_free(inv);
}

static void inventory_find__does_not_find_the_nameless(void **state)
{
	struct inventory *inv = fixture_inventory(3);

	(void)state;
	inv->gpus[1].uuid[0] = '\0';
	assert_ptr_equal(inventory_find(inv, "GPU-2"), &inv->gpus[2]);
	assert_null(inventory_find(inv, "GPU-1"));
	assert_null(inventory_find(inv, ""));
	inventory_free(inv);
}

static void gpu_fault_name__names_each(void **state)
{
	(void)state;
	for (int f = GPU_OK; f <= GPU_FAULT_GONE; f++)
		for (int g = GPU_OK; g < f; g++)
			assert_string_not_equal(gpu_fault_name((enum gpu_fault)f),
				gpu_fault_name((enum gpu_fault)g));
	assert_string_equal(gpu_fault_name(GPU_FAULT_LOST), "lost");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inventory_new__has_unknown_links),
		cmocka_unit_test(inventory_copy__copies_all),
		cmocka_unit_test(inventory_find__does_not_find_the_nameless),
		cmocka_unit_test(gpu_fault_name__names_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
