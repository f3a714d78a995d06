/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What NVML alone shows of each GPU, as nvidia-smi asks for it: no CUDA is loaded. With --time also how
 * long an answer takes; with --set whether a setting of the GPU would be taken.
 *
 *	nvml-look [--time] [--set]
 */
#include "lib/base/time.h"
#include "cuda/driver.h"

#include <string.h>

#define TIMES 2000

static double us_each(nvmlDevice_t d, bool processes)
{
	nvmlProcessInfo_t infos[PHYSICAL_MAX];
	uint64_t at = time_mono_ns();

	for (int i = 0; i < TIMES; i++) {
		unsigned int n = PHYSICAL_MAX;
		nvmlMemory_t m;

		if (processes)
			(void)nvml.nvmlDeviceGetComputeRunningProcesses_v3(d, &n, infos);
		else
			(void)nvml.nvmlDeviceGetMemoryInfo(d, &m);
	}
	return ms_since(at) * 1000 / TIMES;
}

static void show_gpu(nvmlDevice_t d, bool timed, bool set)
{
	nvmlProcessInfo_t infos[PHYSICAL_MAX];
	nvmlMemory_v2_t v2 = { .version = NVML_STRUCT_VERSION(v2, 2) };
	nvmlMemory_t v1 = { .total = 0 };
	unsigned int n = PHYSICAL_MAX, minor = 0;
	char uuid[96] = "";
	nvmlReturn_t r1 = nvml.nvmlDeviceGetMemoryInfo(d, &v1), list;
	nvmlReturn_t r2 = nvml.nvmlDeviceGetMemoryInfo_v2(d, &v2);

	(void)nvml.nvmlDeviceGetUUID(d, uuid, sizeof(uuid));
	(void)nvml.nvmlDeviceGetMinorNumber(d, &minor);
	list = nvml.nvmlDeviceGetComputeRunningProcesses_v3(d, &n, infos);
	if (list)
		n = 0;
	(void)printf("minor=%u uuid=%s memory=%d total=%llu used=%llu free=%llu memory_v2=%d "
		     "total_v2=%llu used_v2=%llu free_v2=%llu reserved_v2=%llu list=%d "
		     "processes=%u pids=",
		minor, uuid, (int)r1, v1.total, v1.used, v1.free, (int)r2, v2.total, v2.used,
		v2.free, v2.reserved, (int)list, n);
	for (unsigned int i = 0; i < n; i++)
		(void)printf("%s%u:%llu", i ? "," : "", infos[i].pid, infos[i].usedGpuMemory);
	if (set)
		(void)printf(" set=%d", (int)nvml.nvmlDeviceSetPersistenceMode(d, 1));
	if (timed)
		(void)printf(" memory_us=%.2f processes_us=%.2f", us_each(d, false),
			us_each(d, true));
	(void)printf("\n");
}

int main(int argc, char **argv)
{
	bool timed = false, set = false;
	unsigned int n = 0;

	for (int i = 1; i < argc; i++) {
		timed |= strcmp(argv[i], "--time") == 0;
		set |= strcmp(argv[i], "--set") == 0;
	}
	nvml_open();
	if (nvml.nvmlDeviceGetCount_v2(&n))
		die("nvmlDeviceGetCount_v2");
	for (unsigned int i = 0; i < n; i++) {
		nvmlDevice_t d;

		if (nvml.nvmlDeviceGetHandleByIndex_v2(i, &d))
			die("nvmlDeviceGetHandleByIndex_v2");
		show_gpu(d, timed, set);
	}
	return 0;
}
