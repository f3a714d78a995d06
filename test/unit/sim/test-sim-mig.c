/* SPDX-License-Identifier: Apache-2.0 */

/*
 * MIG on a simulated GPU, through NVML: what each product can be cut into, where instances lie, what is
 * refused with which code, MIG devices. Modes, files and processes: test-sim-mig-node.c.
 */
#include "sim-mig-fixture.h"

#include <math.h>
#include <sys/wait.h>

static struct sim_fixture f;
static nvmlDevice_t gpu; /* the first */

static void begin(const char *model)
{
	sim_fixture_begin(&f, model);
	gpu = f.gpus[0];
}

static int begin_a100(void **state)
{
	(void)state;
	begin("a100-40-1");
	return 0;
}

static int begin_h100(void **state)
{
	(void)state;
	begin("h100-1");
	return 0;
}

static int end(void **state)
{
	(void)state;
	sim_fixture_end(&f);
	return 0;
}

/* ---- tables ------------------------------------------------------------------------------------ */

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

/* The GB of a name, as programs compute it from what NVML says. */
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
	assert_int_equal(gi_room(gpu, plain.id), plain.instanceCount);
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
		for (int on = 0; on < 2; on++) { /* profiles are told with MIG off as well */
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
static void products__take_what_they_say(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(products); i++) {
		begin(products[i].model);
		mig_on(gpu);
		for (unsigned int k = 0; k < SIM_MIG_GI_NUMBERS; k++) {
			nvmlGpuInstanceProfileInfo_t p;
			nvmlGpuInstancePlacement_t places[16];
			nvmlGpuInstance_t gis[16], again;
			unsigned int n = 0, made = 0, ids = 0;

			if (nvmlDeviceGetGpuInstanceProfileInfo(gpu, k, &p))
				continue;
			assert_int_equal(nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu,
						 p.id, places, &n),
				0);
			for (unsigned int s = 0; s < n; s++) {
				gis[0] = gi_at(gpu, p.id, places[s].start);
				assert_int_equal(gi_info(gis[0]).placement.start,
					places[s].start);
				assert_false(ids >> gi_info(gis[0]).id & 1);
				ids |= 1U << gi_info(gis[0]).id;
				assert_int_equal(nvmlGpuInstanceDestroy(gis[0]), 0);
			}
			while (made < p.instanceCount)
				gis[made++] = gi_new(gpu, p.id);
			assert_int_equal(gi_room(gpu, p.id), 0);
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

/* ---- placement --------------------------------------------------------------------------------- */

/* As observed on an A100 with 40 GB. */
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
			if (gi_room(gpu, ids[k]) != rows[i].room[k])
				fail_msg("step %zu: room for profile %u is %u, not %u", i,
					ids[k], gi_room(gpu, ids[k]), rows[i].room[k]);
	}
}

static void clear(void)
{
	struct error err = ERROR_INIT;

	assert_ok(sim_control_reset(&f.control, 0, &err), &err);
}

static void placement__corollaries(void **state)
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
		/* None of them leaves room for one more, not even of the smallest. */
		assert_int_equal(gi_room(gpu, P1G), 0);
		assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, P1G, &gi), 23);
		clear();
	}
	/* Two 3g take all memory; six slices of seven are used. */
	(void)gi_at(gpu, P3G, 0);
	(void)gi_at(gpu, P3G, 4);
	assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, P1G, &gi), 23);
	clear();
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
	/* One +me, by its maximum. */
	(void)gi_new(gpu, P1G_ME);
	assert_int_equal(gi_room(gpu, P1G_ME), 0);
	assert_int_equal(nvmlDeviceCreateGpuInstance(gpu, P1G_ME, &gi), 23);
}

/* Large holes stay; ids go with the place. */
static void placement__is_the_drivers_choice_without_a_wish(void **state)
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
		clear();
	}
}

static void placement__all_media_engines_leave_room_for_none_only(void **state)
{
	nvmlGpuInstance_t gi;

	(void)state;
	begin("rtx-pro-6000-1");
	mig_on(gpu);
	(void)gi_new(gpu, 65); /* 1g+me.all */
	assert_int_equal(gi_room(gpu, 14), 0);
	assert_int_equal(gi_room(gpu, 21), 0);
	assert_int_equal(gi_room(gpu, 47), 0);
	assert_int_equal(gi_room(gpu, 5), 0);
	assert_int_equal(gi_room(gpu, 67), 3); /* 1g-me */
	assert_int_equal(gi_room(gpu, 66), 1); /* 2g-me */
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

/* ---- compute instances -------------------------------------------------------------------------- */

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
			nvmlComputeInstancePlacement_t places[8];
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
						 k, places, &n),
				0);
			assert_int_equal(n, rows[i].want[k].max);
			assert_int_equal(places[n - 1].size, rows[i].want[k].slices);
			for (unsigned int m = 0; m < rows[i].want[k].max; m++)
				(void)ci_new(gi, k);
			assert_int_equal(nvmlGpuInstanceCreateComputeInstance(gi, k,
						 &(nvmlComputeInstance_t){ NULL }),
				23);
			clear();
			gi = gi_new(gpu, rows[i].id);
		}
		clear();
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

/* ---- MIG devices -------------------------------------------------------------------------------- */

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

static void devices__refuse_what_only_the_gpu_can_say(void **state)
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
	/* And with MIG on the GPU itself has no load. */
	n = 1;
	assert_int_equal(nvmlDeviceGetUtilizationRates(d, &u), 3);
	assert_int_equal(nvmlDeviceGetUtilizationRates(gpu, &u), 3);
	assert_int_equal(nvmlDeviceGetEncoderUtilization(gpu, &n, &m), 3);
	assert_int_equal(nvmlDeviceGetProcessUtilization(gpu, &sample, &n, 0), 3);
	assert_int_equal(nvmlDeviceGetRemappedRows(gpu, &n, &n, &n, &n), 3);
	assert_int_equal(nvmlDeviceGetPowerUsage(gpu, &n), 0);
	assert_int_equal(nvmlDeviceSetComputeMode(gpu, 3), 3);
	/* What it does say. */
	assert_int_equal(nvmlDeviceGetBAR1MemoryInfo(d, &bar), 0);
	assert_int_equal(bar.bar1Total >> 20, 16383);
	assert_int_equal(nvmlDeviceSetComputeMode(d, 3), 0);
	assert_int_equal(nvmlDeviceGetComputeMode(d, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(nvmlDeviceGetComputeMode(gpu, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(nvmlDeviceGetMemoryErrorCounter(d, 0, 0, 2, &l), 0);
}

static void handles__of_what_was_destroyed_are_stale(void **state)
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
			/* Nor do they mean a newer one with the same ids. */
			same = gi_new(gpu, P2G);
			assert_int_equal(gi_info(same).id, 3 + 2 * again);
			(void)ci_new(same, 1);
		}
		assert_ok(sim_control_reset(&f.control, 0, &err), &err);
	}
}

static void garbage__is_refused(void **state)
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

/* ---- permission and counting --------------------------------------------------------------------- */

static void changes__need_root(void **state)
{
	nvmlGpuInstance_t gi;
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0)
		skip();
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

#define ON(test, model) cmocka_unit_test_setup_teardown(test, begin_##model, end)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(products__have_the_documented_names),
		cmocka_unit_test(products__take_what_they_say),
		ON(profiles__refuse_what_a_real_driver_refuses, h100),
		ON(profiles__can_be_hidden_while_mig_is_off, a100),
		ON(capacity__follows_the_observed_sequence, a100),
		ON(placement__corollaries, a100),
		ON(placement__is_the_drivers_choice_without_a_wish, a100),
		cmocka_unit_test(placement__all_media_engines_leave_room_for_none_only),
		ON(compute__profiles_of_each_gpu_instance, h100),
		ON(compute__share_a_gpu_instance, h100),
		ON(devices__are_ordered_and_named, a100),
		ON(devices__are_found_by_uuid, a100),
		ON(devices__refuse_what_only_the_gpu_can_say, h100),
		ON(handles__of_what_was_destroyed_are_stale, a100),
		ON(garbage__is_refused, h100),
		ON(changes__need_root, h100),
		ON(calls__are_counted_once_each, a100),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
