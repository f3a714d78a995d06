/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A row of slices that run their tasks for ten seconds in the model, and what each slice has received. */
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

/* No invariant of the model failed. The charges are true, except for the time in which the arbiter could not
 * know better. */
void assert_sound(const struct model *m);

/* Runs the rows, after one second for the start, for SECONDS. */
struct bench *bench_run(const struct row *rows, unsigned int n_gpus);
void bench_free(struct bench *b);

/* Percent of GPU 0, of @n samples from @from on. */
double share_of(const uint64_t *samples, unsigned int from, unsigned int n);

/* Slice @i has @percent of GPU 0: over 10 seconds within 1 point, over any one second within @points. The
 * measured time and the charged time both have to. */
void assert_share_within(const struct bench *b, unsigned int i, double percent, double points);
/* Slice @i has @percent of GPU 0, within 2 points. */
void assert_share(const struct bench *b, unsigned int i, double percent);
/*
 * A capped slice receives portions. Over any second its time may differ from the cap by three amounts:
 *
 *	1. what its bucket may hold at the second's begin, with what the bucket gains during the quanta of
 *	   @others
 *	2. the overrun behind it: two kernels
 *	3. one kernel that passed the gate as the gate closed
 */
void assert_capped(const struct bench *b, unsigned int i, double percent, unsigned int others);
