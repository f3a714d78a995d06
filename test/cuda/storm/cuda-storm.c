/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Processes with threads that race allocations of all kinds against one limit. One more process is outside of the
 * slice and polls NVML for their memory, as fast as it can. No poll may show more than the limit. At the end NVML
 * and the arbiter must agree, process by process.
 *
 *	cuda-storm [--preload LIBRARIES] [--slice DIR] [--limit BYTES] [--processes N] [--threads N]
 *	           [--seconds S] [--device N] [--no-managed] [--neighbour DIR] [--seed N]
 *
 * To be started in no slice: it preloads the libraries into the processes that it starts.
 */
#include "lib/base/time.h"
#include "cuda/storm/storm.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES_MAX 64
#define SETTLE_MS     10000
#define QUIET_MS      1500

struct child {
	pid_t pid;
	FILE *in, *out; /* of the child */
};

struct storm {
	struct storm_options o;
	const char *preload, *slice, *neighbour;
	uint64_t limit;
	unsigned int processes;
	nvmlDevice_t nvml;
	int arbiter;
	struct child child[PROCESSES_MAX];
	struct child tenant;
	unsigned long looks, views;
	unsigned long long largest, most_used; /* physical sum; what the arbiter counts */
	unsigned long allocated, refused, freed, wrong, errors;
};

static struct child start_storm_child(const struct storm *s, const char *mode,
	const char *slice, unsigned int number)
{
	char ordinal[16], threads[16], seconds[16], largest[32], seed[32];
	struct child c = { .pid = -1 };
	int to[2], from[2];

	(void)snprintf(ordinal, sizeof(ordinal), "%d", s->o.ordinal);
	(void)snprintf(threads, sizeof(threads), "%u", s->o.threads);
	(void)snprintf(seconds, sizeof(seconds), "%u", s->o.seconds);
	(void)snprintf(largest, sizeof(largest), "%llu", (unsigned long long)s->o.largest);
	(void)snprintf(seed, sizeof(seed), "%llu", (unsigned long long)s->o.seed + number);
	if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
		die("no pipe");
	c.pid = fork();
	if (c.pid == 0) {
		(void)dup2(to[0], STDIN_FILENO);
		(void)dup2(from[1], STDOUT_FILENO);
		if (slice)
			(void)setenv("GPUSLICE_SLICE_DIR", slice, 1);
		if (s->preload)
			(void)setenv("LD_PRELOAD", s->preload, 1);
		(void)execl("/proc/self/exe", s->o.argv0, mode, "--device", ordinal,
			"--threads", threads, "--seconds", seconds, "--largest", largest,
			"--seed", seed, s->o.managed ? (char *)NULL : "--no-managed",
			(char *)NULL);
		_exit(127);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	c.in = fdopen(to[1], "w");
	c.out = fdopen(from[0], "r");
	if (c.pid < 0 || !c.in || !c.out)
		die("no process");
	return c;
}

static void release_child(struct child *c)
{
	(void)fputs("go\n", c->in);
	(void)fflush(c->in);
}

static void await_ready(struct child *c)
{
	char line[512] = "";

	if (!fgets(line, sizeof(line), c->out) || strcmp(line, "ready\n") != 0)
		die("process %d: %s", (int)c->pid, line);
}

/* How often the tenant has gone round, and whether all was right. */
static unsigned long rounds_of(struct storm *s, unsigned long *wrong, unsigned long *errors)
{
	unsigned long rounds = 0;
	char line[256] = "";

	release_child(&s->tenant);
	if (!fgets(line, sizeof(line), s->tenant.out) ||
		sscanf(line, "%lu %lu %lu", &rounds, wrong, errors) != 3)
		die("neighbour: %s", line);
	return rounds;
}

static bool is_child_running(const struct child *c)
{
	return kill(c->pid, 0) == 0;
}

/* The slice as it is now; the arbiter may have restarted in between. */
static bool see(struct storm *s, struct slice_viewed *v)
{
	if (s->arbiter >= 0 && look(s->arbiter, 0, v) == 0)
		return true;
	if (s->arbiter >= 0)
		(void)close(s->arbiter);
	s->arbiter = probe_open(s->slice);
	return false;
}

static void expect_figure(struct storm *s, struct slice_viewed *v)
{
	uint64_t at = time_mono_ns();

	while (!see(s, v)) {
		if (ms_since(at) > SETTLE_MS)
			die("the arbiter does not answer");
		sleep_us(10000);
	}
}

static void watch_difference(struct storm *s)
{
	static struct physical p[PHYSICAL_MAX];
	struct slice_viewed v;
	unsigned int n = nvml_physical(s->nvml, p);
	unsigned long long sum = 0;

	for (unsigned int i = 0; i < s->processes; i++)
		sum += physical_of(p, n, s->child[i].pid);
	if (sum > s->largest)
		s->largest = sum;
	s->looks++;
	if (s->slice && s->looks % 16 == 0 && see(s, &v)) {
		s->views++;
		if (v.gpus[0].used > s->most_used)
			s->most_used = v.gpus[0].used;
	}
}

static bool has_reported(const struct child *c)
{
	struct pollfd p = { .fd = fileno(c->out), .events = POLLIN };

	return poll(&p, 1, 0) != 0;
}

/* Reads what a process counted. */
static void read_child_counts(struct storm *s, struct child *c)
{
	unsigned long a, b, f, w, e;
	char line[512] = "", where[64] = "";
	unsigned int error;

	if (!fgets(line, sizeof(line), c->out))
		die("process %d ended early", (int)c->pid);
	if (sscanf(line, "%lu %lu %lu %lu %lu %u %63s", &a, &b, &f, &w, &e, &error, where) != 7)
		die("process %d: %s", (int)c->pid, line);
	if (e)
		(void)printf("process=%d errors=%lu last=%u in=%s\n", (int)c->pid, e, error,
			where);
	s->allocated += a;
	s->refused += b;
	s->freed += f;
	s->wrong += w;
	s->errors += e;
}

static unsigned long long used_of(const struct slice_viewed *v, pid_t pid)
{
	for (unsigned int i = 0; i < v->here; i++)
		if (v->processes[i].host_pid == (uint32_t)pid)
			return v->processes[i].used;
	return 0;
}

/* Bytes by which the arbiter's grants and NVML differ, over all processes. */
static unsigned long long sum_difference(struct storm *s)
{
	static struct physical p[PHYSICAL_MAX];
	struct slice_viewed v;
	unsigned long long sum = 0;
	unsigned int n;

	expect_figure(s, &v);
	n = nvml_physical(s->nvml, p);
	for (unsigned int i = 0; i < s->processes; i++) {
		unsigned long long book = used_of(&v, s->child[i].pid);
		unsigned long long truth = physical_of(p, n, s->child[i].pid);

		sum += book > truth ? book - truth : truth - book;
	}
	return sum;
}

static unsigned long long wait_until_equal(struct storm *s, double *ms)
{
	uint64_t at = time_mono_ns();
	unsigned long long off;

	do {
		off = sum_difference(s);
		*ms = ms_since(at);
		if (off)
			sleep_us(5000);
	} while (off && *ms < SETTLE_MS);
	return off;
}

static unsigned long long wait_until_storm_released(struct storm *s, double *ms)
{
	uint64_t at = time_mono_ns();
	struct slice_viewed v;

	do {
		expect_figure(s, &v);
		*ms = ms_since(at);
		if (v.gpus[0].used)
			sleep_us(2000);
	} while (v.gpus[0].used && *ms < SETTLE_MS);
	return v.gpus[0].used;
}

static int run_storm(struct storm *s)
{
	unsigned long quiet = 0, busy = 0, wrong = 0, errors = 0;
	unsigned long long off = 0, over, rest = 0;
	double quiet_ms = 0, busy_ms = 0, settle_ms = 0, rest_ms = 0;
	bool ok;
	uint64_t at, end;

	s->arbiter = s->slice ? probe_open(s->slice) : -1;
	if (s->slice && s->arbiter < 0)
		die("the arbiter does not answer in %s", s->slice);
	if (s->neighbour) {
		s->tenant = start_storm_child(s, "--tenant", s->neighbour, 0);
		await_ready(&s->tenant);
		quiet = rounds_of(s, &wrong, &errors);
		at = time_mono_ns();
		sleep_us(QUIET_MS * 1000);
		quiet = rounds_of(s, &wrong, &errors) - quiet;
		quiet_ms = ms_since(at);
	}
	for (unsigned int i = 0; i < s->processes; i++)
		s->child[i] = start_storm_child(s, "--worker", s->slice, i);
	for (unsigned int i = 0; i < s->processes; i++)
		await_ready(&s->child[i]);
	for (unsigned int i = 0; i < s->processes; i++)
		release_child(&s->child[i]);
	if (s->neighbour)
		busy = rounds_of(s, &wrong, &errors);
	at = time_mono_ns();
	end = at + s->o.seconds * NS_PER_SEC;
	while (time_mono_ns() < end)
		watch_difference(s);
	if (s->neighbour) {
		busy_ms = ms_since(at);
		busy = rounds_of(s, &wrong, &errors) - busy;
	}
	for (unsigned int i = 0; i < s->processes; i++) {
		if (!is_child_running(&s->child[i]))
			die("process %d is gone", (int)s->child[i].pid);
		while (!has_reported(&s->child[i]))
			watch_difference(s);
		read_child_counts(s, &s->child[i]);
	}
	watch_difference(s);
	if (s->slice)
		off = wait_until_equal(s, &settle_ms);
	for (unsigned int i = 0; i < s->processes; i++)
		(void)fclose(s->child[i].in);
	for (unsigned int i = 0; i < s->processes; i++)
		(void)waitpid(s->child[i].pid, NULL, 0);
	if (s->slice)
		rest = wait_until_storm_released(s, &rest_ms);
	if (s->neighbour) {
		(void)fclose(s->tenant.in);
		(void)waitpid(s->tenant.pid, NULL, 0);
		(void)printf(
			"neighbour quiet_per_s=%.1f storm_per_s=%.1f wrong_words=%lu errors=%lu\n",
			(double)quiet * 1000 / quiet_ms, (double)busy * 1000 / busy_ms, wrong,
			errors);
	}
	over = s->limit && s->largest > s->limit ? s->largest - s->limit : 0;
	ok = !over && !off && !rest && !s->wrong && !s->errors && !wrong && !errors &&
	     (!s->limit || s->most_used <= s->limit);
	(void)printf("storm result=%s processes=%u threads=%u seconds=%u limit=%llu "
		     "largest=%llu over=%llu looks=%lu most_used=%llu views=%lu allocated=%lu "
		     "refused=%lu freed=%lu wrong=%lu errors=%lu differs=%llu settle_ms=%.1f "
		     "left=%llu left_ms=%.1f\n",
		ok ? "ok" : "failed", s->processes, s->o.threads, s->o.seconds,
		(unsigned long long)s->limit, s->largest, over, s->looks, s->most_used,
		s->views, s->allocated, s->refused, s->freed, s->wrong, s->errors, off,
		settle_ms, rest, rest_ms);
	return ok ? 0 : 1;
}

/* NVML's handle of the CUDA device, found by a child: this process has no context, and needs none. */
static nvmlDevice_t find_nvml(int ordinal)
{
	char uuid[64] = "";
	int from[2];
	pid_t pid;

	if (pipe2(from, O_CLOEXEC) != 0)
		die("no pipe");
	pid = fork();
	if (pid == 0) {
		CUdevice device;

		cuda_open();
		nvml_open();
		must(cu.cuDeviceGet(&device, ordinal), "cuDeviceGet");
		(void)nvml_of(device, uuid);
		_exit(write(from[1], uuid, sizeof(uuid)) != sizeof(uuid));
	}
	(void)close(from[1]);
	if (read(from[0], uuid, sizeof(uuid)) != sizeof(uuid))
		die("no CUDA device %d", ordinal);
	(void)close(from[0]);
	(void)waitpid(pid, NULL, 0);
	nvml_open();
	return nvml_by_uuid(uuid);
}

int main(int argc, char **argv)
{
	struct storm s = {
		.o = { .argv0 = argv[0],
			.threads = 8,
			.seconds = 10,
			.seed = 1,
			.managed = true },
		.processes = 8,
	};
	const char *mode = "";

	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(a, "--worker") == 0 || strcmp(a, "--tenant") == 0) {
			mode = a;
			continue;
		}
		if (strcmp(a, "--no-managed") == 0) {
			s.o.managed = false;
			continue;
		}
		i++;
		if (strcmp(a, "--preload") == 0)
			s.preload = value;
		else if (strcmp(a, "--slice") == 0)
			s.slice = value;
		else if (strcmp(a, "--neighbour") == 0)
			s.neighbour = value;
		else if (strcmp(a, "--limit") == 0)
			s.limit = number(value, a);
		else if (strcmp(a, "--processes") == 0)
			s.processes = (unsigned int)number(value, a);
		else if (strcmp(a, "--threads") == 0)
			s.o.threads = (unsigned int)number(value, a);
		else if (strcmp(a, "--seconds") == 0)
			s.o.seconds = (unsigned int)number(value, a);
		else if (strcmp(a, "--device") == 0)
			s.o.ordinal = (int)number(value, a);
		else if (strcmp(a, "--largest") == 0)
			s.o.largest = number(value, a);
		else if (strcmp(a, "--seed") == 0)
			s.o.seed = number(value, a);
		else
			die("unknown option '%s'", a);
	}
	if (s.processes > PROCESSES_MAX || s.o.threads > 64)
		die("at most 64 processes of 64 threads");
	(void)signal(SIGPIPE, SIG_IGN);
	if (strcmp(mode, "--worker") == 0)
		return storm_worker(&s.o);
	if (strcmp(mode, "--tenant") == 0)
		return storm_tenant(&s.o);
	if (!s.o.largest)
		s.o.largest = s.limit ? s.limit / 16 : 256 * MIB;
	s.nvml = find_nvml(s.o.ordinal);
	return run_storm(&s);
}
