/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much of a cluster a policy allocates, measured as its peers' authors do: the pods of a trace come in
 * random order, then pods drawn from it, until they ask for a given multiple of the cluster's GPUs. None
 * leaves, and one that fits nowhere is gone. Thread: any.
 */
#include "tools/plan/place/trace.h"

#define REPLAY_POINTS 7

/* Hundredths of the cluster's GPUs that were asked for when figures are taken; the last ends a replay. */
extern const uint32_t replay_points[REPLAY_POINTS]; /* 50 80 90 95 100 110 120 */

/* Which mix the policy is given. */
enum replay_mix {
	REPLAY_KNOWN,   /* the trace's */
	REPLAY_LEARNED, /* what has come so far, each time that is twice as much */
};

struct replay_setting {
	const char *policy;
	uint64_t seed;
	enum replay_mix mix;
	uint32_t load; /* ends at the first point that is at least this; 0: at the last */
	uint64_t (*now_ns)(void); /* for the times; NULL: none are taken */
	bool (*go_on)(void *arg); /* asked now and then; NULL: always */
	void *arg;
};

struct replay_result {
	double allocated
		[REPLAY_POINTS]; /* of the cluster's GPUs, 0 to 1; NAN where it ended before */
	uint64_t pods, refused;  /* up to where it ended */
	uint64_t decide_ns, decide_max_ns; /* of all decisions, and of the slowest */
	bool stopped;                      /* .go_on said so */
};

/* ERR_INVALID: the trace has no pod that asks for a GPU, or no GPU. */
int place_replay(struct replay_result *ret, const struct place_trace *t,
	const struct replay_setting *s, struct error *err) MUST_USE;
