/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs a suite: one step after the other, each with its place, its pods and what the GPU did meanwhile. What has been
 * measured when it is stopped or fails is in the result.
 * Thread: loop.
 */
#include "tools/bench/environment/environment.h"
#include "tools/bench/run/sampler.h"
#include "tools/bench/suite/suite.h"

struct bench_runner;

struct bench_runner_options {
	const struct suite *suite;
	const struct environment_options *environment;
	const struct gpu_monitor_options *monitor;
	const struct bench_result
		*like; /* its kernels' sizes are taken; NULL: all are measured */
	bool observe; /* pods are looked at (tools/bench/environment/environment.h), but in BENCH_EXCLUSIVE */
};

struct bench_runner_ops {
	/* Before each step; .step NULL: something is calibrated. */
	void (*progress)(void *arg, size_t done, size_t all, const struct suite_step *step);
	/* When units begin to count, and when they do no more; .whole: all pods are there. NULL: nobody looks. */
	void (*window)(void *arg, const struct suite_step *step,
		const struct environment *environment, bool begins, bool whole);
	/* Once. What was measured is in the result, also with an error. Not from within bench_runner_start(). */
	void (*ended)(void *arg, const struct error *err);
};

/* @options, @result and @texts must outlive it; texts of the result are kept in @texts. */
int bench_runner_start(struct bench_runner **ret, uv_loop_t *loop,
	const struct bench_runner_options *options, struct bench_result *result,
	struct strv *texts, const struct bench_runner_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* Ends after what it has to end; .ended is still called. */
void bench_runner_stop(struct bench_runner *r);

/* After .ended. Handles close as the loop runs on. Returns NULL. */
struct bench_runner *bench_runner_free(struct bench_runner *r);
