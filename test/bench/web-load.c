/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/web-load.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/fd.h"
#include "lib/base/parse.h"
#include "lib/base/time.h"

#define SLOW_N    500
#define STORM_N   10000
#define RUBBISH_N 512 /* bytes */

struct web_load {
	enum web_load_kind kind;
	unsigned port;
	atomic_bool stop;
	pthread_t thread;
	unsigned good, bad;
	size_t longest; /* answer, bytes */
	uint64_t slowest_ns;
	int fds[STORM_N];
};

static void nap_ns(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / NS_PER_SEC),
		.tv_nsec = (long)(ns % NS_PER_SEC) };

	(void)nanosleep(&t, NULL);
}

/* Connects from 127.0.@net.@host; -1: failed. */
static int connect_from(const struct web_load *l, unsigned net, unsigned host, bool wait)
{
	CLEANUP(closep)
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK), 0);
	struct sockaddr_in from = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x7f000000U | net << 8 | (host + 1)) };
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)l->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct timeval patience = { .tv_sec = 5 };
	int on = 1;

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	(void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&from, sizeof(from)) < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
		return -1;
	return steal_fd(&fd);
}

#define LENGTH "\r\nContent-Length: "

/* The length of the whole answer, by its first bytes; 0: it is not valid. */
static size_t get_response_len(const char *head)
{
	const char *end = strstr(head, "\r\n\r\n");
	const char *len = strcasestr(head, LENGTH);
	char text[24];
	uint64_t n;

	if (strncmp(head, "HTTP/1.1 200 ", 13) != 0 || !end || !len || len > end)
		return 0;
	len += strlen(LENGTH);
	(void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(len, "\r"), len);
	return parse_u64(text, &n) ? (size_t)(end + 4 - head) + n : 0;
}

/* The kernel may interrupt recv() on a socket with a timeout, without a signal (EINTR). */
static ssize_t receive_some(int fd, char *some, size_t cap)
{
	ssize_t n;

	do
		n = recv(fd, some, cap, 0);
	while (n < 0 && errno == EINTR);
	return n;
}

static void scrape_once(struct web_load *l)
{
	static const char request[] =
		"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
	CLEANUP(closep) int fd = connect_from(l, 1, 0, true);
	uint64_t began = time_mono_ns(), took;
	static char some[1 << 16];
	size_t total = 0, expected = 0;
	ssize_t n = -1;

	if (fd >= 0 && send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0)
		while ((n = receive_some(fd, some, sizeof(some) - 1)) > 0) {
			some[n] = '\0';
			if (total == 0)
				expected = get_response_len(some);
			total += (size_t)n;
		}
	took = time_mono_ns() - began;
	if (n == 0 && expected && total == expected)
		l->good++;
	else
		l->bad++;
	if (total > l->longest)
		l->longest = total;
	if (took > l->slowest_ns)
		l->slowest_ns = took;
}

static void run_scrapes(struct web_load *l)
{
	uint64_t next = time_mono_ns();

	while (!atomic_load(&l->stop)) {
		uint64_t now = time_mono_ns();

		if (now < next) {
			nap_ns(next - now);
			continue;
		}
		next += NS_PER_SEC / 50;
		scrape_once(l);
	}
}

/* Has the other end gone? */
static bool is_peer_closed(int fd)
{
	char some[4096];
	ssize_t n = recv(fd, some, sizeof(some), MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN);
}

static void keep_conn_open(struct web_load *l, int i, unsigned net, unsigned hosts)
{
	if (l->fds[i] >= 0 && is_peer_closed(l->fds[i]))
		closep(&l->fds[i]);
	if (l->fds[i] >= 0)
		return;
	l->fds[i] = connect_from(l, net, (unsigned)i % hosts, false);
	if (l->fds[i] >= 0)
		l->good++;
	else
		l->bad++;
}

static void send_slowly(struct web_load *l)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
	unsigned at = 0;

	while (!atomic_load(&l->stop)) {
		for (int i = 0; i < SLOW_N; i++) {
			keep_conn_open(l, i, 2, 10);
			if (l->fds[i] >= 0)
				(void)send(l->fds[i], request + at % (sizeof(request) - 1), 1,
					MSG_NOSIGNAL | MSG_DONTWAIT);
		}
		at++;
		nap_ns(100 * NS_PER_MS);
	}
}

static void send_malformed(struct web_load *l)
{
	uint32_t seed = 2463534242U;

	while (!atomic_load(&l->stop)) {
		CLEANUP(closep) int fd = connect_from(l, 3, seed % 16, true);
		uint32_t bytes[RUBBISH_N / 4];

		for (size_t i = 0; i < RUBBISH_N / 4; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 17;
			seed ^= seed << 5;
			bytes[i] = seed;
		}
		if (fd >= 0)
			(void)send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
		nap_ns(NS_PER_MS);
	}
}

static void open_many_connections(struct web_load *l)
{
	while (!atomic_load(&l->stop))
		for (int i = 0; i < STORM_N && !atomic_load(&l->stop); i++) {
			keep_conn_open(l, i, 4, 250);
			if (i % 20 == 0)
				nap_ns(NS_PER_MS);
		}
}

static void (*const kinds[WEB_LOAD_KINDS_])(struct web_load *l) = {
	[WEB_LOAD_SCRAPES] = run_scrapes,
	[WEB_LOAD_SLOW] = send_slowly,
	[WEB_LOAD_RUBBISH] = send_malformed,
	[WEB_LOAD_STORM] = open_many_connections,
};

static void *load_main(void *arg)
{
	const struct sched_param none = { .sched_priority = 0 };
	struct web_load *l = arg;

	web_load_pin(1);
	(void)sched_setscheduler(0, SCHED_IDLE, &none); /* behind who measures */
	kinds[l->kind](l);
	return NULL;
}

struct web_load *web_load_begin(enum web_load_kind kind, unsigned port)
{
	struct web_load *l = calloc(1, sizeof(*l));

	if (!l)
		exit(1);
	l->kind = kind;
	l->port = port;
	for (int i = 0; i < STORM_N; i++)
		l->fds[i] = -1;
	if (pthread_create(&l->thread, NULL, load_main, l) != 0)
		exit(1);
	return l;
}

void web_load_end(struct web_load *l)
{
	if (!l)
		return;
	atomic_store(&l->stop, true);
	(void)pthread_join(l->thread, NULL);
	if (l->kind == WEB_LOAD_SCRAPES)
		printf("%34s %u scrapes of %zu kB, %u not answered, slowest %.0f ms\n", "",
			l->good + l->bad, l->longest / 1000, l->bad,
			(double)l->slowest_ns / (double)NS_PER_MS);
	else if (l->kind != WEB_LOAD_RUBBISH)
		printf("%34s %u connections opened\n", "", l->good);
	for (int i = 0; i < STORM_N; i++)
		closep(&l->fds[i]);
	free(l);
}

void web_load_pin(unsigned nth)
{
	static cpu_set_t may; /* at first, also for the child of a pinned process */
	static bool known;
	cpu_set_t one;
	unsigned at = 0;

	if (!known && sched_getaffinity(getpid(), sizeof(may), &may) == 0)
		known = true;
	if (!known || CPU_COUNT(&may) < 2)
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &may) && at++ == nth) {
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			(void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
			return;
		}
}

/* The first word of schedstat is nanoseconds on a processor. */
static uint64_t cpu_of(pid_t pid, const char *task, const char *name)
{
	char path[300], word[64] = "";
	unsigned long long ns = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", (int)pid, task);
	f = fopen(path, "re");
	if (f) {
		if (!fgets(word, sizeof(word), f))
			word[0] = '\0';
		(void)fclose(f);
	}
	word[strcspn(word, "\n")] = '\0';
	if (strcmp(word, name) != 0)
		return 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid, task);
	f = fopen(path, "re");
	if (f) {
		if (fscanf(f, "%llu", &ns) != 1)
			ns = 0;
		(void)fclose(f);
	}
	return ns;
}

/* The CPU time of all tasks of the process with this name. */
static uint64_t tasks_cpu_ns(pid_t pid, const char *name)
{
	const struct dirent *e;
	char path[64];
	uint64_t ns = 0;
	DIR *d;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	while (d && (e = readdir(d)))
		ns += cpu_of(pid, e->d_name, name);
	if (d)
		(void)closedir(d);
	return ns;
}

/* The parent of a process, from "PID (NAME) STATE PARENT ...". No process of ours has a name with blanks. */
static pid_t parent_of(const char *pid)
{
	char path[300];
	int parent = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%*d %*s %*c %d", &parent) != 1)
		parent = 0;
	(void)fclose(f);
	return (pid_t)parent;
}

uint64_t web_load_cpu_ns(pid_t pid)
{
	uint64_t ns = tasks_cpu_ns(pid, "web");
	const struct dirent *e;
	DIR *d = opendir("/proc");
	uint32_t child;

	while (d && (e = readdir(d)))
		if (parse_u32(e->d_name, &child) && parent_of(e->d_name) == pid)
			ns += tasks_cpu_ns((pid_t)child, "gpuslice-web");
	if (d)
		(void)closedir(d);
	return ns;
}
