/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/run/sampler.h"

#include "base/time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

/* Counters and states that doubt.h judges; of what is not known NaN. */
struct speed {
	double slowed_ns[DOUBT_SLOWED], reasons, clock_mhz, processes;
	uint64_t at_ns; /* monotonic clock */
};

struct sampler {
	struct gpu_monitor *monitor;
	struct gpu_sample_request rq;
	char uuid[GPU_UUID_MAX];
	bool under_way, ended; /* a sample; sampler_end() came */
	bool asked_end;        /* the sample is of the end */
	struct speed from, to;
	sampler_done *done;
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

struct bench_gpu sampler_unknown(void)
{
	return (struct bench_gpu){ NAN, NAN, NAN, NAN, NAN, NAN };
}

/* Into the doubles of *to. */
static void read_figures(void *to, const struct figure *list, size_t n,
	const struct sample_unit *u)
{
	for (size_t i = 0; i < n; i++) {
		int at = field_position(list[i].field);
		const struct sample_value *v =
			at < 0 || !u ? NULL : sample_value(u, (uint16_t)at);
		double real = !v ? NAN : fields[at].kind == FIELD_INT ? (double)v->i : v->real;

		memcpy((char *)to + list[i].at, &real, sizeof(real));
	}
}

static struct bench_gpu read_unit(const struct sample_unit *u)
{
	struct bench_gpu g = sampler_unknown();

	if (u->busy_known && u->interval_ns)
		g.busy = (double)u->busy_ns / (double)u->interval_ns;
	if (u->memory_known)
		g.mem_used_mib = (double)u->memory_used / MIB;
	read_figures(&g, figures, ARRAY_LEN(figures), u);
	return g;
}

/* One that has computed since the sample before and has ended is in it too, without memory. */
static double count_present(const struct sample_unit *u)
{
	double n = 0;

	for (uint32_t i = 0; i < u->n_processes; i++)
		n += u->processes[i].bytes > 0;
	return u->processes_known ? n : NAN;
}

/* A GPU in MIG mode has none of its own: its devices have them. */
static double count_processes(const struct sample *sample, const struct sample_unit *gpu)
{
	double of_mig = NAN;

	for (uint32_t i = 0; i < sample->n; i++) {
		const struct sample_unit *u = &sample->units[i];

		if (u->gpu != gpu->gpu || u->gi == GPU_NO_INSTANCE)
			continue;
		if (!u->processes_known)
			return NAN;
		of_mig = (isnan(of_mig) ? 0 : of_mig) + count_present(u);
	}
	return isnan(of_mig) ? count_present(gpu) : of_mig;
}

static void ask_end(struct sampler *s);

static void on_sample(void *arg, struct sample *sample, const struct error *err)
{
	struct sampler *s = arg;
	const struct sample_unit *u = sample ? sample_find(sample, s->uuid) : NULL;
	struct bench_gpu g = u ? read_unit(u) : sampler_unknown();
	sampler_done *done = s->asked_end ? STEAL_PTR(s->done) : NULL;
	struct speed *speed = s->asked_end ? &s->to : &s->from;

	(void)err;
	s->under_way = false;
	read_figures(speed, speeds, ARRAY_LEN(speeds), u);
	speed->at_ns = time_mono_ns();
	speed->processes = u ? count_processes(sample, u) : NAN;
	(void)sample_free(sample);
	if (done)
		done(s->arg, &g);
	else if (s->ended && !s->asked_end)
		ask_end(s);
}

static bool ask(struct sampler *s)
{
	struct error err = ERROR_INIT;

	s->under_way = gpu_monitor_sample(s->monitor, &s->rq, on_sample, s, &err) == 0;
	return s->under_way;
}

static void ask_end(struct sampler *s)
{
	const struct bench_gpu unknown = sampler_unknown();
	sampler_done *done;

	s->asked_end = true;
	if (ask(s))
		return;
	done = STEAL_PTR(s->done);
	done(s->arg, &unknown);
}

static void on_inventory(void *arg, const struct inventory *inv)
{
	(void)arg;
	(void)inv;
}

static void on_down(void *arg, const struct error *why)
{
	(void)arg;
	(void)why;
}

static void on_xid(void *arg, const char *uuid, uint32_t xid, uint32_t gi, uint32_t ci)
{
	(void)arg;
	(void)uuid;
	(void)xid;
	(void)gi;
	(void)ci;
}

static void want(struct gpu_sample_request *rq, const struct figure *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int at = field_position(list[i].field);

		if (at >= 0)
			gpu_sample_want(rq, (size_t)at);
	}
}

/* What is not sampled is not known. */
static void forget(struct sampler *s)
{
	read_figures(&s->from, speeds, ARRAY_LEN(speeds), NULL);
	s->from.processes = NAN;
	s->to = s->from;
}

int sampler_new(struct sampler **ret, uv_loop_t *loop,
	const struct gpu_monitor_options *options, const char *uuid, struct error *err)
{
	static const struct gpu_monitor_ops ops = { .inventory = on_inventory,
		.down = on_down,
		.xid = on_xid };
	struct sampler *s = calloc(1, sizeof(*s));

	if (!s)
		return error_nomem(err);
	(void)snprintf(s->uuid, sizeof(s->uuid), "%s", uuid);
	want(&s->rq, figures, ARRAY_LEN(figures));
	want(&s->rq, speeds, ARRAY_LEN(speeds));
	forget(s);
	s->rq.interval_ns = 1;
	if (gpu_monitor_start(&s->monitor, loop, options, &ops, s, err) < 0) {
		free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

void sampler_begin(struct sampler *s)
{
	s->ended = s->asked_end = false;
	forget(s);
	/* Else nothing of this step is known, and its end says so. */
	if (!s->under_way)
		(void)!ask(s);
}

void sampler_end(struct sampler *s, sampler_done *done, void *arg)
{
	s->ended = true;
	s->done = done;
	s->arg = arg;
	if (!s->under_way)
		ask_end(s);
}

void sampler_doubt(const struct sampler *s, struct doubt_facts *ret)
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

struct sampler_processes sampler_processes(const struct sampler *s)
{
	return (struct sampler_processes){ s->from.processes, s->to.processes };
}

struct sampler *sampler_free(struct sampler *s)
{
	if (s) {
		s->monitor = gpu_monitor_stop(s->monitor);
		free(s);
	}
	return NULL;
}
