/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with NVIDIA's static CUDA runtime. It has a dlsym of its own, so that it sees each
 * function that the runtime asks the driver for, and prints, for each that it was given,
 *
 *	ours|real SYMBOL NAME VERSION FLAGS
 *
 * and at last "runtime VERSION". The runtime asks for all of them before it uses any.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef unsigned int get_fn(const char *, void **, int, uint64_t, unsigned int *);

extern int cudaRuntimeGetVersion(int *version);
extern int cudaGetDeviceCount(int *count);

static get_fn *get;

static unsigned int record_request(const char *name, void **fn, int version, uint64_t flags,
	unsigned int *status)
{
	unsigned int r = get(name, fn, version, flags, status);
	Dl_info info;

	if (r == 0 && fn && *fn && dladdr(*fn, &info))
		printf("%s %s %s %d %llu\n",
			strstr(info.dli_fname, "gpuslice") ? "ours" : "real",
			info.dli_sname ? info.dli_sname : "?", name, version,
			(unsigned long long)flags);
	/* The runtime gets record_request() also for cuGetProcAddress(), so all later requests pass through it. */
	if (r == 0 && fn && *fn == (void *)get)
		*fn = (void *)record_request;
	return r;
}

void *dlsym(void *handle, const char *name)
{
	void *(*real)(void *, const char *) =
		(void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", DLSYM_VERSION);
	void *fn = real ? real(handle, name) : NULL;

	if (!fn || strcmp(name, "cuGetProcAddress_v2") != 0)
		return fn;
	get = (get_fn *)fn;
	return (void *)record_request;
}

int main(void)
{
	int version = 0, count = 0;

	cudaGetDeviceCount(&count);
	if (cudaRuntimeGetVersion(&version) != 0)
		return 1;
	printf("runtime %d\n", version);
	return 0;
}
