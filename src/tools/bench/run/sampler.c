/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/run/sampler.h"

#include "lib/base/time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB         1048576.0
#define EARLIER_MAX 1024 /* processes of others that are kept */

/* Counters and states that doubt.h judges; of what is not known NaN. */
struct speed {
	double slowed_ns[DOUBT_SLOWED], reasons, clock_mhz;
	struct sampler_processes processes;
	uint64_t at_ns; /* monotonic clock */
};

struct sampler {
	struct gpu_monitor *monitor;
	struct gpu_sample_request rq;
	char uuid[GPU_UUID_MAX];
	bool ready;            /* NVML has answered, or cannot */
	bool under_way, ended; /* a sample; sampler_end() came */
	bool asked_end;        /* the sample is of the end */
	struct speed from, to;
	uint32_t earlier[EARLIER_MAX]; /* process ids, as NVML has them */
	uint32_t n_earlier;
	void (*looked)(void *arg); /* the sample is of sampler_look() */
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

static const struct sampler_processes not_known = { NAN, NAN };

static bool is_earlier(const struct sampler *s, uint32_t pid)
{
	for (uint32_t i = 0; i < s->n_earlier; i++) {
		if (s->earlier[i] == pid)
			return true;
	}
	return false;
}

/* One that has computed since the sample before and has ended is in it too, without memory. */
static bool is_present(const struct sample_process *p)
{
	return p->bytes > 0;
}

static struct sampler_processes count_present(const struct sampler *s,
	const struct sample_unit *u)
{
	struct sampler_processes n = { 0, 0 };

	for (uint32_t i = 0; i < u->n_processes; i++) {
		n.all += is_present(&u->processes[i]);
		n.earlier += is_present(&u->processes[i]) && is_earlier(s, u->processes[i].pid);
	}
	return u->processes_known ? n : not_known;
}

/* The GPU, or its MIG devices where it has some: then it has no processes of its own. */
static bool has_processes(const struct sample *sample, const struct sample_unit *gpu,
	const struct sample_unit *u)
{
	bool is_mig = u->gi != GPU_NO_INSTANCE;

	if (u->gpu != gpu->gpu)
		return false;
	for (uint32_t i = 0; !is_mig && i < sample->n; i++) {
		if (sample->units[i].gpu == gpu->gpu && sample->units[i].gi != GPU_NO_INSTANCE)
			return false;
	}
	return true;
}

static struct sampler_processes count_processes(const struct sampler *s,
	const struct sample *sample, const struct sample_unit *gpu)
{
	struct sampler_processes sum = { 0, 0 };

	for (uint32_t i = 0; i < sample->n; i++) {
		struct sampler_processes n;

		if (!has_processes(sample, gpu, &sample->units[i]))
			continue;
		n = count_present(s, &sample->units[i]);
		sum.all += n.all;
		sum.earlier += n.earlier;
	}
	return sum;
}

static void keep_earlier(struct sampler *s, const struct sample *sample,
	const struct sample_unit *gpu)
{
	for (uint32_t i = 0; i < sample->n; i++) {
		const struct sample_unit *u = &sample->units[i];

		for (uint32_t k = 0; has_processes(sample, gpu, u) && k < u->n_processes &&
				     s->n_earlier < EARLIER_MAX;
			k++) {
			if (is_present(&u->processes[k]))
				s->earlier[s->n_earlier++] = u->processes[k].pid;
		}
	}
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
	if (s->looked) {
		void (*looked)(void *) = STEAL_PTR(s->looked);

		if (u)
			keep_earlier(s, sample, u);
		(void)sample_free(sample);
		looked(s->arg);
		return;
	}
	read_figures(speed, speeds, ARRAY_LEN(speeds), u);
	speed->at_ns = time_mono_ns();
	speed->processes = u ? count_processes(s, sample, u) : not_known;
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

static void ask_first(struct sampler *s)
{
	void (*looked)(void *arg);

	if (!s->ready || !s->looked || s->under_way || ask(s))
		return;
	looked = STEAL_PTR(s->looked);
	looked(s->arg);
}

static void on_inventory(void *arg, const struct inventory *inv)
{
	struct sampler *s = arg;

	(void)inv;
	s->ready = true;
	ask_first(s);
}

static void on_down(void *arg, const struct error *why)
{
	on_inventory(arg, NULL);
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
	s->from.processes = not_known;
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

void sampler_look(struct sampler *s, void (*done)(void *arg), void *arg)
{
	s->looked = done;
	s->arg = arg;
	ask_first(s);
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
	const struct sampler_processes *from = &s->from.processes, *to = &s->to.processes;

	return (struct sampler_processes){ fmax(from->all, to->all),
		fmax(from->earlier, to->earlier) };
}

struct sampler *sampler_free(struct sampler *s)
{
	if (s) {
		s->monitor = gpu_monitor_stop(s->monitor);
		free(s);
	}
	return NULL;
}
