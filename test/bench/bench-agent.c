/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the node agent costs, and NVIDIA's plugin beside it in the same run where its binary is
 * given: start to registered, Allocate, resident memory, CPU when idle, reload.
 *
 *	bench-agent AGENT NVML [NVIDIA-PLUGIN]
 *
 * Both run in a private mount namespace with an empty /var/lib/kubelet, because the plugin's
 * directory is compiled into it; without root the peer is left out and another directory is used.
 */
#include "mini-kubelet.h"

#include "support/test.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STARTS      20
#define CALLS       2000
#define RELOADS     1000
#define TIMEOUT_NS  (20 * NS_PER_SEC)
#define KUBELET_DIR "/var/lib/kubelet"

#define RESIDENT_MAX_KB 20000 /* design: agent with everything on */
#define GROWTH_MAX_KB   512   /* over all reloads, after the first 50 */

/* BENCH_SHORT=1: a quick check rather than a measurement. */
static unsigned starts = STARTS, calls = CALLS, reloads = RELOADS;
static uint64_t idle_ns = 10 * NS_PER_SEC;
static bool held = true; /* what is not a matter of time is held as a bar */

struct program {
	const char *name, *path;
	bool ours;
	pid_t pid;
};

struct bench {
	const char *nvml;
	char tmp[32]; /* config, run directory, simulator state */
	char kubelet_dir[64], plugin_dir[96], config[64];
	struct mini_kubelet kubelet;
	bool private_mounts;
};

static void die(const char *what, const struct error *err)
{
	(void)fprintf(stderr, "bench-agent: %s: %s\n", what, err->msg);
	exit(1);
}

/* A bar that does not depend on how busy the machine is was missed. */
static void miss(const char *what, int bar_kb)
{
	held = false;
	printf("MISSED: %s %d kB\n", what, bar_kb);
}

static void write_config(struct bench *b, unsigned replicas)
{
	struct error err = ERROR_INIT;
	char text[256];
	int n = snprintf(text, sizeof(text),
		"version: v1\nsharing:\n  timeSlicing:\n    resources:\n"
		"    - {name: nvidia.com/gpu, replicas: %u}\n",
		replicas);

	if (file_write_atomic(b->config, text, (size_t)n, 0644, &err) < 0)
		die("config", &err);
}

/* An own mount namespace, in which /var/lib/kubelet is ours. */
static bool private_kubelet_dir(struct bench *b)
{
	char dir[64];

	(void)snprintf(dir, sizeof(dir), "%s/kubelet", b->tmp);
	(void)mkdir(dir, 0755);
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
		mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return false;
	if (mkdir(KUBELET_DIR, 0755) < 0 && errno != EEXIST)
		return false;
	return mount(dir, KUBELET_DIR, NULL, MS_BIND, NULL) == 0;
}

static void setup(struct bench *b)
{
	struct error err = ERROR_INIT;

	(void)snprintf(b->tmp, sizeof(b->tmp), "/tmp/gsb.XXXXXX");
	if (!mkdtemp(b->tmp))
		(void)error_sys(&err, errno, "mkdtemp"), die("setup", &err);
	b->private_mounts = private_kubelet_dir(b);
	(void)snprintf(b->kubelet_dir, sizeof(b->kubelet_dir), "%s%s",
		b->private_mounts ? KUBELET_DIR : b->tmp, b->private_mounts ? "" : "/kubelet");
	(void)snprintf(b->plugin_dir, sizeof(b->plugin_dir), "%s/device-plugins",
		b->kubelet_dir);
	(void)snprintf(b->config, sizeof(b->config), "%s/config.yaml", b->tmp);
	if (dir_make(b->plugin_dir, 0755, &err) < 0)
		die("setup", &err);
	if (setenv("GPUSLICE_SIM_NODE", "p3.8xlarge", 0) < 0 ||
		setenv("GPUSLICE_SIM_DIR", b->tmp, 0) < 0)
		die("setup", &err);
	write_config(b, 10);
	if (mini_kubelet_start(&b->kubelet, b->plugin_dir, &err) < 0)
		die("kubelet", &err);
}

static void silence_stderr(void)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (!getenv("BENCH_VERBOSE") && fd >= 0)
		(void)dup2(fd, STDERR_FILENO), (void)dup2(fd, STDOUT_FILENO);
}

static void exec_program(const struct bench *b, const struct program *p)
{
	char dir[128], run_dir[64], state_dir[64];
	const char *slash = strrchr(b->nvml, '/');

	silence_stderr();
	(void)snprintf(run_dir, sizeof(run_dir), "%s/run", b->tmp);
	(void)snprintf(state_dir, sizeof(state_dir), "%s/kept", b->tmp);
	if (p->ours)
		(void)execl(p->path, p->path, "--nvml", b->nvml, "--kubelet-dir",
			b->kubelet_dir, "--run-dir", run_dir, "--state-dir", state_dir,
			"--config-file", b->config, "--metrics-listen", "127.0.0.1:0",
			(char *)NULL);
	(void)snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - b->nvml) : 1,
		slash ? b->nvml : ".");
	(void)setenv("LD_LIBRARY_PATH", dir, 1);
	(void)execl(p->path, p->path, "--config-file", b->config, (char *)NULL);
	_exit(127);
}

static uint64_t start_program(const struct bench *b, struct program *p)
{
	uint64_t now = time_mono_ns();

	p->pid = fork();
	if (p->pid == 0)
		exec_program(b, p);
	return now;
}

static void stop_program(struct program *p)
{
	(void)kill(p->pid, SIGTERM);
	(void)waitpid(p->pid, NULL, 0);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double quantile_ms(uint64_t *v, size_t n, double q)
{
	qsort(v, n, sizeof(*v), by_value);
	return (double)v[(size_t)((double)(n - 1) * q + 0.5)] / 1e6;
}

/* A number after @key in /proc/<pid>/status. */
static long proc_status(pid_t pid, const char *key)
{
	char path[64], line[256];
	long v = -1;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, key, strlen(key)))
			(void)sscanf(line + strlen(key), ": %ld", &v);
	}
	if (f)
		(void)fclose(f);
	return v;
}

/* The first child of @pid (our NVML worker), -1 without. */
static pid_t child_of(pid_t pid)
{
	char path[64];
	int child = -1;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &child) != 1)
		child = -1;
	if (f)
		(void)fclose(f);
	return child;
}

static uint64_t cpu_ns(pid_t pid)
{
	clockid_t id;
	struct timespec ts = { 0 };

	if (pid <= 0 || clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

static void bench_start(struct bench *b, struct program *progs, size_t n)
{
	static uint64_t took[2][STARTS];
	struct error err = ERROR_INIT;

	/* Interleaved, so that the machine's mood is the same for both. */
	for (size_t i = 0; i < starts; i++) {
		for (size_t k = 0; k < n; k++) {
			uint64_t began = start_program(b, &progs[k]);

			if (mini_kubelet_wait_registered(&b->kubelet, began, TIMEOUT_NS, &err) <
				0)
				die(progs[k].name, &err);
			took[k][i] = b->kubelet.registered_ns - began;
			stop_program(&progs[k]);
		}
	}
	for (size_t k = 0; k < n; k++) {
		double p50 = quantile_ms(took[k], starts, 0.5);

		printf("start to registered    %-10s p50 %7.2f ms   max %7.2f ms\n",
			progs[k].name, p50, quantile_ms(took[k], starts, 1));
	}
}

static void bench_allocate(struct bench *b, struct program *p, unsigned replicas)
{
	static uint64_t took[CALLS];
	struct error err = ERROR_INIT;
	uint64_t began;

	write_config(b, replicas);
	began = start_program(b, p);
	if (mini_kubelet_wait_registered(&b->kubelet, began, TIMEOUT_NS, &err) < 0)
		die(p->name, &err);
	for (size_t i = 0; i < calls; i++) {
		const char *id = b->kubelet.ids[i % b->kubelet.n_devices];

		if (mini_kubelet_allocate(&b->kubelet, id, &took[i], &err) < 0)
			die(p->name, &err);
	}
	printf("Allocate, %4zu devices %-10s p50 %7.3f ms   p99 %7.3f ms\n",
		b->kubelet.n_devices, p->name, quantile_ms(took, calls, 0.5),
		quantile_ms(took, calls, 0.99));
	stop_program(p);
}

static void bench_idle(struct bench *b, struct program *p)
{
	struct error err = ERROR_INIT;
	uint64_t began = start_program(b, p), cpu;
	long resident;
	pid_t child;

	if (mini_kubelet_wait_registered(&b->kubelet, began, TIMEOUT_NS, &err) < 0)
		die(p->name, &err);
	child = child_of(p->pid);
	cpu = cpu_ns(p->pid) + cpu_ns(child);
	mini_kubelet_run(&b->kubelet, idle_ns);
	cpu = cpu_ns(p->pid) + cpu_ns(child) - cpu;
	printf("CPU when idle          %-10s %.3f %% of a core\n", p->name,
		100.0 * (double)cpu / (double)idle_ns);
	resident = proc_status(p->pid, "VmRSS");
	printf("resident memory        %-10s %ld kB, %ld threads", p->name, resident,
		proc_status(p->pid, "Threads"));
	if (child > 0)
		printf("; NVML worker %ld kB", proc_status(child, "VmRSS"));
	printf("\n");
	if (p->ours && resident > RESIDENT_MAX_KB)
		miss("resident memory is above", RESIDENT_MAX_KB);
	stop_program(p);
}

static void bench_reload(struct bench *b, struct program *p)
{
	static uint64_t took[RELOADS];
	struct error err = ERROR_INIT;
	uint64_t began;
	long before = 0, after;

	write_config(b, 10);
	began = start_program(b, p);
	if (mini_kubelet_wait_registered(&b->kubelet, began, TIMEOUT_NS, &err) < 0)
		die(p->name, &err);
	for (unsigned i = 0; i < reloads; i++) {
		unsigned replicas = i % 2 ? 10 : 4;
		size_t gpus = b->kubelet.n_devices / (i % 2 ? 4 : 10);

		if (i == 50)
			before = proc_status(p->pid, "VmRSS"); /* warmed up */
		began = time_mono_ns();
		write_config(b, replicas);
		if (mini_kubelet_wait_devices(&b->kubelet, gpus * replicas, TIMEOUT_NS, &err) <
			0)
			die(p->name, &err);
		took[i] = b->kubelet.listed_ns - began;
	}
	printf("reload to new list     %-10s p50 %7.2f ms   p99 %7.2f ms (20 ms of it settling)\n",
		p->name, quantile_ms(took, reloads, 0.5), quantile_ms(took, reloads, 0.99));
	after = proc_status(p->pid, "VmRSS");
	printf("%4u reloads           %-10s resident %ld -> %ld kB\n", reloads, p->name, before,
		after);
	if (after - before > GROWTH_MAX_KB)
		miss("reloads made it grow by more than", GROWTH_MAX_KB);
	stop_program(p);
}

int main(int argc, char **argv)
{
	struct bench b = { .nvml = argc > 2 ? argv[2] : NULL };
	struct program progs[2] = { { .name = "gpusliced", .ours = true },
		{ .name = "nvidia" } };
	size_t n = 1;

	if (argc < 3) {
		(void)fprintf(stderr, "usage: bench-agent AGENT NVML [NVIDIA-PLUGIN]\n");
		return 2;
	}
	if (getenv("BENCH_SHORT")) {
		starts = 5;
		calls = 500;
		reloads = 150;
		idle_ns = 2 * NS_PER_SEC;
	}
	progs[0].path = argv[1];
	setup(&b);
	if (argc > 3 && b.private_mounts && access(argv[3], X_OK) == 0) {
		progs[1].path = argv[3];
		n = 2;
	}
	bench_start(&b, progs, n);
	for (size_t k = 0; k < n; k++) {
		bench_allocate(&b, &progs[k], 10);
		bench_allocate(&b, &progs[k], 100);
		bench_idle(&b, &progs[k]);
	}
	bench_reload(&b, &progs[0]);
	mini_kubelet_stop(&b.kubelet);
	if (b.private_mounts)
		(void)umount2(KUBELET_DIR, MNT_DETACH);
	test_rmdir(strdup(b.tmp));
	return held ? 0 : 1;
}
