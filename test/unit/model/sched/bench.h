/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A row of slices that do their tasks for ten seconds in the model, and what each of them has had. */
#include "unit/model/sched/model.h"

#define PERCENT   100.0
#define SAMPLE    (10 * MS)
#define SECONDS   10
#define SAMPLES   (SECONDS * 100)
#define ROWS_MAX  8
#define KERNEL_NS (378 * US)

struct row {
	struct sched_share_config share; /* .weight 0: the end */
	unsigned int gpus;               /* a bit each */
	struct model_task task;
};

struct bench {
	struct model *m;
	struct model_slice *slices[ROWS_MAX];
	struct model_proc *procs[ROWS_MAX][MODEL_GPUS_MAX];
	unsigned int n;
	uint64_t used[ROWS_MAX][SAMPLES + 1], charged[ROWS_MAX][SAMPLES + 1];
	double work; /* kernels done on GPU 0, of its time */
};

#define SATURATE(kernel)                                                   \
	{                                                                  \
		.kind = MODEL_SATURATE, .kernel_ns = (kernel), .ahead = 16 \
	}
#define LOOP(kernel, think)                                                    \
	{                                                                      \
		.kind = MODEL_LOOP, .kernel_ns = (kernel), .think_ns = (think) \
	}
#define GROUP(kernel)                                                  \
	{                                                              \
		.kind = MODEL_GROUP, .kernel_ns = (kernel), .ahead = 8 \
	}
#define BURST(n, kernel, period)                                                               \
	{                                                                                      \
		.kind = MODEL_BURST, .kernel_ns = (kernel), .think_ns = (period), .burst = (n) \
	}

/* Nothing that must hold at each moment failed, and what was charged is the truth but for the time in which
 * it could not be known. */
void assert_sound(const struct model *m);

/* Runs the rows, after one second for the start, for SECONDS. */
struct bench *bench_run(const struct row *rows, unsigned int n_gpus);
void bench_free(struct bench *b);

/* Percent of GPU 0, of @n samples from @from on. */
double share_of(const uint64_t *samples, unsigned int from, unsigned int n);

/* So much over 10 seconds, within 1 point, and over any one, within @points; in truth and as charged. */
void assert_share_within(const struct bench *b, unsigned int i, double percent, double points);
/* Within 2 points. */
void assert_share(const struct bench *b, unsigned int i, double percent);
/*
 * One that is capped has portions: over any second it is off by what its bucket may hold when it begins,
 * with what that gains during the turns of @others, and by the tail behind it: two kernels, and one that
 * passed the gate as it closed.
 */
void assert_capped(const struct bench *b, unsigned int i, double percent, unsigned int others);
