/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Kills a program of the slice at each of its driver calls, before the call and after it. Then checks that the
 * arbiter's grants are right again once the kernel has released the process: nothing is used without a process,
 * and NVML agrees. With "fail" the call fails instead of the process, and the program may continue.
 *
 *	cuda-cut --preload LIBRARIES --slice DIR --driver LIBRARY --shim DIR [--when before,after,fail]
 *	         [--from N] [--to N] [--every N] [--seconds S] [--device N] -- PROGRAM [ARGUMENT...]
 *
 * DIR of --shim holds cut-driver's libcuda.so.1, LIBRARY of --driver is the driver behind it. The operator starts
 * cuda-cut in no slice, and no other program runs in the slice of --slice.
 */
#include "lib/base/time.h"
#include "cuda/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETTLE_MS 10000
#define RUN_MS    120000

struct cut {
	const char *preload, *slice, *driver, *shim, *when;
	char count_file[64], driver_link[64];
	char **program;
	int arbiter;
	unsigned int from, to, every, seconds;
	unsigned int runs, killed, ended, failures;
	double worst_ms;
};

static pid_t start_cut_program(const struct cut *c, unsigned int at, const char *when)
{
	pid_t pid = fork();
	char text[16], path[4096];
	int null;

	if (pid != 0)
		return pid;
	(void)snprintf(text, sizeof(text), "%u", at);
	(void)snprintf(path, sizeof(path), "%s%s%s", c->shim,
		getenv("LD_LIBRARY_PATH") ? ":" : "",
		getenv("LD_LIBRARY_PATH") ? getenv("LD_LIBRARY_PATH") : "");
	(void)setenv("LD_LIBRARY_PATH", path, 1);
	(void)setenv("LD_PRELOAD", c->preload, 1);
	(void)setenv("GPUSLICE_SLICE_DIR", c->slice, 1);
	(void)setenv("GPUSLICE_CUT_DRIVER", c->driver_link, 1);
	(void)setenv("GPUSLICE_CUT_COUNT", c->count_file, 1);
	(void)setenv("GPUSLICE_CUT_WHEN", when, 1);
	(void)setenv("GPUSLICE_CUT_AT", text, 1);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (at && null >= 0)
		(void)dup2(null, STDOUT_FILENO);
	(void)setpgid(0, 0);
	(void)execv(c->program[0], c->program);
	_exit(127);
}

/* The exit status. A program that hangs is killed, and @hung reports that. */
static int wait_for(pid_t pid, bool *hung)
{
	uint64_t at = time_mono_ns();
	int status = 0;

	*hung = false;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (ms_since(at) > RUN_MS) {
			*hung = true;
			(void)kill(-pid, SIGKILL);
		}
		sleep_us(500);
	}
	return status;
}

/* Whether NVML still has the process on any GPU. */
static bool on_gpu(pid_t pid)
{
	static struct physical p[PHYSICAL_MAX];
	unsigned int count = 0;
	nvmlDevice_t d;

	if (nvml.nvmlDeviceGetCount_v2(&count))
		die("nvmlDeviceGetCount_v2");
	for (unsigned int i = 0; i < count; i++) {
		if (nvml.nvmlDeviceGetHandleByIndex_v2(i, &d))
			continue;
		if (physical_of(p, nvml_physical(d, p), pid))
			return true;
	}
	return false;
}

/* Waits until the slice uses nothing and NVML has no memory of the process. Returns the bytes that stay. */
static unsigned long long wait_until_released(struct cut *c, pid_t pid)
{
	uint64_t at = time_mono_ns();
	struct slice_viewed v;

	for (;;) {
		if (look(c->arbiter, 0, &v) != 0)
			die("the arbiter does not answer");
		if ((v.gpus[0].used == 0 && !on_gpu(pid)) || ms_since(at) > SETTLE_MS)
			break;
		sleep_us(500);
	}
	if (ms_since(at) > c->worst_ms)
		c->worst_ms = ms_since(at);
	return v.gpus[0].used;
}

static unsigned int read_call_count(const struct cut *c)
{
	FILE *f = fopen(c->count_file, "re");
	unsigned int n = 0;

	if (!f || fscanf(f, "%u", &n) != 1)
		die("no calls were counted: is the shim in front of the driver?");
	(void)fclose(f);
	return n;
}

static void run_cut_program(struct cut *c, unsigned int at, const char *when)
{
	unsigned long long rest;
	bool hung;
	pid_t pid = start_cut_program(c, at, when);
	int status = wait_for(pid, &hung);

	c->runs++;
	/* The children of the process may still be there. */
	(void)kill(-pid, SIGKILL);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		c->killed++;
	else
		c->ended++;
	rest = wait_until_released(c, pid);
	/* A process that was not to be killed must not end by a signal. */
	if (rest || hung || (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) ||
		(strcmp(when, "fail") == 0 && WIFSIGNALED(status))) {
		c->failures++;
		(void)printf("at=%u when=%s left=%llu hung=%d status=%d\n", at, when, rest,
			hung, status);
		(void)fflush(stdout);
	}
}

static void remove_cut_files(const struct cut *c)
{
	(void)unlink(c->count_file);
	(void)unlink(c->driver_link);
}

int main(int argc, char **argv)
{
	struct cut c = { .when = "before,after", .from = 1, .every = 1, .seconds = 3600 };
	unsigned int calls;
	uint64_t begin;
	bool hung, all = true;
	int i = 1, status;

	for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2) {
		const char *a = argv[i], *value = argv[i + 1];

		if (strcmp(a, "--preload") == 0)
			c.preload = value;
		else if (strcmp(a, "--slice") == 0)
			c.slice = value;
		else if (strcmp(a, "--driver") == 0)
			c.driver = value;
		else if (strcmp(a, "--shim") == 0)
			c.shim = value;
		else if (strcmp(a, "--when") == 0)
			c.when = value;
		else if (strcmp(a, "--from") == 0)
			c.from = (unsigned int)number(value, a);
		else if (strcmp(a, "--to") == 0)
			c.to = (unsigned int)number(value, a);
		else if (strcmp(a, "--every") == 0)
			c.every = (unsigned int)number(value, a);
		else if (strcmp(a, "--seconds") == 0)
			c.seconds = (unsigned int)number(value, a);
		else
			die("unknown option '%s'", a);
	}
	if (i + 1 >= argc || !c.preload || !c.slice || !c.driver || !c.shim || !c.every)
		die("usage: cuda-cut --preload LIBRARIES --slice DIR --driver LIBRARY --shim DIR "
		    "-- PROGRAM...");
	c.program = argv + i + 1;
	(void)snprintf(c.count_file, sizeof(c.count_file), "/tmp/cuda-cut.%d", (int)getpid());
	/* A link, because the slice library would be found again by the driver's own name. */
	(void)snprintf(c.driver_link, sizeof(c.driver_link), "/tmp/cuda-cut.%d.so",
		(int)getpid());
	if (symlink(c.driver, c.driver_link) != 0)
		die("link %s: %s", c.driver_link, strerror(errno));
	c.arbiter = probe_open(c.slice);
	if (c.arbiter < 0)
		die("the arbiter does not answer in %s", c.slice);
	nvml_open();
	status = wait_for(start_cut_program(&c, 0, "before"), &hung);
	if (status || hung) {
		remove_cut_files(&c);
		die("the program fails by itself, status %d", status);
	}
	calls = read_call_count(&c);
	if (wait_until_released(&c, 0))
		die("the program leaves something by itself");
	if (!c.to || c.to > calls)
		c.to = calls;
	begin = time_mono_ns();
	for (unsigned int at = c.from; at <= c.to; at += c.every) {
		static const char *const ways[] = { "before", "after", "fail" };

		for (unsigned int w = 0; w < 3; w++)
			if (strstr(c.when, ways[w]))
				run_cut_program(&c, at, ways[w]);
		if (ms_since(begin) > c.seconds * 1000.0) {
			all = at + c.every > c.to;
			break;
		}
	}
	remove_cut_files(&c);
	(void)printf(
		"cut result=%s calls=%u runs=%u killed=%u ended=%u failures=%u complete=%d "
		"worst_return_ms=%.1f\n",
		c.failures ? "failed" : "ok", calls, c.runs, c.killed, c.ended, c.failures, all,
		c.worst_ms);
	return c.failures ? 1 : 0;
}
