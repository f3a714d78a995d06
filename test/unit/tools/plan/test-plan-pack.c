/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "tools/plan/pack/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A small catalogue: figures of real instance types. */
static const struct mig_layout a100_mig = {
	.memory_total_mib = 40960,
	.slots = 8,
	.slices = 7,
	.n = 5,
	.profiles = {
		{ .name = { 1, 1, 5, "" }, .number = 0, .slices = 1, .max = 7, .multiprocessors = 14,
			.memory_mib = 4864, .size = 1, .starts = 0x7F },
		{ .name = { 2, 2, 10, "" }, .number = 1, .slices = 2, .max = 3, .multiprocessors = 28,
			.memory_mib = 9856, .size = 2, .starts = 0x15 },
		{ .name = { 3, 3, 20, "" }, .number = 2, .slices = 3, .max = 2, .multiprocessors = 42,
			.memory_mib = 19968, .size = 4, .starts = 0x11 },
		{ .name = { 4, 4, 20, "" }, .number = 3, .slices = 4, .max = 1, .multiprocessors = 56,
			.memory_mib = 19968, .size = 4, .starts = 0x01 },
		{ .name = { 7, 7, 40, "" }, .number = 4, .slices = 7, .max = 1, .multiprocessors = 98,
			.memory_mib = 40192, .size = 8, .starts = 0x01 },
	},
};

enum { V100, L4, A100, GPUS };
static const struct plan_gpu gpus[GPUS] = {
	[V100] = { "V100", "", 80, 80, 16384, 900, 125, 300, 7, 0, NULL },
	[L4] = { "L4", "", 58, 58, 22888, 300, 121, 72, 8, 9, NULL },
	[A100] = { "A100", "", 108, 98, 40960, 1555, 312, 400, 8, 0, &a100_mig },
};

#define CLOSE_TO(got, want)                                 \
	do {                                                \
		if (fabs((got) - (want)) > 1e-9)            \
			fail_msg("%s is %.12g", #got, got); \
	} while (0)

#define OFFER(name, capacity, gpu, count, memory, cpu, ram, usd, has_mig)                    \
	{                                                                                    \
		name, name, "here", "amd64", capacity, &gpus[gpu], count, 1000, memory, cpu, \
			ram, (int64_t)((usd)*1e9), 0, 0, 0, 0, "", "", has_mig, 0, 0         \
	}

static const struct plan_offer offers[] = {
	OFFER("p3.2xlarge", PLAN_ON_DEMAND, V100, 1, 16384, 7910, 56000, 3.06, false),
	OFFER("p3.8xlarge", PLAN_ON_DEMAND, V100, 4, 16384, 31850, 230000, 12.24, false),
	OFFER("p3.2xlarge", PLAN_SPOT, V100, 1, 16384, 7910, 56000, 0.37, false),
	OFFER("g6.xlarge", PLAN_ON_DEMAND, L4, 1, 22888, 3920, 14162, 0.8048, false),
	OFFER("g6.12xlarge", PLAN_ON_DEMAND, L4, 4, 22888, 47810, 178933, 4.6016, false),
	OFFER("p4d.24xlarge", PLAN_ON_DEMAND, A100, 8, 40960, 95690, 1082712, 21.9576, true),
};

static uint64_t random_state;

/* Below @below; the same in every run of the test. */
static uint32_t draw_pack_random(uint32_t below)
{
	random_state =
		random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((random_state >> 33) % below);
}

static struct plan_policy policy(void)
{
	return (struct plan_policy){ .modes = (1U << PLAN_MODES) - 1,
		.capacities = 3,
		.headroom = 0.05,
		.rho_max = 0.8,
		.max_slowdown = 1.5,
		.pods_per_gpu = 16,
		.context_mib = 400 };
}

static struct plan_number make_measured(double v)
{
	return (struct plan_number){ v, PLAN_MEASURED, true };
}

/* Busy for a quarter of the time, 100 ms a request, closed. */
static struct plan_workload workload(uint32_t replicas, double busy, double memory_mib)
{
	return (struct plan_workload){ .name = "w",
		.gpus = 1, /* as files without the key have it */
		.replicas = replicas,
		.kind = PLAN_CLOSED,
		.ref = &gpus[V100],
		.solo_s = make_measured(0.1),
		.busy = make_measured(busy),
		.u = make_measured(0.4),
		.mem_peak_mib = make_measured(memory_mib),
		.cpu_milli = 500,
		.memory_mib = 1000,
		.gpus_allowed = UINT64_MAX };
}

static void solve_with(struct pack_result *ret, const struct plan_policy *p,
	const struct plan_workload *w, size_t n, bool never_exact)
{
	CLEANUP(fit_freep) struct fit *f = NULL;
	struct error err = ERROR_INIT;

	assert_int_equal(fit_new(&f, p, w, n, gpus, GPUS, &err), 0);
	struct pack_setting s = { .fit = f,
		.offers = offers,
		.n_offers = ARRAY_LEN(offers),
		.budget = 60000,
		.seed = 1,
		.never_exact = never_exact };

	if (pack_solve(ret, &s, &err) < 0)
		fail_msg("%s", err.msg);
}

/* A plan's promises are true by its own figures. */
static void check_pack_result(const struct pack_result *r, const struct plan_policy *p,
	const struct plan_workload *w, size_t n)
{
	CLEANUP(fit_freep) struct fit *f = NULL;
	CLEANUP(freep) uint32_t *placed = calloc(n + 1, sizeof(*placed));
	struct error err = ERROR_INIT;
	int64_t price = 0;

	assert_non_null(placed);
	assert_int_equal(fit_new(&f, p, w, n, gpus, GPUS, &err), 0);
	for (size_t i = 0; i < r->n_nodes; i++) {
		const struct plan_node *node = &r->nodes[i];
		uint64_t cpu = 0, memory = 0;

		price += node->offer->nano_per_hour;
		for (uint32_t g = 0; g < node->offer->gpus; g++) {
			uint32_t who[PLAN_PODS_MAX], k = 0;

			for (uint32_t j = 0; j < node->n; j++)
				if (node->tenants[j].gpu == g)
					who[k++] = node->tenants[j].workload;
			struct fit_gpu look = { node->offer, node->mode, node->slots, who, k };

			assert_int_equal(fit_check(f, &look, NULL, NULL, NULL), PLAN_FITS);
		}
		for (uint32_t j = 0; j < node->n; j++)
			for (uint32_t k = 0; k < j; k++)
				assert_false(node->tenants[j].workload ==
						     node->tenants[k].workload &&
					     w[node->tenants[j].workload].anti_affinity);
		for (uint32_t j = 0; j < node->n; j++) {
			cpu += w[node->tenants[j].workload].cpu_milli;
			memory += w[node->tenants[j].workload].memory_mib;
			placed[node->tenants[j].workload]++;
		}
		assert_true(node->n > 0 && cpu <= node->offer->cpu_milli &&
			    memory <= node->offer->memory_mib);
	}
	for (size_t i = 0; i < r->n_unplaced; i++)
		placed[r->unplaced[i].workload] += r->unplaced[i].replicas;
	for (size_t i = 0; i < n; i++)
		assert_int_equal(placed[i], w[i].replicas);
	assert_int_equal(price, r->nano_per_hour);
	assert_true(r->bound_nano <= r->nano_per_hour);
}

/* --- what fits --- */

static enum plan_reason find_fit(const struct plan_workload *w, size_t n, size_t offer,
	enum plan_mode mode, uint32_t slots, uint32_t pods, struct fit_times *times)
{
	CLEANUP(fit_freep) struct fit *f = NULL;
	struct plan_policy p = policy();
	struct error err = ERROR_INIT;
	uint32_t who[16];

	for (uint32_t i = 0; i < pods; i++)
		who[i] = i % (uint32_t)n;
	assert_int_equal(fit_new(&f, &p, w, n, gpus, GPUS, &err), 0);
	struct fit_gpu g = { &offers[offer], mode, slots, who, pods };

	return fit_check(f, &g, NULL, times, NULL);
}

static void fit__reports_why_it_is_not_feasible(void **state)
{
	struct plan_workload w = workload(1, 0.25, 4000);

	(void)state;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_EXCLUSIVE, 0, 1, NULL), PLAN_FITS);
	assert_int_equal(find_fit(&w, 1, 0, PLAN_TIME_SLICING, 0, 2, NULL), PLAN_FITS);
	assert_int_equal(find_fit(&w, 1, 0, PLAN_TIME_SLICING, 0, 4, NULL), PLAN_NO_MEMORY);
	assert_int_equal(find_fit(&w, 1, 0, PLAN_MIG, 0, 1, NULL), PLAN_MIG_UNSUPPORTED);
	assert_int_equal(find_fit(&w, 1, 2, PLAN_EXCLUSIVE, 0, 1, NULL), PLAN_PRICE_UNKNOWN);
	w.isolation = PLAN_MEMORY;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_TIME_SLICING, 0, 2, NULL),
		PLAN_NO_ISOLATION_IN_MODE);
	assert_int_equal(find_fit(&w, 1, 0, PLAN_SLICES, 0, 2, NULL), PLAN_FITS);
	w.isolation = PLAN_FAULT;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_MPS, 2, 2, NULL), PLAN_NO_ISOLATION_IN_MODE);
	w.isolation = PLAN_NO_ISOLATION;
	w.slo.p99_s = 0.12;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_TIME_SLICING, 0, 2, NULL), PLAN_MISSES_SLO);
	w.slo.p99_s = 0;
	w.gpus_allowed = 1 << L4;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_EXCLUSIVE, 0, 1, NULL),
		PLAN_MODEL_NOT_ALLOWED);
	w.gpus_allowed = UINT64_MAX;
	w.u.known = false;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_MPS, 2, 2, NULL), PLAN_PROFILE_INCOMPLETE);
	w.mem_peak_mib = make_measured(9700);
	w.u = make_measured(0.1);
	assert_int_equal(find_fit(&w, 1, 0, PLAN_MPS, 2, 2, NULL), PLAN_NO_MEMORY);
	w.anti_affinity = true;
	w.mem_peak_mib = make_measured(100);
	assert_int_equal(find_fit(&w, 1, 0, PLAN_SLICES, 0, 2, NULL),
		PLAN_NO_ISOLATION_IN_MODE);
}

/* Four workloads that are a quarter busy do not fit stock time-slicing: 1.11. A little less does. */
static void fit__four_quarters_exceed_one_gpu(void **state)
{
	struct plan_workload w = workload(4, 0.25, 1000);

	(void)state;
	w.kind = PLAN_OPEN;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_TIME_SLICING, 0, 4, NULL), PLAN_RHO);
	w.busy = make_measured(0.18);
	assert_int_equal(find_fit(&w, 1, 0, PLAN_TIME_SLICING, 0, 4, NULL), PLAN_FITS);
	w.busy = make_measured(0.181);
	assert_int_equal(find_fit(&w, 1, 0, PLAN_TIME_SLICING, 0, 4, NULL), PLAN_RHO);
}

static void fit__predictions_have_a_confidence(void **state)
{
	struct plan_workload w = workload(1, 0.25, 1000);
	struct fit_times t[4];

	(void)state;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_TIME_SLICING, 0, 2, t), PLAN_FITS);
	assert_true(t[0].known && t[0].origin == PLAN_MEASURED && t[0].band == 0.10);
	assert_string_equal(t[0].model, "time-slicing-ps");
	assert_null(t[0].missing);
	w.u = (struct plan_number){ 0 };
	w.sm_active = make_measured(0.1);
	w.dram = make_measured(0.05);
	w.slo.max_slowdown = 9;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_MPS, 2, 2, t), PLAN_FITS);
	assert_true(t[0].origin == PLAN_DERIVED && t[0].band == 0.25);
	assert_string_equal(t[0].missing, "u");
	/* The times on another GPU without the split are a bound. */
	assert_int_equal(find_fit(&w, 1, 3, PLAN_EXCLUSIVE, 0, 1, t), PLAN_FITS);
	assert_true(t[0].origin == PLAN_DEFAULT && t[0].band == 0.50 && t[0].slowdown > 1);
	assert_string_equal(t[0].missing, "t_solo on this GPU");
	w.solo_s.known = false;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_EXCLUSIVE, 0, 1, t), PLAN_FITS);
	assert_false(t[0].known);
	assert_string_equal(t[0].missing, "t_solo");
}

/* The workload needs ten times the GPU by its figures. A workload that was measured on one GPU, always busy,
 * fits one GPU. */
static void fit__demand_of_more_than_a_gpu_is_refused(void **state)
{
	struct plan_workload w = workload(1, 1, 1000);
	struct fit_times t[1];

	(void)state;
	w.kind = PLAN_OPEN;
	w.rate = make_measured(100);
	assert_int_equal(find_fit(&w, 1, 0, PLAN_EXCLUSIVE, 0, 1, t), PLAN_FITS);
	assert_true(t[0].times.rate == 100);
	w.busy.known = false;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_EXCLUSIVE, 0, 1, NULL), PLAN_RHO);
}

/* The policy's limit is for workloads without any limit of their own. */
static void fit__own_slo_replaces_the_default(void **state)
{
	struct plan_workload w = workload(1, 0.6, 1000);

	(void)state;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_TIME_SLICING, 0, 2, NULL), PLAN_MISSES_SLO);
	w.slo.p99_s = 5;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_TIME_SLICING, 0, 2, NULL), PLAN_FITS);
}

/* Memory-bound work takes its time in memory. More multiprocessors alone do not help it. */
static void fit__no_gpu_exceeds_its_maximum_speed(void **state)
{
	static const struct plan_gpu known[] = {
		{ "from", "", 100, 100, 16384, 600, 100, 300, 8, 6, NULL },
		{ "slow", "", 100, 100, 16384, 300, 200, 300, 8, 9, NULL },
		{ "many", "", 200, 200, 16384, 600, 0, 300, 12, 0, NULL },
	};
	CLEANUP(fit_freep) struct fit *f = NULL;
	struct plan_policy p = policy();
	struct plan_workload w = workload(1, 1, 1000);
	struct error err = ERROR_INIT;

	(void)state;
	w.ref = &known[0];
	w.u = make_measured(0.9);
	w.dram = make_measured(0.8);
	assert_int_equal(fit_new(&f, &p, &w, 1, known, 3, &err), 0);
	/* 0.8 of 0.1 s at 600 GB/s are 0.16 s at 300, though by u twice the tensor rate halves most of it. */
	CLOSE_TO(fit_pod(f, 0, &known[1])->solo_s, 0.16);
	CLOSE_TO(fit_pod(f, 0, &known[2])->solo_s, 0.1);
}

/* Another customer has the rest of a GPU that the provider sells in parts. */
static void fit__share_of_a_gpu_requires_known_memory(void **state)
{
	CLEANUP(fit_freep) struct fit *f = NULL;
	struct plan_policy p = policy();
	struct plan_workload w = workload(1, 0.1, 1000);
	struct plan_offer part = offers[3];
	struct error err = ERROR_INIT;
	uint32_t who = 0;
	struct fit_gpu g = { &part, PLAN_EXCLUSIVE, 0, &who, 1 };

	(void)state;
	part.gpu_milli = 125;
	part.gpu_memory_mib = 2861;
	w.ref = &gpus[L4];
	w.slo.max_slowdown = 20;
	assert_int_equal(fit_new(&f, &p, &w, 1, gpus, GPUS, &err), 0);
	assert_int_equal(fit_check(f, &g, NULL, NULL, NULL), PLAN_FITS);
	w.mem_peak_mib.known = false;
	assert_int_equal(fit_check(f, &g, NULL, NULL, NULL), PLAN_PROFILE_INCOMPLETE);
}

static void fit__mig_selects_the_smallest_sufficient_profile(void **state)
{
	CLEANUP(fit_freep) struct fit *f = NULL;
	struct plan_policy p = policy();
	struct plan_workload w = workload(1, 0.25, 3000);
	struct plan_tenant t[8];
	struct error err = ERROR_INIT;
	uint32_t who[8] = { 0 };

	(void)state;
	w.ref = &gpus[A100];
	w.u = make_measured(0.02);
	assert_int_equal(fit_new(&f, &p, &w, 1, gpus, GPUS, &err), 0);
	struct fit_gpu g = { &offers[5], PLAN_MIG, 0, who, 7 };

	assert_int_equal(fit_check(f, &g, t, NULL, NULL), PLAN_FITS);
	assert_int_equal(t[6].profile, 0);
	assert_int_equal(t[6].memory_mib, 4864);
	g.n = 8;
	assert_int_equal(fit_check(f, &g, t, NULL, NULL), PLAN_MIG_GEOMETRY);
	/* The pod needs more multiprocessors, so it needs a larger GPU, though memory would do. */
	w.u = make_measured(0.2);
	f = fit_free(f);
	assert_int_equal(fit_new(&f, &p, &w, 1, gpus, GPUS, &err), 0);
	g.n = 1;
	assert_int_equal(fit_check(f, &g, t, NULL, NULL), PLAN_FITS);
	assert_true(t[0].profile >= 1);
}

/* A MIG device is a GPU of its own: a workload that needs more than the device has is not placed there. */
static void fit__mig_is_not_overloaded(void **state)
{
	struct plan_workload w = workload(1, 0.9, 1000);

	(void)state;
	w.kind = PLAN_OPEN;
	w.ref = &gpus[A100];
	w.u = make_measured(0.8);
	w.slo.max_slowdown = 1000;
	assert_int_equal(find_fit(&w, 1, 5, PLAN_MIG, 0, 1, NULL), PLAN_RHO);
	w.rate = make_measured(9);
	assert_int_equal(find_fit(&w, 1, 5, PLAN_MIG, 0, 1, NULL), PLAN_RHO);
	/* GPU time is all that a request takes longer: 5 * (0.1 + 0.6). */
	w.busy = make_measured(0.5);
	w.rate = make_measured(5);
	w.solo_s = make_measured(1);
	w.u = make_measured(0.09);
	assert_int_equal(find_fit(&w, 1, 5, PLAN_MIG, 0, 1, NULL), PLAN_FITS);
	w.mem_peak_mib.known = false;
	assert_int_equal(find_fit(&w, 1, 5, PLAN_MIG, 0, 1, NULL), PLAN_PROFILE_INCOMPLETE);
}

/* The share of a workload that is always busy is known without a time per request: a fourth. */
static void fit__trainings_without_a_time_are_not_stacked(void **state)
{
	struct plan_workload w = workload(1, 1, 1000);

	(void)state;
	w.kind = PLAN_TRAIN;
	w.solo_s.known = false;
	w.busy.known = false;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_TIME_SLICING, 0, 4, NULL), PLAN_MISSES_SLO);
	assert_int_equal(find_fit(&w, 1, 0, PLAN_EXCLUSIVE, 0, 1, NULL), PLAN_FITS);
	w.mem_peak_mib.known = false;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_TIME_SLICING, 0, 2, NULL),
		PLAN_PROFILE_INCOMPLETE);
	assert_int_equal(find_fit(&w, 1, 0, PLAN_EXCLUSIVE, 0, 1, NULL), PLAN_FITS);
}

static void fit__rates_of_open_pods_are_exact(void **state)
{
	struct plan_workload w = workload(1, 0.5, 1000);

	(void)state;
	w.kind = PLAN_OPEN;
	w.rate = make_measured(5);
	w.slo.min_rate = 5;
	assert_int_equal(find_fit(&w, 1, 0, PLAN_EXCLUSIVE, 0, 1, NULL), PLAN_FITS);
}

/* --- plans --- */

static void pack__finds_the_cheapest_of_few(void **state)
{
	struct plan_policy p = policy();
	struct plan_workload w = workload(4, 0.10, 2000);
	struct pack_result r;

	(void)state;
	/* A figure for another GPU than the measured one may be wrong by half, so its slowdown counts as at
	 * least 1.5. */
	solve_with(&r, &p, &w, 1, false);
	assert_int_equal(r.nano_per_hour, 3060000000);
	pack_result_fini(&r);
	p.max_slowdown = 3;
	solve_with(&r, &p, &w, 1, false);
	assert_true(r.exact);
	assert_int_equal(r.n_nodes, 1);
	assert_string_equal(r.nodes[0].offer->type, "g6.xlarge");
	assert_int_equal(r.nano_per_hour, 804800000);
	check_pack_result(&r, &p, &w, 1);
	pack_result_fini(&r);
	w.spot_ok = true;
	solve_with(&r, &p, &w, 1, false);
	assert_int_equal(r.nano_per_hour, 370000000);
	pack_result_fini(&r);
	/* No node has room for it. */
	w.mem_peak_mib = make_measured(90000);
	solve_with(&r, &p, &w, 1, false);
	assert_int_equal(r.n_unplaced, 1);
	assert_int_equal(r.unplaced[0].reason, PLAN_NO_MEMORY);
	assert_int_equal(r.unplaced[0].replicas, 4);
	check_pack_result(&r, &p, &w, 1);
	pack_result_fini(&r);
}

static void random_workloads(struct plan_workload *w, size_t n, uint32_t replicas)
{
	for (size_t i = 0; i < n; i++) {
		w[i] = workload(1 + draw_pack_random(replicas),
			0.02 + 0.4 * draw_pack_random(1000) / 1000,
			500 + 9000.0 * draw_pack_random(1000) / 1000);
		w[i].u = make_measured(0.1 + 0.6 * draw_pack_random(1000) / 1000);
		w[i].solo_s = make_measured(0.01 + 0.1 * draw_pack_random(1000) / 1000);
		w[i].spot_ok = draw_pack_random(3) == 0;
		w[i].isolation = draw_pack_random(3) == 0 ? PLAN_MEMORY : PLAN_NO_ISOLATION;
		w[i].ref = &gpus[draw_pack_random(GPUS)];
		if (draw_pack_random(2)) {
			w[i].kind = PLAN_OPEN;
			w[i].rate = make_measured(w[i].busy.v / w[i].solo_s.v);
		}
		if (draw_pack_random(8) == 0)
			w[i].slo.p99_s = 5 * w[i].solo_s.v;
	}
}

/* The heuristic against the exact search: the exact result is never dearer. */
static void pack__comes_close_to_the_best(void **state)
{
	struct plan_policy p = policy();
	double sum = 0;

	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		struct plan_workload w[5];
		struct pack_result best, found;

		random_state = round + 1;
		random_workloads(w, ARRAY_LEN(w), 2);
		solve_with(&best, &p, w, ARRAY_LEN(w), false);
		solve_with(&found, &p, w, ARRAY_LEN(w), true);
		assert_true(best.exact && !found.exact);
		check_pack_result(&best, &p, w, ARRAY_LEN(w));
		check_pack_result(&found, &p, w, ARRAY_LEN(w));
		assert_true(found.nano_per_hour >= best.nano_per_hour);
		assert_true(found.bound_nano <= best.nano_per_hour);
		sum += (double)found.nano_per_hour / (double)best.nano_per_hour - 1;
		if ((double)found.nano_per_hour > 1.02 * (double)best.nano_per_hour)
			fail_msg("round %u: %lld for %lld", round,
				(long long)found.nano_per_hour, (long long)best.nano_per_hour);
		pack_result_fini(&best);
		pack_result_fini(&found);
	}
	assert_true(sum / 20 < 0.002);
}

/* The first solution has to be good by itself: with many workloads there is no time for improvements. */
static void pack__shares_from_the_beginning(void **state)
{
	struct plan_policy p = policy(), whole = p;
	struct plan_workload w[200];
	struct error err = ERROR_INIT;
	struct pack_result shared, alone;

	(void)state;
	whole.modes = 1U << PLAN_EXCLUSIVE;
	random_state = 9;
	random_workloads(w, ARRAY_LEN(w), 4);
	for (int k = 0; k < 2; k++) {
		CLEANUP(fit_freep) struct fit *f = NULL;
		struct pack_setting s = { .offers = offers,
			.n_offers = ARRAY_LEN(offers),
			.seed = 1 };

		assert_ok(fit_new(&f, k ? &whole : &p, w, ARRAY_LEN(w), gpus, GPUS, &err),
			&err);
		s.fit = f;
		assert_ok(pack_solve(k ? &alone : &shared, &s, &err), &err);
	}
	assert_true((double)shared.nano_per_hour < 0.6 * (double)alone.nano_per_hour);
	pack_result_fini(&shared);
	pack_result_fini(&alone);
}

/* Replicas that must be apart are on different nodes, though a node has four GPUs, and other workloads are
 * beside them. */
static void pack__keeps_replicas_apart(void **state)
{
	struct plan_policy p = policy();
	struct plan_workload w[2] = { workload(3, 0.05, 1000), workload(3, 0.05, 1000) };

	(void)state;
	p.modes = 1U << PLAN_SLICES | 1U << PLAN_EXCLUSIVE;
	w[0].anti_affinity = true;
	for (int searched = 0; searched < 2; searched++) {
		CLEANUP(fit_freep) struct fit *f = NULL;
		struct error err = ERROR_INIT;
		struct pack_result r;

		assert_int_equal(fit_new(&f, &p, w, 2, gpus, GPUS, &err), 0);
		struct pack_setting s = { .fit = f,
			.offers = offers + 1, /* p3.8xlarge alone */
			.n_offers = 1,
			.budget = 60000,
			.never_exact = searched };

		assert_int_equal(pack_solve(&r, &s, &err), 0);
		check_pack_result(&r, &p, w, 2);
		assert_int_equal(r.n_unplaced, 0);
		assert_int_equal(r.n_nodes, 3);
		pack_result_fini(&r);
	}
}

static void pack__is_deterministic_and_feasible_for_many(void **state)
{
	struct plan_policy p = policy();
	struct plan_workload w[200];
	struct pack_result once, again;

	(void)state;
	random_state = 5;
	random_workloads(w, ARRAY_LEN(w), 4);
	w[7].gpus = 4;
	w[7].isolation = PLAN_NO_ISOLATION;
	w[7].slo = (struct plan_slo){ 0 };
	solve_with(&once, &p, w, ARRAY_LEN(w), false);
	solve_with(&again, &p, w, ARRAY_LEN(w), false);
	check_pack_result(&once, &p, w, ARRAY_LEN(w));
	assert_int_equal(once.nano_per_hour, again.nano_per_hour);
	assert_int_equal(once.n_nodes, again.n_nodes);
	for (size_t i = 0; i < once.n_nodes; i++) {
		assert_ptr_equal(once.nodes[i].offer, again.nodes[i].offer);
		assert_int_equal(once.nodes[i].n, again.nodes[i].n);
	}
	assert_true(once.bound_nano > 0);
	pack_result_fini(&once);
	pack_result_fini(&again);
}

/* Nodes that exist already cost nothing more. The plan uses no more of them than exist. */
static void pack__uses_existing_nodes_first(void **state)
{
	struct plan_offer have[2] = { offers[0], offers[3] };
	uint32_t limits[2] = { 2, UINT32_MAX };
	CLEANUP(fit_freep) struct fit *f = NULL;
	struct plan_policy p = policy();
	struct plan_workload w = workload(9, 0.5, 6000);
	struct error err = ERROR_INIT;
	struct pack_result r;
	size_t there = 0;

	(void)state;
	have[0].nano_per_hour = 0;
	p.max_slowdown = 0;
	p.modes = 1 << PLAN_EXCLUSIVE | 1 << PLAN_SLICES;
	assert_int_equal(fit_new(&f, &p, &w, 1, gpus, GPUS, &err), 0);
	struct pack_setting s = { .fit = f,
		.offers = have,
		.n_offers = 2,
		.limits = limits,
		.budget = 50000 };

	assert_int_equal(pack_solve(&r, &s, &err), 0);
	for (size_t i = 0; i < r.n_nodes; i++)
		there += r.nodes[i].offer == &have[0];
	assert_int_equal(there, 2);
	assert_int_equal(r.n_unplaced, 0);
	check_pack_result(&r, &p, &w, 1);
	pack_result_fini(&r);
}

/* Nine under MPS on one GPU: every number of slots is tried. */
static void pack__tries_every_number_of_slots(void **state)
{
	struct plan_policy p = policy();
	struct plan_workload w = workload(9, 0.02, 1250);
	struct pack_result r;

	(void)state;
	p.modes = 1 << PLAN_MPS;
	p.max_slowdown = 0;
	w.u = make_measured(0.1);
	w.cpu_milli = 100;
	solve_with(&r, &p, &w, 1, false);
	assert_true(r.exact);
	assert_int_equal(r.n_nodes, 1);
	assert_int_equal(r.nano_per_hour, 804800000);
	pack_result_fini(&r);
	/* A workload that cannot share with itself still gets a place. */
	w = workload(2, 1, 1000);
	w.u = make_measured(0.4);
	w.dram = make_measured(0.6);
	solve_with(&r, &p, &w, 1, false);
	assert_int_equal(r.n_unplaced, 0);
	pack_result_fini(&r);
}

/* A free node does not make the other nodes dearer. */
static void pack__free_nodes_cost_nothing(void **state)
{
	struct plan_offer have[ARRAY_LEN(offers) + 1];
	uint32_t limits[ARRAY_LEN(offers) + 1];
	CLEANUP(fit_freep) struct fit *f = NULL;
	struct plan_policy p = policy();
	struct plan_workload w[40];
	struct error err = ERROR_INIT;
	struct pack_result without, with;

	(void)state;
	random_state = 4;
	random_workloads(w, ARRAY_LEN(w), 2);
	solve_with(&without, &p, w, ARRAY_LEN(w), false);
	for (size_t i = 0; i < ARRAY_LEN(offers); i++) {
		have[i] = offers[i];
		limits[i] = UINT32_MAX;
	}
	have[ARRAY_LEN(offers)] = offers[3];
	have[ARRAY_LEN(offers)].nano_per_hour = 0;
	limits[ARRAY_LEN(offers)] = 1;
	assert_int_equal(fit_new(&f, &p, w, ARRAY_LEN(w), gpus, GPUS, &err), 0);
	struct pack_setting s = { .fit = f,
		.offers = have,
		.n_offers = ARRAY_LEN(have),
		.limits = limits,
		.budget = 60000,
		.seed = 1 };

	assert_int_equal(pack_solve(&with, &s, &err), 0);
	check_pack_result(&with, &p, w, ARRAY_LEN(w));
	/* The search is not exact: it may miss the saving of the node, but no more. */
	assert_true((double)with.nano_per_hour <= 1.02 * (double)without.nano_per_hour);
	pack_result_fini(&with);
	pack_result_fini(&without);
}

static bool stop_at_once(void *arg, double done, int64_t nano)
{
	(void)done;
	(void)nano;
	++*(unsigned *)arg;
	return false;
}

static void pack__stops_with_its_best_result(void **state)
{
	CLEANUP(fit_freep) struct fit *f = NULL;
	struct plan_policy p = policy();
	struct plan_workload w[40];
	struct error err = ERROR_INIT;
	struct pack_result r;
	unsigned asked = 0;

	(void)state;
	random_state = 9;
	random_workloads(w, ARRAY_LEN(w), 3);
	assert_int_equal(fit_new(&f, &p, w, ARRAY_LEN(w), gpus, GPUS, &err), 0);
	struct pack_setting s = { .fit = f,
		.offers = offers,
		.n_offers = ARRAY_LEN(offers),
		.budget = UINT64_MAX / 2,
		.go_on = stop_at_once,
		.arg = &asked };

	assert_int_equal(pack_solve(&r, &s, &err), 0);
	assert_true(r.stopped && asked == 1);
	check_pack_result(&r, &p, w, ARRAY_LEN(w));
	pack_result_fini(&r);
}

static bool count_call(void *arg, double done, int64_t nano)
{
	(void)done;
	(void)nano;
	++*(unsigned *)arg;
	return true;
}

/* Pairs of whole GPUs cost as much as the lower bound, so that most of the budget is left. */
static void pack__does_not_search_for_impossible_results(void **state)
{
	static const uint64_t budget = 60000;
	CLEANUP(fit_freep) struct fit *f = NULL;
	struct plan_policy p = policy();
	struct plan_workload w = workload(20, 0.9, 15000); /* two on a node of four GPUs */
	struct error err = ERROR_INIT;
	struct pack_result r;
	unsigned looks = 0;

	(void)state;
	p.capacities = 1;
	w.gpus = 2;
	w.gpus_allowed = UINT64_C(1) << V100;
	assert_int_equal(fit_new(&f, &p, &w, 1, gpus, GPUS, &err), 0);
	struct pack_setting s = { .fit = f,
		.offers = offers,
		.n_offers = ARRAY_LEN(offers),
		.budget = budget,
		.seed = 1,
		.go_on = count_call,
		.arg = &looks };

	assert_int_equal(pack_solve(&r, &s, &err), 0);
	check_pack_result(&r, &p, &w, 1);
	assert_int_equal(r.nano_per_hour, 10 * INT64_C(12240000000));
	assert_in_range(r.bound_nano, r.nano_per_hour - 1000, r.nano_per_hour);
	assert_in_range(looks, 1, budget / 64 / 8);
	pack_result_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fit__reports_why_it_is_not_feasible),
		cmocka_unit_test(fit__four_quarters_exceed_one_gpu),
		cmocka_unit_test(fit__predictions_have_a_confidence),
		cmocka_unit_test(fit__demand_of_more_than_a_gpu_is_refused),
		cmocka_unit_test(fit__own_slo_replaces_the_default),
		cmocka_unit_test(fit__no_gpu_exceeds_its_maximum_speed),
		cmocka_unit_test(fit__share_of_a_gpu_requires_known_memory),
		cmocka_unit_test(fit__mig_selects_the_smallest_sufficient_profile),
		cmocka_unit_test(fit__mig_is_not_overloaded),
		cmocka_unit_test(fit__trainings_without_a_time_are_not_stacked),
		cmocka_unit_test(fit__rates_of_open_pods_are_exact),
		cmocka_unit_test(pack__finds_the_cheapest_of_few),
		cmocka_unit_test(pack__comes_close_to_the_best),
		cmocka_unit_test(pack__shares_from_the_beginning),
		cmocka_unit_test(pack__keeps_replicas_apart),
		cmocka_unit_test(pack__is_deterministic_and_feasible_for_many),
		cmocka_unit_test(pack__uses_existing_nodes_first),
		cmocka_unit_test(pack__tries_every_number_of_slots),
		cmocka_unit_test(pack__free_nodes_cost_nothing),
		cmocka_unit_test(pack__stops_with_its_best_result),
		cmocka_unit_test(pack__does_not_search_for_impossible_results),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
