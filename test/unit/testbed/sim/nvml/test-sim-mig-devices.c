/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Instances of MIG on a simulated GPU: compute instances, MIG devices, what their handles may be used
 * for, and that handles of what is gone are refused.
 */
#include "sim-mig-fixture.h"

static void reset_first_gpu(void)
{
	struct error err = ERROR_INIT;

	assert_ok(sim_control_reset(&f.control, 0, &err), &err);
}

/* --- compute instances --- */

static void compute__profiles_of_each_gpu_instance(void **state)
{
	static const struct {
		unsigned int id;
		struct {
			unsigned int max, slices, sms;
		} want[SIM_MIG_CI_NUMBERS];
	} rows[] = {
		{ P1G, { { 1, 1, 16 } } },
		{ P2G, { { 2, 1, 16 }, { 1, 2, 32 } } },
		{ P3G, { { 3, 1, 16 }, { 1, 2, 32 }, { 1, 3, 60 } } },
		{ P4G, { { 4, 1, 16 }, { 2, 2, 32 }, { 0, 0, 0 }, { 1, 4, 64 } } },
		{ P7G, { { 7, 1, 16 }, { 3, 2, 32 }, { 2, 3, 48 }, { 1, 4, 64 },
			       { 1, 7, 132 } } },
		{ P1G_DOUBLE, { { 1, 1, 26 }, [7] = { 1, 1, 26 } } },
	};

	(void)state;
	mig_on(gpu);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		nvmlGpuInstance_t gi = gi_new(gpu, rows[i].id);

		for (unsigned int k = 0; k < SIM_MIG_CI_NUMBERS; k++) {
			nvmlComputeInstanceProfileInfo_v2_t v2 = {
				.version = NVML_STRUCT_VERSION(v2, 2)
			};
			nvmlComputeInstanceProfileInfo_t info;
			nvmlComputeInstancePlacement_t placements[8];
			unsigned int n = 0;
			nvmlReturn_t r =
				nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, k, 0, &info);

			if (!rows[i].want[k].max) {
				assert_int_equal(r, 3);
				assert_int_equal(
					nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi,
						k, &n),
					2);
				continue;
			}
			assert_int_equal(r, 0);
			assert_int_equal(info.id, k);
			assert_int_equal(info.instanceCount, rows[i].want[k].max);
			assert_int_equal(info.sliceCount, rows[i].want[k].slices);
			assert_int_equal(info.multiprocessorCount, rows[i].want[k].sms);
			assert_int_equal(
				nvmlGpuInstanceGetComputeInstanceProfileInfoV(gi, k, 0, &v2),
				0);
			assert_int_equal(v2.id, k);
			assert_int_equal(
				nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi, k, &n),
				0);
			assert_int_equal(n, rows[i].want[k].max);
			assert_int_equal(nvmlGpuInstanceGetComputeInstancePossiblePlacements(gi,
						 k, placements, &n),
				0);
			assert_int_equal(n, rows[i].want[k].max);
			assert_int_equal(placements[n - 1].size, rows[i].want[k].slices);
			for (unsigned int m = 0; m < rows[i].want[k].max; m++)
				(void)ci_new(gi, k);
			assert_int_equal(nvmlGpuInstanceCreateComputeInstance(gi, k,
						 &(nvmlComputeInstance_t){ NULL }),
				23);
			reset_first_gpu();
			gi = gi_new(gpu, rows[i].id);
		}
		reset_first_gpu();
	}
}

static void compute__share_a_gpu_instance(void **state)
{
	nvmlComputeInstanceProfileInfo_v3_t v3 = { .version = NVML_STRUCT_VERSION(v3, 3) };
	nvmlComputeInstanceInfo_t info;
	nvmlComputeInstance_t one, two, list[8];
	nvmlGpuInstance_t gi;
	unsigned int n;

	(void)state;
	mig_on(gpu);
	gi = gi_new(gpu, P3G);
	assert_int_equal(nvmlGpuInstanceGetComputeInstanceProfileInfoV(gi, 0, 0, (void *)&v3),
		0);
	assert_string_equal(v3.name, "MIG 1c.3g.40gb");
	v3.version = 5;
	assert_int_equal(nvmlGpuInstanceGetComputeInstanceProfileInfoV(gi, 0, 0, (void *)&v3),
		2);
	assert_int_equal(nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, 9, 0,
				 &(nvmlComputeInstanceProfileInfo_t){ 0 }),
		2);
	one = ci_new(gi, 0); /* at the top, so that two slices stay below */
	two = ci_new(gi, 1);
	assert_int_equal(nvmlComputeInstanceGetInfo_v2(one, &info), 0);
	assert_int_equal(info.id, 0);
	assert_int_equal(info.placement.start, 2);
	assert_ptr_equal(info.gpuInstance, gi);
	assert_ptr_equal(info.device, gpu);
	assert_int_equal(nvmlComputeInstanceGetInfo_v2(two, &info), 0);
	assert_int_equal(info.id, 1);
	assert_int_equal(info.profileId, 1);
	assert_int_equal(info.placement.start, 0);
	assert_int_equal(info.placement.size, 2);
	info.placement.start = 77;
	assert_int_equal(nvmlComputeInstanceGetInfo(two, &info), 0);
	assert_int_equal(info.placement.start, 77); /* the old call ends before it */
	assert_int_equal(nvmlGpuInstanceGetComputeInstanceRemainingCapacity(gi, 0, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(nvmlGpuInstanceGetComputeInstances(gi, 1, list, &n), 0);
	assert_int_equal(n, 1);
	assert_ptr_equal(list[0], two);
	assert_int_equal(nvmlGpuInstanceDestroy(gi), NVML_ERROR_IN_USE);
	assert_int_equal(nvmlComputeInstanceDestroy(one), 0);
	assert_int_equal(nvmlComputeInstanceDestroy(one), 2);
	assert_int_equal(nvmlGpuInstanceGetComputeInstanceById(gi, 0, &list[0]), 6);
	assert_int_equal(nvmlGpuInstanceGetComputeInstanceById(gi, 1, &list[0]), 0);
	assert_ptr_equal(list[0], two);
	assert_int_equal(nvmlGpuInstanceCreateComputeInstanceWithPlacement(gi, 0,
				 &(nvmlComputeInstancePlacement_t){ 1, 1 }, &one),
		23);
	assert_int_equal(nvmlGpuInstanceCreateComputeInstanceWithPlacement(gi, 0,
				 &(nvmlComputeInstancePlacement_t){ 3, 1 }, &one),
		2);
	assert_int_equal(nvmlGpuInstanceCreateComputeInstanceWithPlacement(gi, 0,
				 &(nvmlComputeInstancePlacement_t){ 2, 1 }, &one),
		0);
	assert_int_equal(nvmlComputeInstanceGetInfo_v2(one, &info), 0);
	assert_int_equal(info.id, 0); /* the lowest free */
}

/* --- MIG devices --- */

static void devices__are_ordered_and_named(void **state)
{
	static const struct {
		const char *name;
		unsigned int gi, ci, sms, slices, ci_slices;
		unsigned long long mib;
	} want[] = {
		{ "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", 1, 0, 14, 3, 1, 20096 },
		{ "NVIDIA A100-SXM4-40GB MIG 2c.3g.20gb", 1, 1, 28, 3, 2, 20096 },
		{ "NVIDIA A100-SXM4-40GB MIG 2g.10gb", 5, 0, 28, 2, 2, 9984 },
		{ "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 13, 0, 14, 1, 1, 4864 },
	};
	nvmlGpuInstance_t three;
	nvmlDevice_t d, parent;
	char text[96];
	unsigned int n;

	(void)state;
	mig_on(gpu);
	assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0, &d), 6);
	(void)ci_new(gi_at(gpu, P1G, 2), 0); /* made first, listed last */
	three = gi_at(gpu, P3G, 4);
	(void)ci_new(three, 0);
	(void)ci_new(three, 1);
	(void)ci_new(gi_at(gpu, P2G, 0), 1);
	(void)gi_at(gpu, P1G, 3); /* no compute instance: no device */
	for (unsigned int i = 0; i < ARRAY_LEN(want); i++) {
		nvmlDeviceAttributes_t a;
		nvmlMemory_t m;

		d = mig_device(gpu, i);
		assert_int_equal(nvmlDeviceGetName(d, text, sizeof(text)), 0);
		assert_string_equal(text, want[i].name);
		assert_int_equal(nvmlDeviceGetIndex(d, &n), 0);
		assert_int_equal(n, i);
		assert_int_equal(nvmlDeviceIsMigDeviceHandle(d, &n), 0);
		assert_int_equal(n, 1);
		assert_int_equal(nvmlDeviceGetGpuInstanceId(d, &n), 0);
		assert_int_equal(n, want[i].gi);
		assert_int_equal(nvmlDeviceGetComputeInstanceId(d, &n), 0);
		assert_int_equal(n, want[i].ci);
		assert_int_equal(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(d, &parent), 0);
		assert_ptr_equal(parent, gpu);
		assert_int_equal(nvmlDeviceGetAttributes_v2(d, &a), 0);
		assert_int_equal(a.multiprocessorCount, want[i].sms);
		assert_int_equal(a.gpuInstanceSliceCount, want[i].slices);
		assert_int_equal(a.computeInstanceSliceCount, want[i].ci_slices);
		assert_int_equal(a.memorySizeMB, want[i].mib);
		assert_int_equal(nvmlDeviceGetMemoryInfo(d, &m), 0);
		assert_int_equal(m.total, want[i].mib << 20);
		assert_int_equal(m.used, 19ULL << 20);
	}
	assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(gpu, 4, &d), 6);
	assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(gpu, 7, &d), 2);
	assert_int_equal(nvmlDeviceGetAttributes_v2(gpu, &(nvmlDeviceAttributes_t){ 0 }), 3);
	assert_int_equal(nvmlDeviceGetGpuInstanceId(gpu, &n), 2);
	assert_int_equal(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(gpu, &d), 2);
}

static void devices__are_found_by_uuid(void **state)
{
	char uuid[96], again[96], old[128], parent[96];
	nvmlGpuInstance_t gi;
	nvmlComputeInstance_t ci;
	nvmlDevice_t d, found;

	(void)state;
	mig_on(gpu);
	gi = gi_new(gpu, P2G);
	ci = ci_new(gi, 1);
	d = mig_device(gpu, 0);
	assert_int_equal(nvmlDeviceGetUUID(d, uuid, 10), 7);
	assert_int_equal(nvmlDeviceGetUUID(d, uuid, sizeof(uuid)), 0);
	assert_int_equal(strlen(uuid), 40);
	assert_memory_equal(uuid, "MIG-", 4);
	assert_int_equal(uuid[18], '5'); /* version */
	assert_non_null(strchr("89ab", uuid[23]));
	assert_int_equal(nvmlDeviceGetHandleByUUID(uuid, &found), 0);
	assert_ptr_equal(found, d);
	assert_int_equal(nvmlDeviceGetUUID(gpu, parent, sizeof(parent)), 0);
	(void)snprintf(old, sizeof(old), "MIG-%s/3/0", parent);
	assert_int_equal(nvmlDeviceGetHandleByUUID(old, &found), 0);
	assert_ptr_equal(found, d);
	(void)snprintf(old, sizeof(old), "MIG-%s/3/1", parent);
	assert_int_equal(nvmlDeviceGetHandleByUUID(old, &found), 6);
	assert_int_equal(nvmlComputeInstanceDestroy(ci), 0);
	assert_int_equal(nvmlDeviceGetHandleByUUID(uuid, &found), 6);
	(void)ci_new(gi, 1);
	assert_int_equal(nvmlDeviceGetUUID(mig_device(gpu, 0), again, sizeof(again)), 0);
	assert_string_equal(again, uuid); /* the same ids, the same name */
	(void)ci_new(gi_new(gpu, P1G), 0);
	assert_int_equal(nvmlDeviceGetUUID(mig_device(gpu, 1), again, sizeof(again)), 0);
	assert_string_not_equal(again, uuid);
}

static void devices__refuse_queries_of_the_gpu_alone(void **state)
{
	unsigned int n, m;
	unsigned long long l;
	nvmlUtilization_t u;
	nvmlPciInfo_t pci;
	nvmlEventSet_t set;
	nvmlBAR1Memory_t bar;
	nvmlProcessUtilizationSample_t sample;
	char text[96];
	nvmlDevice_t d;

	(void)state;
	mig_on(gpu);
	(void)ci_new(gi_new(gpu, P1G), 0);
	d = mig_device(gpu, 0);
	assert_int_equal(nvmlDeviceGetPowerUsage(d, &n), 3);
	assert_int_equal(nvmlDeviceGetTemperature(d, 0, &n), 3);
	assert_int_equal(nvmlDeviceGetClockInfo(d, 0, &n), 3);
	assert_int_equal(nvmlDeviceGetTotalEnergyConsumption(d, &l), 3);
	assert_int_equal(nvmlDeviceGetPciInfo_v3(d, &pci), 2);
	assert_int_equal(nvmlDeviceGetMinorNumber(d, &n), 2);
	assert_int_equal(nvmlDeviceGetSerial(d, text, sizeof(text)), 2);
	assert_int_equal(nvmlDeviceGetNvLinkState(d, 0, &n), 2);
	assert_int_equal(nvmlDeviceGetMigMode(d, &n, &m), 2);
	assert_int_equal(nvmlDeviceSetMigMode(d, 0, &(nvmlReturn_t){ 0 }), 2);
	assert_int_equal(nvmlDeviceGetMigDeviceHandleByIndex(d, 0, &d), 2);
	assert_int_equal(nvmlDeviceGetMaxMigDeviceCount(d, &n), 2);
	assert_int_equal(nvmlDeviceCreateGpuInstance(d, P1G, &(nvmlGpuInstance_t){ NULL }), 2);
	assert_int_equal(nvmlGpuInstanceGetInfo((void *)d, &(nvmlGpuInstanceInfo_t){ 0 }), 2);
	assert_int_equal(nvmlEventSetCreate(&set), 0);
	assert_int_equal(nvmlDeviceRegisterEvents(d, NVML_EVENT_XID_CRITICAL, set), 2);
	/* With MIG enabled, NVML reports no utilization of the GPU itself. */
	n = 1;
	assert_int_equal(nvmlDeviceGetUtilizationRates(d, &u), 3);
	assert_int_equal(nvmlDeviceGetUtilizationRates(gpu, &u), 3);
	assert_int_equal(nvmlDeviceGetEncoderUtilization(gpu, &n, &m), 3);
	assert_int_equal(nvmlDeviceGetProcessUtilization(gpu, &sample, &n, 0), 3);
	assert_int_equal(nvmlDeviceGetRemappedRows(gpu, &n, &n, &n, &n), 3);
	assert_int_equal(nvmlDeviceGetPowerUsage(gpu, &n), 0);
	assert_int_equal(nvmlDeviceSetComputeMode(gpu, 3), 3);
	/* Queries that it answers. */
	assert_int_equal(nvmlDeviceGetBAR1MemoryInfo(d, &bar), 0);
	assert_int_equal(bar.bar1Total >> 20, 16383);
	assert_int_equal(nvmlDeviceSetComputeMode(d, 3), 0);
	assert_int_equal(nvmlDeviceGetComputeMode(d, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(nvmlDeviceGetComputeMode(gpu, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(nvmlDeviceGetMemoryErrorCounter(d, 0, 0, 2, &l), 0);
}

static void handles__of_destroyed_instances_are_stale(void **state)
{
	struct error err = ERROR_INIT;
	nvmlGpuInstance_t gi, same;
	nvmlComputeInstance_t ci;
	nvmlGpuInstanceInfo_t info;
	nvmlComputeInstanceInfo_t ci_info;
	nvmlDevice_t d;
	char text[96];

	(void)state;
	mig_on(gpu);
	for (int how = 0; how < 3; how++) {
		gi = gi_new(gpu, P2G);
		ci = ci_new(gi, 1);
		d = mig_device(gpu, 0);
		if (how == 0) {
			assert_int_equal(nvmlComputeInstanceDestroy(ci), 0);
			assert_int_equal(nvmlGpuInstanceDestroy(gi), 0);
		} else if (how == 1) {
			assert_ok(sim_control_reset(&f.control, 0, &err), &err);
		} else {
			assert_ok(sim_control_reboot(&f.control, &err), &err);
			assert_int_equal(nvmlDeviceGetName(gpu, text, sizeof(text)), 2);
			assert_int_equal(nvmlDeviceGetHandleByIndex_v2(0, &gpu), 0);
		}
		for (int again = 0; again < 2; again++) {
			assert_int_equal(nvmlGpuInstanceGetInfo(gi, &info), 2);
			assert_int_equal(nvmlComputeInstanceGetInfo_v2(ci, &ci_info), 2);
			assert_int_equal(nvmlDeviceGetName(d, text, sizeof(text)), 2);
			assert_int_equal(nvmlDeviceGetPowerUsage(d, &(unsigned int){ 0 }), 2);
			assert_int_equal(nvmlComputeInstanceDestroy(ci), 2);
			assert_int_equal(nvmlGpuInstanceDestroy(gi), 2);
			/* Old handles do not mean a newer instance with the same ids either. */
			same = gi_new(gpu, P2G);
			assert_int_equal(gi_info(same).id, 3 + 2 * again);
			(void)ci_new(same, 1);
		}
		assert_ok(sim_control_reset(&f.control, 0, &err), &err);
	}
}

static void invalid_arguments__are_refused(void **state)
{
	nvmlGpuInstanceInfo_t info;
	nvmlGpuInstance_t gi;
	unsigned int n;

	(void)state;
	mig_on(gpu);
	gi = gi_new(gpu, P1G);
	assert_int_equal(nvmlGpuInstanceGetInfo(NULL, &info), 2);
	assert_int_equal(nvmlGpuInstanceGetInfo((void *)&n, &info), 2);
	assert_int_equal(nvmlGpuInstanceGetInfo((void *)gpu, &info), 2);
	assert_int_equal(nvmlGpuInstanceGetInfo(gi, NULL), 2);
	assert_int_equal(nvmlGpuInstanceDestroy(NULL), 2);
	assert_int_equal(nvmlComputeInstanceDestroy((void *)gi), 2);
	assert_int_equal(nvmlDeviceGetName((nvmlDevice_t)gi, (char[96]){ 0 }, 96), 2);
	assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, P1G, NULL), 2);
	assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, 99, &gi), 2);
	assert_int_equal(nvmlDeviceCreateGpuInstanceWithPlacement(gpu, P1G, NULL, &gi), 2);
	assert_int_equal(nvmlDeviceGetGpuInstances(gpu, P1G, NULL, &n), 2);
	assert_int_equal(nvmlDeviceGetGpuInstances(gpu, 99, &gi, &n), 2);
	assert_int_equal(nvmlDeviceGetGpuInstanceById(gpu, 0, &gi), 6);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		ON(compute__profiles_of_each_gpu_instance, h100),
		ON(compute__share_a_gpu_instance, h100),
		ON(devices__are_ordered_and_named, a100),
		ON(devices__are_found_by_uuid, a100),
		ON(devices__refuse_queries_of_the_gpu_alone, h100),
		ON(handles__of_destroyed_instances_are_stale, a100),
		ON(invalid_arguments__are_refused, h100),
	};

	ONLY_ROOT();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
