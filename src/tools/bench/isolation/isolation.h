/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Isolation tests of ways of sharing: does a memory limit hold, what does a bad neighbour cost, who else ends by a
 * fault, how soon is a killed pod's part of the GPU somebody else's. One test in one mode after the other; each adds
 * one check to a result. What could not be found out is a check that is not known, and says why.
 * Thread: loop.
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
	double seconds; /* that something is measured for; 1.5 at most, 0.4 at least */
	const struct environment_options *environment;
	const struct gpu_monitor_options *monitor;
};

struct isolation_runner_ops {
	/* Before each test; @title in words. */
	void (*progress)(void *arg, const char *title, const char *mode);
	/* Once. What was found is in the result, also with an error. Not from within isolation_runner_start(). */
	void (*ended)(void *arg, const struct error *err);
};

/*
 * @options, @result and @texts must outlive it. Sizes of kernels are taken from the result, those that are missing
 * measured and added.
 */
int isolation_runner_start(struct isolation_runner **ret, uv_loop_t *loop,
	const struct isolation_runner_options *options, struct bench_result *result,
	struct strv *texts, const struct isolation_runner_ops *ops, void *arg,
	struct error *err) MUST_USE;

/* Ends after what it has to end; .ended is still called. */
void isolation_runner_stop(struct isolation_runner *r);

/* After .ended. Handles close as the loop runs on. Returns NULL. */
struct isolation_runner *isolation_runner_free(struct isolation_runner *r);
