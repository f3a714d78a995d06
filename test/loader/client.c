/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reaches the driver by one of the ways that programs use, and prints the result:
 *
 *	OF-WHOM VERSION NEW
 *
 * OF-WHOM: the owner of the function ("ours", "real", "none"). VERSION: the driver's version (the ORIGIN of
 * fake-driver.c; -N: error N). NEW: the result of a driver function that no list has ("-": not found). Built for
 * each generation of the C library, so the program uses nothing new.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned int version_fn(int *version);
typedef unsigned int plain_fn(void);
typedef int inside_fn(const char *what, const char *file, char *ret, size_t size);

#ifndef __GLIBC__ /* musl, where no interception library is loaded */
#	define LM_ID_NEWLM   0
#	define RTLD_DEEPBIND 0
static void *dlmopen(long where, const char *file, int mode)
{
	return dlopen(where ? NULL : file, mode);
}
#endif

#ifdef NEEDED
version_fn cuDriverGetVersion;
#endif

static int fail(const char *what)
{
	const char *why = dlerror();

	printf("failed: %s: %s\n", what, why ? why : "");
	return 1;
}

static const char *find_owner(void *fn)
{
	Dl_info info;

	if (!fn)
		return "none";
	if (!dladdr(fn, &info))
		return "unknown";
	return strstr(info.dli_fname, "gpuslice") ? "ours" : "real";
}

static int report(void *fn, void *new_fn)
{
	int version = -1;
	unsigned int r = fn ? ((version_fn *)fn)(&version) : 0;

	printf("%s %d ", find_owner(fn), r ? -(int)r : version);
	if (new_fn)
		printf("%u\n", ((plain_fn *)new_fn)());
	else
		printf("-\n");
	return 0;
}

static int of_handle(void *handle)
{
	void *fn = dlsym(handle, "cuDriverGetVersion"), *nvml;

	if (fn)
		return report(fn, dlsym(handle, "cuNewInThisDriver"));
	nvml = dlsym(handle, "nvmlSystemGetCudaDriverVersion");
	return report(nvml, dlsym(handle, "nvmlNewInThisDriver"));
}

static int open_and_find(const char *file, int mode)
{
	void *handle = dlopen(file, mode);

	return handle ? of_handle(handle) : fail("dlopen");
}

static int by_procaddr(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	unsigned int (*get)(const char *, void **, int, uint64_t, unsigned int *);
	unsigned int (*get1)(const char *, void **, int, uint64_t);
	void *fn = NULL;
	unsigned int status = 9, r;

	if (!handle)
		return fail("dlopen");
	get = (unsigned int (*)(const char *, void **, int, uint64_t, unsigned int *))dlsym(
		handle, "cuGetProcAddress_v2");
	get1 = (unsigned int (*)(const char *, void **, int, uint64_t))dlsym(handle,
		"cuGetProcAddress");
	printf("%s %s", find_owner((void *)get), find_owner((void *)get1));
	r = get("cuGetProcAddress", &fn, 12000, 0, &status);
	printf(" %u %u %s %d", r, status, find_owner(fn), fn == (void *)get);
	r = get1("cuGetProcAddress", &fn, 11030, 2);
	printf(" %u %s %d", r, find_owner(fn), fn == (void *)get1);
	r = get("cuDriverGetVersion", &fn, 12000, 1, NULL);
	printf(" %u %s", r, find_owner(fn));
	r = get("", &fn, 0, 0, &status);
	printf(" %u %u %s", r, status, find_owner(fn));
	r = get("cuInit", &fn, 12000, 4, &status);
	printf(" %u\n", r);
	return 0;
}

/* Registers of all kinds arrive, also where the call is the first and loads the driver. */
static int with_arguments(void)
{
	typedef unsigned int many_fn(long, long, long, long, long, long, long, double, double,
		double, double, double, double, double, double);
	many_fn *fn = (many_fn *)dlsym(RTLD_DEFAULT, "cuTexRefGetMipmapLevelBias");
	unsigned int first, second;

	if (!fn)
		return fail("dlsym");
	first = fn(1, 2, 3, 4, 5, 6, 7, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5);
	second = fn(1, 2, 3, 4, 5, 6, 7, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5);
	printf("%u %u\n", first, second);
	return 0;
}

/* The library has all names of the driver, and no other names. */
static int check_driver_names(const char *file)
{
	void *handle = dlopen(file, RTLD_NOW);
	char name[32];
	int n = 0, *variable;

	if (!handle)
		return fail("dlopen");
	for (int i = 0; i < 64; i++) {
		snprintf(name, sizeof(name), "cuNewA%d%d", i / 8, i % 8);
		n += dlsym(handle, name) != NULL;
	}
	variable = (int *)dlsym(handle, "cudbgNewVariable");
	printf("%d %d %s %s\n", n, variable ? *variable : -1,
		find_owner(dlsym(handle, "cuInit")),
		find_owner(dlsym(handle, "cuMemAlloc_v2")));
	return 0;
}

static void *race_thread(void *arg)
{
	static const char *const known[] = { "cuInit", "cuDriverGetVersion",
		"cuTexRefGetMipmapLevelBias", "cuGetProcAddress", "cuGetProcAddress_v2" };
	uintptr_t n = (uintptr_t)arg, bad = 0;

	if (n % 2) {
		void *handle = dlopen("libcuda.so.1", RTLD_NOW);

		for (int i = 0; i < 1000; i++)
			bad += !handle || !dlsym(handle, "cuNewInThisDriver");
	} else {
		for (int i = 0; i < 5000; i++)
			bad += strcmp(find_owner(dlsym(RTLD_DEFAULT, known[i % 5])), "ours") !=
			       0;
	}
	return (void *)bad;
}

static int race_lookups(void)
{
	pthread_t threads[16];
	uintptr_t bad = 0;
	void *ret;

	for (uintptr_t i = 0; i < 16; i++)
		if (pthread_create(&threads[i], NULL, race_thread, (void *)i))
			return 1;
	for (int i = 0; i < 16; i++) {
		pthread_join(threads[i], &ret);
		bad += (uintptr_t)ret;
	}
	printf("%lu bad\n", (unsigned long)bad);
	return 0;
}

/*
 * Children are forked off all through the loading. Each must come to an end, with the right answer;
 * or with the loader's own refusal (127) to open anything in a child that was forked off in the middle
 * of its work, which it gives programs without us too.
 */
static int fork_race(void)
{
	pthread_t thread;
	int bad = 0, status;
	pid_t pids[40];
	version_fn *fn = (version_fn *)dlsym(RTLD_DEFAULT, "cuDriverGetVersion");

	if (!fn || pthread_create(&thread, NULL, race_thread, (void *)1))
		return fail("fork race");
	for (int i = 0; i < 40; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			int version = -1;

			alarm(10);
			close(STDERR_FILENO);
			_exit(fn(&version) != 0 || version != 1);
		}
	}
	for (int i = 0; i < 40; i++)
		bad += waitpid(pids[i], &status, 0) != pids[i] ||
		       (status != 0 && status != 127 << 8);
	pthread_join(thread, NULL);
	printf("%d bad\n", bad);
	return 0;
}

static int child_status(pid_t pid)
{
	int status = -1;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int spawn(char **argv, int with_vfork)
{
	static char *no_environment[] = { NULL };
	pid_t pid;

	fflush(stdout);
	if (with_vfork) {
		pid = vfork();
		if (pid == 0) {
			execve(argv[0], argv, no_environment);
			_exit(127);
		}
		return child_status(pid);
	}
	return posix_spawn(&pid, argv[0], NULL, NULL, argv, no_environment) ? 1
									    : child_status(pid);
}

/* A library that does it; its own path, its own binding. */
static int call_inside(const char *library, int mode, const char *what, const char *file)
{
	char text[256] = "";
	void *handle = dlopen(library, mode);
	inside_fn *fn = handle ? (inside_fn *)dlsym(handle, "inside") : NULL;

	if (!fn)
		return fail("dlopen of the library");
	fn(what, file, text, sizeof(text));
	puts(text);
	return 0;
}

static int in_namespace(const char *library, const char *what, const char *file)
{
	char text[256] = "";
	void *handle = dlmopen(LM_ID_NEWLM, library, RTLD_NOW);
	inside_fn *fn;

	if (!handle)
		return fail("dlmopen");
	if (!what)
		return of_handle(handle);
	fn = (inside_fn *)dlsym(handle, "inside");
	if (!fn)
		return fail("dlsym");
	fn(what, file, text, sizeof(text));
	puts(text);
	return 0;
}

static int again_and_again(void)
{
	for (int i = 0; i < 1000; i++) {
		void *handle = dlopen("libcuda.so.1", RTLD_NOW);

		if (!handle || !dlsym(handle, "cuNewInThisDriver"))
			return fail("round");
		dlclose(handle);
	}
	return open_and_find("libcuda.so.1", RTLD_NOW);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "", *file = argc > 2 ? argv[2] : NULL;
	pid_t pid;

	alarm(30);
	if (strcmp(what, "nothing") == 0)
		return puts("nothing") < 0;
	if (strcmp(what, "dlopen") == 0)
		return open_and_find(file, RTLD_NOW);
	if (strcmp(what, "noload") == 0)
		return printf("%s", dlopen(file, RTLD_NOW | RTLD_NOLOAD) ? "loaded "
									 : "not loaded ") < 0 ||
		       open_and_find(file, RTLD_NOW);
	if (strcmp(what, "default") == 0)
		return of_handle(RTLD_DEFAULT);
	if (strcmp(what, "next") == 0)
		return of_handle(RTLD_NEXT);
	if (strcmp(what, "names") == 0)
		return check_driver_names(file);
	if (strcmp(what, "arguments") == 0)
		return with_arguments();
	if (strcmp(what, "procaddr") == 0)
		return by_procaddr();
	if (strcmp(what, "race") == 0)
		return race_lookups();
	if (strcmp(what, "fork-race") == 0)
		return fork_race();
	if (strcmp(what, "again") == 0)
		return again_and_again();
	if (strcmp(what, "fork") == 0) {
		void *before = file ? dlopen(file, RTLD_NOW) : NULL;

		if (file && !before)
			return 1;
		pid = fork();
		return pid == 0 ? open_and_find("libcuda.so.1", RTLD_NOW) : child_status(pid);
	}
	if (strcmp(what, "spawn") == 0)
		return spawn(argv + 2, 0);
	if (strcmp(what, "vfork") == 0)
		return spawn(argv + 2, 1);
	if (strcmp(what, "exec") == 0)
		return execv(argv[2], argv + 2);
	if (argc > 4 && strcmp(what, "inside") == 0)
		return call_inside(file, RTLD_NOW, argv[3], argv[4]);
	if (argc > 4 && strcmp(what, "deepbind") == 0)
		return call_inside(file, RTLD_NOW | RTLD_DEEPBIND, argv[3], argv[4]);
	if (strcmp(what, "dlmopen") == 0)
		return in_namespace(file, argc > 3 ? argv[3] : NULL, argc > 4 ? argv[4] : NULL);
#ifdef NEEDED
	if (strcmp(what, "needed") == 0)
		return report((void *)cuDriverGetVersion, NULL);
#endif
	return 2;
}
