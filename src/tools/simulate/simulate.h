/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How placement policies compare on one trace. Each policy replays the trace once with each seed, so in the same orders
 * of pods as the other policies. Beside the policies stands a bound: how few GPUs could hold the fractions of GPUs that
 * the pods request, if they were on no nodes.
 *
 * Pure: the caller passes the clock. Thread: any.
 */
#include "tools/simulate/replay.h"

struct simulate_setting {
	const struct strv *policies; /* names; empty: all policies */
	/* .seeds runs of each policy, with .first_seed and the next ones. */
	uint64_t seeds, first_seed;
	enum replay_mix mix;      /* the mix that the policies get */
	uint64_t (*now_ns)(void); /* for the times of decisions; NULL: no times */
	/* Called from time to time with the numbers of finished and of all runs. False ends the comparison. NULL:
	 * always true. */
	bool (*go_on)(void *arg, uint64_t done, uint64_t runs);
	void *arg;
};

/* The finished runs of one policy. Shares are in percent of the cluster's GPUs. */
struct simulate_policy {
	const char *name; /* borrowed from the setting, or static */
	uint64_t runs;
	/* Of the allocated shares of all runs. */
	double sum[REPLAY_POINTS], squares[REPLAY_POINTS];
	double least, most; /* allocated share when the pods have requested all GPUs */
	uint64_t decisions, decide_ns, decide_max_ns;
};

/* The mean of all runs, and the standard deviation of this sample: percent. The policy has a run. */
double simulate_get_mean(const struct simulate_policy *p, uint32_t point);
double simulate_get_deviation(const struct simulate_policy *p, uint32_t point);

/* The pods that request a fraction of a GPU, and the GPUs that hold all of them. */
struct simulate_packing {
	uint64_t pods;
	double gpus; /* sum of the fractions */
	/* No packing has fewer GPUs. .bound: by the dual of the cutting-stock problem; .l2: by Martello and Toth. */
	double bound;
	uint64_t l2;
	uint64_t first_fit; /* first-fit decreasing */
	uint64_t packed;    /* the best packing found */
};

struct simulate_result {
	struct simulate_policy *policies; /* in the setting's order */
	size_t n_policies;
	/* Finished runs, all runs. .done is less if .go_on ended the comparison. */
	uint64_t done, runs;
	struct simulate_packing packing;
};

/* ERR_NOT_FOUND: no such policy. ERR_INVALID: the trace has no GPU, or no pod that requests one. *ret is empty then. */
int simulate_compare_policies(struct simulate_result *ret, const struct place_trace *t,
	const struct simulate_setting *s, struct error *err) MUST_USE;

void simulate_result_fini(struct simulate_result *r);
