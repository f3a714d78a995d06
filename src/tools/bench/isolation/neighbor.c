/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/isolation/case.h"

#include <math.h>

/*
 * Neighbor test. A steady pod runs beside a pod that fills the GPU with small kernels, then beside a pod that
 * copies memory all the time. The worse of the two results counts. In slices of two classes, the steady pod has
 * short work and waits for its answers.
 */

#define BLOCK_MS 10

static const char *const hogs_in_words[CASE_TRIALS_MAX] = { "many small kernels",
	"copies within memory" };

static bool is_for(enum bench_mode m)
{
	return m == BENCH_TIME_SLICING || m == BENCH_FAIR_SHARE ||
	       m == BENCH_FAIR_SHARE_LATENCY || m == BENCH_MPS || m == BENCH_MPS_LIMITED ||
	       m == BENCH_MIG;
}

static size_t count_neighbor_trials(enum bench_mode m)
{
	(void)m;
	return CASE_TRIALS_MAX;
}

/* A rate is measured for c->ms, answers for 1.5 times c->ms. */
static struct trial_pod make_steady_pod(const struct isolation_case *c, bool answers)
{
	uint32_t warmup = c->ms / 5, time = answers ? c->ms * 3 / 2 : c->ms;

	return (struct trial_pod){ .workload = answers ? &isolation_load_short
						       : &isolation_load_burn,
		.from_ms = warmup,
		.to_ms = warmup + time,
		.block_ms = answers ? 0 : BLOCK_MS };
}

static void plan_neighbor_trial(const struct isolation_case *c, size_t trial,
	struct trial_plan *ret)
{
	*ret = (struct trial_plan){ .n = 2 };
	case_halves(c, ret);
	ret->pods[0] = make_steady_pod(c, c->mode == BENCH_FAIR_SHARE_LATENCY);
	ret->pods[1] = (struct trial_pod){ .workload = trial ? &isolation_load_copy_hog
							     : &isolation_load_small_hog,
		.place = 1,
		.from_ms = ret->pods[0].from_ms,
		.to_ms = ret->pods[0].to_ms,
		.block_ms = BLOCK_MS };
}

static void collect_neighbor_facts(struct isolation_case *c, size_t trial,
	const struct trial_plan *p, const struct trial_facts *f)
{
	if (!case_expect(c, &f->pods[0], "the steady pod") ||
		!case_expect(c, &f->pods[1], "its neighbour"))
		return;
	c->figures[trial] = c->mode == BENCH_FAIR_SHARE_LATENCY
				    ? case_p99(&f->pods[0])
				    : case_rate(&p->pods[0], &f->pods[0]);
}

static void set_neighbor_verdict(const struct isolation_case *c, struct verdict *ret)
{
	if (c->mode == BENCH_FAIR_SHARE_LATENCY)
		verdict_latency(ret, &(struct verdict_latency){ c->alone->p99_ns,
					     CASE_TRIALS_MAX, c->figures, hogs_in_words });
	else
		verdict_loss(ret, &(struct verdict_loss){ c->alone->rate, case_share(c->mode),
					  CASE_TRIALS_MAX, c->figures, hogs_in_words });
}

static bool is_neighbor_timed(const struct isolation_case *c)
{
	(void)c;
	return true;
}

const struct isolation_test_kind isolation_test_neighbor = { .name = "neighbour",
	.title = "bad neighbour",
	.timed = is_neighbor_timed,
	.is_for = is_for,
	.trials = count_neighbor_trials,
	.plan = plan_neighbor_trial,
	.collect = collect_neighbor_facts,
	.set_verdict = set_neighbor_verdict };

/* ---- measurements of one pod alone -------------------------------------------------------------------------- */

static size_t one_trial(enum bench_mode m)
{
	(void)m;
	return 1;
}

static void plan_alone(const struct isolation_case *c, bool answers, struct trial_plan *ret)
{
	*ret = (struct trial_plan){ .mode = c->mode,
		.n_places = 1,
		.places = { { .weight = 1 } },
		.n = 1,
		.pods = { make_steady_pod(c, answers) } };
}

static void plan_burn(const struct isolation_case *c, size_t trial, struct trial_plan *ret)
{
	(void)trial;
	plan_alone(c, /* answers= */ false, ret);
}

static void collect_alone_rate(struct isolation_case *c, size_t trial,
	const struct trial_plan *p, const struct trial_facts *f)
{
	(void)trial;
	if (case_expect(c, &f->pods[0], "a pod alone"))
		c->alone->rate = case_rate(&p->pods[0], &f->pods[0]);
}

static void plan_latency(const struct isolation_case *c, size_t trial, struct trial_plan *ret)
{
	(void)trial;
	plan_alone(c, /* answers= */ true, ret);
}

static void collect_alone_latency(struct isolation_case *c, size_t trial,
	const struct trial_plan *p, const struct trial_facts *f)
{
	(void)trial;
	(void)p;
	if (case_expect(c, &f->pods[0], "a pod alone"))
		c->alone->p99_ns = case_p99(&f->pods[0]);
}

const struct isolation_test_kind isolation_alone_burn = { .title = "what one pod does alone",
	.trials = one_trial,
	.plan = plan_burn,
	.collect = collect_alone_rate };
const struct isolation_test_kind isolation_alone_latency = {
	.title = "what short work takes alone",
	.trials = one_trial,
	.plan = plan_latency,
	.collect = collect_alone_latency
};
