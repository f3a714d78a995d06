/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prints samples of this machine's GPUs as the agent takes them, for test/gpu/sample.sh and for people.
 *
 *	gpu-sample WORKER [INTERVAL_MS [COUNT [FIELD...]]]
 *
 * WORKER is the gpuslice-nvml to use. The last of COUNT samples (3), taken every INTERVAL_MS (1000), is
 * printed, of all fields or of those that are named: a line for each figure, "UUID name value", tabs between; what is not known has no line. Standard
 * error has what each sample cost.
 */
#include "lib/base/parse.h"
#include "lib/base/time.h"
#include "io/nvml/monitor/monitor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

struct tool {
	uv_loop_t loop;
	uv_timer_t timer;
	struct gpu_monitor *m;
	struct sample *sample;
	uint64_t interval_ms, count, taken;
	struct gpu_sample_request rq;
	bool started, failed;
};

static void on_sample(void *arg, struct sample *sample, const struct error *err)
{
	struct tool *t = arg;

	if (!sample) {
		(void)fprintf(stderr, "gpu-sample: %s\n", err->msg);
		t->failed = true;
		uv_stop(&t->loop);
		return;
	}
	sample_free(t->sample);
	t->sample = sample;
	(void)fprintf(stderr, "sample %" PRIu64 ": %" PRIu64 " calls, %" PRIu64 " us\n",
		t->taken, sample->nvml_calls, sample->nvml_ns / 1000);
	if (++t->taken >= t->count)
		uv_stop(&t->loop);
}

static void on_timer(uv_timer_t *timer)
{
	struct tool *t = timer->data;
	struct error err = ERROR_INIT;

	if (gpu_monitor_sample(t->m, &t->rq, on_sample, t, &err) < 0)
		on_sample(t, NULL, &err);
}

static void on_inventory(void *arg, const struct inventory *inv)
{
	struct tool *t = arg;

	(void)inv;
	if (!t->started)
		(void)uv_timer_start(&t->timer, on_timer, 0, t->interval_ms);
	t->started = true;
}

static void on_down(void *arg, const struct error *why)
{
	on_sample(arg, NULL, why);
}

static void on_xid(void *arg, const char *uuid, uint32_t xid, uint32_t gi, uint32_t ci)
{
	(void)arg;
	(void)gi;
	(void)ci;
	(void)fprintf(stderr, "XID %" PRIu32 " on %s\n", xid, uuid);
}

static void print_number(const char *uuid, const char *name, uint64_t v)
{
	(void)printf("%s\t%s\t%" PRIu64 "\n", uuid, name, v);
}

static void print_device(const struct sample_device *device)
{
	if (device->reason[0])
		(void)printf("%s\treason\t%s\n", device->uuid, device->reason);
	if (device->memory_known) {
		print_number(device->uuid, "memory_total", device->memory_total);
		print_number(device->uuid, "memory_used", device->memory_used);
		print_number(device->uuid, "memory_free", device->memory_free);
	}
	if (device->reserved_known)
		print_number(device->uuid, "memory_reserved", device->memory_reserved);
	print_number(device->uuid, "interval_ns", device->interval_ns);
	if (device->busy_known)
		print_number(device->uuid, "busy_ns", device->busy_ns);
	for (uint32_t i = 0; i < device->n_values; i++) {
		const struct field *f = &fields[device->values[i].field];

		if (f->kind == FIELD_REAL)
			(void)printf("%s\t%s\t%.6f\n", device->uuid, f->name,
				device->values[i].real);
		else
			(void)printf("%s\t%s\t%" PRId64 "\n", device->uuid, f->name,
				device->values[i].i);
	}
	for (uint32_t i = 0; i < device->n_texts; i++)
		(void)printf("%s\t%s\t%s\n", device->uuid, fields[device->texts[i].field].name,
			device->texts[i].text);
	for (uint32_t i = 0; i < device->n_processes; i++) {
		const struct sample_process *p = &device->processes[i];

		(void)printf("%s\tprocess\t%" PRIu32 " %" PRId64 " ", device->uuid, p->pid,
			p->bytes == GPU_BYTES_UNKNOWN ? -1 : (int64_t)p->bytes);
		if (p->busy_known)
			(void)printf("%" PRIu64 "\n", p->busy_ns);
		else
			(void)printf("-\n");
	}
}

static bool request_fields(struct gpu_sample_request *rq, char **names, int n)
{
	for (size_t i = 0; i < n_fields && n <= 0; i++)
		gpu_sample_want(rq, i);
	for (int i = 0; i < n; i++) {
		int position = field_position(names[i]);

		if (position < 0) {
			(void)fprintf(stderr, "gpu-sample: there is no field %s\n", names[i]);
			return false;
		}
		gpu_sample_want(rq, (size_t)position);
	}
	return true;
}

int main(int argc, char **argv)
{
	static const struct gpu_monitor_ops ops = { on_inventory, on_down, on_xid };
	struct tool t = { .interval_ms = 1000, .count = 3 };
	struct gpu_monitor_options o = { .worker_path = argc > 1 ? argv[1] : NULL };
	struct error err = ERROR_INIT;
	struct rusage used;

	if (argc < 2 || (argc > 2 && !parse_u64(argv[2], &t.interval_ms)) ||
		(argc > 3 && !parse_u64(argv[3], &t.count))) {
		(void)fprintf(stderr,
			"usage: gpu-sample WORKER [INTERVAL_MS [COUNT [FIELD...]]]\n");
		return 2;
	}
	t.rq.interval_ns = t.interval_ms * NS_PER_MS;
	if (!request_fields(&t.rq, argv + 4, argc - 4))
		return 2;
	if (uv_loop_init(&t.loop) < 0 || uv_timer_init(&t.loop, &t.timer) < 0)
		return 1;
	t.timer.data = &t;
	if (gpu_monitor_start(&t.m, &t.loop, &o, &ops, &t, &err) < 0) {
		(void)fprintf(stderr, "gpu-sample: %s\n", err.msg);
		return 1;
	}
	(void)uv_run(&t.loop, UV_RUN_DEFAULT);
	for (uint32_t i = 0; t.sample && i < t.sample->n; i++)
		print_device(&t.sample->devices[i]);
	t.m = gpu_monitor_stop(t.m);
	uv_close((uv_handle_t *)&t.timer, NULL);
	(void)uv_run(&t.loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&t.loop);
	sample_free(t.sample);
	for (int who = 0; who < 2; who++) {
		if (getrusage(who ? RUSAGE_CHILDREN : RUSAGE_SELF, &used) == 0)
			(void)fprintf(stderr, "%s: %ld.%06ld s user, %ld.%06ld s system\n",
				who ? "worker" : "client", (long)used.ru_utime.tv_sec,
				(long)used.ru_utime.tv_usec, (long)used.ru_stime.tv_sec,
				(long)used.ru_stime.tv_usec);
	}
	return t.failed ? 1 : 0;
}
