/* SPDX-License-Identifier: Apache-2.0 */
/* The tests: for each, the pods that it runs, and how it evaluates the facts. */
#include "tools/bench/isolation/internal.h"

#include "lib/base/time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- workloads, and what several tests use --- */

#define US     UINT64_C(1000)
#define MS     UINT64_C(1000000)
#define DEEP   64 /* units in flight of a noisy neighbor */
#define P99    0.99
#define HALVES 2
#define HALF   0.5

#define LATE_MS 50 /* working time of a new pod */

/* The pods of the tests of fault and recovery. The second one ends early. */
enum { NEIGHBOR_POD, WRONG, KILLED = WRONG, NEXT, PODS };

/*
 * A result has one kernel size for each workload name. So a workload with a name of the suite has the same kernels
 * as the suite's workload.
 */
const struct suite_workload isolation_load_burn = { .name = "burn",
	.kernel = "burn",
	.kernels = 1,
	.kernel_ns = 400 * US,
	.depth = 16 };
const struct suite_workload isolation_load_small_hog = { .name = "small",
	.kernel = "burn",
	.kernels = 1,
	.blocks = 16,
	.kernel_ns = 90 * US,
	.depth = DEEP };
static const struct suite_workload isolation_load_copy_hog = { .name = "bandwidth",
	.kernel = "stream",
	.kernels = 1,
	.depth = DEEP };
const struct suite_workload isolation_load_short = { .name = "latency",
	.kernel = "burn",
	.kernels = 20,
	.blocks = 16,
	.kernel_ns = 8 * US,
	.flow = SUITE_PERIODIC,
	.every_ns = 10 * MS };
static const struct suite_workload isolation_load_nothing = { .name = "nothing",
	.kernel = "nop",
	.kernels = 1,
	.blocks = 1,
	.depth = 1 };
static const struct suite_workload isolation_load_wrong = { .name = "wrong",
	.kernel = "bad_address",
	.kernels = 1,
	.blocks = 1,
	.depth = 1 };

/* Most tests run in each mode that divides a GPU between two equal pods, and run once. */
static bool case_is_for_sharing_mode(enum bench_mode m)
{
	return m == BENCH_TIME_SLICING || m == BENCH_FAIR_SHARE || bench_mode_mps(m) ||
	       m == BENCH_MIG;
}

static size_t case_once(enum bench_mode m)
{
	(void)m;
	return 1;
}

/* Plans two pods. In modes with limits, each pod has half of the GPU. */
static void case_halves(const struct isolation_case *c, struct trial_plan *ret)
{
	ret->mode = c->mode;
	ret->n_places = HALVES;
	for (size_t i = 0; i < HALVES; i++)
		ret->places[i] = (struct environment_pod){ .weight = 1,
			.latency = c->mode == BENCH_FAIR_SHARE_LATENCY && i == 0,
			.sm_share = HALF,
			.memory = environment_slice_memory(c->environment, HALVES) };
}

/* Share of the rate of one pod alone to which a pod with a neighbor is entitled. BENCH_MIG: 1, as both run
 * on a MIG device. */
static double case_share(enum bench_mode m)
{
	return m == BENCH_MIG ? 1 : HALF;
}

/* As case_share(), for a pod whose neighbor has ended. */
static double case_share_alone(enum bench_mode m)
{
	return m == BENCH_MPS_LIMITED ? HALF : 1;
}

double case_rate(const struct trial_pod *pod, const struct isolation_pod_facts *f)
{
	const json_t *counts = json_object_get(f->answer, "counts");
	size_t n = json_array_size(counts);
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += json_number_value(json_array_get(counts, i));
	return n ? sum * 1e3 / (pod->to_ms - pod->from_ms) : NAN;
}

static double p99_of(struct hist *all, struct hist *blocks, const json_t *answer)
{
	char *line = json_dumps(answer, JSON_COMPACT);
	struct error err = ERROR_INIT;
	int r = line ? collect_read(blocks, ARGS_PARTS, line, strlen(line), &err) : -1;

	free(line);
	if (r < 0)
		return NAN;
	for (size_t i = 0; i < ARGS_PARTS; i++)
		hist_join(all, &blocks[i]);
	return all->n ? hist_quantile(all, P99) : NAN;
}

double case_p99(const struct isolation_pod_facts *f)
{
	struct hist *all = calloc(1 + ARGS_PARTS, sizeof(*all));
	double p99 = all && f->answer ? p99_of(all, all + 1, f->answer) : NAN;

	free(all);
	return p99;
}

void case_blocks(struct isolation_case *c, const struct trial_pod *pod,
	const struct isolation_pod_facts *f, struct verdict_blocks *ret)
{
	const json_t *counts = json_object_get(f->answer, "counts");
	size_t n = json_array_size(counts);

	n = n < CASE_BLOCKS_MAX ? n : CASE_BLOCKS_MAX;
	for (size_t i = 0; i < n; i++)
		c->units[i] = (uint32_t)json_integer_value(json_array_get(counts, i));
	*ret = (struct verdict_blocks){ n, c->units, pod->block_ms };
}

bool case_expect(struct isolation_case *c, const struct isolation_pod_facts *f, const char *who)
{
	const char *what = !f->ready                 ? "could not begin"
			   : f->answer || f->dies_ns ? NULL
						     : "did not end as it was to";

	if (f->hung)
		(void)snprintf(c->unknown, sizeof(c->unknown),
			"%s did not answer in time, and was ended", who);
	else if (what)
		(void)snprintf(c->unknown, sizeof(c->unknown), "%s %s%s%.160s", who, what,
			f->error.code != ERR_NONE ? ": " : "",
			f->error.code != ERR_NONE ? f->error.msg : "");
	return !f->hung && !what;
}

bool case_expect_ready(struct isolation_case *c, const struct isolation_pod_facts *f,
	const char *who)
{
	return (f->ready && !f->hung) || case_expect(c, f, who);
}

static const char *case_why(char to[static ERROR_MSG_MAX], const struct isolation_pod_facts *f)
{
	(void)snprintf(to, ERROR_MSG_MAX, "%s",
		f->answer                   ? ""
		: f->error.code == ERR_NONE ? "it ended"
					    : f->error.msg);
	return to;
}

/* --- memory --- */

/*
 * Memory test. One of two pods allocates all memory that it can and keeps it. Then the other pod does that too.
 * In modes with limits, each pod has a quarter of the GPU's memory.
 */

#define QUARTERS 4
#define QUARTER  0.25
#define OF_GPU   0.95 /* a larger MIG device limits nothing */

static uint64_t compute_quarter_memory(const struct isolation_case *c)
{
	return environment_slice_memory(c->environment, QUARTERS) >> 20 << 20;
}

static void plan_memory_trial(const struct isolation_case *c, size_t trial,
	struct trial_plan *ret)
{
	const struct trial_pod filler = { .workload = &isolation_load_nothing,
		.words = { "--fill" },
		.to_ms = 1,
		.stays = true };

	(void)trial;
	*ret = (struct trial_plan){ .mode = c->mode,
		.n_places = c->mode == BENCH_MIG ? 2 : QUARTERS,
		.n = 2,
		.pods = { filler, filler } };
	ret->pods[1].place = 1;
	ret->pods[1].after = true;
	for (size_t i = 0; i < ret->n_places; i++)
		ret->places[i] = (struct environment_pod){ .weight = 1,
			.sm_share = QUARTER,
			.memory = compute_quarter_memory(c) };
}

static double find_case_memory_limit(const struct isolation_case *c,
	const struct isolation_pod_facts *f)
{
	double gpu = (double)c->environment->memory;

	if (c->mode == BENCH_FAIR_SHARE)
		return (double)environment_slice_memory(c->environment, QUARTERS);
	if (c->mode == BENCH_MPS_LIMITED)
		return (double)compute_quarter_memory(c);
	/* A MIG device is as large as the driver reports. */
	return c->mode == BENCH_MIG && f->total < OF_GPU * gpu ? f->total : 0;
}

static double get_fill_number(const struct isolation_pod_facts *f, const char *key)
{
	return json_number_value(json_object_get(f->answer, key));
}

static void collect_memory_facts(struct isolation_case *c, size_t trial,
	const struct trial_plan *p, const struct trial_facts *f)
{
	const struct isolation_pod_facts *a = &f->pods[0], *b = &f->pods[1];

	(void)trial;
	(void)p;
	if (!case_expect(c, a, "the pod that takes memory") ||
		!case_expect(c, b, "its neighbour"))
		return;
	c->memory = (struct verdict_memory){ .limit = find_case_memory_limit(c, a),
		.found = a->free,
		.obtained = get_fill_number(a, "bytes"),
		.gpu = (double)c->environment->memory,
		.refusal = (int)get_fill_number(a, "refusal"),
		.refusal_ns = get_fill_number(a, "refusal_ns"),
		.neighbor_limit = find_case_memory_limit(c, b), /* MIG devices can differ */
		.neighbor_found = b->free,
		.neighbor_taken = get_fill_number(b, "bytes") };
}

static void set_memory_verdict(const struct isolation_case *c, struct verdict *ret)
{
	verdict_memory(ret, &c->memory);
}

const struct isolation_test_kind isolation_test_memory = { .name = "memory",
	.title = "memory limit",
	.is_for = case_is_for_sharing_mode,
	.trials = case_once,
	.plan = plan_memory_trial,
	.collect = collect_memory_facts,
	.set_verdict = set_memory_verdict };

/* --- neighbor --- */

/*
 * Neighbor test. A steady pod runs beside a pod that fills the GPU with small kernels, then beside a pod that
 * copies memory all the time. The worse of the two results counts. In slices of two classes, the steady pod has
 * short work and waits for its answers.
 */

#define NEIGHBOR_BLOCK_MS 10

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
		.block_ms = answers ? 0 : NEIGHBOR_BLOCK_MS };
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
		.block_ms = NEIGHBOR_BLOCK_MS };
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

/* --- measurements of one pod alone --- */

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

/* --- fault --- */

/*
 * Fault test. One pod writes to an invalid address while its neighbor works. After both have ended, a new pod
 * starts in the place of the first pod.
 */

#define FAULT_BLOCK_MS 10

static void plan_fault_trial(const struct isolation_case *c, size_t trial,
	struct trial_plan *ret)
{
	(void)trial;
	*ret = (struct trial_plan){ .n = PODS };
	case_halves(c, ret);
	ret->pods[NEIGHBOR_POD] = (struct trial_pod){ .workload = &isolation_load_burn,
		.to_ms = c->ms,
		.block_ms = FAULT_BLOCK_MS };
	ret->pods[WRONG] = (struct trial_pod){ .workload = &isolation_load_wrong,
		.place = 1,
		.begin_ms = c->ms * 2 / 5,
		.from_ms = c->ms * 2 / 5,
		.to_ms = c->ms * 4 / 5,
		.block_ms = FAULT_BLOCK_MS };
	ret->pods[NEXT] = (struct trial_pod){ .workload = &isolation_load_nothing,
		.place = 1,
		.to_ms = LATE_MS,
		.late = true };
}

/* A fault that reaches the neighbor is an outcome. A pod that could not start makes the test inconclusive. */
static void collect_fault_facts(struct isolation_case *c, size_t trial,
	const struct trial_plan *p, const struct trial_facts *f)
{
	const struct isolation_pod_facts *neighbour = &f->pods[NEIGHBOR_POD],
					 *wrong = &f->pods[WRONG];

	(void)trial;
	if (!case_expect_ready(c, neighbour, "the neighbour") ||
		!case_expect_ready(c, wrong, "the pod that was to be at fault"))
		return;
	c->fault = (struct verdict_fault){ .fault = case_why(c->texts[WRONG], wrong),
		.neighbor = case_why(c->texts[NEIGHBOR_POD], neighbour),
		.at_ms = p->pods[WRONG].begin_ms - p->pods[NEIGHBOR_POD].from_ms,
		.next = case_why(c->texts[NEXT], &f->pods[NEXT]),
		.next_ms = (double)f->late_ns / 1e6 };
	case_blocks(c, &p->pods[NEIGHBOR_POD], neighbour, &c->fault.blocks);
}

static void set_fault_verdict(const struct isolation_case *c, struct verdict *ret)
{
	verdict_fault(ret, &c->fault);
}

const struct isolation_test_kind isolation_test_fault = { .name = "fault",
	.title = "fault of a neighbour",
	.breaks = true,
	.is_for = case_is_for_sharing_mode,
	.trials = case_once,
	.plan = plan_fault_trial,
	.collect = collect_fault_facts,
	.set_verdict = set_fault_verdict };

/* --- recovery --- */

/*
 * Recovery test. Two pods fill the GPU and hold much of their memory. One of them kills itself during its work.
 * The test measures how soon the other pod has the whole GPU, and whether a new pod has enough memory.
 */

#define RECOVERY_BLOCK_MS 5
#define HOLD              60 /* percent of its memory: a second pod does not fit while the first holds it */

static void plan_recovery_trial(const struct isolation_case *c, size_t trial,
	struct trial_plan *ret)
{
	(void)trial;
	*ret = (struct trial_plan){ .n = PODS };
	case_halves(c, ret);
	ret->pods[NEIGHBOR_POD] = (struct trial_pod){ .workload = &isolation_load_burn,
		.from_ms = c->ms / 5,
		.to_ms = c->ms * 17 / 10,
		.block_ms = RECOVERY_BLOCK_MS };
	ret->pods[KILLED] = ret->pods[NEIGHBOR_POD];
	ret->pods[KILLED].place = 1;
	ret->pods[KILLED].hold = HOLD;
	ret->pods[KILLED].die_ms = c->ms / 2;
	ret->pods[NEXT] = (struct trial_pod){ .workload = &isolation_load_nothing,
		.place = 1,
		.to_ms = LATE_MS,
		.hold = HOLD,
		.late = true };
}

static void collect_recovery_facts(struct isolation_case *c, size_t trial,
	const struct trial_plan *p, const struct trial_facts *f)
{
	const struct trial_pod *pod = &p->pods[NEIGHBOR_POD];
	const struct isolation_pod_facts *neighbour = &f->pods[NEIGHBOR_POD],
					 *killed = &f->pods[KILLED];
	uint64_t from_ns = f->begin_ns + pod->from_ms * NS_PER_MS;

	(void)trial;
	if (!case_expect_ready(c, neighbour, "the neighbour") ||
		!case_expect(c, killed, "the pod that was to be killed"))
		return;
	if (!killed->dies_ns) {
		(void)snprintf(c->unknown, sizeof(c->unknown), "the pod was not killed");
		return;
	}
	c->recovery = (struct verdict_recovery){ .neighbor = case_why(c->texts[NEIGHBOR_POD],
							 neighbour),
		.at_ms = ((double)killed->dies_ns - (double)from_ns) / 1e6,
		.whole = c->alone->rate * case_share_alone(c->mode),
		.next = case_why(c->texts[NEXT], &f->pods[NEXT]),
		.next_ms = (double)f->late_ns / 1e6,
		.found = killed->free,
		.next_found = f->pods[NEXT].free };
	case_blocks(c, pod, neighbour, &c->recovery.blocks);
}

static void set_recovery_verdict(const struct isolation_case *c, struct verdict *ret)
{
	verdict_recovery(ret, &c->recovery);
}

static bool is_recovery_timed(const struct isolation_case *c)
{
	return !*c->recovery.neighbor; /* the neighbor ended; speed is irrelevant */
}

const struct isolation_test_kind isolation_test_recovery = { .name = "recovery",
	.title = "recovery from a kill",
	.timed = is_recovery_timed,
	.breaks = true,
	.is_for = case_is_for_sharing_mode,
	.trials = case_once,
	.plan = plan_recovery_trial,
	.collect = collect_recovery_facts,
	.set_verdict = set_recovery_verdict };
