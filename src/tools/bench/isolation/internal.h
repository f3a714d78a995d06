/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private to bench/isolation: trials, which run pods (trial.c), and the tests, each with what it runs and how it
 * evaluates the facts (tests.c). Thread: loop.
 */
#include "tools/bench/environment/environment.h"
#include "tools/bench/isolation/isolation.h"
#include "tools/bench/isolation/verdict.h"
#include "tools/bench/run/doubt.h"
#include "tools/bench/run/host.h"
#include "tools/bench/run/load-io.h"

#include <jansson.h>
#include <stdint.h>
#include <uv.h>

/* --- trials --- */

/*
 * A trial is one run of some pods in a prepared environment:
 *
 *	1. The trial starts all pods but the late pod.
 *	2. When all pods are ready, they begin together.
 *	3. Each pod answers and ends.
 *	4. When all have ended, the trial starts the late pod, if there is one. The trial retries until
 *	   the pod answers, hangs, or TRIAL_LATE_MS have passed.
 */

#define TRIAL_PODS_MAX   3
#define TRIAL_PLACES_MAX 4
#define TRIAL_WORDS_MAX  8
#define TRIAL_LATE_MS    5000 /* how long the trial retries a late pod */

struct trial_pod {
	const struct suite_workload *workload;
	uint32_t place;                     /* index in .places */
	const char *words[TRIAL_WORDS_MAX]; /* more options, then NULL */
	uint32_t begin_ms, from_ms, to_ms;  /* since the common begin */
	uint32_t block_ms;     /* counts units in blocks of this length; 0: records times */
	uint32_t hold, die_ms; /* percent of its memory; when it kills itself, ms; 0: not */
	bool calibrates;
	bool after; /* begins when its predecessor in the list has answered */
	bool stays; /* stays until all have answered */
	bool late;  /* starts when all others have ended; the last of the list */
};

struct trial_plan {
	enum bench_mode mode;
	size_t n_places, n;
	struct environment_pod places[TRIAL_PLACES_MAX];
	struct trial_pod pods[TRIAL_PODS_MAX];
};

struct isolation_pod_facts {
	bool ready;            /* the pod has reported ready */
	bool hung;             /* ended because it did not answer */
	double free, reserved; /* bytes: free at start, and allocated at start */
	double total;          /* bytes that the driver shows to the pod */
	json_t *answer;        /* counted or allocated; NULL: no answer */
	uint64_t dies_ns;      /* when the pod killed itself; 0: it did not */
	struct error error;    /* ERR_NONE: the pod did its work */
};

struct trial_facts {
	uint64_t begin_ns;
	uint64_t late_ns;         /* time until a late pod had answered and ended */
	double waited;            /* host_watch_waited() of the trial; NaN: unknown */
	struct error environment; /* error of the environment or of a start; ERR_NONE: none */
	struct isolation_pod_facts pods[TRIAL_PODS_MAX]; /* .answer is borrowed */
};

struct trial;

struct trial_ops {
	/* The measured window begins: all @pods have the GPU and start their work. The window ends shortly
	 * before pod 0 of the plan. */
	void (*began)(void *arg, size_t pods);
	void (*over)(void *arg); /* end of the window; once after .began */
	/* Once, unless the trial is freed before. Not from within trial_start(). */
	void (*done)(void *arg, const struct trial_facts *facts);
};

/* @sizes: of the pods' workloads, in the same order. The trial copies all but @environment and @load. */
int trial_start(struct trial **ret, uv_loop_t *loop, struct environment *environment,
	const char *load, const struct trial_plan *plan, const struct args_size *sizes,
	const struct trial_ops *ops, void *arg, struct error *err) MUST_USE;

/* The trial is no longer needed, and ends soon. */
void trial_stop(struct trial *t);

/* Handles close as the loop runs on. Returns NULL. */
struct trial *trial_free(struct trial *t);

/* --- tests --- */

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

/* The tests of enum isolation_test, in its order. */
extern const struct isolation_test_kind isolation_test_memory, isolation_test_neighbor,
	isolation_test_fault, isolation_test_recovery;
/* Measurements of one pod alone. */
extern const struct isolation_test_kind isolation_alone_burn, isolation_alone_latency;

/* Workloads whose kernel sizes the tests need. */
extern const struct suite_workload isolation_load_burn, isolation_load_small_hog,
	isolation_load_short;

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
/* As case_expect(), but a pod that was ready and then ended with an error is no failure of the test. */
bool case_expect_ready(struct isolation_case *c, const struct isolation_pod_facts *f,
	const char *who);
