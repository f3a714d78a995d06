/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Samples what a GPU does between two moments, through NVML and GPM. Thread: loop. */
#include "tools/bench/result/result.h"
#include "tools/bench/run/doubt.h"
#include "io/nvml/monitor/monitor.h"

struct bench_sampler;

/* Once for each bench_sampler_end(). Unknown values are NaN. */
typedef void bench_sampler_done_fn(void *arg, const struct bench_gpu *gpu);

/* Starts an NVML monitor for a sampler of the GPU @uuid, which is copied. Takes no sample yet. */
int bench_sampler_new(struct bench_sampler **ret, uv_loop_t *loop,
	const struct gpu_monitor_options *options, const char *uuid,
	struct error *err) MUST_USE;
/*
 * The caller calls it before any process of the benchmark is on the GPU. All processes found then are foreign. The
 * sampler always calls @done.
 */
void bench_sampler_request_first(struct bench_sampler *s, void (*done)(void *arg), void *arg);
/* Begins a window: requests the first sample. If the request fails, the window's values are unknown. */
void bench_sampler_begin(struct bench_sampler *s);
/* Ends the window. The sampler calls @done once its last sample has arrived. */
void bench_sampler_end(struct bench_sampler *s, bench_sampler_done_fn *done, void *arg);
/*
 * How much the GPU was slowed down between the last bench_sampler_begin() and bench_sampler_end(). The other
 * members of *@ret stay.
 */
void bench_sampler_doubt(const struct bench_sampler *s, struct doubt_facts *ret);
/*
 * Processes that NVML reported on the GPU and its MIG devices, at the beginning or at the end, the greater number.
 * .all includes the benchmark's own. .earlier: those found by bench_sampler_request_first(). NaN: NVML does not
 * report them.
 */
struct bench_sampler_processes {
	double all, earlier;
};
struct bench_sampler_processes bench_sampler_processes(const struct bench_sampler *s);
/* Accepts NULL. Pending callbacks are not called any more. Returns NULL. */
struct bench_sampler *bench_sampler_free(struct bench_sampler *s);

/* All values unknown. */
struct bench_gpu bench_sampler_unknown(void);
