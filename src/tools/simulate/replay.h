/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much of a cluster a policy allocates, measured as in the papers of such policies. The pods of a trace arrive
 * in random order. After them come pods drawn from the trace, until the requests reach a given multiple of the
 * cluster's GPUs. No pod leaves. A pod that fits nowhere is dropped. Thread: any.
 */
#include "tools/simulate/trace/trace.h"

#define REPLAY_POINTS 7

/* Requested GPU, in hundredths of the cluster's GPUs, at which figures are taken; the last one ends a
 * replay. */
extern const uint32_t replay_points[REPLAY_POINTS]; /* 50 80 90 95 100 110 120 */

/* The mix that the policy gets. */
enum replay_mix {
	REPLAY_KNOWN,   /* the mix of the trace */
	REPLAY_LEARNED, /* the mix of the pods so far, each time their number has doubled */
};

struct replay_setting {
	const char *policy;
	uint64_t seed;
	enum replay_mix mix;
	uint32_t load; /* ends at the first point that is at least this; 0: at the last */
	uint64_t (*now_ns)(void); /* for the times; NULL: no times */
	bool (*go_on)(void *arg); /* called from time to time; NULL: always true */
	void *arg;
};

struct replay_result {
	/* Of the cluster's GPUs, 0 to 1; NAN at points after the end. */
	double allocated[REPLAY_POINTS];
	uint64_t pods, refused;            /* until the end */
	uint64_t decide_ns, decide_max_ns; /* of all decisions, and of the slowest */
	bool stopped;                      /* .go_on returned false */
};

/* ERR_INVALID: the trace has no pod that requests a GPU, or no GPU. */
int place_replay(struct replay_result *ret, const struct place_trace *t,
	const struct replay_setting *s, struct error *err) MUST_USE;
