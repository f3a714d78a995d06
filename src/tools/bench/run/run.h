/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs a suite step by step. Each step has its environment, its pods and the GPU's figures. After a stop or a
 * failure, the result has all completed steps. Thread: loop.
 */
#include "tools/bench/environment/environment.h"
#include "tools/bench/run/sampler.h"
#include "tools/bench/suite/suite.h"

struct bench_runner;

struct bench_runner_options {
	const struct suite *suite;
	const struct environment_options *environment;
	const struct gpu_monitor_options *monitor;
	/* Source of kernel sizes. NULL: the runner measures all sizes. */
	const struct bench_result *like;
	bool observe; /* pods are observed (tools/bench/environment/environment.h), except in BENCH_EXCLUSIVE */
};

struct bench_runner_ops {
	/* Before each step. @step NULL: calibration. */
	void (*progress)(void *arg, size_t done, size_t all, const struct suite_step *step);
	/* When the counting window begins and ends. @whole: no pod has ended yet. The member can be NULL. */
	void (*window)(void *arg, const struct suite_step *step,
		const struct environment *environment, bool begins, bool whole);
	/* Once, not from within bench_runner_start(). The result has all completed steps, also after an
	 * error. */
	void (*ended)(void *arg, const struct error *err);
};

/* @options, @result and @texts must outlive the runner. @texts owns the texts of the result. */
int bench_runner_start(struct bench_runner **ret, uv_loop_t *loop,
	const struct bench_runner_options *options, struct bench_result *result,
	struct strv *texts, const struct bench_runner_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* The runner ends its step in order, and still calls .ended. */
void bench_runner_stop(struct bench_runner *r);

/* Only after .ended. Handles close as the loop runs on. Returns NULL. */
struct bench_runner *bench_runner_free(struct bench_runner *r);
