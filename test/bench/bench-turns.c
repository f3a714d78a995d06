/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How long the arbiter takes from one process's report to the change of another process's gate: alone, and with
 * 300 processes of 60 slices. Their memory is requested, read and shown all the time. The benchmark polls the
 * gates without sleeping, so the time is that of the arbiter and of the kernel for one wake-up.
 *
 *	revoked    a process of class latency reports that it begins: the gate of the process with the quantum
 *	           closes
 *	resumed    that process reports that it is idle: the other gate opens again (after the short time that
 *	           the arbiter waits for it)
 *	killed     the process with the quantum is killed: the gate of the next process opens
 *
 * With a flood, a process of another slice sends states on all its permitted connections, as fast as it can.
 *
 *	bench-turns ARBITER [OTHER]	OTHER, of another build, is measured in the same way, alternating with ARBITER
 */
#include "unit/node/arbiter/client.h"

#include "support/test.h"

#include "abi/arbiter-control.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define UUID    "GPU-00112233-4455-6677-8899-aabbccddeeff"
#define SLICES  60
#define PROCS   300
#define FLOOD   16 /* connections */
#define TIMES   3  /* each, where there are two */
#define ROUNDS  2000
#define KILLS   100
#define MIB     UINT64_C(1048576)
#define LATENCY 90 /* numbers of slices */
#define BATCH   91
#define DYING   92
#define FLOODS  93

static char dir[128], run[160];
static _Atomic uint32_t *ready;
static pid_t pids[PROCS];

static void die(const char *what)
{
	(void)fprintf(stderr, "bench-turns: %s\n", what);
	exit(1);
}

static const char *slice_dir(unsigned int slice)
{
	static char path[192];

	(void)snprintf(path, sizeof(path), "%s/slices/0123456789abcdef0123456789abcd%02u", dir,
		slice);
	return path;
}

static void write_slice(unsigned int slice, const char *class)
{
	struct error err = ERROR_INIT;
	char text[512], path[256];

	(void)snprintf(text, sizeof(text),
		"{\"version\": 1, \"id\": \"0123456789abcdef0123456789abcd%02u\","
		" \"resource\": \"nvidia.com/gpu\", \"gpus\": [{\"uuid\": \"" UUID
		"\", \"memory\": 1073741824}], \"compute\": \"turns\", \"class\": \"%s\"}",
		slice, class);
	(void)snprintf(path, sizeof(path), "%s/slice.json", slice_dir(slice));
	if (dir_make(slice_dir(slice), 0755, &err) < 0 ||
		file_write_atomic(path, text, strlen(text), 0644, &err) < 0)
		die(err.msg);
}

static pid_t fork_bench_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void wait_ms(long ms)
{
	const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	(void)nanosleep(&t, NULL);
}

static void join(struct slice_client *c, unsigned int slice, uint32_t flags)
{
	for (int i = 0; i < 10000; i++) {
		if (client_connect(c, slice_dir(slice)) == 0) {
			if (client_hello(c, flags) != SLICE_OK)
				die("not welcome");
			return;
		}
		wait_ms(1);
	}
	die("the arbiter does not answer");
}

static pid_t start_arbiter(const char *program)
{
	pid_t pid = fork_bench_child();

	if (pid == 0) {
		(void)execl(program, program, "--state-dir", dir, "--run-dir", run,
			"--log-level", "error", (char *)NULL);
		_exit(127);
	}
	return pid;
}

/* --- load --- */

/* Has memory and a client of the scheduler; every tenth process requests memory all the time. */
static _Noreturn void run_process(unsigned int number)
{
	struct slice_client memory, turns;

	join(&memory, number % SLICES, SLICE_HELLO_MEMORY);
	join(&turns, number % SLICES, SLICE_HELLO_TURNS);
	if (!client_allocate(&memory, 0, MIB))
		_exit(1);
	atomic_fetch_add(ready, 1);
	for (;;) {
		wait_ms(number % 10 ? 1000 : 10);
		if (number % 10 == 0)
			(void)client_request(&memory, 0, 1024 * MIB, NULL);
	}
}

static void send_text(int fd, const char *text, size_t len)
{
	if (write(fd, text, len) != (ssize_t)len)
		_exit(1);
}

static void write_arbiter_answer(int fd, const char *line)
{
	static char text[64 * 1024];
	const char *seq = strstr(line, "\"seq\":") + strlen("\"seq\":");
	size_t n;

	n = (size_t)snprintf(text, sizeof(text),
		"{\"op\": \"reading\", \"seq\": %.*s, \"gpus\": [{\"uuid\": \"" UUID
		"\", \"processes\": [",
		(int)strspn(seq, "0123456789"), seq);
	for (size_t i = 0; i < PROCS; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
			"%s{\"pid\": %d, \"bytes\": 543162368}", i ? ", " : "", (int)pids[i]);
	n += (size_t)snprintf(text + n, sizeof(text) - n, "]}]}\n");
	send_text(fd, text, n);
}

/* Reads NVML for the arbiter, and asks for the status four times a second. */
static _Noreturn void run_agent_process(void)
{
	static char data[4 * 1024 * 1024];
	static const char subscribe[] = "{\"op\": \"readings\"}\n",
			  status[] = "{\"op\": \"status\"}\n";
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t len = 0;

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%.90s/%s", run, CONTROL_SOCKET);
	if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
		_exit(1);
	send_text(fd, subscribe, sizeof(subscribe) - 1);
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char *end;
		ssize_t n;

		if (poll(&p, 1, 250) == 0) {
			send_text(fd, status, sizeof(status) - 1);
			continue;
		}
		n = read(fd, data + len, sizeof(data) - 1 - len);
		if (n <= 0)
			_exit(1);
		len += (size_t)n;
		data[len] = '\0';
		while ((end = strchr(data, '\n'))) {
			*end = '\0';
			if (strstr(data, "\"op\":\"read\""))
				write_arbiter_answer(fd, data);
			len -= (size_t)(end + 1 - data);
			memmove(data, end + 1, len + 1);
		}
	}
}

/* --- what is measured --- */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void show(const char *what, uint64_t *took, size_t n)
{
	qsort(took, n, sizeof(*took), by_value);
	printf("  %-9s p50 %8.1f us   p99 %8.1f us   max %8.1f us\n", what,
		(double)took[n / 2] / 1e3, (double)took[n * 99 / 100] / 1e3,
		(double)took[n - 1] / 1e3);
}

/* Waits until the gate is open, or closed. Returns the ns since @began. */
static uint64_t watch_gate(const struct slice_client *c, bool open, uint64_t began)
{
	uint64_t now;

	while ((client_gate(c, 0) != TURN_CLOSED) != open) {
		(void)sched_yield(); /* the arbiter may have been put on this processor */
		if (time_mono_ns() - began > 10 * NS_PER_SEC)
			die("a gate does not move");
	}
	now = time_mono_ns();
	return now - began;
}

static void request_quantum(struct slice_client *c)
{
	do {
		if (client_report_state(c, 0, false, true) < 0)
			die("a connection ended");
	} while (!client_wait_gate(c, 0, true, 100));
}

static void measure_revocations(void)
{
	static uint64_t closed[ROUNDS], opened[ROUNDS];
	struct slice_client l, b;

	join(&l, LATENCY, SLICE_HELLO_TURNS);
	join(&b, BATCH, SLICE_HELLO_TURNS);
	request_quantum(&b);
	for (size_t i = 0; i < ROUNDS; i++) {
		uint64_t began;

		wait_ms(1 + (long)(i % 3));
		began = time_mono_ns();
		if (client_report_state(&l, 0, true, false) < 0)
			die("a connection ended");
		closed[i] = watch_gate(&b, false, began);
		(void)client_report_state(&b, 0, false, true);
		began = time_mono_ns();
		if (client_report_state(&l, 0, false, false) < 0)
			die("a connection ended");
		opened[i] = watch_gate(&b, true, began);
	}
	show("revoked", closed, ROUNDS);
	show("resumed", opened, ROUNDS);
	client_close(&l);
	client_close(&b);
}

static void measure_deaths(void)
{
	static uint64_t took[KILLS];
	struct slice_client b;

	join(&b, BATCH, SLICE_HELLO_TURNS);
	for (size_t i = 0; i < KILLS; i++) {
		uint32_t before = atomic_load(ready);
		struct slice_client c;
		uint64_t began;
		pid_t pid = fork_bench_child();

		if (pid == 0) {
			join(&c, DYING, SLICE_HELLO_TURNS);
			request_quantum(&c);
			/* The process must have the quantum when it is killed, so it reports nothing more. */
			atomic_fetch_add(ready, 1);
			for (;;)
				(void)pause();
		}
		while (atomic_load(ready) == before)
			wait_ms(1);
		(void)client_report_state(&b, 0, false, true);
		/* The quantum of the process may just have ended. */
		wait_ms(1);
		began = time_mono_ns();
		(void)kill(pid, SIGKILL);
		took[i] = watch_gate(&b, true, began);
		(void)waitpid(pid, NULL, 0);
		(void)client_report_state(&b, 0, false, false);
		wait_ms(5);
	}
	show("killed", took, KILLS);
	client_close(&b);
}

/* Slice FLOODS: sends states of an invalid generation all the time. */
static _Noreturn void send_flood(void)
{
	struct slice_state s = { .head = { .op = SLICE_STATE }, .generation = 0x7fffff };
	static struct slice_client c[FLOOD];

	for (unsigned int i = 0; i < FLOOD; i++) {
		join(&c[i], FLOODS, SLICE_HELLO_TURNS);
		(void)fcntl(c[i].fd, F_SETFL, O_NONBLOCK);
	}
	atomic_fetch_add(ready, 1);
	for (unsigned int i = 0;; i = (i + 1) % FLOOD)
		(void)send(c[i].fd, &s, sizeof(s), MSG_NOSIGNAL);
}

static void measure_arbiter(const char *what)
{
	printf("%s\n", what);
	measure_revocations();
	measure_deaths();
	(void)fflush(stdout);
	atomic_store(ready, 0);
}

static void with_flood(void)
{
	pid_t pid = fork_bench_child();

	if (pid == 0)
		send_flood();
	while (!atomic_load(ready))
		wait_ms(1);
	measure_arbiter("with a flood");
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static void with_processes(void)
{
	pid_t reader;

	for (unsigned int i = 0; i < PROCS; i++) {
		pids[i] = fork_bench_child();
		if (pids[i] == 0)
			run_process(i);
	}
	while (atomic_load(ready) < PROCS)
		wait_ms(1);
	reader = fork_bench_child();
	if (reader == 0)
		run_agent_process();
	measure_arbiter("with 300 processes");
	for (unsigned int i = 0; i < PROCS; i++)
		(void)kill(pids[i], SIGKILL);
	(void)kill(reader, SIGKILL);
}

static void run_all(const char *program)
{
	char *tmp = test_tmpdir();
	pid_t arbiter;

	(void)snprintf(dir, sizeof(dir), "%.100s", tmp);
	(void)snprintf(run, sizeof(run), "%.100s/run", tmp);
	for (unsigned int i = 0; i < SLICES; i++)
		write_slice(i, "batch");
	write_slice(LATENCY, "latency");
	write_slice(BATCH, "batch");
	write_slice(DYING, "batch");
	write_slice(FLOODS, "batch");
	atomic_store(ready, 0);
	arbiter = start_arbiter(program);
	measure_arbiter("alone");
	with_flood();
	with_processes();
	(void)kill(arbiter, SIGTERM);
	while (wait(NULL) > 0)
		;
	test_rmdir(tmp);
}

int main(int argc, char **argv)
{
	if (argc != 2 && argc != 3)
		die("usage: bench-turns ARBITER [OTHER]");
	ready = mmap(NULL, sizeof(*ready), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	if (ready == MAP_FAILED)
		die("no memory");
	for (int i = 0; i < (argc == 3 ? TIMES : 1); i++) {
		for (int k = 1; k < argc; k++) {
			if (argc == 3)
				printf("== %s\n", argv[k]);
			run_all(argv[k]);
		}
	}
	return 0;
}
