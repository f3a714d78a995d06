/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the libraries cost: the same calls in processes with them and without, in turns, so that
 * whatever else changes on the machine changes for both. Medians of the rounds, with their range.
 *
 *	cuda-bench [--preload LIBRARIES] [--slice DIR] [--rounds N] [--device N]
 *	           [--starts N,N...]
 *
 * ns a call; of the starts: us from the start of one process to its end, with N at a time. "exec" does
 * nothing but start; "init" calls cuInit() and asks for the total memory, which is the first that a
 * slice has to answer. To be started in no slice.
 */
#include "lib/base/time.h"
#include "cuda/driver.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS_MAX 101
#define STARTS_MAX 1024

struct bench {
	const char *preload, *slice;
	int ordinal;
	unsigned int rounds;
};

struct child_state {
	CUdevice device;
	CUstream stream;
	CUfunction kernel;
	nvmlDevice_t nvml;
};

typedef void bench_fn(struct child_state *s);

static void alloc_free(uint64_t bytes)
{
	CUdeviceptr p;

	must(cu.cuMemAlloc_v2(&p, bytes), "cuMemAlloc_v2");
	must(cu.cuMemFree_v2(p), "cuMemFree_v2");
}

/* Small ones have a neighbour in their chunk, as in a program that runs. */
static void small_pair(struct child_state *s)
{
	(void)s;
	alloc_free(1024);
}

static void mib_pair(struct child_state *s)
{
	(void)s;
	alloc_free(MIB);
}

static void large_pair(struct child_state *s)
{
	(void)s;
	alloc_free(64 * MIB);
}

static void async_pair(struct child_state *s)
{
	CUdeviceptr p;

	must(cu.cuMemAllocAsync(&p, MIB, s->stream), "cuMemAllocAsync");
	must(cu.cuMemFreeAsync(p, s->stream), "cuMemFreeAsync");
}

static void info(struct child_state *s)
{
	size_t free, total;

	(void)s;
	must(cu.cuMemGetInfo_v2(&free, &total), "cuMemGetInfo_v2");
}

static void launch(struct child_state *s)
{
	must(cu.cuLaunchKernel(s->kernel, 1, 1, 1, 1, 1, 1, 0, s->stream, NULL, NULL),
		"cuLaunchKernel");
}

static void nvml_memory(struct child_state *s)
{
	nvmlMemory_t m;

	if (nvml.nvmlDeviceGetMemoryInfo(s->nvml, &m))
		die("nvmlDeviceGetMemoryInfo");
}

static void nvml_processes(struct child_state *s)
{
	nvmlProcessInfo_t infos[PHYSICAL_MAX];
	unsigned int n = PHYSICAL_MAX;

	if (nvml.nvmlDeviceGetComputeRunningProcesses_v3(s->nvml, &n, infos))
		die("nvmlDeviceGetComputeRunningProcesses_v3");
}

static const struct row {
	const char *name;
	bench_fn *run;
	unsigned int calls, burst; /* a synchronisation after each burst, outside of the time */
} rows[] = {
	{ "alloc_free_1KiB", small_pair, 5000, 0 },
	{ "alloc_free_1MiB", mib_pair, 2000, 0 },
	{ "alloc_free_64MiB", large_pair, 200, 0 },
	{ "alloc_free_async_1MiB", async_pair, 5000, 500 },
	{ "mem_get_info", info, 2000, 0 },
	{ "launch", launch, 20000, 200 },
	{ "nvml_memory", nvml_memory, 1000, 0 },
	{ "nvml_processes", nvml_processes, 1000, 0 },
};
#define ROWS (sizeof(rows) / sizeof(*rows))

static double measure_row(struct child_state *s, const struct row *row)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < 20; i++)
		row->run(s);
	must(cu.cuCtxSynchronize(), "cuCtxSynchronize");
	for (unsigned int done = 0; done < row->calls;) {
		unsigned int n = row->burst ? row->burst : row->calls;
		uint64_t at = time_mono_ns();

		for (unsigned int i = 0; i < n; i++)
			row->run(s);
		sum += time_mono_ns() - at;
		done += n;
		must(cu.cuCtxSynchronize(), "cuCtxSynchronize");
	}
	return (double)sum / row->calls;
}

static int run_bench_child(const struct bench *b)
{
	struct child_state s = { .stream = NULL };
	CUcontext context;
	CUdeviceptr neighbour;
	CUmodule module;
	char uuid[64];

	cuda_open();
	nvml_open();
	s.device = cuda_start(b->ordinal, &context);
	s.nvml = nvml_of(s.device, uuid);
	must(cu.cuStreamCreate(&s.stream, 1), "cuStreamCreate");
	must(cu.cuModuleLoadData(&module, kernels()), "cuModuleLoadData");
	must(cu.cuModuleGetFunction(&s.kernel, module, "nop"), "cuModuleGetFunction");
	must(cu.cuMemAlloc_v2(&neighbour, 1024), "cuMemAlloc_v2");
	for (unsigned int i = 0; i < ROWS; i++)
		(void)printf("%.1f%c", measure_row(&s, &rows[i]), i + 1 < ROWS ? ' ' : '\n');
	return 0;
}

/* The environment of a child: ours with the slice and the libraries, or without. */
static char **make_environment(const struct bench *b, bool ours)
{
	static char words[2][4096 + 32];
	static char **made[2];
	size_t n = 0, kept = 0;

	if (made[ours])
		return made[ours];
	while (environ[n])
		n++;
	made[ours] = calloc(n + 3, sizeof(char *));
	if (!made[ours])
		die("no memory");
	for (size_t i = 0; i < n; i++)
		if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 &&
			strncmp(environ[i], "GPUSLICE_SLICE_DIR=", 19) != 0)
			made[ours][kept++] = environ[i];
	if (ours && b->preload) {
		(void)snprintf(words[0], sizeof(words[0]), "LD_PRELOAD=%s", b->preload);
		made[ours][kept++] = words[0];
	}
	if (ours && b->slice) {
		(void)snprintf(words[1], sizeof(words[1]), "GPUSLICE_SLICE_DIR=%s", b->slice);
		made[ours][kept++] = words[1];
	}
	return made[ours];
}

/* @out: its standard output, unless < 0. */
static pid_t start_bench_child(const struct bench *b, char *mode, bool ours, int out)
{
	char ordinal[16], name[] = "cuda-bench", device[] = "--device";
	char *argv[] = { name, mode, device, ordinal, NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;

	(void)snprintf(ordinal, sizeof(ordinal), "%d", b->ordinal);
	(void)posix_spawn_file_actions_init(&actions);
	if (out >= 0)
		(void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv,
		    make_environment(b, ours)) != 0)
		die("no process");
	(void)posix_spawn_file_actions_destroy(&actions);
	return pid;
}

static void run_child(const struct bench *b, bool ours, double *ret)
{
	char mode[] = "--child";
	int from[2], status = 0;
	FILE *out;
	pid_t pid;

	if (pipe2(from, O_CLOEXEC) != 0)
		die("no pipe");
	pid = start_bench_child(b, mode, ours, from[1]);
	(void)close(from[1]);
	out = fdopen(from[0], "r");
	for (unsigned int i = 0; i < ROWS; i++) {
		char word[256] = "";

		if (!out || fscanf(out, "%255s", word) != 1 ||
			sscanf(word, "%lf", &ret[i]) != 1)
			die("a child says '%s'", word);
	}
	(void)fclose(out);
	(void)waitpid(pid, &status, 0);
	if (status)
		die("a child ended with status %d", status);
}

static void print_row(const char *what, const char *unit, double *bare, double *ours,
	unsigned int n)
{
	double m[2] = { median(bare, n), median(ours, n) };

	(void)printf("bench name=%s unit=%s bare=%.1f bare_min=%.1f bare_max=%.1f ours=%.1f "
		     "ours_min=%.1f ours_max=%.1f added=%.1f\n",
		what, unit, m[0], bare[0], bare[n - 1], m[1], ours[0], ours[n - 1],
		m[1] - m[0]);
	(void)fflush(stdout);
}

static void measure_call_times(const struct bench *b)
{
	static double got[2][ROWS][ROUNDS_MAX];

	for (unsigned int r = 0; r < b->rounds; r++)
		for (unsigned int v = 0; v < 2; v++) {
			double line[ROWS];

			/* The variants alternate in being first, too. */
			run_child(b, (v + r) % 2, line);
			for (unsigned int i = 0; i < ROWS; i++)
				got[(v + r) % 2][i][r] = line[i];
		}
	for (unsigned int i = 0; i < ROWS; i++)
		print_row(rows[i].name, "ns", got[0][i], got[1][i], b->rounds);
}

/* us from start to end of @n processes at a time; *wall: of all, for each. */
static double starts_once(const struct bench *b, char *mode, bool ours, unsigned int n,
	double *wall)
{
	static struct {
		pid_t pid;
		uint64_t at;
	} run[STARTS_MAX];
	static double took[STARTS_MAX];
	uint64_t begin = time_mono_ns();

	for (unsigned int i = 0; i < n; i++) {
		run[i].at = time_mono_ns();
		run[i].pid = start_bench_child(b, mode, ours, -1);
	}
	for (unsigned int left = n; left > 0; left--) {
		int status;
		pid_t pid = wait(&status);

		for (unsigned int i = 0; i < n; i++)
			if (run[i].pid == pid)
				took[i] = ms_since(run[i].at) * 1000;
		if (pid < 0 || status)
			die("a start failed: status %d", status);
	}
	*wall = ms_since(begin) * 1000 / n;
	return median(took, n);
}

static void measure_starts(const struct bench *b, char *mode, const char *name, unsigned int n)
{
	static double got[2][ROUNDS_MAX], wall[2][ROUNDS_MAX];
	char what[64];

	for (unsigned int r = 0; r < b->rounds; r++)
		for (unsigned int v = 0; v < 2; v++) {
			unsigned int ours = (v + r) % 2;

			got[ours][r] = starts_once(b, mode, ours, n, &wall[ours][r]);
		}
	(void)snprintf(what, sizeof(what), "start_%s_%u", name, n);
	print_row(what, "us", got[0], got[1], b->rounds);
	(void)snprintf(what, sizeof(what), "start_%s_%u_wall_each", name, n);
	print_row(what, "us", wall[0], wall[1], b->rounds);
}

static int init_only(const struct bench *b)
{
	CUdevice device;
	size_t bytes;

	cuda_open();
	must(cu.cuDeviceGet(&device, b->ordinal), "cuDeviceGet");
	must(cu.cuDeviceTotalMem_v2(&bytes, device), "cuDeviceTotalMem_v2");
	return 0;
}

int main(int argc, char **argv)
{
	struct bench b = { .rounds = 5 };
	const char *mode = "", *counts = NULL;
	char exec[] = "--exec", init[] = "--init";

	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(a, "--child") == 0 || strcmp(a, "--exec") == 0 ||
			strcmp(a, "--init") == 0) {
			mode = a;
			continue;
		}
		i++;
		if (strcmp(a, "--preload") == 0)
			b.preload = value;
		else if (strcmp(a, "--slice") == 0)
			b.slice = value;
		else if (strcmp(a, "--rounds") == 0)
			b.rounds = (unsigned int)number(value, a);
		else if (strcmp(a, "--device") == 0)
			b.ordinal = (int)number(value, a);
		else if (strcmp(a, "--starts") == 0)
			counts = value;
		else
			die("unknown option '%s'", a);
	}
	if (strcmp(mode, "--exec") == 0)
		return 0;
	if (strcmp(mode, "--init") == 0)
		return init_only(&b);
	if (strcmp(mode, "--child") == 0)
		return run_bench_child(&b);
	if (b.rounds < 1 || b.rounds > ROUNDS_MAX)
		die("1 to %d rounds", ROUNDS_MAX);
	if (!counts)
		measure_call_times(&b);
	for (; counts; counts = strchr(counts, ',') ? strchr(counts, ',') + 1 : NULL) {
		char word[16];
		uint64_t n;

		(void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(counts, ","), counts);
		n = number(word, "--starts");
		if (n < 1 || n > STARTS_MAX)
			die("--starts: 1 to %d", STARTS_MAX);
		measure_starts(&b, exec, "exec", (unsigned int)n);
		measure_starts(&b, init, "init", (unsigned int)n);
	}
	(void)printf("bench result=ok rounds=%u\n", b.rounds);
	return 0;
}
