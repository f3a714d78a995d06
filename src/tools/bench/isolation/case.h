/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to bench/isolation: what each isolation test runs, and how it evaluates the facts. Thread: loop. */
#include "tools/bench/isolation/isolation.h"
#include "tools/bench/isolation/verdict.h"
#include "tools/bench/isolation/trial.h"
#include "tools/bench/run/doubt.h"

#define CASE_BLOCKS_MAX 512
#define CASE_TRIALS_MAX 2

/* Measurements of one pod alone; other tests compare with them. */
struct case_alone {
	double rate;                /* units per second of "burn"; NaN: not measured */
	double p99_ns;              /* of "latency"; NaN: not measured */
	char doubt[DOUBT_TEXT_MAX]; /* what disturbed these measurements; "" */
};

/* One test in one mode. */
struct isolation_case {
	const struct isolation_test_kind *kind;
	enum bench_mode mode;
	const struct environment_options *environment;
	uint32_t ms; /* approximate duration of a measurement */
	struct case_alone *alone;
	/* Facts from the trials. Each test fills one of these. */
	double figures[CASE_TRIALS_MAX];
	struct verdict_memory memory;
	struct verdict_fault fault;
	struct verdict_recovery recovery;
	uint32_t units[CASE_BLOCKS_MAX];
	char texts[3][ERROR_MSG_MAX];
	char unknown[ERROR_MSG_MAX];          /* why the test is inconclusive; "" */
	char doubt[DOUBT_TEXT_MAX];           /* what disturbed the trials; "" */
	char other_processes[DOUBT_TEXT_MAX]; /* the part of .doubt about other processes; "" */
};

struct isolation_test_kind {
	const char *name;  /* in results and options; NULL: only measures for other tests */
	const char *title; /* for progress messages */
	bool breaks;       /* the test can end an MPS server */
	bool (*is_for)(enum bench_mode m);
	size_t (*trials)(enum bench_mode m);
	void (*plan)(const struct isolation_case *c, size_t trial, struct trial_plan *ret);
	/* @f is valid only during the call. */
	void (*collect)(struct isolation_case *c, size_t trial, const struct trial_plan *plan,
		const struct trial_facts *f);
	void (*set_verdict)(const struct isolation_case *c, struct verdict *ret);
	/* Whether the verdict depends on times and rates, which a busy host or a slow GPU distorts. NULL:
	 * never. */
	bool (*timed)(const struct isolation_case *c);
};

extern const struct isolation_test_kind isolation_test_memory, isolation_test_neighbor,
	isolation_test_fault, isolation_test_recovery;
/* Measurements of one pod alone. */
extern const struct isolation_test_kind isolation_alone_burn, isolation_alone_latency;

/* Workloads of the tests: those of the suite, and others. */
extern const struct suite_workload isolation_load_burn, isolation_load_small_hog,
	isolation_load_copy_hog, isolation_load_short, isolation_load_nothing,
	isolation_load_wrong;

/* Most tests run in each mode that divides a GPU between two equal pods, and run once. */
bool case_is_for_sharing_mode(enum bench_mode m);
size_t case_once(enum bench_mode m);

/* Plans two pods. In modes with limits, each pod has half of the GPU. */
void case_halves(const struct isolation_case *c, struct trial_plan *ret);
/* Share of the rate of one pod alone to which a pod with a neighbor is entitled. BENCH_MIG: 1, as both run
 * on a MIG device. */
double case_share(enum bench_mode m);
/* The same for a pod whose neighbor has ended. */
double case_share_alone(enum bench_mode m);

/* Units per second of a pod that counts in blocks. NaN: the pod did not count. */
double case_rate(const struct trial_pod *pod, const struct isolation_pod_facts *f);
/* p99 in ns of a pod that records times. NaN: the pod recorded none. */
double case_p99(const struct isolation_pod_facts *f);
/* Copies the blocks into .units. @ret borrows .units. */
void case_blocks(struct isolation_case *c, const struct trial_pod *pod,
	const struct isolation_pod_facts *f, struct verdict_blocks *ret);

/* False: a pod of the test hung or could not do its work, and .unknown has the reason. @who: the pod in
 * words. */
bool case_expect(struct isolation_case *c, const struct isolation_pod_facts *f,
	const char *who);
/* The same, but an end with an error is a valid outcome. case_why() gives the error, "" if none. */
bool case_expect_ready(struct isolation_case *c, const struct isolation_pod_facts *f,
	const char *who);
const char *case_why(char to[static ERROR_MSG_MAX], const struct isolation_pod_facts *f);
