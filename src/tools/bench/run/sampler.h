/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a GPU does between two moments, by NVML and GPM. Thread: loop. */
#include "tools/bench/result/result.h"
#include "tools/bench/run/doubt.h"
#include "io/nvml/monitor/monitor.h"

struct sampler;

/* Once for each sampler_end(): what is not known is NaN. */
typedef void sampler_done(void *arg, const struct bench_gpu *gpu);

int sampler_new(struct sampler **ret, uv_loop_t *loop,
	const struct gpu_monitor_options *options, const char *uuid,
	struct error *err) MUST_USE;
/* Before anything of ours is on the GPU: the processes that are there now are others. @done always comes. */
void sampler_look(struct sampler *s, void (*done)(void *arg), void *arg);
void sampler_begin(struct sampler *s);
void sampler_end(struct sampler *s, sampler_done *done, void *arg);
/* How the GPU was kept from its speed between the last sampler_begin() and sampler_end(); the rest of *ret stays. */
void sampler_doubt(const struct sampler *s, struct doubt_facts *ret);
/*
 * Processes that NVML saw on the GPU, its MIG devices included, at the beginning or at the end, where there were more:
 * all, ours among them, and those that sampler_look() had seen. NaN: it does not say.
 */
struct sampler_processes {
	double all, earlier;
};
struct sampler_processes sampler_processes(const struct sampler *s);
struct sampler *sampler_free(struct sampler *s);

/* Nothing is known. */
struct bench_gpu sampler_unknown(void);
