/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/run/load-io.h"

#include "lib/base/array.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- arguments of gpuslice-load --- */

#define BLOCKS_PER_SM 8 /* of 256 threads: the maximum that a multiprocessor holds at a time */

static int add_number_argument(struct strv *a, const char *name, uint64_t v, const char *unit,
	struct error *err)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%llu%s", (unsigned long long)v, unit);
	return strv_add(a, name, err) < 0 ? -1 : strv_add(a, text, err);
}

static int add_unit_arguments(struct strv *a, const char *program,
	const struct suite_workload *w, uint32_t blocks, struct error *err)
{
	if (strv_add(a, program, err) < 0 || strv_add(a, "--kernel", err) < 0 ||
		strv_add(a, w->kernel, err) < 0 ||
		add_number_argument(a, "--kernels", w->kernels, "", err) < 0)
		return -1;
	return add_number_argument(a, "--blocks", blocks, "", err);
}

static int add_flow(struct strv *a, const struct suite_workload *w, struct error *err)
{
	switch (w->flow) {
	case SUITE_PIPELINE:
		return add_number_argument(a, "--depth", w->depth, "", err);
	case SUITE_CLOSED:
		return add_number_argument(a, "--pause", w->every_ns, "ns", err);
	case SUITE_PERIODIC:
		return add_number_argument(a, "--every", w->every_ns, "ns", err);
	case SUITE_POISSON:
		return add_number_argument(a, "--poisson", w->every_ns, "ns", err);
	case SUITE_LIST:
		break;
	}
	return strv_add(a, "--arrivals", err) < 0 ? -1 : strv_add(a, w->arrivals, err);
}

int args_run(struct strv *ret, const char *program, const struct suite_workload *w,
	const struct args_size *size, uint64_t seed, struct error *err)
{
	uint32_t blocks = w->blocks ? w->blocks : size->multiprocessors * BLOCKS_PER_SM;

	if (add_unit_arguments(ret, program, w, blocks, err) < 0 || add_flow(ret, w, err) < 0 ||
		add_number_argument(ret, "--rounds", size->rounds, "", err) < 0 ||
		add_number_argument(ret, "--seed", seed, "", err) < 0 ||
		add_number_argument(ret, "--parts", ARGS_PARTS, "", err) < 0)
		return -1;
	return w->graph ? strv_add(ret, "--graph", err) : 0;
}

int args_calibrate(struct strv *ret, const char *program, const struct suite_workload *w,
	struct error *err)
{
	return add_unit_arguments(ret, program, w, w->blocks, err) < 0
		       ? -1
		       : add_number_argument(ret, "--calibrate",
				 w->kernel_ns ? w->kernel_ns : 1, "ns", err);
}

int args_command(struct strv *ret, const char *program, const struct suite_workload *w,
	struct error *err)
{
	char parent[16];
	const char *const words[] = { program, "--tied", parent, "/bin/sh", "-c", w->command };

	(void)snprintf(parent, sizeof(parent), "%d", (int)getpid());
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strv_add(ret, words[i], err) < 0)
			return -1;
	return 0;
}

/* --- answers of pods --- */

static int not_understood(struct error *err)
{
	return error_set(err, ERR_INVALID,
		"expected what gpuslice-load counts, found something else");
}

static int read_block(struct hist *h, const json_t *o, struct error *err)
{
	const json_t *times = json_object_get(o, "times");
	size_t n = json_array_size(times);
	struct hist_packed p = { .sum_ns = json_number_value(json_object_get(o, "sum_ns")) };
	struct hist_class_count one;

	if (!json_is_array(times) || n % 2 || !(p.sum_ns >= 0))
		return not_understood(err);
	for (size_t i = 0; i < n; i += 2) {
		json_int_t class = json_integer_value(json_array_get(times, i));
		json_int_t count = json_integer_value(json_array_get(times, i + 1));

		if (class < 0 || class >= HIST_CLASSES || count < 1 || count > UINT32_MAX)
			return not_understood(err);
		one = (struct hist_class_count){ (uint32_t) class, (uint32_t)count };
		p.n = one.count;
		p.classes = 1;
		p.class = &one;
		hist_merge(h, &p);
		p.sum_ns = 0;
	}
	return 0;
}

int collect_read(struct hist *blocks, size_t n, const char *line, size_t len, struct error *err)
{
	json_auto_t *o = json_loadb(line, len, 0, NULL);
	const json_t *list = json_object_get(o, "blocks");
	const char *error = json_string_value(json_object_get(o, "error"));

	if (error)
		return error_set(err, ERR_INVALID, "%s", error);
	if (!json_is_array(list) || json_array_size(list) != n)
		return not_understood(err);
	for (size_t i = 0; i < n; i++)
		if (read_block(&blocks[i], json_array_get(list, i), err) < 0)
			return -1;
	return 0;
}

/* --- rows --- */

static const struct suite_tenants *tenants_of(const struct suite *s,
	const struct suite_step *step, uint32_t i, struct suite_tenants *alone)
{
	if (step->mode != BENCH_EXCLUSIVE)
		return &s->scenarios[step->scenario].tenants[i];
	*alone = (struct suite_tenants){ step->scenario, 1 };
	return alone;
}

/* The scenario name of a step; "alone" in mode exclusive. Valid as long as the suite. */
static const char *collect_scenario(const struct suite *s, const struct suite_step *step)
{
	return step->mode == BENCH_EXCLUSIVE ? "alone" : s->scenarios[step->scenario].name;
}

/* Whether a pod belongs to a row. A row has one kind of pods, and one weight in weighted mode. */
static bool is_tenant_of_row(const struct collect_pod *p, uint32_t tenants, double weight)
{
	return p->tenants == tenants && (isnan(weight) || fabs(p->weight - weight) < 1e-9);
}

static struct bench_row *find_result_row(struct bench_result *r, const char *scenario,
	const char *workload, enum bench_mode m, double weight)
{
	for (size_t i = 0; i < r->n_rows; i++) {
		struct bench_row *row = &r->rows[i];

		if (row->mode == m && !strcmp(row->scenario, scenario) &&
			!strcmp(row->workload, workload) &&
			(isnan(weight) || fabs(row->weight - weight) < 1e-9))
			return row;
	}
	return NULL;
}

static struct bench_row *add_result_row(struct bench_result *r, const struct bench_row *row,
	struct error *err)
{
	if (r->n_rows == BENCH_ROWS_MAX) {
		(void)error_set(err, ERR_LIMIT, "expected at most %d rows", BENCH_ROWS_MAX);
		return NULL;
	}
	if (!ARRAY_GROW(&r->rows, r->n_rows, &r->room_rows, BENCH_ROWS_MAX)) {
		(void)error_nomem(err);
		return NULL;
	}
	r->rows[r->n_rows] = *row;
	return &r->rows[r->n_rows++];
}

/* Joins the pods of a row into one repetition. */
static int make_run(struct bench_run *run, const struct collect_step *s, uint32_t tenants,
	double weight, struct error *err)
{
	CLEANUP(freep) struct hist *sum = malloc(sizeof(*sum));
	size_t n_blocks = 0, pod = 0;

	*run = (struct bench_run){ .repetition = s->step->repetition,
		.seconds = s->seconds,
		.gpu = s->gpu,
		.error = "",
		.doubt = s->doubt ? s->doubt : "" };
	for (size_t i = 0; i < s->n; i++)
		if (is_tenant_of_row(&s->pods[i], tenants, weight)) {
			n_blocks = s->pods[i].n_blocks;
			run->n_pods++;
		}
	run->blocks = calloc(n_blocks + 1, sizeof(*run->blocks));
	run->units = calloc(n_blocks * run->n_pods + 1, sizeof(*run->units));
	if (!sum || !run->blocks || !run->units)
		return error_nomem(err);
	run->n_blocks = n_blocks;
	for (size_t i = 0; i < s->n; i++) {
		const struct collect_pod *p = &s->pods[i];

		if (!is_tenant_of_row(p, tenants, weight))
			continue;
		if (!p->blocks && run->errors++ == 0)
			run->error = p->error;
		for (size_t b = 0; p->blocks && b < n_blocks; b++)
			run->units[pod * n_blocks + b] = p->blocks[b].n;
		pod++;
	}
	memset(sum, 0, sizeof(*sum));
	for (size_t b = 0; b < n_blocks; b++) {
		hist_clear(sum);
		for (size_t i = 0; i < s->n; i++)
			if (is_tenant_of_row(&s->pods[i], tenants, weight) && s->pods[i].blocks)
				hist_join(sum, &s->pods[i].blocks[b]);
		run->blocks[b].seconds = s->seconds / (double)n_blocks;
		if (hist_pack(&run->blocks[b].times, sum, err) < 0)
			return -1;
	}
	return 0;
}

static int add_run(struct bench_result *r, const struct collect_step *s, uint32_t tenants,
	double weight, struct error *err)
{
	struct suite_tenants alone;
	const struct suite_tenants *t = tenants_of(s->suite, s->step, tenants, &alone);
	const struct suite_workload *w = &s->suite->workloads[t->workload];
	const char *scenario = collect_scenario(s->suite, s->step);
	struct bench_row *row = find_result_row(r, scenario, w->name, s->step->mode, weight);

	if (!row)
		row = add_result_row(r,
			&(struct bench_row){ .scenario = scenario,
				.workload = w->name,
				.mode_name = bench_mode_names[s->step->mode],
				.mode = s->step->mode,
				.pods = (uint32_t)s->n,
				.replicas = isnan(weight) ? t->replicas : 1,
				.sm_share = s->sm_share,
				.weight = weight,
				.mem_limit_mib = s->mem_limit_mib,
				.offered = w->command || w->flow == SUITE_PIPELINE ||
							   w->flow == SUITE_CLOSED ||
							   w->flow == SUITE_LIST || !w->every_ns
						   ? NAN
						   : 1e9 / (double)w->every_ns,
				.planned_s = NAN,
				.planned_rate = NAN },
			err);
	if (!row)
		return -1;
	if (!ARRAY_EXTEND(&row->runs, row->n, 1, ARRAY_NO_LIMIT))
		return error_nomem(err);
	return make_run(&row->runs[row->n++], s, tenants, weight, err);
}

int collect_add(struct bench_result *r, const struct collect_step *s, struct error *err)
{
	r->head.inconclusive = r->head.inconclusive || (s->doubt && *s->doubt);
	for (size_t i = 0; i < s->n; i++) {
		bool seen = false;

		for (size_t k = 0; k < i; k++)
			seen = seen || is_tenant_of_row(&s->pods[k], s->pods[i].tenants,
					       s->pods[i].weight);
		if (!seen && add_run(r, s, s->pods[i].tenants, s->pods[i].weight, err) < 0)
			return -1;
	}
	return 0;
}
