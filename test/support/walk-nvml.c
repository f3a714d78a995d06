/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The simulated libnvidia-ml.so.1 with something in front of the calls that change MIG: they are
 * counted, written down, and at one of them the process ends or the call fails. All else is found
 * in the simulated library behind this one.
 *
 *	WALK_NVML_LOG    a line for each call that was let through, before it is made:
 *	                 "destroy-ci GPU GI CI", "destroy-gi GPU GI", "create-gi GPU START",
 *	                 "create-ci GPU GI", "set-mode GPU MODE"
 *	WALK_NVML_AT     the number of a call, from 1
 *	WALK_NVML_DO     what happens then: kill-before and kill-after (SIGKILL), or fail:CODE
 *
 * WALK_NVML_BLIND: GPUs in MIG mode alone tell their profiles, as with old drivers.
 */
#include "lib/base/error.h"
#include "lib/base/parse.h"
#include "abi/nvml-api.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Exported as the vendor names them; the rest of the table is only looked up. */
#define WRAPPED(X)                                                                             \
	X(nvmlDeviceSetMigMode, (nvmlDevice_t d, unsigned int mode, nvmlReturn_t *activation)) \
	X(nvmlDeviceCreateGpuInstanceWithPlacement,                                            \
		(nvmlDevice_t d, unsigned int id, const nvmlGpuInstancePlacement_t *placement, \
			nvmlGpuInstance_t *gi))                                                \
	X(nvmlGpuInstanceDestroy, (nvmlGpuInstance_t gi))                                      \
	X(nvmlGpuInstanceCreateComputeInstance,                                                \
		(nvmlGpuInstance_t gi, unsigned int id, nvmlComputeInstance_t *ci))            \
	X(nvmlComputeInstanceDestroy, (nvmlComputeInstance_t ci))                              \
	X(nvmlDeviceGetGpuInstanceProfileInfo,                                                 \
		(nvmlDevice_t d, unsigned int number, nvmlGpuInstanceProfileInfo_t *info))     \
	X(nvmlDeviceGetGpuInstanceProfileInfoV,                                                \
		(nvmlDevice_t d, unsigned int number, nvmlGpuInstanceProfileInfo_v2_t *info))
#define X(name, params) nvmlReturn_t name params;
WRAPPED(X)
#undef X
nvmlReturn_t nvmlInit_v2(
	void); /* used, so that the simulated library is a dependency of this */

static struct {
#define X(name, params) nvmlReturn_t(*name) params;
	NVML_FUNCTIONS(X)
#undef X
} real;

static unsigned calls;

static void find_real(void)
{
	void *lib = real.nvmlInit_v2 ? NULL : dlopen(NVML_SONAME, RTLD_NOW);

	if (real.nvmlInit_v2)
		return;
	if (!lib)
		abort();
#define X(name, params) *(void **)&real.name = dlsym(lib, #name);
	NVML_FUNCTIONS(X)
#undef X
	real.nvmlInit_v2 = nvmlInit_v2;
}

static void write_down(const char *what, nvmlDevice_t d, unsigned a, unsigned b, int n)
{
	const char *path = getenv("WALK_NVML_LOG");
	unsigned gpu = 0;
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;

	(void)real.nvmlDeviceGetIndex(d, &gpu);
	if (fd < 0)
		return;
	(void)dprintf(fd, n > 1 ? "%s %u %u %u\n" : "%s %u %u\n", what, gpu, a, b);
	(void)close(fd);
}

/* Whether this is the call to do something at, and how. */
static const char *find_action(void)
{
	const char *at = getenv("WALK_NVML_AT"), *how = getenv("WALK_NVML_DO");
	uint32_t n = 0;

	calls++;
	return at && how && parse_u32(at, &n) && n == calls ? how : "";
}

static bool must_fail(const char *how, nvmlReturn_t *r)
{
	uint32_t code = 0;

	if (!strcmp(how, "kill-before"))
		(void)raise(SIGKILL);
	if (strncmp(how, "fail:", 5) != 0 || !parse_u32(how + 5, &code))
		return false;
	*r = (nvmlReturn_t)code;
	return true;
}

static nvmlReturn_t finish_call(const char *how, nvmlReturn_t r)
{
	if (!strcmp(how, "kill-after"))
		(void)raise(SIGKILL);
	return r;
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t d, unsigned int mode, nvmlReturn_t *activation)
{
	const char *how = find_action();
	nvmlReturn_t r;

	find_real();
	if (must_fail(how, &r))
		return r;
	write_down("set-mode", d, mode, 0, 1);
	return finish_call(how, real.nvmlDeviceSetMigMode(d, mode, activation));
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t d, unsigned int id,
	const nvmlGpuInstancePlacement_t *placement, nvmlGpuInstance_t *gi)
{
	const char *how = find_action();
	nvmlReturn_t r;

	find_real();
	if (must_fail(how, &r))
		return r;
	write_down("create-gi", d, placement->start, 0, 1);
	return finish_call(how,
		real.nvmlDeviceCreateGpuInstanceWithPlacement(d, id, placement, gi));
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t gi)
{
	nvmlGpuInstanceInfo_t info = { .id = 0 };
	const char *how = find_action();
	nvmlReturn_t r;

	find_real();
	if (must_fail(how, &r))
		return r;
	if (real.nvmlGpuInstanceGetInfo(gi, &info) == NVML_SUCCESS)
		write_down("destroy-gi", info.device, info.id, 0, 1);
	return finish_call(how, real.nvmlGpuInstanceDestroy(gi));
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t gi, unsigned int id,
	nvmlComputeInstance_t *ci)
{
	nvmlGpuInstanceInfo_t info = { .id = 0 };
	const char *how = find_action();
	nvmlReturn_t r;

	find_real();
	if (must_fail(how, &r))
		return r;
	if (real.nvmlGpuInstanceGetInfo(gi, &info) == NVML_SUCCESS)
		write_down("create-ci", info.device, info.id, 0, 1);
	return finish_call(how, real.nvmlGpuInstanceCreateComputeInstance(gi, id, ci));
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t ci)
{
	nvmlComputeInstanceInfo_t info = { .id = 0 };
	nvmlGpuInstanceInfo_t parent = { .id = 0 };
	const char *how = find_action();
	nvmlReturn_t r;

	find_real();
	if (must_fail(how, &r))
		return r;
	if (real.nvmlComputeInstanceGetInfo_v2(ci, &info) == NVML_SUCCESS &&
		real.nvmlGpuInstanceGetInfo(info.gpuInstance, &parent) == NVML_SUCCESS)
		write_down("destroy-ci", info.device, parent.id, info.id, 2);
	return finish_call(how, real.nvmlComputeInstanceDestroy(ci));
}

static bool is_blind(nvmlDevice_t d)
{
	unsigned now = 0, pending = 0;

	find_real();
	return getenv("WALK_NVML_BLIND") &&
	       real.nvmlDeviceGetMigMode(d, &now, &pending) == NVML_SUCCESS && !now;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t d, unsigned int number,
	nvmlGpuInstanceProfileInfo_t *info)
{
	return is_blind(d) ? NVML_ERROR_NOT_SUPPORTED
			   : real.nvmlDeviceGetGpuInstanceProfileInfo(d, number, info);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t d, unsigned int number,
	nvmlGpuInstanceProfileInfo_v2_t *info)
{
	return is_blind(d) ? NVML_ERROR_NOT_SUPPORTED
			   : real.nvmlDeviceGetGpuInstanceProfileInfoV(d, number, info);
}
