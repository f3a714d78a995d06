/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hooks add to a call: nanoseconds of the real library's entry and of ours, side by side and alternating.
 * The process is in no slice, in a slice, and in slices of one and of two GPUs with quanta whose gates are open. Works with every driver;
 * on the simulated driver only the difference means something. Several threads also launch at once: the time is
 * that of a launch, over all threads together.
 *
 *	usage: bench-slice-hooks LIBGPUSLICE-CUDA.SO LIBCUDA.SO.1
 */
#include "unit/container/slice-arbiter.h"

#include "abi/cuda-functions.h"
#include "abi/slice-dir.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS      21
#define THREADS_MAX 8
#define A_THREAD    500 /* launches a round */
#define LIMIT       (UINT64_C(1) << 40)

#define DECLARE(name, params) CUresult name params;
CUDA_FUNCTIONS(DECLARE)
#undef DECLARE

#define CALLS(X)               \
	X(cuInit)              \
	X(cuDeviceGet)         \
	X(cuDeviceGetUuid)     \
	X(cuCtxCreate_v2)      \
	X(cuMemAlloc_v2)       \
	X(cuMemFree_v2)        \
	X(cuMemGetInfo_v2)     \
	X(cuModuleLoadData)    \
	X(cuModuleGetFunction) \
	X(cuCtxSynchronize)    \
	X(cuCtxSetCurrent)     \
	X(cuStreamCreate)      \
	X(cuLaunchKernel)

struct driver {
#define X(name) __typeof__(&name) name;
	CALLS(X)
#undef X
};

static const char empty_kernel[] =
	".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry empty()\n{\n\tret;\n}\n";

static CUfunction function;

static int load_driver(const char *path, struct driver *d)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		(void)fprintf(stderr, "%s\n", dlerror());
		return -1;
	}
#define X(name)                                    \
	*(void **)(&d->name) = dlsym(lib, #name);  \
	if (!d->name) {                            \
		(void)fprintf(stderr, #name "\n"); \
		return -1;                         \
	}
	CALLS(X)
#undef X
	return 0;
}

static double now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void call_alloc_and_free(const struct driver *d, size_t bytes)
{
	CUdeviceptr p = 0;

	if (d->cuMemAlloc_v2(&p, bytes) || d->cuMemFree_v2(p))
		abort();
}

static void small_pair(const struct driver *d)
{
	call_alloc_and_free(d, 1024);
}

static void large_pair(const struct driver *d)
{
	call_alloc_and_free(d, 4 << 20);
}

static void call_mem_info(const struct driver *d)
{
	size_t f, t;

	(void)d->cuMemGetInfo_v2(&f, &t);
}

static void launch(const struct driver *d)
{
	(void)d->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static const struct {
	const char *name;
	void (*call)(const struct driver *d);
	int times; /* a round */
} calls[] = {
	{ "cuMemAlloc + cuMemFree, 1 KiB beside another", small_pair, 1000 },
	{ "cuMemAlloc + cuMemFree, 4 MiB", large_pair, 200 },
	{ "cuMemGetInfo", call_mem_info, 1000 },
	{ "cuLaunchKernel", launch, 1000 },
};
#define LAUNCH 3

static double round_of(const struct driver *d, size_t n)
{
	double began = now_ns();

	for (int i = 0; i < calls[n].times; i++)
		calls[n].call(d);
	began = (now_ns() - began) / calls[n].times;
	(void)d->cuCtxSynchronize();
	return began;
}

/* Threads, each with its stream. */
static struct worker {
	pthread_t thread;
	const struct driver *driver;
	CUcontext context;
	CUstream stream;
	pthread_barrier_t *start;
} workers[THREADS_MAX];

static void *run_hook_worker(void *arg)
{
	struct worker *w = arg;

	(void)w->driver->cuCtxSetCurrent(w->context);
	(void)pthread_barrier_wait(w->start);
	for (int i = 0; i < A_THREAD; i++)
		(void)w->driver->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, w->stream, NULL,
			NULL);
	return NULL;
}

static double threads_of(const struct driver *d, unsigned int n)
{
	pthread_barrier_t start;
	double began;

	(void)pthread_barrier_init(&start, NULL, n + 1);
	for (unsigned int i = 0; i < n; i++) {
		workers[i].driver = d;
		workers[i].start = &start;
		if (pthread_create(&workers[i].thread, NULL, run_hook_worker, &workers[i]))
			abort();
	}
	(void)pthread_barrier_wait(&start);
	began = now_ns();
	for (unsigned int i = 0; i < n; i++)
		(void)pthread_join(workers[i].thread, NULL);
	began = (now_ns() - began) / (n * A_THREAD);
	(void)d->cuCtxSynchronize();
	(void)pthread_barrier_destroy(&start);
	return began;
}

static int compare_ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void show(const char *where, const char *what, double *theirs, double *mine)
{
	qsort(theirs, ROUNDS, sizeof(*theirs), compare_ascending);
	qsort(mine, ROUNDS, sizeof(*mine), compare_ascending);
	printf("%-12s %-44s real %9.1f  ours %9.1f  added %+8.1f ns\n", where, what,
		theirs[ROUNDS / 2], mine[ROUNDS / 2], mine[ROUNDS / 2] - theirs[ROUNDS / 2]);
}

/* @launches: nothing else, as there is no memory to be had. */
static int measure_hooks(const char *ours, const char *real, const char *where, bool launches)
{
	struct driver o, r;
	CUdevice device;
	CUcontext context;
	CUdeviceptr neighbour;
	CUmodule module;
	CUresult status;

	if (load_driver(ours, &o) || load_driver(real, &r))
		return 1;
	status = o.cuInit(0);
	if (!status)
		status = o.cuDeviceGet(&device, 0);
	if (!status)
		status = o.cuCtxCreate_v2(&context, 0, device);
	if (!status && !launches)
		status = o.cuMemAlloc_v2(&neighbour, 1024);
	for (unsigned int i = 0; i < THREADS_MAX && !status; i++) {
		workers[i].context = context;
		status = o.cuStreamCreate(&workers[i].stream, 1);
	}
	if (status) {
		(void)fprintf(stderr, "%s: CUDA error %u\n", where, status);
		return 1;
	}
	if (o.cuModuleLoadData(&module, empty_kernel) ||
		o.cuModuleGetFunction(&function, module, "empty"))
		printf("# no kernel here: the launches are refused ones\n");
	for (size_t n = launches ? LAUNCH : 0; n < sizeof(calls) / sizeof(calls[0]); n++) {
		double theirs[ROUNDS], mine[ROUNDS];

		for (int i = 0; i < ROUNDS; i++) {
			theirs[i] = round_of(&r, n);
			mine[i] = round_of(&o, n);
		}
		show(where, calls[n].name, theirs, mine);
	}
	for (unsigned int n = 2; n <= THREADS_MAX; n *= 2) {
		double theirs[ROUNDS], mine[ROUNDS];
		char what[64];

		for (int i = 0; i < ROUNDS; i++) {
			theirs[i] = threads_of(&r, n);
			mine[i] = threads_of(&o, n);
		}
		(void)snprintf(what, sizeof(what), "cuLaunchKernel, %u threads", n);
		show(where, what, theirs, mine);
	}
	return 0;
}

/* Measures in a process of its own: what the libraries find out at the first call holds for the process's
 * life. */
static int in_child(const char *ours, const char *real, const char *where, const char *dir,
	bool launches)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		if (dir)
			(void)setenv(SLICE_DIR_VARIABLE, dir, 1);
		else
			(void)unsetenv(SLICE_DIR_VARIABLE);
		status = measure_hooks(ours, real, where, launches);
		(void)fflush(stdout);
		_exit(status);
	}
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

/* The arbiter must name the GPU before it serves: asked in a child, as a parent's driver is no child's. */
static int read_uuid_in_child(const char *real)
{
	int fds[2], status = -1;
	pid_t pid;

	if (pipe(fds))
		return 1;
	pid = fork();
	if (!pid) {
		struct driver r;
		CUdevice device;
		CUuuid uuid;

		if (load_driver(real, &r) || r.cuInit(0) || r.cuDeviceGet(&device, 0) ||
			r.cuDeviceGetUuid(&uuid, device) ||
			write(fds[1], &uuid, sizeof(uuid)) != sizeof(uuid))
			_exit(1);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status ||
		read(fds[0], slice_arbiter_uuid, sizeof(slice_arbiter_uuid)) !=
			sizeof(slice_arbiter_uuid))
		return 1;
	(void)close(fds[0]);
	(void)close(fds[1]);
	return 0;
}

static void remove_dir(const char *dir)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "%s/" SLICE_SOCKET, dir);
	(void)unlink(path);
	(void)rmdir(dir);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/gs-bench.XXXXXX", one[] = "/tmp/gs-bench.XXXXXX",
	     two[] = "/tmp/gs-bench.XXXXXX";
	struct slice_arbiter *arbiter = slice_arbiter_new();
	static struct slice_arbiter of_one, of_two;
	int r;

	if (argc != 3) {
		(void)fprintf(stderr,
			"usage: bench-slice-hooks LIBGPUSLICE-CUDA.SO LIBCUDA.SO.1\n");
		return 2;
	}
	if (read_uuid_in_child(argv[2])) {
		(void)fprintf(stderr, "no GPU: skipped\n");
		return 77;
	}
	r = in_child(argv[1], argv[2], "no slice", NULL, false);
	if (!mkdtemp(dir) || !mkdtemp(one) || !mkdtemp(two)) {
		perror(dir);
		return 1;
	}
	slice_arbiter_start_memory(arbiter, dir, LIMIT);
	atomic_store(&arbiter->generous, true);
	atomic_store(&arbiter->alone, true);
	r |= in_child(argv[1], argv[2], "in a slice", dir, false);
	slice_arbiter_stop(arbiter);
	slice_arbiter_start_quanta(&of_one, one, 1);
	r |= in_child(argv[1], argv[2], "gate open", one, true);
	slice_arbiter_kill(&of_one);
	slice_arbiter_start_quanta(&of_two, two, 2);
	r |= in_child(argv[1], argv[2], "of two GPUs", two, true);
	slice_arbiter_kill(&of_two);
	remove_dir(dir);
	remove_dir(one);
	remove_dir(two);
	return r;
}
