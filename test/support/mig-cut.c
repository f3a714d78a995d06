/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Partitions GPUs by NVML alone, without the agent's own editor:
 *
 *	mig-cut LIBRARY GPU on|off          MIG mode; off removes all instances first
 *	mig-cut LIBRARY GPU none            removes all instances
 *	mig-cut LIBRARY GPU ID[:SLICES...]...
 *
 * ID is NVML's of a GPU instance profile; in it come compute instances of these slices, one of all
 * of it without any: 9 is a 3g with all of it, 9:1:2 a 3g with 1c and 2c.
 */
#include "lib/base/parse.h"
#include "io/nvml/nvml.h"

#include <stdio.h>
#include <string.h>

#define PROFILES_MAX  32
#define INSTANCES_MAX 16

struct cut {
	struct nvml nvml;
	nvmlDevice_t device;
};

static int report_failure(const struct cut *c, const char *what, nvmlReturn_t r)
{
	(void)fprintf(stderr, "mig-cut: %s: %s\n", what, nvml_strerror(&c->nvml, r));
	return 1;
}

static int empty_one(struct cut *c, nvmlGpuInstance_t gi)
{
	for (unsigned p = 0; p < PROFILES_MAX; p++) {
		nvmlComputeInstanceProfileInfo_t info = { .id = 0 };
		nvmlComputeInstance_t cis[INSTANCES_MAX];
		unsigned n = 0;

		if (c->nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, p, 0, &info) !=
			NVML_SUCCESS)
			continue;
		(void)c->nvml.nvmlGpuInstanceGetComputeInstances(gi, info.id, cis, &n);
		for (unsigned i = 0; i < n; i++) {
			nvmlReturn_t r = c->nvml.nvmlComputeInstanceDestroy(cis[i]);

			if (r != NVML_SUCCESS)
				return report_failure(c, "destroy a compute instance", r);
		}
	}
	return 0;
}

static int destroy_all_instances(struct cut *c)
{
	for (unsigned p = 0; p < PROFILES_MAX; p++) {
		nvmlGpuInstanceProfileInfo_t info = { .id = 0 };
		nvmlGpuInstance_t gis[INSTANCES_MAX];
		unsigned n = 0;

		if (c->nvml.nvmlDeviceGetGpuInstanceProfileInfo(c->device, p, &info) !=
			NVML_SUCCESS)
			continue;
		(void)c->nvml.nvmlDeviceGetGpuInstances(c->device, info.id, gis, &n);
		for (unsigned i = 0; i < n; i++) {
			nvmlReturn_t r = NVML_SUCCESS;

			if (empty_one(c, gis[i]) != 0)
				return 1;
			r = c->nvml.nvmlGpuInstanceDestroy(gis[i]);
			if (r != NVML_SUCCESS)
				return report_failure(c, "destroy a GPU instance", r);
		}
	}
	return 0;
}

static int switch_mode(struct cut *c, unsigned mode)
{
	nvmlReturn_t status = NVML_SUCCESS, r;

	if (mode == NVML_DEVICE_MIG_DISABLE && destroy_all_instances(c) != 0)
		return 1;
	r = c->nvml.nvmlDeviceSetMigMode(c->device, mode, &status);
	return r == NVML_SUCCESS ? 0 : report_failure(c, "set the MIG mode", r);
}

/* A compute instance of @slices; 0: of all there is. */
static int make_ci(struct cut *c, nvmlGpuInstance_t gi, unsigned slices)
{
	nvmlComputeInstanceProfileInfo_t best = { .sliceCount = 0 }, info;
	nvmlComputeInstance_t ci;
	nvmlReturn_t r;

	for (unsigned p = 0; p < PROFILES_MAX; p++) {
		if (c->nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, p, 0, &info) !=
			NVML_SUCCESS)
			continue;
		if (slices ? info.sliceCount == slices : info.sliceCount > best.sliceCount)
			best = info;
	}
	r = c->nvml.nvmlGpuInstanceCreateComputeInstance(gi, best.id, &ci);
	return r == NVML_SUCCESS ? 0 : report_failure(c, "create a compute instance", r);
}

static int make_gi(struct cut *c, char *word)
{
	char *save = NULL, *part = strtok_r(word, ":", &save);
	nvmlGpuInstance_t gi = NULL;
	uint32_t value = 0;
	nvmlReturn_t r;
	int n = 0;

	if (!part || !parse_u32(part, &value))
		return report_failure(c, word, NVML_ERROR_INVALID_ARGUMENT);
	r = c->nvml.nvmlDeviceCreateGpuInstance(c->device, value, &gi);
	if (r != NVML_SUCCESS)
		return report_failure(c, "create a GPU instance", r);
	while ((part = strtok_r(NULL, ":", &save)) != NULL) {
		n++;
		if (!parse_u32(part, &value) || make_ci(c, gi, value) != 0)
			return 1;
	}
	return n > 0 ? 0 : make_ci(c, gi, 0);
}

static int run_command_words(struct cut *c, int argc, char **argv)
{
	if (strcmp(argv[0], "on") == 0)
		return switch_mode(c, NVML_DEVICE_MIG_ENABLE);
	if (strcmp(argv[0], "off") == 0)
		return switch_mode(c, NVML_DEVICE_MIG_DISABLE);
	if (strcmp(argv[0], "none") == 0)
		return destroy_all_instances(c);
	for (int i = 0; i < argc; i++) {
		if (make_gi(c, argv[i]) != 0)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct cut c = { .device = NULL };
	struct error err = ERROR_INIT;
	uint32_t index = 0;
	nvmlReturn_t r;

	if (argc < 4 || !parse_u32(argv[2], &index)) {
		(void)fprintf(stderr,
			"usage: mig-cut LIBRARY GPU on|off|none|ID[:SLICES]...\n");
		return 2;
	}
	if (nvml_open(&c.nvml, argv[1], &err) < 0 || nvml_init(&c.nvml, &err) < 0) {
		(void)fprintf(stderr, "mig-cut: %s\n", err.msg);
		return 1;
	}
	r = c.nvml.nvmlDeviceGetHandleByIndex_v2(index, &c.device);
	if (r != NVML_SUCCESS)
		return report_failure(&c, "find the GPU", r);
	return run_command_words(&c, argc - 3, argv + 3);
}
