/* SPDX-License-Identifier: Apache-2.0 */

/*
 * MIG on a simulated GPU, through NVML: what each product can be cut into, where GPU instances lie, what
 * is refused with which code. Instances and their handles: test-sim-mig-devices.c; modes and
 * processes: test-sim-mig-node.c; files: test-sim-mig-files.c.
 */
#include "sim-mig-fixture.h"

#include <math.h>
#include <sys/wait.h>

/* --- tables --- */

/* NVIDIA's names, by enumerator. */
static const struct {
	const char *model, *names[SIM_MIG_GI_NUMBERS];
	unsigned int devices;
} products[] = {
	{ "a100-40-1",
		{ "1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb",
			"7g.40gb", [7] = "1g.5gb+me", [9] = "1g.10gb" },
		7 },
	{ "p4d.24xlarge",
		{ "1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb",
			"7g.40gb", [7] = "1g.5gb+me", [9] = "1g.10gb" },
		7 },
	{ "a100-80-1",
		{ "1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb",
			"7g.80gb", [7] = "1g.10gb+me", [9] = "1g.20gb" },
		7 },
	{ "a30-1",
		{ "1g.6gb", "2g.12gb", [3] = "4g.24gb", [7] = "1g.6gb+me", [8] = "2g.12gb+me" },
		4 },
	{ "h100-1",
		{ "1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb",
			"7g.80gb", [7] = "1g.10gb+me", [9] = "1g.20gb" },
		7 },
	{ "h100-pcie-1",
		{ "1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb",
			"7g.80gb", [7] = "1g.10gb+me", [9] = "1g.20gb" },
		7 },
	{ "h100-nvl-1",
		{ "1g.12gb", "2g.24gb", "3g.47gb", "4g.47gb",
			"7g.94gb", [7] = "1g.12gb+me", [9] = "1g.24gb" },
		7 },
	{ "gh200-96-1",
		{ "1g.12gb", "2g.24gb", "3g.48gb", "4g.48gb",
			"7g.96gb", [7] = "1g.12gb+me", [9] = "1g.24gb" },
		7 },
	{ "gh200-144-1",
		{ "1g.18gb", "2g.36gb", "3g.72gb", "4g.72gb",
			"7g.144gb", [7] = "1g.18gb+me", [9] = "1g.36gb" },
		7 },
	{ "h200-1",
		{ "1g.18gb", "2g.35gb", "3g.71gb", "4g.71gb",
			"7g.141gb", [7] = "1g.18gb+me", [9] = "1g.35gb" },
		7 },
	{ "b200-1",
		{ "1g.23gb", "2g.45gb", "3g.90gb", "4g.90gb",
			"7g.180gb", [7] = "1g.23gb+me", [9] = "1g.45gb" },
		7 },
	{ "gb200-1",
		{ "1g.23gb", "2g.47gb", "3g.93gb", "4g.93gb",
			"7g.186gb", [7] = "1g.23gb+me", [9] = "1g.47gb" },
		7 },
	{ "b300-1",
		{ "1g.34gb", "2g.67gb", "3g.135gb", "4g.135gb",
			"7g.269gb", [7] = "1g.34gb+me", [9] = "1g.67gb" },
		7 },
	{ "gb300-1",
		{ "1g.35gb", "2g.70gb", "3g.139gb", "4g.139gb",
			"7g.278gb", [7] = "1g.35gb+me", [9] = "1g.70gb" },
		7 },
	{ "rtx-pro-6000-1",
		{ "1g.24gb",
			"2g.48gb", [3] = "4g.96gb", [7] = "1g.24gb+me", [10] = "1g.24gb+gfx",
			[11] = "2g.48gb+gfx", [12] = "4g.96gb+gfx", [13] = "1g.24gb-me",
			[14] = "2g.48gb-me", [15] = "1g.24gb+me.all", [16] = "2g.48gb+me.all" },
		4 },
};

/* The GB of a name, as programs compute it from NVML's figures. */
static unsigned int gb_of(unsigned long long mib, unsigned long long total_bytes)
{
	double total = (double)total_bytes / (1 << 20);
	double eighths = ceil(8 * (double)mib / total);

	return (unsigned int)round(eighths / 8 * ceil(total / 1024));
}

static void check_profile(unsigned int number, const char *name)
{
	nvmlGpuInstanceProfileInfo_v2_t v2 = { .version = NVML_STRUCT_VERSION(v2, 2) };
	nvmlGpuInstanceProfileInfo_v3_t v3 = { .version = NVML_STRUCT_VERSION(v3, 3) }, by_id;
	nvmlGpuInstanceProfileInfo_t plain;
	nvmlMemory_t memory;
	char want[64], start[16];

	if (!name) {
		assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfo(gpu, number, &plain), 3);
		assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfoV(gpu, number, &v2), 3);
		assert_int_equal(v2.version, NVML_STRUCT_VERSION(v2, 2));
		return;
	}
	assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfo(gpu, number, &plain), 0);
	assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfoV(gpu, number, &v2), 0);
	assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfoV(gpu, number, (void *)&v3), 0);
	(void)snprintf(want, sizeof(want), "MIG %s", name);
	assert_string_equal(v2.name, want);
	assert_string_equal(v3.name, want);
	assert_int_equal(v2.version, 0);
	assert_int_equal(v3.version, 0);
	assert_int_equal(v3.capabilities,
		strstr(name, "gfx") ? NVML_GPU_INSTANCE_PROFILE_CAPS_GFX : 0);
	assert_int_equal(nvmlDeviceGetMemoryInfo(gpu, &memory), 0);
	(void)snprintf(start, sizeof(start), "%ug.%ugb", plain.sliceCount,
		gb_of(plain.memorySizeMB, memory.total));
	assert_memory_equal(name, start, strlen(start));
	assert_int_equal(v2.id, plain.id);
	assert_int_equal(v3.id, plain.id);
	assert_int_equal(v3.memorySizeMB, plain.memorySizeMB);
	assert_int_equal(v2.multiprocessorCount, plain.multiprocessorCount);
	assert_int_equal(v3.ofaCount, plain.ofaCount);
	assert_int_equal(v3.decoderCount, v2.decoderCount);
	assert_int_equal(gi_count_free(gpu, plain.id), plain.instanceCount);
	by_id = (nvmlGpuInstanceProfileInfo_v3_t){ .version = NVML_STRUCT_VERSION(by_id, 3) };
	assert_int_equal(
		nvmlDeviceGetGpuInstanceProfileInfoByIdV(gpu, plain.id, (void *)&by_id), 0);
	assert_string_equal(by_id.name, want);
}

static void products__have_the_documented_names(void **state)
{
	unsigned int n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(products); i++) {
		begin(products[i].model);
		for (int on = 0; on < 2; on++) { /* MIG off, too, reports profiles */
			for (unsigned int k = 0; k < SIM_MIG_GI_NUMBERS; k++)
				check_profile(k, products[i].names[k]);
			assert_int_equal(nvmlDeviceGetMaxMigDeviceCount(gpu, &n), 0);
			assert_int_equal(n, on ? products[i].devices : 0);
			if (!on)
				mig_on(gpu);
		}
		sim_fixture_end(&f);
	}
}

/* Each profile at each of its starts, and as many as there may be. */
static void products__accept_their_own_placements(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(products); i++) {
		begin(products[i].model);
		mig_on(gpu);
		for (unsigned int k = 0; k < SIM_MIG_GI_NUMBERS; k++) {
			nvmlGpuInstanceProfileInfo_t p;
			nvmlGpuInstancePlacement_t placements[16];
			nvmlGpuInstance_t gis[16], again;
			unsigned int n = 0, made = 0, ids = 0;

			if (nvmlDeviceGetGpuInstanceProfileInfo(gpu, k, &p))
				continue;
			assert_int_equal(nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu,
						 p.id, placements, &n),
				0);
			for (unsigned int s = 0; s < n; s++) {
				gis[0] = gi_at(gpu, p.id, placements[s].start);
				assert_int_equal(gi_info(gis[0]).placement.start,
					placements[s].start);
				assert_false(ids >> gi_info(gis[0]).id & 1);
				ids |= 1U << gi_info(gis[0]).id;
				assert_int_equal(nvmlGpuInstanceDestroy(gis[0]), 0);
			}
			while (made < p.instanceCount)
				gis[made++] = gi_new(gpu, p.id);
			assert_int_equal(gi_count_free(gpu, p.id), 0);
			assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, p.id, &again), 23);
			assert_int_equal(nvmlDeviceGetGpuInstances(gpu, p.id, gis, &n), 0);
			assert_int_equal(n, made);
			while (made > 0)
				assert_int_equal(nvmlGpuInstanceDestroy(gis[--made]), 0);
		}
		sim_fixture_end(&f);
	}
}

static void profiles__refuse_what_a_real_driver_refuses(void **state)
{
	nvmlGpuInstanceProfileInfo_t plain;
	nvmlGpuInstanceProfileInfo_v2_t v = { .version = 0 };
	unsigned int n = 0;

	(void)state;
	assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfo(gpu, 17, &plain), 2);
	assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0, NULL), 2);
	assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfoV(gpu, 0, &v), 2);
	v.version = NVML_STRUCT_VERSION(v, 3); /* of another size than version 3's */
	v.version++;
	assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfoV(gpu, 0, &v), 2);
	assert_int_equal(nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu, 99, NULL, &n), 2);
	assert_int_equal(nvmlDeviceGetGpuInstancePossiblePlacements(gpu, P2G, NULL, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, 99, &n), 2);
}

static void profiles__can_be_hidden_while_mig_is_off(void **state)
{
	struct error err = ERROR_INIT;
	nvmlGpuInstanceProfileInfo_t plain;
	nvmlFieldValue_t field = { .fieldId = 199 };

	(void)state;
	assert_ok(sim_control_set(&f.control, 0, "mig_query_needs_mode", "1", &err), &err);
	assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0, &plain), 3);
	assert_int_equal(nvmlDeviceGetFieldValues(gpu, 1, &field), 0);
	assert_int_equal(field.value.uiVal, 0);
	mig_on(gpu);
	assert_int_equal(nvmlDeviceGetGpuInstanceProfileInfo(gpu, 0, &plain), 0);
}

/* --- placement --- */

/* The sequence was observed on an A100 with 40 GB. */
static void capacity__follows_the_observed_sequence(void **state)
{
	static const unsigned int ids[] = { P1G, P1G_ME, P1G_DOUBLE, P2G, P3G, P4G, P7G };
	static const struct {
		unsigned int id, start, room[ARRAY_LEN(ids)];
	} rows[] = {
		{ 99, 0, { 7, 1, 4, 3, 2, 1, 1 } },
		{ P4G, 0, { 3, 1, 2, 1, 1, 0, 0 } },
		{ P2G, 4, { 1, 1, 1, 0, 0, 0, 0 } },
		{ P1G, 6, { 0, 0, 0, 0, 0, 0, 0 } },
	};

	(void)state;
	mig_on(gpu);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].id != 99)
			(void)gi_at(gpu, rows[i].id, rows[i].start);
		for (size_t k = 0; k < ARRAY_LEN(ids); k++)
			if (gi_count_free(gpu, ids[k]) != rows[i].room[k])
				fail_msg("step %zu: room for profile %u is %u, not %u", i,
					ids[k], gi_count_free(gpu, ids[k]), rows[i].room[k]);
	}
}

static void reset_mig_gpu(void)
{
	struct error err = ERROR_INIT;

	assert_ok(sim_control_reset(&f.control, 0, &err), &err);
}

static void placement__follows_the_corollaries(void **state)
{
	static const struct {
		unsigned int n, ids[8], starts[8];
	} rows[] = {
		{ 2, { P3G, P3G }, { 0, 4 } },
		{ 4, { P3G, P2G, P1G, P1G }, { 4, 0, 2, 3 } },
		{ 2, { P4G, P3G }, { 0, 4 } },
		{ 3, { P4G, P2G, P1G }, { 0, 4, 6 } },
		{ 4, { P2G, P2G, P2G, P1G }, { 0, 2, 4, 6 } },
		{ 7, { P1G, P1G, P1G, P1G, P1G, P1G, P1G }, { 0, 1, 2, 3, 4, 5, 6 } },
		{ 4, { P1G_DOUBLE, P1G_DOUBLE, P1G_DOUBLE, P1G_DOUBLE }, { 0, 2, 4, 6 } },
		{ 7, { P1G_ME, P1G, P1G, P1G, P1G, P1G, P1G }, { 3, 0, 1, 2, 4, 5, 6 } },
		{ 1, { P7G }, { 0 } },
	};
	nvmlGpuInstance_t gi;

	(void)state;
	mig_on(gpu);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (unsigned int k = 0; k < rows[i].n; k++)
			(void)gi_at(gpu, rows[i].ids[k], rows[i].starts[k]);
		/* No row leaves room for one more instance, not even of the smallest profile. */
		assert_int_equal(gi_count_free(gpu, P1G), 0);
		assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, P1G, &gi), 23);
		reset_mig_gpu();
	}
	/* Two 3g take all memory; six slices of seven are used. */
	(void)gi_at(gpu, P3G, 0);
	(void)gi_at(gpu, P3G, 4);
	assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, P1G, &gi), 23);
	reset_mig_gpu();
	/* 1g.x at start 7 is impossible, as is a size that is not the profile's. */
	assert_int_equal(nvmlDeviceCreateGpuInstanceWithPlacement(gpu, P1G,
				 &(nvmlGpuInstancePlacement_t){ 7, 1 }, &gi),
		2);
	assert_int_equal(nvmlDeviceCreateGpuInstanceWithPlacement(gpu, P2G,
				 &(nvmlGpuInstancePlacement_t){ 2, 1 }, &gi),
		2);
	assert_int_equal(nvmlDeviceCreateGpuInstanceWithPlacement(gpu, P2G,
				 &(nvmlGpuInstancePlacement_t){ UINT32_MAX, 2 }, &gi),
		2);
	(void)gi_at(gpu, P3G, 4);
	assert_int_equal(nvmlDeviceCreateGpuInstanceWithPlacement(gpu, P2G,
				 &(nvmlGpuInstancePlacement_t){ 4, 2 }, &gi),
		23);
	/* A GPU has at most one +me instance. */
	(void)gi_new(gpu, P1G_ME);
	assert_int_equal(gi_count_free(gpu, P1G_ME), 0);
	assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, P1G_ME, &gi), 23);
}

/* Large holes stay; ids go with the place. */
static void placement__is_chosen_by_the_driver_without_a_request(void **state)
{
	static const struct {
		unsigned int id, n, starts[8], ids[8];
	} rows[] = {
		{ P3G, 2, { 4, 0 }, { 1, 2 } },
		{ P1G, 7, { 6, 4, 5, 0, 1, 2, 3 }, { 9, 7, 8, 11, 12, 13, 14 } },
		{ P1G_DOUBLE, 4, { 6, 4, 0, 2 }, { 4, 3, 5, 6 } },
		{ P2G, 3, { 4, 0, 2 }, { 3, 5, 6 } },
		{ P7G, 1, { 0 }, { 0 } },
	};

	(void)state;
	mig_on(gpu);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (unsigned int k = 0; k < rows[i].n; k++) {
			nvmlGpuInstanceInfo_t info = gi_info(gi_new(gpu, rows[i].id));

			assert_int_equal(info.placement.start, rows[i].starts[k]);
			assert_int_equal(info.id, rows[i].ids[k]);
			assert_int_equal(info.profileId, rows[i].id);
			assert_ptr_equal(info.device, gpu);
		}
		reset_mig_gpu();
	}
}

static void placement__of_all_media_engines_leaves_none_for_others(void **state)
{
	nvmlGpuInstance_t gi;

	(void)state;
	begin("rtx-pro-6000-1");
	mig_on(gpu);
	(void)gi_new(gpu, 65); /* 1g+me.all */
	assert_int_equal(gi_count_free(gpu, 14), 0);
	assert_int_equal(gi_count_free(gpu, 21), 0);
	assert_int_equal(gi_count_free(gpu, 47), 0);
	assert_int_equal(gi_count_free(gpu, 5), 0);
	assert_int_equal(gi_count_free(gpu, 67), 3); /* 1g-me */
	assert_int_equal(gi_count_free(gpu, 66), 1); /* 2g-me */
	assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, 14, &gi), 23);
	gi = gi_new(gpu, 66);
	assert_int_equal(gi_info(gi).placement.start, 6);
	assert_int_equal(gi_info(gi).placement.size, 6);
	(void)gi_new(gpu, 67);
	sim_fixture_end(&f);
	begin("a30-1");
	mig_on(gpu);
	for (unsigned int i = 0; i < 4; i++) {
		gi = gi_new(gpu, 14);
		assert_int_equal(gi_info(gi).placement.start, i); /* upward */
		assert_int_equal(gi_info(gi).id, 3 + i);
	}
	sim_fixture_end(&f);
}

/* --- permission and counting --- */

static void changes__need_root(void **state)
{
	nvmlGpuInstance_t gi;
	int status;
	pid_t pid;

	(void)state;
	mig_on(gpu);
	gi = gi_new(gpu, P3G);
	(void)ci_new(gi, 0);
	pid = fork();
	if (pid == 0) {
		nvmlGpuInstance_t made;
		nvmlComputeInstance_t ci;
		nvmlReturn_t activation;
		unsigned int n;

		if (seteuid(65534))
			_exit(99);
		_exit(nvmlDeviceSetMigMode(gpu, 0, &activation) != 4              ? 1
			: nvmlDeviceCreateGpuInstance(gpu, P1G, &made) != 4       ? 2
			: nvmlGpuInstanceCreateComputeInstance(gi, 0, &ci) != 4   ? 3
			: nvmlGpuInstanceDestroy(gi) != 4                         ? 4
			: nvmlDeviceGetGpuInstanceById(gpu, 1, &made)             ? 5
			: nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, P1G, &n) ? 6
										  : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void calls__are_counted_once_each(void **state)
{
	struct sim_state *s = f.control.state;
	uint64_t calls, changes;
	nvmlGpuInstance_t gi;
	unsigned int n;

	(void)state;
	mig_on(gpu);
	calls = sim_count_read(s, SIM_COUNT_CALLS);
	changes = sim_count_read(s, SIM_COUNT_CHANGES);
	gi = gi_new(gpu, P2G);
	(void)ci_new(gi, 1);
	assert_int_equal(nvmlDeviceGetIndex(gpu, &n), 0);
	assert_int_equal(nvmlDeviceSetPowerManagementLimit(gpu, 300000), 0);
	assert_int_equal(nvmlGpuInstanceDestroy(gi), 19);
	assert_int_equal(sim_count_read(s, SIM_COUNT_CALLS) - calls, 5);
	assert_int_equal(sim_count_read(s, SIM_COUNT_CHANGES) - changes, 3);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(products__have_the_documented_names),
		cmocka_unit_test(products__accept_their_own_placements),
		ON(profiles__refuse_what_a_real_driver_refuses, h100),
		ON(profiles__can_be_hidden_while_mig_is_off, a100),
		ON(capacity__follows_the_observed_sequence, a100),
		ON(placement__follows_the_corollaries, a100),
		ON(placement__is_chosen_by_the_driver_without_a_request, a100),
		cmocka_unit_test(placement__of_all_media_engines_leaves_none_for_others),
		ON(changes__need_root, h100),
		ON(calls__are_counted_once_each, a100),
	};

	ONLY_ROOT();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
