/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/run/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

struct sampler {
	struct gpu_monitor *monitor;
	struct gpu_sample_request rq;
	char uuid[GPU_UUID_MAX];
	bool ended; /* this answer is the end's */
	size_t processes;
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

struct bench_gpu sampler_unknown(void)
{
	return (struct bench_gpu){ NAN, NAN, NAN, NAN, NAN, NAN };
}

static struct bench_gpu read_unit(const struct sample_unit *u)
{
	struct bench_gpu g = sampler_unknown();

	if (u->busy_known && u->interval_ns)
		g.busy = (double)u->busy_ns / (double)u->interval_ns;
	if (u->memory_known)
		g.mem_used_mib = (double)u->memory_used / MIB;
	for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
		int at = field_position(figures[i].field);
		const struct sample_value *v = at < 0 ? NULL : sample_value(u, (uint16_t)at);
		double real = !v ? NAN : fields[at].kind == FIELD_INT ? (double)v->i : v->real;

		memcpy((char *)&g + figures[i].at, &real, sizeof(real));
	}
	return g;
}

static void on_sample(void *arg, struct sample *sample, const struct error *err)
{
	struct sampler *s = arg;
	const struct sample_unit *u = sample ? sample_find(sample, s->uuid) : NULL;
	struct bench_gpu g = u ? read_unit(u) : sampler_unknown();
	sampler_done *done = s->ended ? STEAL_PTR(s->done) : NULL;

	(void)err;
	s->processes = u && u->processes_known ? u->n_processes : 0;
	(void)sample_free(sample);
	if (done)
		done(s->arg, &g);
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
	for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
		int at = field_position(figures[i].field);

		if (at >= 0)
			gpu_sample_want(&s->rq, (size_t)at);
	}
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
	struct error err = ERROR_INIT;

	s->ended = false;
	/* Else nothing of this step is known, and its end says so. */
	(void)!gpu_monitor_sample(s->monitor, &s->rq, on_sample, s, &err);
}

void sampler_end(struct sampler *s, sampler_done *done, void *arg)
{
	const struct bench_gpu unknown = sampler_unknown();
	struct error err = ERROR_INIT;

	s->ended = true;
	s->done = done;
	s->arg = arg;
	if (gpu_monitor_sample(s->monitor, &s->rq, on_sample, s, &err) < 0) {
		s->done = NULL;
		done(arg, &unknown);
	}
}

size_t sampler_processes(const struct sampler *s)
{
	return s->processes;
}

struct sampler *sampler_free(struct sampler *s)
{
	if (s) {
		s->monitor = gpu_monitor_stop(s->monitor);
		free(s);
	}
	return NULL;
}
