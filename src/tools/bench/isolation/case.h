/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to bench/isolation: what each isolation test runs, and what it makes of that. Thread: loop. */
#include "tools/bench/isolation/isolation.h"
#include "tools/bench/isolation/verdict.h"
#include "tools/bench/isolation/trial.h"
#include "tools/bench/run/doubt.h"

#define CASE_BLOCKS_MAX 512
#define CASE_TRIALS_MAX 2

/* What is measured alone, for the others. */
struct case_alone {
	double rate;                /* units per second of "burn"; NaN: not measured */
	double p99_ns;              /* of "latency" */
	char doubt[DOUBT_TEXT_MAX]; /* what disturbed these; "" */
};

/* One test in one mode. */
struct isolation_case {
	const struct isolation_test_kind *kind;
	enum bench_mode mode;
	const struct environment_options *environment;
	uint32_t ms; /* that something is measured for, roughly */
	struct case_alone *alone;
	/* What its trials told; the one or the other. */
	double figures[CASE_TRIALS_MAX];
	struct verdict_memory memory;
	struct verdict_fault fault;
	struct verdict_recovery recovery;
	uint32_t units[CASE_BLOCKS_MAX];
	char texts[3][ERROR_MSG_MAX];
	char unknown[ERROR_MSG_MAX];          /* why it could not be found out; "" */
	char doubt[DOUBT_TEXT_MAX];           /* what disturbed its trials; "" */
	char other_processes[DOUBT_TEXT_MAX]; /* of that, other processes; "" */
};

struct isolation_test_kind {
	const char *name;  /* of a result and an option; NULL: only measures for others */
	const char *title; /* for people who wait */
	bool breaks;       /* what it does may end an MPS server */
	bool (*is_for)(enum bench_mode m);
	size_t (*trials)(enum bench_mode m);
	void (*plan)(const struct isolation_case *c, size_t trial, struct trial_plan *ret);
	/* What it finds in @f is its own until the next one. */
	void (*collect)(struct isolation_case *c, size_t trial, const struct trial_plan *plan,
		const struct trial_facts *f);
	void (*set_verdict)(const struct isolation_case *c, struct verdict *ret);
	/* Whether the verdict is by times and rates, which a busy host or a slow GPU spoils. NULL: never. */
	bool (*timed)(const struct isolation_case *c);
};

extern const struct isolation_test_kind isolation_test_memory, isolation_test_neighbor,
	isolation_test_fault, isolation_test_recovery;
/* What the one pod does alone. */
extern const struct isolation_test_kind isolation_alone_burn, isolation_alone_latency;

/* Workloads of tests: the suite's, and others. */
extern const struct suite_workload isolation_load_burn, isolation_load_small_hog,
	isolation_load_copy_hog, isolation_load_short, isolation_load_nothing,
	isolation_load_wrong;

/* What most tests are: in each mode that is a way to part a GPU among two like pods, and once. */
bool case_is_for_sharing_mode(enum bench_mode m);
size_t case_once(enum bench_mode m);

/* Two pods, half the GPU each, where the mode gives parts of it. */
void case_halves(const struct isolation_case *c, struct trial_plan *ret);
/* Of the GPU, that a pod beside another one is entitled to. */
double case_share(enum bench_mode m);
/* The same of one that is alone for the moment. */
double case_share_alone(enum bench_mode m);

/* Of a pod that counts blocks. NaN: it did not. */
double case_rate(const struct trial_pod *pod, const struct isolation_pod_facts *f);
/* Of a pod that counts times, ns. NaN: it did not. */
double case_p99(const struct isolation_pod_facts *f);
/* Into .units; @ret borrows them. */
void case_blocks(struct isolation_case *c, const struct trial_pod *pod,
	const struct isolation_pod_facts *f, struct verdict_blocks *ret);

/* False: a pod of the test hung or could not do what it was for, and .unknown says so. @who is in words. */
bool case_expect(struct isolation_case *c, const struct isolation_pod_facts *f,
	const char *who);
/* The same, but that it ended with an error is an outcome: case_why() says which, "" is none. */
bool case_expect_ready(struct isolation_case *c, const struct isolation_pod_facts *f,
	const char *who);
const char *case_why(char to[static ERROR_MSG_MAX], const struct isolation_pod_facts *f);
