/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How long an Allocate takes over a unix socket, as the kubelet sees it: request out, answer in,
 * with the real device plugin server in this process on a loop and thread of its own. The answers
 * are core's for one shared GPU resource of N devices. Prints microseconds.
 *
 *	bench-allocate [CALLS]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "io/kubelet/device-plugin.h"

struct server {
	pthread_t thread;
	uv_loop_t loop;
	uv_async_t stop;
	struct rpc *rpc;
	struct plugin *plugin;
	const char *dir;
	size_t n;
	char (*ids)[DEVICE_ID_MAX];
	pthread_barrier_t ready;
};

static void die(const char *what, const struct error *err)
{
	(void)fprintf(stderr, "bench-allocate: %s: %s\n", what, err->msg);
	exit(1);
}

static int allocate(void *arg, const char *const *ids, size_t n_ids, struct allocation **ret,
	struct error *err)
{
	const struct server *s = arg;
	struct allocation *a = calloc(1, sizeof(*a));
	size_t i, j;

	/* The same work as core's: find each id, one variable, six device nodes. */
	for (i = 0; i < n_ids; i++) {
		for (j = 0; j < s->n && strcmp(s->ids[j], ids[i]) != 0; j++)
			;
		if (j == s->n) {
			free(a);
			return error_set(err, ERR_INVALID, "unknown device: %s", ids[i]);
		}
	}
	a->n_envs = 1;
	a->envs = calloc(1, sizeof(*a->envs));
	a->envs[0].name = strdup("NVIDIA_VISIBLE_DEVICES");
	a->envs[0].value = strndup(ids[0], device_id_physical_len(ids[0]));
	a->n_devices = 6;
	a->devices = calloc(a->n_devices, sizeof(*a->devices));
	for (i = 0; i < a->n_devices; i++) {
		a->devices[i].container_path = strdup("/dev/nvidia-uvm-tools");
		a->devices[i].host_path = strdup("/dev/nvidia-uvm-tools");
		memcpy(a->devices[i].permissions, "rw", 3);
	}
	*ret = a;
	return 0;
}

static const struct plugin_ops ops = { .allocate = allocate };

static void on_stop(uv_async_t *a)
{
	uv_close((uv_handle_t *)a, NULL);
	uv_stop(a->loop);
}

static void *run_plugin_server(void *arg)
{
	struct server *s = arg;
	struct plugin_device *v = calloc(s->n, sizeof(*v));
	struct error err = ERROR_INIT;
	size_t i;

	(void)uv_loop_init(&s->loop);
	(void)uv_async_init(&s->loop, &s->stop, on_stop);
	if (rpc_new(&s->rpc, &s->loop, &err) < 0 ||
		plugin_start(&s->plugin, s->rpc, s->dir, "", "nvidia.com/gpu", &ops, s, &err) <
			0)
		die("start", &err);
	for (i = 0; i < s->n; i++)
		v[i] = (struct plugin_device){ .id = s->ids[i],
			.healthy = true,
			.numa_node = 0 };
	if (plugin_set_devices(s->plugin, v, s->n, &err) < 0)
		die("devices", &err);
	free(v);
	(void)pthread_barrier_wait(&s->ready);
	(void)uv_run(&s->loop, UV_RUN_DEFAULT);
	s->plugin = plugin_stop(s->plugin);
	s->rpc = rpc_free(s->rpc);
	(void)uv_run(&s->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&s->loop);
	return NULL;
}

static bool answered;

static void on_done(void *arg, enum rpc_status status, const char *text, const uint8_t *reply,
	size_t len)
{
	(void)arg;
	(void)reply;
	(void)len;
	if (status != RPC_OK) {
		(void)fprintf(stderr, "bench-allocate: %s\n", text);
		exit(1);
	}
	answered = true;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void measure(struct server *s, size_t calls)
{
	uint64_t *took = calloc(calls, sizeof(*took));
	struct rpc_client *c = NULL;
	struct rpc *rpc = NULL;
	struct error err = ERROR_INIT;
	char path[108];
	uv_loop_t loop;
	size_t i;

	(void)snprintf(path, sizeof(path), "%s/nvidia-gpu.sock", s->dir);
	(void)uv_loop_init(&loop);
	if (rpc_new(&rpc, &loop, &err) < 0 || rpc_dial(rpc, path, &c, &err) < 0)
		die("dial", &err);
	for (i = 0; i < calls + 100; i++) { /* the first hundred warm up */
		const char *id = s->ids[i * 7919 % s->n];
		const struct id_list list = { .v = &id, .n = 1 };
		struct buf b = BUF_INIT(1 << 20);
		uint64_t begin = time_mono_ns();

		answered = false;
		if (allocate_request_encode(&b, &list, 1, &err) < 0 ||
			rpc_invoke(c, METHOD_ALLOCATE, b.data, b.len, NS_PER_SEC, on_done, NULL,
				&err) < 0)
			die("allocate", &err);
		while (!answered)
			(void)uv_run(&loop, UV_RUN_ONCE);
		if (i >= 100)
			took[i - 100] = time_mono_ns() - begin;
		buf_fini(&b);
		(void)usleep(200); /* a pod is not admitted back to back */
	}
	qsort(took, calls, sizeof(*took), by_value);
	printf("allocate devices=%zu calls=%zu p50_us=%.0f p90_us=%.0f p99_us=%.0f max_us=%.0f\n",
		s->n, calls, (double)took[calls / 2] / 1e3, (double)took[calls * 9 / 10] / 1e3,
		(double)took[calls * 99 / 100] / 1e3, (double)took[calls - 1] / 1e3);
	free(took);
	rpc = rpc_free(rpc);
	(void)uv_loop_close(&loop);
}

static void measure_server(const char *dir, size_t n, size_t calls)
{
	struct server s = { .dir = dir, .n = n };
	size_t i;

	s.ids = calloc(n, sizeof(*s.ids));
	for (i = 0; i < n; i++)
		(void)snprintf(s.ids[i], sizeof(s.ids[i]),
			"GPU-8b1d6e5a-0c33-4d0e-9f9c-%012zu::%zu", i / 10, i % 10);
	(void)pthread_barrier_init(&s.ready, NULL, 2);
	if (pthread_create(&s.thread, NULL, run_plugin_server, &s) != 0)
		exit(1);
	(void)pthread_barrier_wait(&s.ready);
	measure(&s, calls);
	(void)uv_async_send(&s.stop);
	(void)pthread_join(s.thread, NULL);
	(void)pthread_barrier_destroy(&s.ready);
	free(s.ids);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/gs.XXXXXX";
	uint32_t calls = 5000;

	if (argc > 2 || (argc == 2 && (!parse_u32(argv[1], &calls) || calls == 0))) {
		(void)fprintf(stderr, "usage: bench-allocate [CALLS]\n");
		return 2;
	}
	if (!mkdtemp(dir))
		return 1;
	measure_server(dir, 40, calls);
	measure_server(dir, 400, calls);
	(void)rmdir(dir);
	return 0;
}
