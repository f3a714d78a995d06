/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private to bench/isolation: some pods in a place, once. All are started, begin together when all are ready, answer, and
 * end; then a late one may be started, again and again until it gets on or nobody waits any more.
 * Thread: loop.
 */
#include "tools/bench/isolation/pod.h"
#include "tools/bench/environment/environment.h"
#include "tools/bench/run/args.h"
#include "tools/bench/run/host.h"

#define TRIAL_PODS_MAX   3
#define TRIAL_PLACES_MAX 4
#define TRIAL_WORDS_MAX  8
#define TRIAL_LATE_MS    5000 /* in which a late one is tried again */

struct trial_pod {
	const struct suite_workload *workload;
	uint32_t place;                     /* position */
	const char *words[TRIAL_WORDS_MAX]; /* more options; NULL behind the last one */
	uint32_t begin_ms, from_ms, to_ms;  /* from the beginning of all */
	uint32_t block_ms;     /* it counts units in blocks of that; 0: their times */
	uint32_t hold, die_ms; /* percent of its memory, when it kills itself; 0: not */
	bool calibrates;
	bool after; /* begins when the one before it in the list has answered */
	bool stays; /* until all have answered */
	bool late;  /* starts when all others have ended; the last one of the list */
};

struct trial_plan {
	enum bench_mode mode;
	size_t n_places, n;
	struct environment_pod places[TRIAL_PLACES_MAX];
	struct trial_pod pods[TRIAL_PODS_MAX];
};

struct trial_facts {
	uint64_t begin_ns;
	uint64_t late_ns;         /* that it took until a late pod got on */
	double waited;            /* host_watch_waited() of the trial; NaN */
	struct error environment; /* ERR_NONE: there was one */
	struct isolation_pod_facts pods[TRIAL_PODS_MAX]; /* .answer is borrowed */
};

struct trial;

struct trial_ops {
	/* The time that is judged: all @pods have the GPU and begin; a moment before the first of the plan ends. */
	void (*began)(void *arg, size_t pods);
	void (*over)(void *arg); /* once after .began */
	/* Once, unless it is freed before. Not from within trial_start(). */
	void (*done)(void *arg, const struct trial_facts *facts);
};

/* @sizes: of the pods' workloads, in their order. All but the place is copied. */
int trial_start(struct trial **ret, uv_loop_t *loop, struct environment *environment,
	const char *load, const struct trial_plan *plan, const struct args_size *sizes,
	const struct trial_ops *ops, void *arg, struct error *err) MUST_USE;

/* It is not wanted any more, and ends soon. */
void trial_stop(struct trial *t);

/* Handles close as the loop runs on. Returns NULL. */
struct trial *trial_free(struct trial *t);
