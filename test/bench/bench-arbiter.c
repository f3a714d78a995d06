/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the arbiter costs its clients. Measured are:
 *
 *	a registration, alone and with 300 at once
 *	a memory request, alone and from 8 processes
 *	an allocation from the credit, which needs no request
 *	the arbiter's own processor time and memory
 *
 *	bench-arbiter ARBITER
 */
#include "unit/node/arbiter/client.h"

#include "support/test.h"

#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ID     "0123456789abcdef0123456789abcdef"
#define STARTS 300
#define CALLS  20000
#define PAIRS  1000000
#define RACERS 8

struct shared {
	_Atomic uint32_t ready;
	_Atomic uint64_t took[STARTS]; /* 0: it did not work */
};

static struct shared *shared;
static char slice[128];

/* A pipe: those who begin at once sleep on it until its last writer is gone. */
static int gate[2];

static void die(const char *what)
{
	(void)fprintf(stderr, "bench-arbiter: %s\n", what);
	exit(1);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double quantile_us(uint64_t *v, size_t n, double q)
{
	qsort(v, n, sizeof(*v), by_value);
	return (double)v[(size_t)((double)(n - 1) * q + 0.5)] / 1e3;
}

static pid_t start_arbiter(const char *program, const char *dir)
{
	struct error err = ERROR_INIT;
	char run[128], file[192];
	static const char text[] = "{\"version\": 1, \"id\": \"" ID
				   "\", \"resource\": \"nvidia.com/gpu\", \"gpus\": "
				   "[{\"uuid\": \"GPU-00112233-4455-6677-8899-aabbccddeeff\","
				   " \"memory\": 85899345920}]}";
	pid_t pid;

	(void)snprintf(slice, sizeof(slice), "%.64s/slices/" ID, dir);
	(void)snprintf(run, sizeof(run), "%.64s/run", dir);
	(void)snprintf(file, sizeof(file), "%s/slice.json", slice);
	if (dir_make(slice, 0755, &err) < 0 ||
		file_write_atomic(file, text, strlen(text), 0644, &err) < 0)
		die(err.msg);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)execl(program, program, "--state-dir", dir, "--run-dir", run,
			"--log-level", "error", (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 5000; i++) {
		const struct timespec ms = { .tv_nsec = 1000000 };
		struct slice_client c;
		int r = client_connect(&c, slice);

		client_close(&c);
		if (r == 0)
			return pid;
		(void)nanosleep(&ms, NULL);
	}
	die("the arbiter does not answer");
	return -1;
}

/* A child, which has no output of the parent to print. */
static pid_t fork_quiet_child(void)
{
	pid_t pid;

	(void)fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("no process");
	return pid;
}

static void gate_make(void)
{
	atomic_store(&shared->ready, 0);
	if (pipe2(gate, O_CLOEXEC) < 0)
		die("no pipe");
}

/* In a child. It sleeps: 300 that polled would leave the parent no processor to fork with. */
static void gate_wait(void)
{
	char byte;

	(void)close(gate[1]);
	atomic_fetch_add(&shared->ready, 1);
	/* End of file, or the signal that ends a child: it goes on either way. */
	if (read(gate[0], &byte, 1) < 0)
		perror("gate");
	(void)close(gate[0]);
}

/* Lets @n children start once all of them wait. Returns the time of the start. */
static uint64_t gate_open(size_t n)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	uint64_t began;

	while (atomic_load(&shared->ready) < n)
		(void)nanosleep(&ms, NULL);
	began = time_mono_ns();
	(void)close(gate[1]);
	(void)close(gate[0]);
	return began;
}

/* Connect to page mapped; the process itself is there already. */
static _Noreturn void register_once(size_t i, bool at_once)
{
	struct slice_client c;
	uint64_t began;
	bool good;

	if (at_once)
		gate_wait();
	began = time_mono_ns();
	good = client_connect(&c, slice) == 0 &&
	       client_hello(&c, SLICE_HELLO_MEMORY) == SLICE_OK;
	atomic_store(&shared->took[i], good ? time_mono_ns() - began : 0);
	_exit(!good);
}

static void measure_registrations(size_t n, bool at_once)
{
	static uint64_t took[STARTS];
	pid_t pids[STARTS];
	uint64_t began = 0, whole;

	if (at_once)
		gate_make();
	for (size_t i = 0; i < n; i++) {
		pids[i] = fork_quiet_child();
		if (pids[i] == 0)
			register_once(i, at_once);
		if (!at_once)
			(void)waitpid(pids[i], NULL, 0);
	}
	if (at_once) {
		began = gate_open(n);
		for (size_t i = 0; i < n; i++)
			(void)waitpid(pids[i], NULL, 0);
	}
	whole = time_mono_ns() - began;
	for (size_t i = 0; i < n; i++) {
		took[i] = atomic_load(&shared->took[i]);
		if (!took[i])
			die("a registration did not work");
	}
	printf("registration, %3zu %-9s p50 %9.1f us   p99 %9.1f us   max %9.1f us", n,
		at_once ? "at once" : "in a row", quantile_us(took, n, 0.5),
		quantile_us(took, n, 0.99), quantile_us(took, n, 1));
	if (at_once)
		printf("   all ended after %.1f ms", (double)whole / 1e6);
	printf("\n");
}

static void open_client(struct slice_client *c)
{
	if (client_connect(c, slice) < 0 || client_hello(c, SLICE_HELLO_MEMORY) != SLICE_OK)
		die("no registration");
}

/* Asked for and put into the credit, from where the arbiter takes it back for the next one. */
static void one_call(struct slice_client *c)
{
	if (client_request(c, 0, 1, NULL) != SLICE_OK)
		die("no memory");
	atomic_fetch_add(&c->page->gpus[0].credit, 1);
}

static void measure_calls_alone(void)
{
	static uint64_t took[CALLS];
	struct slice_client c;

	open_client(&c);
	for (size_t i = 0; i < CALLS; i++) {
		uint64_t began = time_mono_ns();

		one_call(&c);
		took[i] = time_mono_ns() - began;
	}
	printf("request, alone              p50 %9.1f us   p99 %9.1f us\n",
		quantile_us(took, CALLS, 0.5), quantile_us(took, CALLS, 0.99));
	client_close(&c);
}

static void calls_at_once(void)
{
	pid_t pids[RACERS];
	uint64_t began, took;

	gate_make();
	for (size_t i = 0; i < RACERS; i++) {
		pids[i] = fork_quiet_child();
		if (pids[i] == 0) {
			struct slice_client c;

			open_client(&c);
			gate_wait();
			for (size_t k = 0; k < CALLS; k++)
				one_call(&c);
			_exit(0);
		}
	}
	began = gate_open(RACERS);
	for (size_t i = 0; i < RACERS; i++)
		(void)waitpid(pids[i], NULL, 0);
	took = time_mono_ns() - began;
	printf("requests, %d processes       %.0f a second\n", RACERS,
		(double)RACERS * CALLS * 1e9 / (double)took);
}

static void measure_credit(void)
{
	struct slice_client c;
	uint64_t began;

	open_client(&c);
	if (!client_allocate(&c, 0, 1))
		die("no memory");
	client_free_bytes(&c, 0, 1);
	began = time_mono_ns();
	for (size_t i = 0; i < PAIRS; i++) {
		if (!client_allocate(&c, 0, 1))
			die("no memory");
		client_free_bytes(&c, 0, 1);
	}
	printf("take and give, from credit  %.1f ns a pair\n",
		(double)(time_mono_ns() - began) / PAIRS);
	client_close(&c);
}

static void print_arbiter_costs(pid_t pid)
{
	char path[64], line[256];
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "VmRSS", 5) || !strncmp(line, "RssAnon", 7) ||
			!strncmp(line, "VmHWM", 5))
			printf("arbiter: %s", line);
	}
	if (f)
		(void)fclose(f);
}

int main(int argc, char **argv)
{
	char *dir = test_tmpdir();
	pid_t arbiter;

	if (argc != 2)
		die("usage: bench-arbiter ARBITER");
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	if (shared == MAP_FAILED)
		die("no memory");
	arbiter = start_arbiter(argv[1], dir);
	measure_registrations(STARTS, false);
	measure_registrations(STARTS, true);
	measure_calls_alone();
	calls_at_once();
	measure_credit();
	print_arbiter_costs(arbiter);
	(void)kill(arbiter, SIGTERM);
	(void)waitpid(arbiter, NULL, 0);
	test_rmdir(dir);
	return 0;
}
