/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/load/flow.h"

#include "lib/base/time.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define NO_TIMING 2
#define SPIN_NS   UINT64_C(50000) /* maximum oversleep of a sleep */

#define GAP_NS   (3 * NS_PER_MS)   /* if no unit ends for this long, another pod had the GPU */
#define INTO     3                 /* units of a burst until its middle */
#define DELAY_NS (100 * NS_PER_MS) /* maximum wait for a burst; some loads have no gaps */

atomic_bool flow_stop;

static bool is_flow_running(const struct count *c)
{
	return !atomic_load_explicit(&flow_stop, memory_order_relaxed) &&
	       time_mono_ns() < c->to_ns;
}

static void sleep_until(uint64_t at_ns)
{
	uint64_t wake = at_ns > SPIN_NS ? at_ns - SPIN_NS : 0;
	struct timespec t = { .tv_sec = (time_t)(wake / NS_PER_SEC),
		.tv_nsec = (long)(wake % NS_PER_SEC) };

	while (time_mono_ns() < wake && !atomic_load(&flow_stop) &&
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
	while (time_mono_ns() < at_ns && !atomic_load(&flow_stop))
		;
}

/* When the program kills itself. */
struct death {
	uint64_t at_ns; /* 0: never */
	unsigned int burst;
};

static void check_death_time(struct death *d, uint64_t now, uint64_t last)
{
	d->burst = now - last > GAP_NS ? 1 : d->burst + 1;
	if (!d->at_ns || now < d->at_ns || (d->burst != INTO && now < d->at_ns + DELAY_NS))
		return;
	(void)printf("{\"dies_ns\":%llu}\n", (unsigned long long)time_mono_ns());
	(void)fflush(stdout);
	(void)kill(getpid(), SIGKILL);
}

static void run_pipeline(const struct flow_plan *p, const struct work_unit *u, struct count *c,
	uint64_t begin_ns)
{
	CUevent events[FLOW_DEPTH_MAX] = { 0 };
	uint32_t depth = p->depth ? p->depth : 1;
	uint64_t begun = 0, last = 0;
	struct death death = { .at_ns = p->die_ns ? begin_ns + p->die_ns : 0 };

	for (uint32_t i = 0; i < depth; i++)
		cuda_check_result(cu.cuEventCreate(&events[i], NO_TIMING), "cuEventCreate");
	while (is_flow_running(c)) {
		CUevent e = events[begun % depth];

		if (begun >= depth) {
			uint64_t now;

			cuda_check_result(cu.cuEventSynchronize(e), "cuEventSynchronize");
			now = time_mono_ns();
			if (last)
				count_add_unit(c, now, now - last);
			check_death_time(&death, now, last);
			last = now;
		}
		work_unit_launch(u, 1);
		cuda_check_result(cu.cuEventRecord(e, u->stream), "cuEventRecord");
		begun++;
	}
	work_unit_wait(u);
}

static void run_closed(const struct flow_plan *p, const struct work_unit *u, struct count *c)
{
	while (is_flow_running(c)) {
		uint64_t from = time_mono_ns(), now;

		work_unit_launch(u, 1);
		work_unit_wait(u);
		now = time_mono_ns();
		count_add_unit(c, now, now - from);
		if (p->pause_ns)
			sleep_until(now + p->pause_ns);
	}
}

/* Uniform in (0, 1). */
static double draw_uniform(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

/* State of the arrivals. */
struct arrivals {
	const struct flow_plan *plan;
	uint64_t begin_ns, at_ns, state;
	size_t next; /* index in the list, for FLOW_LIST */
	uint32_t units;
};

static void arrivals_next(struct arrivals *a)
{
	const struct flow_plan *p = a->plan;

	a->units = 1;
	if (p->kind == FLOW_PERIODIC) {
		a->at_ns += p->period_ns;
	} else if (p->kind == FLOW_POISSON) {
		a->at_ns += (uint64_t)(-log(draw_uniform(&a->state)) * (double)p->period_ns);
	} else {
		if (a->next == p->n) {
			a->begin_ns = a->at_ns;
			a->next = 0;
		}
		a->at_ns = a->begin_ns + p->list[a->next].at_ns;
		a->units = p->list[a->next++].units;
	}
}

static void run_open(const struct flow_plan *p, const struct work_unit *u, struct count *c,
	uint64_t begin_ns)
{
	struct arrivals a = { .plan = p,
		.begin_ns = begin_ns,
		.at_ns = begin_ns,
		.state = p->seed };

	/* A random offset, so that pods do not send their requests at the same time. */
	if (p->kind == FLOW_PERIODIC)
		a.at_ns += (uint64_t)(draw_uniform(&a.state) * (double)p->period_ns);
	/* A random first request, so that pods do not begin with the same request. */
	if (p->kind == FLOW_LIST) {
		a.next = (size_t)(draw_uniform(&a.state) * (double)p->n);
		a.begin_ns -= p->list[a.next].at_ns;
	}
	for (arrivals_next(&a); a.at_ns < c->to_ns && is_flow_running(c); arrivals_next(&a)) {
		uint64_t now;

		sleep_until(a.at_ns);
		work_unit_launch(u, a.units);
		work_unit_wait(u);
		now = time_mono_ns();
		count_add_unit(c, now, now - a.at_ns);
	}
}

void flow_run(const struct flow_plan *p, const struct work_unit *u, struct count *c,
	uint64_t begin_ns)
{
	sleep_until(begin_ns);
	switch (p->kind) {
	case FLOW_PIPELINE:
		run_pipeline(p, u, c, begin_ns);
		return;
	case FLOW_CLOSED:
		run_closed(p, u, c);
		return;
	case FLOW_PERIODIC:
	case FLOW_POISSON:
	case FLOW_LIST:
		run_open(p, u, c, begin_ns);
		return;
	}
}
