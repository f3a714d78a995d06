/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Allocates memory and keeps it, controlled by the integration tests.
 *
 *	cuda-hold [--device N] [--bytes BYTES | --until-full PIECE] [--managed] [--wait]
 *
 * Prints its figures; with --wait it answers each line on its standard input until that ends: "look"
 * with the figures as they are then, "more" after one more allocation of the same size, "fork" after it
 * has a child, which does nothing for a minute.
 */
#include "cuda/driver.h"

#include <string.h>
#include <unistd.h>

struct hold {
	CUdevice device;
	nvmlDevice_t nvml;
	uint64_t held, count;
	CUresult last;
	bool managed;
	pid_t child;
};

static CUresult take_bytes(struct hold *h, uint64_t bytes)
{
	CUdeviceptr p;

	h->last = h->managed ? cu.cuMemAllocManaged(&p, bytes, CU_MEM_ATTACH_GLOBAL)
			     : cu.cuMemAlloc_v2(&p, bytes);
	if (h->last == CUDA_SUCCESS) {
		h->held += bytes;
		h->count++;
	}
	return h->last;
}

static void print_figures(const struct hold *h)
{
	nvmlProcessInfo_t infos[PHYSICAL_MAX];
	unsigned int n = PHYSICAL_MAX;
	size_t free = 0, total = 0, device = 0;
	nvmlMemory_t m = { .total = 0 };
	CUresult r = cu.cuMemGetInfo_v2(&free, &total);
	nvmlReturn_t nr = nvml.nvmlDeviceGetMemoryInfo(h->nvml, &m);

	(void)cu.cuDeviceTotalMem_v2(&device, h->device);
	if (nvml.nvmlDeviceGetComputeRunningProcesses_v3(h->nvml, &n, infos) != NVML_SUCCESS)
		n = 0;
	(void)printf("pid=%d child=%d held=%llu count=%llu last=%u info=%u free=%zu total=%zu "
		     "device_total=%zu nvml=%d nvml_total=%llu nvml_used=%llu nvml_free=%llu "
		     "processes=%u pids=",
		(int)getpid(), (int)h->child, (unsigned long long)h->held,
		(unsigned long long)h->count, h->last, r, free, total, device, (int)nr, m.total,
		m.used, m.free, n);
	for (unsigned int i = 0; i < n; i++)
		(void)printf("%s%u", i ? "," : "", infos[i].pid);
	(void)printf("\n");
	(void)fflush(stdout);
}

static pid_t idle_child(void)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)alarm(60);
	(void)close(STDIN_FILENO);
	(void)close(STDOUT_FILENO);
	for (;;)
		(void)pause();
}

int main(int argc, char **argv)
{
	struct hold h = { .managed = false };
	uint64_t bytes = 0, piece = 0;
	CUcontext context;
	bool wait = false;
	int ordinal = 0;
	char line[64], uuid[64];

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--managed") == 0)
			h.managed = true;
		else if (strcmp(argv[i], "--wait") == 0)
			wait = true;
		else if (strcmp(argv[i], "--bytes") == 0)
			bytes = number(argv[++i], "--bytes");
		else if (strcmp(argv[i], "--until-full") == 0)
			piece = number(argv[++i], "--until-full");
		else if (strcmp(argv[i], "--device") == 0)
			ordinal = (int)number(argv[++i], "--device");
		else
			die("unknown option '%s'", argv[i]);
	}
	cuda_open();
	nvml_open();
	must(cu.cuDeviceGet(&h.device, ordinal), "cuDeviceGet");
	h.nvml = nvml_of(h.device, uuid);
	/* An error of the context is an answer too: there may be no room for one. */
	h.last = cu.cuDevicePrimaryCtxRetain(&context, h.device);
	if (h.last == CUDA_SUCCESS)
		must(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
	if (h.last == CUDA_SUCCESS && bytes)
		(void)take_bytes(&h, bytes);
	while (h.last == CUDA_SUCCESS && piece && take_bytes(&h, piece) == CUDA_SUCCESS)
		;
	print_figures(&h);
	while (wait && fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "more\n") == 0)
			(void)take_bytes(&h, bytes ? bytes : piece);
		else if (strcmp(line, "fork\n") == 0)
			h.child = idle_child();
		print_figures(&h);
	}
	return 0;
}
