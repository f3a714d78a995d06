/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Isolation tests of the sharing modes:
 *
 *	memory     whether the memory limit holds.
 *	neighbour  what a noisy neighbor costs.
 *	fault      which other pods end because of a fault.
 *	recovery   how soon other pods can use the GPU share of a killed pod.
 *
 * The runner executes one test in one mode after another. Each adds one check to the result. If a test is
 * inconclusive, its check is not known and has the reason. Thread: loop.
 */
#include "tools/bench/environment/environment.h"
#include "io/nvml/monitor/monitor.h"
#include "tools/bench/suite/suite.h"

enum isolation_test {
	ISOLATION_TEST_MEMORY,
	ISOLATION_TEST_NEIGHBOR,
	ISOLATION_TEST_FAULT,
	ISOLATION_TEST_RECOVERY,
	ISOLATION_TESTS
};
#define ISOLATION_TESTS_ALL ((1U << ISOLATION_TESTS) - 1)

/* Bits of enum isolation_test; "none" is 0. ERR_INVALID. */
int isolation_tests_parse(unsigned int *ret, const struct strv *words,
	struct error *err) MUST_USE;

struct isolation_runner;

struct isolation_runner_options {
	unsigned int tests, modes; /* bits: enum isolation_test, enum bench_mode */
	double seconds;            /* duration of a measurement; clamped to 0.4 to 1.5 */
	const struct environment_options *environment;
	const struct gpu_monitor_options *monitor;
};

struct isolation_runner_ops {
	/* Before each test. @title: the test in words. */
	void (*progress)(void *arg, const char *title, const char *mode);
	/* Once, not from within isolation_runner_start(). The result has all completed checks, also after an
	 * error. */
	void (*ended)(void *arg, const struct error *err);
};

/*
 * @options, @result and @texts must outlive the runner. The runner takes kernel sizes from the result. It measures
 * missing sizes and adds them.
 */
int isolation_runner_start(struct isolation_runner **ret, uv_loop_t *loop,
	const struct isolation_runner_options *options, struct bench_result *result,
	struct strv *texts, const struct isolation_runner_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* The runner ends its trial in order, and still calls .ended. */
void isolation_runner_stop(struct isolation_runner *r);

/* Only after .ended. Handles close as the loop runs on. Returns NULL. */
struct isolation_runner *isolation_runner_free(struct isolation_runner *r);
