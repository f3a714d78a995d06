/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How long a plan takes, how much memory, and how good it is: workloads of all kinds, planned with the shipped
 * prices, three ways side by side: all of the search, only what is opened first (no budget for improving), and
 * whole GPUs. Fails if a plan of 10,000 workloads takes more than 10 s of one processor or leaves one out.
 * BENCH_SHORT=1: 1,000 workloads at most.
 */
#include "lib/base/buf.h"
#include "lib/base/time.h"
#include "tools/plan/answer/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define MAX_S     10
#define TEXT_MAX  (16U << 20)
#define KIB_A_MIB 1024

static uint64_t state = 1;

static unsigned draw_below_n(unsigned n)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)((state >> 33) % n);
}

/* The workloads of usual clusters: mostly small services that are idle most of the time, some that are busy,
 * some trainings. */
static void write_workload(struct buf *b, size_t i)
{
	static const char *const gpus[] = { "A10G", "T4", "L4", "V100-SXM2-16GB" };
	bool train = draw_below_n(10) == 0;
	double busy = train ? 1 : 0.02 + 0.3 * draw_below_n(1000) / 1000;
	double solo = 0.01 + 0.2 * draw_below_n(1000) / 1000;

	buf_printf(b,
		"- {name: w%zu, replicas: %u, kind: %s, gpu_ref: %s, busy: %.3f, t_solo: %.3f, ",
		i, 1 + draw_below_n(4), train ? "train" : "inference-open",
		gpus[draw_below_n(4)], busy, solo);
	buf_printf(b, "mem_peak_mib: %u, u: %.2f, cpu: %um, memory: %uMi, ",
		500 + draw_below_n(9500), 0.1 + 0.6 * draw_below_n(100) / 100,
		100 + draw_below_n(1900), 256 + draw_below_n(7680));
	if (!train)
		buf_printf(b, "rate: %.3f, ", busy / solo);
	buf_printf(b, "spot_ok: %s, slo: {max_slowdown: %u}}\n",
		draw_below_n(2) ? "true" : "false", 3 + draw_below_n(5));
}

static double cpu_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / (double)NS_PER_SEC;
}

/* Plans @n workloads. Returns the price, or -1. */
static int64_t measure_plan(const struct price_catalogue *prices, const struct buf *text,
	size_t n, bool search, const char *what)
{
	CLEANUP(plan_input_freep) struct plan_input *in = NULL;
	CLEANUP(plan_answer_freep) struct plan_answer *a = NULL;
	struct answer_setting s = { .budget = search ? PACK_BUDGET : 0,
		.budget_each = search ? PACK_BUDGET_EACH : 0,
		.seed = 42 };
	struct error err = ERROR_INIT;
	struct rusage use;
	double before = cpu_s(), took;

	if (plan_input_new(&in, &err) < 0 ||
		plan_input_parse(in, "bench", buf_str(text), text->len, &err) < 0 ||
		plan_input_end(in, &err) < 0 || plan_answer_new(&a, in, prices, &s, &err) < 0) {
		printf("%s\n", err.msg);
		return -1;
	}
	took = cpu_s() - before;
	(void)getrusage(RUSAGE_SELF, &use);
	printf("%6zu workloads, %6llu replicas, %-12s %6zu nodes, %10.2f USD/h, bound %10.2f, whole GPUs "
	       "%10.2f, %5.2f s, %4ld MiB\n",
		n, (unsigned long long)a->replicas, what, a->plan.n_nodes,
		(double)a->plan.nano_per_hour / (double)PRICE_NANO,
		(double)a->plan.bound_nano / (double)PRICE_NANO,
		(double)a->unsliced.nano_per_hour / (double)PRICE_NANO, took,
		use.ru_maxrss / KIB_A_MIB);
	return a->plan.n_unplaced || took > MAX_S ? -1 : a->plan.nano_per_hour;
}

static int compare_searches(const struct price_catalogue *prices, size_t n)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(TEXT_MAX);
	int64_t first, all;

	buf_puts(&text,
		"version: gpuslice/plan/v1\npolicy: {capacity: mixed, max_slowdown: any}\n"
		"workloads:\n");
	for (size_t i = 0; i < n; i++)
		write_workload(&text, i);
	first = measure_plan(prices, &text, n, false, "opened first");
	all = measure_plan(prices, &text, n, true, "searched");
	if (first < 0 || all < 0)
		return -1;
	printf("       the search saves %.2f %% of what is opened first\n",
		100.0 * (double)(first - all) / (double)first);
	return 0;
}

int main(void)
{
	static const size_t sizes[] = { 10, 100, 1000, 10000 };
	CLEANUP(price_catalogue_freep) struct price_catalogue *prices = NULL;
	struct error err = ERROR_INIT;
	size_t n = ARRAY_LEN(sizes) - (getenv("BENCH_SHORT") != NULL);
	int status = 0;

	if (price_catalogue_load(&prices, NULL, &err) < 0) {
		printf("%s\n", err.msg);
		return 1;
	}
	for (size_t i = 0; i < n; i++)
		if (compare_searches(prices, sizes[i]) < 0)
			status = 1;
	return status;
}
