/* SPDX-License-Identifier: Apache-2.0 */
#include "bench-world.h"

#include "support/test.h"

#include <math.h>

static double draw_test_uniform(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

double noise_normal(uint64_t *state)
{
	double r = sqrt(-2 * log(draw_test_uniform(state)));

	return r * cos(2 * M_PI * draw_test_uniform(state));
}

static void make_run(struct bench_run *r, struct noise *n, uint32_t repetition, uint32_t pods)
{
	double here = n->mean_ns * (1 + n->between * noise_normal(&n->state));
	struct error err = ERROR_INIT;

	*r = (struct bench_run){ .repetition = repetition,
		.gpu = { 0.99, NAN, NAN, 1024, 300, 1980 },
		.n_blocks = n->blocks,
		.n_pods = pods,
		.blocks = calloc(n->blocks, sizeof(*r->blocks)),
		.units = calloc(pods * n->blocks, sizeof(*r->units)),
		.error = "" };
	assert_true(r->blocks && r->units);
	for (unsigned int b = 0; b < n->blocks; b++) {
		struct hist h = { 0 };

		for (unsigned int u = 0; u < n->units; u++) {
			double ns = here * (1 + n->within * noise_normal(&n->state));

			hist_add(&h, ns > 1 ? (uint64_t)ns : 1);
			r->units[u % pods * n->blocks + b]++;
		}
		r->blocks[b].seconds = h.sum_ns * 1e-9 / pods;
		r->seconds += r->blocks[b].seconds;
		assert_int_equal(hist_pack(&r->blocks[b].times, &h, &err), 0);
	}
}

void noise_row(struct bench_row *ret, struct noise *n, enum bench_mode mode, uint32_t pods)
{
	*ret = (struct bench_row){ .scenario = pods == 1 ? "1 burn" : "4 burn",
		.workload = "burn",
		.mode_name = bench_mode_names[mode],
		.mode = mode,
		.pods = pods,
		.replicas = pods,
		.sm_share = NAN,
		.weight = NAN,
		.mem_limit_mib = NAN,
		.offered = NAN,
		.planned_s = NAN,
		.planned_rate = NAN,
		.n = n->runs,
		.runs = calloc(n->runs, sizeof(*ret->runs)) };
	assert_non_null(ret->runs);
	for (uint32_t i = 0; i < n->runs; i++)
		make_run(&ret->runs[i], n, i, pods);
}

void noise_result(struct bench_result *ret, struct noise *n, const enum bench_mode *modes,
	size_t n_modes)
{
	*ret = (struct bench_result){
		.head = { .made = "2026-11-27T00:00:00Z",
			.gpu = "NVIDIA H100 80GB HBM3",
			.simulated = true,
			.power_limit_w = 700,
			.multiprocessors = 132,
			.usd_per_hour = NAN,
			.seconds = 1,
			.repetitions = n->runs },
		.n_rows = n_modes,
		.rows = calloc(n_modes, sizeof(*ret->rows)),
	};
	assert_non_null(ret->rows);
	for (size_t i = 0; i < n_modes; i++)
		noise_row(&ret->rows[i], n, modes[i], modes[i] == BENCH_EXCLUSIVE ? 1 : 4);
}
