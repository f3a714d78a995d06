/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What tests need of nvidia-smi in a container: what NVML shows there. A line for each GPU with its
 * device node; if MIG is on, a line for each MIG device with its profile, UUID and memory.
 *
 *	/dev/nvidia3
 *	  1g.5gb MIG-6b4ba2a1-... 4864 MiB
 */
#include "abi/nvml-api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define USED(X) \
	X(nvmlInit_v2) X(nvmlDeviceGetCount_v2) X(nvmlDeviceGetHandleByIndex_v2) \
	X(nvmlDeviceGetMinorNumber) X(nvmlDeviceGetMaxMigDeviceCount) \
	X(nvmlDeviceGetMigDeviceHandleByIndex) X(nvmlDeviceGetName) X(nvmlDeviceGetUUID) \
	X(nvmlDeviceGetMemoryInfo)
/* clang-format on */

static struct {
#define X(name, params) nvmlReturn_t(*name) params;
	NVML_FUNCTIONS(X)
#undef X
} nvml;

static void must(nvmlReturn_t r, const char *what)
{
	if (r == NVML_SUCCESS)
		return;
	(void)fprintf(stderr, "nvidia-smi: %s: NVML error %d\n", what, (int)r);
	exit((int)r & 0xFF);
}

static void open_library(void)
{
	void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW);

	if (!lib) {
		(void)fprintf(stderr, "nvidia-smi: %s\n", dlerror());
		exit(127);
	}
#define X(name)                                                     \
	*(void **)&nvml.name = dlsym(lib, #name); /* POSIX's way */ \
	if (!nvml.name)                                             \
		exit(127);
	USED(X)
#undef X
}

static void show_mig(nvmlDevice_t gpu)
{
	unsigned int max = 0;

	if (nvml.nvmlDeviceGetMaxMigDeviceCount(gpu, &max))
		return;
	for (unsigned int i = 0; i < max; i++) {
		nvmlDevice_t mig;
		nvmlMemory_t memory;
		char name[96] = "", uuid[96] = "";
		const char *profile;

		if (nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, i, &mig))
			continue;
		must(nvml.nvmlDeviceGetName(mig, name, sizeof(name)), "name");
		must(nvml.nvmlDeviceGetUUID(mig, uuid, sizeof(uuid)), "UUID");
		must(nvml.nvmlDeviceGetMemoryInfo(mig, &memory), "memory");
		profile = strstr(name, "MIG ");
		(void)printf("  %s %s %llu MiB\n", profile ? profile + 4 : name, uuid,
			(unsigned long long)memory.total >> 20);
	}
}

int main(void)
{
	unsigned int n;

	open_library();
	must(nvml.nvmlInit_v2(), "init");
	must(nvml.nvmlDeviceGetCount_v2(&n), "count");
	for (unsigned int i = 0; i < n; i++) {
		nvmlDevice_t gpu;
		unsigned int minor;

		must(nvml.nvmlDeviceGetHandleByIndex_v2(i, &gpu), "handle");
		must(nvml.nvmlDeviceGetMinorNumber(gpu, &minor), "minor number");
		(void)printf("/dev/nvidia%u\n", minor);
		show_mig(gpu);
	}
	return 0;
}
