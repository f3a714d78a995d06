/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that reaches the driver by itself: for RTLD_DEEPBIND, namespaces and search paths. Built
 * as it is, with NEEDED libcuda.so.1 (-DNEEDED), and as "neighbour", which is found by the caller's RUNPATH only.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int inside(const char *what, const char *file, char *ret, size_t size);
int neighbour(void);

#ifdef NEIGHBOR_POD
int neighbour(void)
{
	return 1;
}
#else
#	ifdef NEEDED
unsigned int cuDriverGetVersion(int *version);
#	endif

static void report(unsigned int (*fn)(int *), char *ret, size_t size)
{
	Dl_info info;
	int version = -1;

	if (fn && dladdr((void *)fn, &info) && fn(&version) == 0)
		snprintf(ret, size, "%s %d",
			strstr(info.dli_fname, "gpuslice") ? "ours" : "real", version);
	else
		snprintf(ret, size, "none");
}

int inside(const char *what, const char *file, char *ret, size_t size)
{
	void *handle;

	if (strcmp(what, "dlopen") == 0) {
		handle = dlopen(file, RTLD_NOW);
		if (!handle) {
			snprintf(ret, size, "failed: %s", dlerror());
			return 1;
		}
		if (strstr(file, "neighbour"))
			snprintf(ret, size, "found");
		else
			report((unsigned int (*)(int *))dlsym(handle, "cuDriverGetVersion"),
				ret, size);
	}
#	ifdef NEEDED
	if (strcmp(what, "call") == 0)
		report(cuDriverGetVersion, ret, size);
#	endif
	return 0;
}
#endif
