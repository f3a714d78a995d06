/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the kubelet notices of remote clients at the agent's port: the time of an Allocate call of the real
 * gpusliced. The simulated node has 8 GPUs in 56 slices each, and all slices are allocated. Remote clients scrape
 * the agent 50 times a second, send requests very slowly, send malformed bytes and hold 10,000 connections. The
 * baseline is the same without remote clients.
 *
 *	bench-load AGENT NVML
 *	bench-load --strangers PORT      (the load, until its standard input ends)
 *
 * A round measures alone, beside remote clients, and alone again. The medians over the rounds count, as the
 * machine may have other work. The two times alone, against each other, give the noise.
 *
 * All threads of the agent share one processor, the worst case for its loop. The kubelet and the remote clients
 * share another. The agent has as few descriptors as a system gives by default. BENCH_SHORT=1: a quick check
 * rather than a measurement.
 */
#include "bench/mini-kubelet.h"
#include "bench/web-load.h"

#include "support/test.h"

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPLICAS    56
#define GPUS        8
#define DESCRIPTORS 1024
#define CALLS_MAX   8192
#define ROUNDS_MAX  9
#define TIMEOUT_NS  (20 * NS_PER_SEC)
#define PAUSE_NS    (2 * NS_PER_MS) /* a pod is not admitted back to back */

/*
 * A run fails where the time beside remote clients is more than this many times the time alone, times the ratio of
 * the two times alone. For p99 the time must also be more than a slice of the kernel's scheduler longer: the
 * kernel's own threads may take that slice for the network's backlog. A loop that waits for the web thread has a
 * p99 of ten milliseconds. A short run has too few calls for the strict limit.
 */
#define TIMES_MAX       2.0
#define TIMES_MAX_SHORT 10.0
#define P99_MORE_US     2500.0

struct quantiles {
	double p50_us, p99_us;
};

struct bench {
	const char *self, *agent, *nvml;
	unsigned rounds;
	double times_max;
	uint64_t phase_ns, settle_ns;
	char tmp[32], kubelet_dir[64], plugin_dir[96], config[64], log[64];
	struct mini_kubelet kubelet;
	struct rpc_server *pods;
	pid_t pid;
	unsigned port;
	struct quantiles alone[ROUNDS_MAX], beside[ROUNDS_MAX], again[ROUNDS_MAX];
	double web_cpu[ROUNDS_MAX]; /* part of a processor */
	size_t most_fds;
};

static void die(const char *what, const struct error *err)
{
	(void)fprintf(stderr, "bench-load: %s: %s\n", what, err->msg);
	exit(1);
}

/* --- the remote clients, in a process of their own --- */

static void raise_fd_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

static int run_remote_clients(unsigned port)
{
	struct web_load *load[WEB_LOAD_KINDS_];
	char end;

	raise_fd_limit();
	for (unsigned k = 0; k < WEB_LOAD_KINDS_; k++)
		load[k] = web_load_begin(k, port);
	while (read(STDIN_FILENO, &end, 1) < 0 && errno == EINTR)
		;
	for (unsigned k = 0; k < WEB_LOAD_KINDS_; k++)
		web_load_end(load[k]);
	return 0;
}

struct crowd {
	pid_t pid;
	int pipe; /* they go when it is closed */
};

static struct crowd start_crowd(const struct bench *b, bool tell)
{
	struct crowd c = { .pid = -1 };
	char port[16];
	int ends[2];

	(void)snprintf(port, sizeof(port), "%u", b->port);
	if (pipe2(ends, O_CLOEXEC) < 0 || (c.pid = fork()) < 0) {
		perror("bench-load");
		exit(1);
	}
	if (c.pid == 0) {
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

		(void)dup2(ends[0], STDIN_FILENO);
		if (!tell)
			(void)dup2(null, STDOUT_FILENO);
		(void)execl(b->self, b->self, "--strangers", port, (char *)NULL);
		_exit(127);
	}
	(void)close(ends[0]);
	c.pipe = ends[1];
	return c;
}

static void stop_crowd(struct crowd *c)
{
	int status = 0;

	closep(&c->pipe);
	(void)waitpid(c->pid, &status, 0);
	if (status != 0) {
		(void)fprintf(stderr, "bench-load: the strangers failed\n");
		exit(1);
	}
}

/* --- the node --- */

/* Each device is allocated to a pod of its own. */
static void on_pods(struct rpc_call *call, const uint8_t *request, size_t len, void *arg)
{
	static struct pod_entry entries[GPUS * REPLICAS];
	static char names[GPUS * REPLICAS][48];
	const struct bench *b = arg;
	CLEANUP(buf_fini) struct buf buf = BUF_INIT(4 << 20);
	size_t n = b->kubelet.n_devices;

	(void)request;
	(void)len;
	if (n > ARRAY_LEN(entries))
		n = ARRAY_LEN(entries);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "inference-7f9c6d5b8-%05zu", i);
		entries[i] = (struct pod_entry){ .namespace_ = "production",
			.pod = names[i],
			.container = "server",
			.resource = "nvidia.com/gpu",
			.id = b->kubelet.ids[i],
			.numa_node = -1 };
	}
	if (pod_list_encode(&buf, entries, n, NULL) < 0)
		rpc_reply_error(call, RPC_INTERNAL, "no list");
	else
		rpc_reply(call, buf.data, buf.len);
}

static const struct rpc_method pods_methods[] = {
	{ .path = METHOD_POD_LIST, .handle = on_pods },
};

static void write_config(const struct bench *b)
{
	struct error err = ERROR_INIT;
	char text[256];
	int n = snprintf(text, sizeof(text),
		"version: v1\nsharing:\n  timeSlicing:\n    resources:\n"
		"    - {name: nvidia.com/gpu, replicas: %d}\n",
		REPLICAS);

	if (file_write_atomic(b->config, text, (size_t)n, 0644, &err) < 0)
		die("config", &err);
}

static void setup(struct bench *b)
{
	struct error err = ERROR_INIT;
	char pods[128];

	(void)snprintf(b->tmp, sizeof(b->tmp), "/tmp/gsl.XXXXXX");
	if (!mkdtemp(b->tmp))
		(void)error_sys(&err, errno, "mkdtemp"), die("setup", &err);
	(void)snprintf(b->kubelet_dir, sizeof(b->kubelet_dir), "%s/kubelet", b->tmp);
	(void)snprintf(b->plugin_dir, sizeof(b->plugin_dir), "%s/device-plugins",
		b->kubelet_dir);
	(void)snprintf(pods, sizeof(pods), "%s/pod-resources", b->kubelet_dir);
	(void)snprintf(b->config, sizeof(b->config), "%s/config.yaml", b->tmp);
	(void)snprintf(b->log, sizeof(b->log), "%s/log", b->tmp);
	if (dir_make(b->plugin_dir, 0755, &err) < 0 || dir_make(pods, 0755, &err) < 0)
		die("setup", &err);
	write_config(b);
	(void)strncat(pods, "/kubelet.sock", sizeof(pods) - strlen(pods) - 1);
	if (mini_kubelet_start(&b->kubelet, b->plugin_dir, &err) < 0 ||
		rpc_serve(b->kubelet.rpc, pods, pods_methods, ARRAY_LEN(pods_methods), b,
			&b->pods, &err) < 0)
		die("kubelet", &err);
}

static void exec_agent(const struct bench *b)
{
	const struct rlimit files = { .rlim_cur = DESCRIPTORS, .rlim_max = DESCRIPTORS };
	char run_dir[64], state_dir[64];
	int fd = open(b->log, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	(void)snprintf(run_dir, sizeof(run_dir), "%s/run", b->tmp);
	(void)snprintf(state_dir, sizeof(state_dir), "%s/kept", b->tmp);
	(void)dup2(fd, STDERR_FILENO);
	(void)setrlimit(RLIMIT_NOFILE, &files);
	(void)setenv("GPUSLICE_SIM_NODE", "p5.48xlarge", 1);
	(void)setenv("GPUSLICE_SIM_DIR", b->tmp, 1);
	web_load_pin(0);
	(void)execl(b->agent, b->agent, "--nvml", b->nvml, "--kubelet-dir", b->kubelet_dir,
		"--run-dir", run_dir, "--state-dir", state_dir, "--config-file", b->config,
		"--metrics-listen", "127.0.0.1:0", (char *)NULL);
	_exit(127);
}

/* The port of the agent's metrics server, from the agent's log; 0: not yet known. */
static unsigned port_of(const struct bench *b)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1 << 20);
	unsigned port = 0;
	const char *at;

	if (file_read(b->log, &text, NULL) < 0)
		return 0;
	at = strstr(buf_str(&text), "serving metrics");
	at = at ? strstr(at, "port=") : NULL;
	if (at)
		(void)sscanf(at, "port=%u", &port);
	return port;
}

static void start_agent(struct bench *b)
{
	struct error err = ERROR_INIT;
	uint64_t began = time_mono_ns();

	b->pid = fork();
	if (b->pid == 0)
		exec_agent(b);
	if (mini_kubelet_wait_registered(&b->kubelet, began, TIMEOUT_NS, &err) < 0 ||
		mini_kubelet_wait_devices(&b->kubelet, (size_t)GPUS * REPLICAS, TIMEOUT_NS,
			&err) < 0)
		die("agent", &err);
	b->port = port_of(b);
	if (!b->port)
		(void)error_set(&err, ERR_NOT_FOUND, "it does not say its port"),
			die("agent", &err);
}

static size_t count_open_files(pid_t pid)
{
	const struct dirent *e;
	char path[64];
	size_t n = 0;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		(void)closedir(d);
	return n;
}

/* --- what is measured --- */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static struct quantiles measure(struct bench *b)
{
	static uint64_t took[CALLS_MAX];
	uint64_t end_ns = time_mono_ns() + b->phase_ns;
	struct error err = ERROR_INIT;
	size_t n = 0;

	while (n < CALLS_MAX && time_mono_ns() < end_ns) {
		const char *id = b->kubelet.ids[n * 7919 % b->kubelet.n_devices];

		if (mini_kubelet_allocate(&b->kubelet, id, &took[n++], &err) < 0)
			die("agent", &err);
		mini_kubelet_run(&b->kubelet, PAUSE_NS);
	}
	qsort(took, n, sizeof(took[0]), by_value);
	return (struct quantiles){ (double)took[n / 2] / 1e3,
		(double)took[n * 99 / 100] / 1e3 };
}

static void run_round(struct bench *b, unsigned i)
{
	struct crowd crowd;
	uint64_t cpu_ns;
	size_t fds;

	b->alone[i] = measure(b);
	crowd = start_crowd(b, i + 1 == b->rounds);
	mini_kubelet_run(&b->kubelet, b->settle_ns); /* until they are all there */
	cpu_ns = web_load_cpu_ns(b->pid);
	b->beside[i] = measure(b);
	cpu_ns = web_load_cpu_ns(b->pid) - cpu_ns;
	b->web_cpu[i] = (double)cpu_ns / (double)b->phase_ns;
	fds = count_open_files(b->pid);
	if (fds > b->most_fds)
		b->most_fds = fds;
	stop_crowd(&crowd);
	mini_kubelet_run(&b->kubelet, b->settle_ns);
	b->again[i] = measure(b);
	printf("%5u  %8.0f %8.0f %8.0f   %8.0f %8.0f %8.0f\n", i + 1, b->alone[i].p50_us,
		b->beside[i].p50_us, b->again[i].p50_us, b->alone[i].p99_us,
		b->beside[i].p99_us, b->again[i].p99_us);
}

static int by_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const double *of, unsigned n)
{
	double v[ROUNDS_MAX];

	memcpy(v, of, n * sizeof(v[0]));
	qsort(v, n, sizeof(v[0]), by_double);
	return v[n / 2];
}

struct load_verdict {
	double alone, beside, times, noise; /* medians over the rounds */
};

static double get_p50_us(const struct quantiles *q)
{
	return q->p50_us;
}

static double get_p99_us(const struct quantiles *q)
{
	return q->p99_us;
}

static struct load_verdict compute_load_verdict(const struct bench *b,
	double (*of)(const struct quantiles *))
{
	double alone[ROUNDS_MAX], beside[ROUNDS_MAX], times[ROUNDS_MAX], noise[ROUNDS_MAX];

	for (unsigned i = 0; i < b->rounds; i++) {
		double before = of(&b->alone[i]), after = of(&b->again[i]);

		alone[i] = sqrt(before * after);
		beside[i] = of(&b->beside[i]);
		times[i] = beside[i] / alone[i];
		noise[i] = fmax(before / after, after / before);
	}
	return (struct load_verdict){ median(alone, b->rounds), median(beside, b->rounds),
		median(times, b->rounds), median(noise, b->rounds) };
}

static bool is_within_bound(const char *what, const struct load_verdict *v, double times_max,
	double more_us)
{
	double bound = times_max * v->noise;

	printf("Allocate %s: alone %.0f us, beside strangers %.0f us, x %.2f; alone against alone x %.2f\n",
		what, v->alone, v->beside, v->times, v->noise);
	if (v->times <= bound || v->beside - v->alone <= more_us)
		return true;
	printf("MISSED: %s beside strangers is above %.2f times that alone\n", what, bound);
	return false;
}

static bool report_verdicts(const struct bench *b)
{
	struct load_verdict middle = compute_load_verdict(b, get_p50_us),
			    end = compute_load_verdict(b, get_p99_us);
	bool ok;

	printf("medians of %u rounds\n", b->rounds);
	ok = is_within_bound("p50", &middle, b->times_max, 0);
	ok = is_within_bound("p99", &end, b->times_max, P99_MORE_US) && ok;
	printf("web server: %.0f %% of a processor; descriptors of the agent: %zu of %d at most\n",
		100 * median(b->web_cpu, b->rounds), b->most_fds, DESCRIPTORS);
	return ok;
}

int main(int argc, char **argv)
{
	struct bench b = { .self = "/proc/self/exe",
		.rounds = ROUNDS_MAX,
		.times_max = TIMES_MAX,
		.phase_ns = 4 * NS_PER_SEC,
		.settle_ns = NS_PER_SEC };
	uint32_t port;
	bool ok;

	if (argc == 3 && !strcmp(argv[1], "--strangers") && parse_u32(argv[2], &port))
		return run_remote_clients(port);
	if (argc != 3) {
		(void)fprintf(stderr, "usage: bench-load AGENT NVML\n");
		return 2;
	}
	if (getenv("BENCH_SHORT")) {
		b.rounds = 3;
		b.times_max = TIMES_MAX_SHORT;
		b.phase_ns = NS_PER_SEC / 2;
		b.settle_ns = NS_PER_SEC / 2;
	}
	b.agent = argv[1];
	b.nvml = argv[2];
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	web_load_pin(1);
	setup(&b);
	start_agent(&b);
	printf("Allocate, us      p50: alone  beside   again   p99: alone  beside   again\n");
	for (unsigned i = 0; i < b.rounds; i++)
		run_round(&b, i);
	ok = report_verdicts(&b);
	(void)kill(b.pid, SIGTERM);
	(void)waitpid(b.pid, NULL, 0);
	mini_kubelet_stop(&b.kubelet);
	test_rmdir(strdup(b.tmp));
	return ok ? 0 : 1;
}
