/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/run/sampler.h"

#include "lib/base/time.h"
#include "lib/base/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EARLIER_MAX 1024 /* maximum number of recorded foreign processes */

/* Counters and states for doubt.h. NaN: unknown. */
struct speed {
	double slowed_ns[DOUBT_SLOWED], reasons, clock_mhz;
	struct bench_sampler_processes processes;
	uint64_t at_ns; /* monotonic clock */
};

struct bench_sampler {
	struct gpu_monitor *monitor;
	struct gpu_sample_request rq;
	char uuid[GPU_UUID_MAX];
	bool ready;            /* NVML has answered or failed */
	bool under_way, ended; /* a sample is in progress; bench_sampler_end() was called */
	bool end_requested;    /* the sample in progress is the end sample */
	struct speed from, to;
	uint32_t earlier[EARLIER_MAX]; /* PIDs as NVML reports them */
	uint32_t n_earlier;
	void (*on_sample)(void *arg); /* of bench_sampler_request_first(); NULL: none waits */
	bench_sampler_done_fn *done;
	void *arg;
};

static const struct figure {
	const char *field;
	size_t at;
} figures[] = {
	{ "DCGM_FI_PROF_SM_ACTIVE", offsetof(struct bench_gpu, sm_active) },
	{ "DCGM_FI_PROF_DRAM_ACTIVE", offsetof(struct bench_gpu, dram_active) },
	{ "DCGM_FI_DEV_POWER_USAGE", offsetof(struct bench_gpu, power_w) },
	{ "DCGM_FI_DEV_SM_CLOCK", offsetof(struct bench_gpu, sm_clock_mhz) },
};

static const struct figure speeds[] = {
	{ "DCGM_FI_DEV_POWER_VIOLATION", offsetof(struct speed, slowed_ns[DOUBT_POWER]) },
	{ "DCGM_FI_DEV_THERMAL_VIOLATION", offsetof(struct speed, slowed_ns[DOUBT_THERMAL]) },
	{ "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", offsetof(struct speed, slowed_ns[DOUBT_BOARD]) },
	{ "DCGM_FI_DEV_RELIABILITY_VIOLATION",
		offsetof(struct speed, slowed_ns[DOUBT_RELIABILITY]) },
	{ "DCGM_FI_DEV_TOTAL_BASE_CLOCKS_VIOLATION",
		offsetof(struct speed, slowed_ns[DOUBT_BASE]) },
	{ "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", offsetof(struct speed, reasons) },
	{ "DCGM_FI_DEV_SM_CLOCK", offsetof(struct speed, clock_mhz) },
};

struct bench_gpu bench_sampler_unknown(void)
{
	return (struct bench_gpu){ NAN, NAN, NAN, NAN, NAN, NAN };
}

/* Reads the figures into the doubles of *@to. */
static void read_figures(void *to, const struct figure *list, size_t n,
	const struct sample_device *device)
{
	for (size_t i = 0; i < n; i++) {
		int at = field_position(list[i].field);
		const struct sample_value *v =
			at < 0 || !device ? NULL : sample_value(device, (uint16_t)at);
		double real = !v ? NAN : fields[at].kind == FIELD_INT ? (double)v->i : v->real;

		memcpy((char *)to + list[i].at, &real, sizeof(real));
	}
}

static struct bench_gpu read_device_figures(const struct sample_device *device)
{
	struct bench_gpu g = bench_sampler_unknown();

	if (device->busy_known && device->interval_ns)
		g.busy = (double)device->busy_ns / (double)device->interval_ns;
	if (device->memory_known)
		g.mem_used_mib = (double)device->memory_used / MIB;
	read_figures(&g, figures, ARRAY_LEN(figures), device);
	return g;
}

static const struct bench_sampler_processes not_known = { NAN, NAN };

static bool is_earlier(const struct bench_sampler *s, uint32_t pid)
{
	for (uint32_t i = 0; i < s->n_earlier; i++) {
		if (s->earlier[i] == pid)
			return true;
	}
	return false;
}

/*
 * A sample also contains processes that computed since the last sample and have ended. They have no memory.
 */
static bool is_present(const struct sample_process *p)
{
	return p->bytes > 0;
}

static struct bench_sampler_processes count_present_processes(const struct bench_sampler *s,
	const struct sample_device *device)
{
	struct bench_sampler_processes n = { 0, 0 };

	for (uint32_t i = 0; i < device->n_processes; i++) {
		n.all += is_present(&device->processes[i]);
		n.earlier += is_present(&device->processes[i]) &&
			     is_earlier(s, device->processes[i].pid);
	}
	return device->processes_known ? n : not_known;
}

/* Whether @device lists processes of @gpu: its MIG devices, or the GPU itself if it has no MIG device. */
static bool has_processes(const struct sample *sample, const struct sample_device *gpu,
	const struct sample_device *device)
{
	bool is_mig = device->gi != GPU_NO_INSTANCE;

	if (device->gpu != gpu->gpu)
		return false;
	for (uint32_t i = 0; !is_mig && i < sample->n; i++) {
		if (sample->devices[i].gpu == gpu->gpu &&
			sample->devices[i].gi != GPU_NO_INSTANCE)
			return false;
	}
	return true;
}

static struct bench_sampler_processes count_processes(const struct bench_sampler *s,
	const struct sample *sample, const struct sample_device *gpu)
{
	struct bench_sampler_processes sum = { 0, 0 };

	for (uint32_t i = 0; i < sample->n; i++) {
		struct bench_sampler_processes n;

		if (!has_processes(sample, gpu, &sample->devices[i]))
			continue;
		n = count_present_processes(s, &sample->devices[i]);
		sum.all += n.all;
		sum.earlier += n.earlier;
	}
	return sum;
}

static void save_earlier_processes(struct bench_sampler *s, const struct sample *sample,
	const struct sample_device *gpu)
{
	for (uint32_t i = 0; i < sample->n; i++) {
		const struct sample_device *device = &sample->devices[i];

		for (uint32_t k = 0; has_processes(sample, gpu, device) &&
				     k < device->n_processes && s->n_earlier < EARLIER_MAX;
			k++) {
			if (is_present(&device->processes[k]))
				s->earlier[s->n_earlier++] = device->processes[k].pid;
		}
	}
}

static void request_end_sample(struct bench_sampler *s);

static void on_sampler_sample(void *arg, struct sample *sample, const struct error *err)
{
	struct bench_sampler *s = arg;
	const struct sample_device *device = sample ? sample_find(sample, s->uuid) : NULL;
	struct bench_gpu g = device ? read_device_figures(device) : bench_sampler_unknown();
	bench_sampler_done_fn *done = s->end_requested ? STEAL_PTR(s->done) : NULL;
	struct speed *speed = s->end_requested ? &s->to : &s->from;

	(void)err;
	s->under_way = false;
	if (s->on_sample) {
		void (*on_sample)(void *) = STEAL_PTR(s->on_sample);

		if (device)
			save_earlier_processes(s, sample, device);
		(void)sample_free(sample);
		on_sample(s->arg);
		return;
	}
	read_figures(speed, speeds, ARRAY_LEN(speeds), device);
	speed->at_ns = time_mono_ns();
	speed->processes = device ? count_processes(s, sample, device) : not_known;
	(void)sample_free(sample);
	if (done)
		done(s->arg, &g);
	else if (s->ended && !s->end_requested)
		request_end_sample(s);
}

static bool request_sampler_sample(struct bench_sampler *s)
{
	struct error err = ERROR_INIT;

	s->under_way = gpu_monitor_sample(s->monitor, &s->rq, on_sampler_sample, s, &err) == 0;
	return s->under_way;
}

static void request_end_sample(struct bench_sampler *s)
{
	const struct bench_gpu unknown = bench_sampler_unknown();
	bench_sampler_done_fn *done;

	s->end_requested = true;
	if (request_sampler_sample(s))
		return;
	done = STEAL_PTR(s->done);
	done(s->arg, &unknown);
}

static void request_first_sample(struct bench_sampler *s)
{
	void (*on_sample)(void *arg);

	if (!s->ready || !s->on_sample || s->under_way || request_sampler_sample(s))
		return;
	on_sample = STEAL_PTR(s->on_sample);
	on_sample(s->arg);
}

static void on_sampler_inventory(void *arg, const struct inventory *inv)
{
	struct bench_sampler *s = arg;

	(void)inv;
	s->ready = true;
	request_first_sample(s);
}

static void on_sampler_monitor_down(void *arg, const struct error *why)
{
	on_sampler_inventory(arg, NULL);
	(void)why;
}

static void on_sampler_xid(void *arg, const char *uuid, uint32_t xid, uint32_t gi, uint32_t ci)
{
	(void)arg;
	(void)uuid;
	(void)xid;
	(void)gi;
	(void)ci;
}

static void request_figure_fields(struct gpu_sample_request *rq, const struct figure *list,
	size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int at = field_position(list[i].field);

		if (at >= 0)
			gpu_sample_want(rq, (size_t)at);
	}
}

/* Values without a sample are unknown. */
static void reset_sampler_speeds(struct bench_sampler *s)
{
	read_figures(&s->from, speeds, ARRAY_LEN(speeds), NULL);
	s->from.processes = not_known;
	s->to = s->from;
}

int bench_sampler_new(struct bench_sampler **ret, uv_loop_t *loop,
	const struct gpu_monitor_options *options, const char *uuid, struct error *err)
{
	static const struct gpu_monitor_ops ops = { .inventory = on_sampler_inventory,
		.down = on_sampler_monitor_down,
		.xid = on_sampler_xid };
	struct bench_sampler *s = calloc(1, sizeof(*s));

	if (!s)
		return error_nomem(err);
	(void)snprintf(s->uuid, sizeof(s->uuid), "%s", uuid);
	request_figure_fields(&s->rq, figures, ARRAY_LEN(figures));
	request_figure_fields(&s->rq, speeds, ARRAY_LEN(speeds));
	reset_sampler_speeds(s);
	s->rq.interval_ns = 1;
	if (gpu_monitor_start(&s->monitor, loop, options, &ops, s, err) < 0) {
		free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

void bench_sampler_request_first(struct bench_sampler *s, void (*done)(void *arg), void *arg)
{
	s->on_sample = done;
	s->arg = arg;
	request_first_sample(s);
}

void bench_sampler_begin(struct bench_sampler *s)
{
	s->ended = s->end_requested = false;
	reset_sampler_speeds(s);
	/* If the request fails, the step's values stay unknown. */
	if (!s->under_way)
		(void)!request_sampler_sample(s);
}

void bench_sampler_end(struct bench_sampler *s, bench_sampler_done_fn *done, void *arg)
{
	s->ended = true;
	s->done = done;
	s->arg = arg;
	if (!s->under_way)
		request_end_sample(s);
}

void bench_sampler_doubt(const struct bench_sampler *s, struct doubt_facts *ret)
{
	double span = (double)(s->to.at_ns - s->from.at_ns);

	for (size_t i = 0; i < DOUBT_SLOWED && span > 0; i++)
		ret->slowed[i] = (s->to.slowed_ns[i] - s->from.slowed_ns[i]) / span;
	ret->reasons = s->to.reasons > 0 ? (uint64_t)s->to.reasons : 0;
	ret->reasons_known = isfinite(s->to.reasons);
	ret->clock_known = isfinite(s->from.clock_mhz) && isfinite(s->to.clock_mhz);
	ret->clock_from_mhz = doubt_clock(s->from.clock_mhz, s->from.reasons);
	ret->clock_to_mhz = doubt_clock(s->to.clock_mhz, s->to.reasons);
}

struct bench_sampler_processes bench_sampler_processes(const struct bench_sampler *s)
{
	const struct bench_sampler_processes *from = &s->from.processes, *to = &s->to.processes;

	return (struct bench_sampler_processes){ fmax(from->all, to->all),
		fmax(from->earlier, to->earlier) };
}

struct bench_sampler *bench_sampler_free(struct bench_sampler *s)
{
	if (s) {
		s->monitor = gpu_monitor_stop(s->monitor);
		free(s);
	}
	return NULL;
}
