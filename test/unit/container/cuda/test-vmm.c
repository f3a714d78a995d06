/* SPDX-License-Identifier: Apache-2.0 */

/* Physical memory: handles, and their mappings. */
#include "support/test.h"
#include "unit/container/cuda/memory-test.h"

static void release_handles(void)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };
	const uint64_t at = BASE * 2;
	CUmemGenericAllocationHandle h, again;

	/* The handle goes first, then the mapping. */
	CHECK(!cuMemCreate(&h, 4 * MIB, &prop, 0) && used() == 4 * MIB);
	CHECK(!cuMemMap(at, 2 * MIB, 0, h, 0));
	CHECK(!cuMemRelease(h) && used() == 4 * MIB);
	CHECK(!cuMemRetainAllocationHandle(&again, (void *)at) && again == h);
	CHECK(!cuMemUnmap(at, 2 * MIB) && used() == 4 * MIB);
	CHECK(!cuMemRelease(again) && used() == 0 && md_driver_bytes() == 0);
	CHECK(cuMemRelease(h) == CUDA_ERROR_INVALID_VALUE);
	/* Several mappings by one call; one that fails; one of two handles. */
	CHECK(!cuMemCreate(&h, 2 * MIB, &prop, 0) && !cuMemCreate(&again, 2 * MIB, &prop, 0));
	CHECK(!cuMemMap(at, 2 * MIB, 0, h, 0) && !cuMemMap(at + G, 2 * MIB, 0, again, 0));
	CHECK(cuMemMap(5, 2 * MIB, 0, h, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(!cuMemRelease(h) && !cuMemRelease(again) && used() == 4 * MIB);
	CHECK(!cuMemUnmap(at, 4 * MIB) && used() == 0 && md_driver_bytes() == 0 &&
		page()->seen == 0);
	/* Other processes may have the memory still: only NVML knows. */
	CHECK(!cuMemCreate(&h, 2 * MIB, &prop, 0));
	CHECK(!cuMemExportToShareableHandle(&again, h, 1, 0));
	CHECK(!cuMemRelease(h) && used() == 2 * MIB && page()->seen == 0);
	CHECK(arbiter->compares > 0);
	/* Memory of the host, and of a GPU outside the slice, is not charged. */
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
	CHECK(!cuMemCreate(&h, 2 * MIB, &prop, 0) && used() == 2 * MIB);
	CHECK(!cuMemMap(at, 2 * MIB, 0, h, 0) && !cuMemUnmap(at, 2 * MIB));
	prop.location = (CUmemLocation){ CU_MEM_LOCATION_TYPE_DEVICE, 2 };
	CHECK(!cuMemCreate(&h, 2 * MIB, &prop, 0) && used() == 2 * MIB);
	prop.location.id = 3;
	CHECK(cuMemCreate(&h, LIMIT, &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY);
}

static void handles__are_charged_until_the_last_reference(void **state)
{
	(void)state;
	mt_in_child(release_handles);
}

static void import_handles(void)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };
	CUmemGenericAllocationHandle h, again;
	const uint64_t at = BASE * 2;
	int fd;

	CHECK(!cuMemCreate(&h, 4 * MIB, &prop, 0));
	CHECK(!cuMemExportToShareableHandle(&again, h, 1, 0));
	CHECK(!cuMemImportFromShareableHandle(&again, &h, 1) && again == h);
	CHECK(used() == 4 * MIB && !cuMemRelease(h) && page()->seen == 4 * MIB);
	/* Now only NVML knows whether another process has the memory open. */
	CHECK(!cuMemRelease(again) && page()->seen == 0 && used() == 4 * MIB &&
		!md_driver_bytes());
	/* The same by a dma-buf of the mapped range. */
	CHECK(!cuMemCreate(&h, 2 * MIB, &prop, 0) && !cuMemMap(at, 2 * MIB, 0, h, 0));
	CHECK(!cuMemGetHandleForAddressRange(&fd, at, 2 * MIB, 1, 0));
	CHECK(!cuMemUnmap(at, 2 * MIB) && page()->seen == 2 * MIB);
	CHECK(!cuMemRelease(h) && page()->seen == 0 && used() == 6 * MIB && !md_driver_bytes());
}

static void handles__that_are_imported_twice_are_charged_once(void **state)
{
	(void)state;
	mt_in_child(import_handles);
}

static void map_in_array(void)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };
	CUarrayMapInfo map = { .memOperationType = CU_MEM_OPERATION_TYPE_MAP };
	CUmemGenericAllocationHandle h;

	/* The array has a reference, which no call of the driver reports. */
	CHECK(!cuMemCreate(&h, 4 * MIB, &prop, 0));
	map.memHandle = h;
	md.handles[h - 1000].maps = 1;
	CHECK(!cuMemMapArrayAsync(&map, 1, NULL) && !cuMemRelease(h));
	CHECK(md_driver_bytes() == 4 * MIB && used() == 4 * MIB && page()->seen == 0);
	CHECK(!cuMemMapArrayAsync_ptsz(&map, 0, NULL) && arbiter->compares >= 3);
}

static void handles__of_sparse_arrays_are_left_to_nvml(void **state)
{
	(void)state;
	mt_in_child(map_in_array);
}

static void free_addresses(void)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };
	CUmemGenericAllocationHandle h;
	const uint64_t at = BASE * 2;

	CHECK(!cuMemCreate(&h, 2 * MIB, &prop, 0));
	CHECK(!cuMemMap(at, G, 0, h, 0) && !cuMemMap(at + G, G, 0, h, 0) && !cuMemRelease(h));
	CHECK(cuMemAddressFree(at, 2 * G) == CUDA_ERROR_INVALID_VALUE && used() == 2 * MIB);
	md.unmaps = true;
	CHECK(!cuMemAddressFree(at, 2 * G) && !md_driver_bytes() && used() == 0 &&
		page()->seen == 0);
	CHECK(!cuMemAddressFree(at, 2 * G) && used() == 0);
}

static void mappings__end_with_their_addresses_if_the_driver_succeeds(void **state)
{
	(void)state;
	mt_in_child(free_addresses);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handles__are_charged_until_the_last_reference),
		cmocka_unit_test(handles__that_are_imported_twice_are_charged_once),
		cmocka_unit_test(handles__of_sparse_arrays_are_left_to_nvml),
		cmocka_unit_test(mappings__end_with_their_addresses_if_the_driver_succeeds),
	};

	return cmocka_run_group_tests_name("vmm", tests, mt_setup, mt_teardown);
}
