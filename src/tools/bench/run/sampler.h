/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a GPU does between two moments, by NVML and GPM. Thread: loop. */
#include "tools/bench/result/result.h"
#include "tools/bench/run/doubt.h"
#include "io/nvml/monitor/monitor.h"

struct bench_sampler;

/* Once for each bench_sampler_end(): what is not known is NaN. */
typedef void bench_sampler_done_fn(void *arg, const struct bench_gpu *gpu);

int bench_sampler_new(struct bench_sampler **ret, uv_loop_t *loop,
	const struct gpu_monitor_options *options, const char *uuid,
	struct error *err) MUST_USE;
/* Before anything of ours is on the GPU: the processes that are there now are others. @done always comes. */
void bench_sampler_request_first(struct bench_sampler *s, void (*done)(void *arg), void *arg);
void bench_sampler_begin(struct bench_sampler *s);
void bench_sampler_end(struct bench_sampler *s, bench_sampler_done_fn *done, void *arg);
/* How the GPU was kept from its speed between the last bench_sampler_begin() and bench_sampler_end(); the rest of *ret stays. */
void bench_sampler_doubt(const struct bench_sampler *s, struct doubt_facts *ret);
/*
 * Processes that NVML saw on the GPU, its MIG devices included, at the beginning or at the end, where there were more:
 * all, ours among them, and those that bench_sampler_request_first() had seen. NaN: it does not say.
 */
struct bench_sampler_processes {
	double all, earlier;
};
struct bench_sampler_processes bench_sampler_processes(const struct bench_sampler *s);
struct bench_sampler *bench_sampler_free(struct bench_sampler *s);

/* Nothing is known. */
struct bench_gpu bench_sampler_unknown(void);
