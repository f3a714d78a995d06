/* SPDX-License-Identifier: Apache-2.0 */

/* MIG of the fake NVML: profiles, and the instances that the file lists. */
#include "fake-nvml-internal.h"

#include <stdint.h>
#include <string.h>

#define GI_HANDLES 5000

static const struct profile {
	unsigned int number, id, slices, ofa;
	unsigned long long memory_mib;
	const char *name;
} profiles[] = {
	{ 0, 19, 1, 0, 4864, "MIG 1g.5gb" },
	{ 2, 9, 3, 0, 20096, "MIG 3g.20gb" },
	{ 7, 20, 1, 1, 4864, "MIG 1g.5gb+me" },
	{ 17, 32, 3, 0, 20096, "MIG 3g.20gb+gfx" }, /* the attributes of number 2 */
	{ 25, 60, 2, 0, 9984, "MIG 2g.11gb+new" },  /* of a driver to come */
	{ 26, 61, 2, 1, 9984, "new" },
};
#define PROFILE_NUMBERS 27

/* The "mig" line of a MIG device's handle. */
static bool mig_line(nvmlDevice_t d, char words[WORDS_MAX][64])
{
	int index = fake_nvml_index(d);

	return index >= MIG_FIRST &&
	       fake_nvml_find_line("mig", index / MIG_FIRST - 1, index % MIG_FIRST, words);
}

#define MIG_LINE(d)                \
	char words[WORDS_MAX][64]; \
	ACT(d);                    \
	if (!mig_line(d, words))   \
	return NVML_ERROR_INVALID_ARGUMENT

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *text, unsigned int len)
{
	char words[WORDS_MAX][64];

	ACT(d);
	if (mig_line(d, words))
		(void)snprintf(text, len, "MIG-fake-%s-%s-%s", words[1], words[3], words[4]);
	else
		(void)snprintf(text, len, "GPU-fake-%d", fake_nvml_index(d));
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *current, unsigned int *pending)
{
	char words[WORDS_MAX][64];

	ACT(d);
	if (!fake_nvml_find_line("migmode", fake_nvml_index(d), -1, words))
		return NVML_ERROR_NOT_SUPPORTED;
	*current = NVML_DEVICE_MIG_ENABLE;
	*pending = (unsigned int)fake_nvml_number(words[2]);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned int *n)
{
	ACT(d);
	*n = 7;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned int index,
	nvmlDevice_t *mig)
{
	char words[WORDS_MAX][64];

	ACT(d);
	if (!fake_nvml_find_line("mig", fake_nvml_index(d), (int)index, words))
		return index < 6 ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
	*mig = fake_nvml_device(MIG_FIRST * ((unsigned int)fake_nvml_index(d) + 1) + index);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned int *id)
{
	MIG_LINE(d);
	*id = (unsigned int)fake_nvml_number(words[3]);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t d, unsigned int *id)
{
	MIG_LINE(d);
	*id = (unsigned int)fake_nvml_number(words[4]);
	return NVML_SUCCESS;
}

static const struct profile *profile_of(int id)
{
	static const struct profile none = { .id = 99, .slices = 1, .memory_mib = 1 };

	for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
		if ((int)profiles[i].id == id)
			return &profiles[i];
	}
	return &none;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t d, nvmlDeviceAttributes_t *a)
{
	const struct profile *p;

	MIG_LINE(d);
	p = profile_of(fake_nvml_number(words[5]));
	*a = (nvmlDeviceAttributes_t){ .multiprocessorCount =
					       14 * (unsigned int)fake_nvml_number(words[6]),
		.sharedCopyEngineCount = p->slices,
		.sharedOfaCount = p->ofa,
		.gpuInstanceSliceCount = p->slices,
		.computeInstanceSliceCount = (unsigned int)fake_nvml_number(words[6]),
		.memorySizeMB = p->memory_mib };
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t d, unsigned int number,
	nvmlGpuInstanceProfileInfo_t *info)
{
	ACT(d);
	for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
		const struct profile *p = &profiles[i];

		if (p->number != number)
			continue;
		*info = (nvmlGpuInstanceProfileInfo_t){ .id = p->id,
			.sliceCount = p->slices,
			.copyEngineCount = p->slices,
			.ofaCount = p->ofa,
			.memorySizeMB = p->memory_mib };
		return NVML_SUCCESS;
	}
	return number < PROFILE_NUMBERS ? NVML_ERROR_NOT_SUPPORTED
					: NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t d, unsigned int number,
	nvmlGpuInstanceProfileInfo_v2_t *info)
{
	ACT(d);
	if (info->version != NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
		if (profiles[i].number == number)
			(void)snprintf(info->name, sizeof info->name, "%s", profiles[i].name);
	}
	return NVML_SUCCESS;
}

/* A handle is the GPU and the GI's id. */
nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t d, unsigned int id,
	nvmlGpuInstance_t *gi)
{
	ACT(d);
	*gi = (nvmlGpuInstance_t)(uintptr_t)(GI_HANDLES + fake_nvml_index(d) * MIG_FIRST +
					     (int)id);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *info)
{
	int gpu = (int)((uintptr_t)handle - GI_HANDLES) / MIG_FIRST;
	int gi = (int)((uintptr_t)handle - GI_HANDLES) % MIG_FIRST;
	char words[WORDS_MAX][64];
	nvmlReturn_t r = fake_nvml_act(__func__, gpu);

	for (int i = 0; i < 7 && r == NVML_SUCCESS; i++) {
		if (!fake_nvml_find_line("mig", gpu, i, words) ||
			fake_nvml_number(words[3]) != gi)
			continue;
		*info = (nvmlGpuInstanceInfo_t){ .id = (unsigned int)gi,
			.profileId = (unsigned int)fake_nvml_number(words[5]) };
		return NVML_SUCCESS;
	}
	return r == NVML_SUCCESS ? NVML_ERROR_INVALID_ARGUMENT : r;
}
