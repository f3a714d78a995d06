/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private to bench/isolation: one run of some pods in a prepared environment.
 *
 *	1. The trial starts all pods but the late pod.
 *	2. When all pods are ready, they begin together.
 *	3. Each pod answers and ends.
 *	4. When all have ended, the trial starts the late pod, if there is one. The trial retries until
 *	   the pod answers, hangs, or TRIAL_LATE_MS have passed.
 *
 * Thread: loop.
 */
#include "tools/bench/isolation/pod.h"
#include "tools/bench/environment/environment.h"
#include "tools/bench/run/args.h"
#include "tools/bench/run/host.h"

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
