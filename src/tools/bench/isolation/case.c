/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/isolation/case.h"

#include "tools/bench/run/collect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US     UINT64_C(1000)
#define MS     UINT64_C(1000000)
#define DEEP   64 /* units in flight of a noisy neighbor */
#define P99    0.99
#define HALVES 2
#define HALF   0.5

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
const struct suite_workload isolation_load_copy_hog = { .name = "bandwidth",
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
const struct suite_workload isolation_load_nothing = { .name = "nothing",
	.kernel = "nop",
	.kernels = 1,
	.blocks = 1,
	.depth = 1 };
const struct suite_workload isolation_load_wrong = { .name = "wrong",
	.kernel = "bad_address",
	.kernels = 1,
	.blocks = 1,
	.depth = 1 };

bool case_is_for_sharing_mode(enum bench_mode m)
{
	return m == BENCH_TIME_SLICING || m == BENCH_FAIR_SHARE || bench_mode_mps(m) ||
	       m == BENCH_MIG;
}

size_t case_once(enum bench_mode m)
{
	(void)m;
	return 1;
}

void case_halves(const struct isolation_case *c, struct trial_plan *ret)
{
	ret->mode = c->mode;
	ret->n_places = HALVES;
	for (size_t i = 0; i < HALVES; i++)
		ret->places[i] = (struct environment_pod){ .weight = 1,
			.latency = c->mode == BENCH_FAIR_SHARE_LATENCY && i == 0,
			.sm_share = HALF,
			.memory = environment_slice_memory(c->environment, HALVES) };
}

double case_share(enum bench_mode m)
{
	return m == BENCH_MIG ? 1 : HALF;
}

double case_share_alone(enum bench_mode m)
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

const char *case_why(char to[static ERROR_MSG_MAX], const struct isolation_pod_facts *f)
{
	(void)snprintf(to, ERROR_MSG_MAX, "%s",
		f->answer                   ? ""
		: f->error.code == ERR_NONE ? "it ended"
					    : f->error.msg);
	return to;
}
