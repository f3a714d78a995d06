/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/run/args.h"

#include <stdio.h>
#include <unistd.h>

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
