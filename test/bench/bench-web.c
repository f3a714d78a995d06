/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the threads of a process notice of remote clients at its web server: the time of a small request over a
 * unix socket to a loop of the same process. Meanwhile remote clients scrape, send slowly, send malformed bytes
 * and open thousands of connections. The baseline, measured side by side, is the same without remote clients.
 *
 *	bench-web
 *
 * Loop, web thread and web process share one processor, the worst case for the loop. The measuring thread and the
 * load share another. BENCH_SHORT=1: a quick check rather than a measurement.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/web-load.h"

#include "lib/base/buf.h"
#include "lib/base/fd.h"
#include "lib/base/time.h"
#include "lib/http/server/server.h"
#include "io/web/web.h"

#define SCRAPE_LINES     20000 /* about 1.3 MB, a node of 8 GPUs in 56 slices each */
#define REQUEST_EVERY_NS (2 * NS_PER_MS)
#define SAMPLES_MAX      20000

struct served_node {
	uv_loop_t loop;
	uv_async_t stop;
	struct http_server *local;
	struct web *web;
	char socket[64];
	pthread_barrier_t ready;
};

static void die(const char *what, const struct error *err)
{
	(void)fprintf(stderr, "bench-web: %s: %s\n", what, err->msg);
	exit(1);
}

/* --- what is served --- */

static void on_local(void *arg, struct http_exchange *x, const struct http_request *req)
{
	(void)arg;
	(void)req;
	http_reply(x, 200, "text/plain", "ok\n", 3);
}

static void free_text(void *owner)
{
	free(owner);
}

static enum web_status get_metrics(void *arg, const struct web_request *req,
	struct web_reply *reply)
{
	struct buf b = BUF_INIT(4 << 20);

	(void)arg;
	(void)req;
	for (unsigned i = 0; i < SCRAPE_LINES; i++)
		buf_printf(&b, "DCGM_FI_DEV_GPU_UTIL{gpu=\"%u\",pod=\"pod-%u\"} %u\n", i % 8,
			i / 8, i % 100);
	reply->len = b.len;
	reply->body = reply->owner = buf_steal(&b);
	reply->release = free_text;
	return reply->body ? WEB_OK : WEB_INTERNAL;
}

static const struct web_route routes[] = { { "/metrics", false, get_metrics } };

static void on_stop(uv_async_t *h)
{
	struct served_node *s = h->data;

	s->local = http_server_stop(s->local);
	uv_close((uv_handle_t *)h, NULL);
}

static void *run_web_loop(void *arg)
{
	const struct web_options options = { .listen = "127.0.0.1:0" };
	const struct web_ops ops = { .routes = routes, .n_routes = ARRAY_LEN(routes) };
	struct served_node *s = arg;
	struct error err = ERROR_INIT;

	web_load_pin(0); /* the web thread is born here and stays here too */
	(void)uv_loop_init(&s->loop);
	(void)uv_async_init(&s->loop, &s->stop, on_stop);
	s->stop.data = s;
	if (http_server_start(&s->local, &s->loop, s->socket, 0600, on_local, NULL, &err) < 0 ||
		web_start(&s->web, &options, &ops, NULL, &err) < 0)
		die("start", &err);
	(void)pthread_barrier_wait(&s->ready);
	(void)uv_run(&s->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&s->loop);
	return NULL;
}

/* --- what is measured --- */

static uint64_t measure_request_ns(const struct served_node *s)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
	CLEANUP(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	uint64_t began = time_mono_ns();
	char some[512];

	(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", s->socket + 5);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ||
		send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0) {
		perror("bench-web: ask");
		exit(1);
	}
	while (recv(fd, some, sizeof(some), 0) > 0)
		;
	return time_mono_ns() - began;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

struct result {
	uint64_t p50_ns, p99_ns, max_ns;
};

static struct result measure_requests(const struct served_node *s, uint64_t for_ns)
{
	static uint64_t samples[SAMPLES_MAX];
	uint64_t end_ns = time_mono_ns() + for_ns;
	size_t n = 0;

	while (n < SAMPLES_MAX && time_mono_ns() < end_ns) {
		struct timespec pause = { .tv_nsec = (long)REQUEST_EVERY_NS };

		samples[n++] = measure_request_ns(s);
		(void)nanosleep(&pause, NULL);
	}
	qsort(samples, n, sizeof(samples[0]), by_value);
	return (struct result){ samples[n / 2], samples[n * 99 / 100], samples[n - 1] };
}

static void print_web_result(const char *name, const struct result *r,
	const struct result *alone)
{
	printf("%-34s %8.0f %8.0f %8.0f   %5.2f  %5.2f\n", name, (double)r->p50_ns / 1000,
		(double)r->p99_ns / 1000, (double)r->max_ns / 1000,
		(double)r->p50_ns / (double)alone->p50_ns,
		(double)r->p99_ns / (double)alone->p99_ns);
}

/* --- the runs --- */

static const struct {
	const char *name;
	unsigned kinds; /* bits of enum web_load_kind */
} runs[] = {
	{ "50 scrapes a second", 1U << WEB_LOAD_SCRAPES },
	{ "500 that ask very slowly", 1U << WEB_LOAD_SLOW },
	{ "1000 a second with rubbish", 1U << WEB_LOAD_RUBBISH },
	{ "10,000 connections", 1U << WEB_LOAD_STORM },
	{ "all of them", (1U << WEB_LOAD_KINDS_) - 1 },
};

static void run_load(const struct served_node *s, size_t i, uint64_t for_ns)
{
	struct web_load *load[WEB_LOAD_KINDS_] = { NULL };
	struct web_counts before, after;
	struct result alone = measure_requests(s, for_ns), beside;
	uint64_t cpu_ns;

	for (unsigned k = 0; k < WEB_LOAD_KINDS_; k++)
		if (runs[i].kinds & 1U << k)
			load[k] = web_load_begin(k, web_port(s->web));
	(void)measure_requests(s, for_ns / 4); /* until it is there */
	before = web_counts(s->web);
	cpu_ns = web_load_cpu_ns(getpid());
	beside = measure_requests(s, for_ns);
	cpu_ns = web_load_cpu_ns(getpid()) - cpu_ns;
	after = web_counts(s->web);
	for (unsigned k = 0; k < WEB_LOAD_KINDS_; k++)
		web_load_end(load[k]);
	print_web_result("nobody else", &alone, &alone);
	print_web_result(runs[i].name, &beside, &alone);
	printf("%34s web: %.0f %% of a processor, %llu answered, %llu refused, %llu cut, "
	       "%u open, %llu pauses\n",
		"", (double)cpu_ns * 100 / (double)for_ns,
		(unsigned long long)(after.requests[1] - before.requests[1]),
		(unsigned long long)(after.refused_full + after.refused_address -
				     before.refused_full - before.refused_address),
		(unsigned long long)(after.timeouts - before.timeouts), after.open,
		(unsigned long long)(after.throttled - before.throttled));
}

int main(void)
{
	const char *look = getenv("BENCH_SHORT");
	uint64_t for_ns = look && *look ? NS_PER_SEC : 8 * NS_PER_SEC;
	struct rlimit files = { .rlim_cur = 0 };
	struct served_node s = { .local = NULL };
	char dir[] = "/tmp/bench-web.XXXXXX";
	pthread_t thread;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	if (!mkdtemp(dir)) {
		perror("bench-web");
		return 1;
	}
	(void)snprintf(s.socket, sizeof(s.socket), "unix:%s/s", dir);
	(void)pthread_barrier_init(&s.ready, NULL, 2);
	(void)pthread_create(&thread, NULL, run_web_loop, &s);
	(void)pthread_barrier_wait(&s.ready);
	web_load_pin(1);
	printf("%-34s %8s %8s %8s   %5s  %5s\n", "a request to the loop, us, beside", "p50",
		"p99", "max", "x p50", "x p99");
	for (size_t i = 0; i < ARRAY_LEN(runs); i++)
		run_load(&s, i, for_ns);
	s.web = web_stop(s.web);
	(void)uv_async_send(&s.stop);
	(void)pthread_join(thread, NULL);
	(void)rmdir(dir);
	return 0;
}
