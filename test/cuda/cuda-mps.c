/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A client of MPS, or a program without it: what mps-facts.sh and the tests tell its story with.
 *
 *	cuda-mps MODE [SECONDS]
 *
 * Each line begins with a word. It says how cuInit() went, what the device looks like, how a context went, then
 *
 *	idle      waits
 *	fill      takes all memory there is
 *	hold      takes 1 GiB and runs kernels until a call fails, then says what else still goes
 *	bad, trap a kernel that faults, after half a second
 *	long      one kernel of so many seconds
 *
 * Exits 3 where cuInit() fails, 4 where there is no context.
 */
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "cuda/driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define ATTRIBUTE_MPS 133
#define STEP_NS       UINT64_C(200000)
#define SECOND_NS     1e9

struct client {
	CUdevice device;
	CUcontext context;
	CUmodule module;
	double seconds;
};

static CUresult print_result(const char *what, CUresult r)
{
	const char *name = NULL;

	if (cu.cuGetErrorName(r, &name) != CUDA_SUCCESS)
		name = "?";
	(void)printf("%s %u %s\n", what, r, name);
	(void)fflush(stdout);
	return r;
}

static int get_device_attribute(const struct client *c, unsigned int which)
{
	int v = -1;

	(void)cu.cuDeviceGetAttribute(&v, which, c->device);
	return v;
}

static void print_memory(void)
{
	size_t free = 0, total = 0;

	(void)cu.cuMemGetInfo_v2(&free, &total);
	(void)printf("memory free %zu total %zu\n", free, total);
	(void)fflush(stdout);
}

static CUresult launch_named(const struct client *c, const char *name, uint64_t ns)
{
	void *params[] = { &ns };
	CUfunction f;
	CUresult r = cu.cuModuleGetFunction(&f, c->module, name);

	return r ? r : cu.cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL);
}

static CUresult take_mib(uint64_t mib)
{
	CUdeviceptr p;

	return cu.cuMemAlloc_v2(&p, mib * MIB);
}

static void fill(void)
{
	static const uint64_t steps[] = { 1024, 64, 2 };
	uint64_t got = 0;
	CUresult r = CUDA_SUCCESS;

	for (size_t i = 0; i < 3; i++)
		while ((r = take_mib(steps[i])) == CUDA_SUCCESS)
			got += steps[i];
	(void)printf("filled %llu MiB, then %u\n", (unsigned long long)got, r);
	print_memory();
}

static void hold_context(const struct client *c)
{
	uint64_t end = time_mono_ns() + (uint64_t)(c->seconds * SECOND_NS);
	CUresult r = CUDA_SUCCESS;
	CUcontext other;

	(void)print_result("gib", take_mib(1024));
	(void)print_result("ready", CUDA_SUCCESS);
	while (r == CUDA_SUCCESS && time_mono_ns() < end) {
		r = launch_named(c, "spin", STEP_NS);
		if (r == CUDA_SUCCESS)
			r = cu.cuCtxSynchronize();
		sleep_us(2000);
	}
	(void)print_result("loop", r);
	if (r == CUDA_SUCCESS)
		return;
	(void)print_result("destroy", cu.cuCtxDestroy_v2(c->context));
	(void)print_result("again", cu.cuCtxCreate_v2(&other, 0, c->device));
}

static void run_one(const struct client *c, const char *kernel, uint64_t ns)
{
	(void)print_result("ready", CUDA_SUCCESS);
	sleep_us(ns ? 0 : 500000);
	(void)print_result("launch", launch_named(c, kernel, ns));
	(void)print_result("sync", cu.cuCtxSynchronize());
}

static void start_client(struct client *c)
{
	int version = 0;

	must(cu.cuDeviceGet(&c->device, 0), "cuDeviceGet");
	must(cu.cuDriverGetVersion(&version), "cuDriverGetVersion");
	(void)printf("device sms %d mps %d\n",
		get_device_attribute(c, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
		get_device_attribute(c, ATTRIBUTE_MPS));
	if (print_result("context", cu.cuCtxCreate_v2(&c->context, 0, c->device)))
		exit(4);
	print_memory();
	must(cu.cuModuleLoadData(&c->module, kernels()), "cuModuleLoadData");
}

/* cuda_open() would end the program with another status. */
static void init_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	CUresult (*real)(unsigned int) = NULL;
	CUresult r;

	if (driver)
		*(void **)&real = dlsym(driver, "cuInit");
	if (!real)
		exit(NO_DRIVER_EXIT);
	r = real(0);
	if (r != CUDA_SUCCESS) {
		(void)printf("init %u\n", r);
		exit(3);
	}
	(void)printf("init 0\n");
	cuda_open();
}

int main(int argc, char **argv)
{
	struct client c = { .seconds = 0 };
	const char *mode = argc > 1 ? argv[1] : "idle";

	if (argc > 2 && !parse_double(argv[2], &c.seconds))
		die("'%s' is no number of seconds", argv[2]);
	init_driver();
	start_client(&c);
	if (!strcmp(mode, "fill")) {
		fill();
	} else if (!strcmp(mode, "hold")) {
		hold_context(&c);
	} else if (!strcmp(mode, "bad")) {
		run_one(&c, "bad_address", 0);
	} else if (!strcmp(mode, "trap")) {
		run_one(&c, "trap_now", 0);
	} else if (!strcmp(mode, "long")) {
		run_one(&c, "spin", (uint64_t)(c.seconds * SECOND_NS));
		return 0;
	} else {
		(void)print_result("ready", CUDA_SUCCESS);
	}
	if (strcmp(mode, "hold") != 0)
		sleep_us((unsigned int)(c.seconds * 1e6));
	return 0;
}
