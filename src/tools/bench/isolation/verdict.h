/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Verdicts of the isolation tests from measured facts. A fact that is not known is NaN, and makes the verdict not
 * known. Pure. Thread: any.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERDICT_TEXT_MAX 1000 /* including the disturbance */

#define VERDICT_MEMORY_MIN       95.0 /* percent of its limit that a pod must get, with its context */
#define VERDICT_MEMORY_MAX       100.5 /* percent; the driver allocates memory in pieces */
#define VERDICT_LOSS_MAX         10.0  /* percent of its share that a neighbor may cost */
#define VERDICT_LATENCY_MAX_MS   2.0   /* increase of p99 that a neighbor may cause */
#define VERDICT_RECOVERED_SHARE  0.9   /* of its share; from this rate on a pod is back */
#define VERDICT_RECOVERED_MAX_MS 1000.0

struct verdict {
	bool passed, known;
	double value; /* NaN: none */
	const char *unit;
	char text[VERDICT_TEXT_MAX];
};

/* Makes the verdict not known, with a reason. */
void verdict_set_unknown(struct verdict *ret, const char *fmt, ...) PRINTF(2, 3);

/* @doubt disturbed the test. The text still has the measured figures, but the verdict is not known. */
void verdict_add_doubt(struct verdict *v, const char *doubt);

/* One pod allocated all memory that it could, then its neighbor did. Bytes. */
struct verdict_memory {
	double limit;           /* 0: the mode has no limit */
	double found, obtained; /* free at start, with a context; allocated after that */
	double gpu;
	int refusal; /* error code of CUDA; 0: no refusal */
	double refusal_ns;
	double neighbor_limit, neighbor_found, neighbor_taken;
};
/*
 * Value: percent of its limit that the pod obtained, or of the GPU without a limit. Passed: the value is
 * between VERDICT_MEMORY_MIN and VERDICT_MEMORY_MAX, CUDA refused more with "out of memory", and the neighbor
 * obtained at least VERDICT_MEMORY_MIN percent of its own limit.
 */
void verdict_memory(struct verdict *ret, const struct verdict_memory *m);

/* Units per second alone on the GPU, and beside each neighbor. */
struct verdict_loss {
	double alone, share; /* of the rate alone, 0 to 1 */
	size_t n;
	const double *rates;
	const char *const *neighbors; /* in words */
};
/*
 * Value: percent of .alone * .share that the pod loses beside the worst neighbor. Passed: at most VERDICT_LOSS_MAX. Not
 * known if a figure is missing.
 */
void verdict_loss(struct verdict *ret, const struct verdict_loss *l);

/* p99 of a pod's answers in ns: alone, and beside each neighbor. */
struct verdict_latency {
	double alone;
	size_t n;
	const double *p99s;
	const char *const *neighbors;
};
/*
 * Value: the largest increase of p99, in ms. Passed: at most VERDICT_LATENCY_MAX_MS. Not known if a figure is
 * missing.
 */
void verdict_latency(struct verdict *ret, const struct verdict_latency *l);

/* Units of a pod in blocks of equal time. */
struct verdict_blocks {
	size_t n;
	const uint32_t *units;
	double block_ms;
};

/* A pod made an illegal access beside a neighbor. */
struct verdict_fault {
	const char *fault;    /* error of the pod at fault; "": no effect of the access */
	const char *neighbor; /* error of the neighbor; "": none */
	struct verdict_blocks blocks;
	double at_ms;     /* time of the access, since the first block */
	const char *next; /* why no new pod could start after all had ended; "": a pod could */
	double next_ms;   /* time until a new pod ran */
};
/*
 * Value: the neighbor's longest pause after the access, in ms; NaN if the neighbor ended. Passed: the neighbor
 * continued and a new pod could start. Not known if the access had no effect.
 */
void verdict_fault(struct verdict *ret, const struct verdict_fault *f);

/* A pod was killed beside a neighbor. */
struct verdict_recovery {
	const char *neighbor;
	struct verdict_blocks blocks;
	double at_ms;
	double whole;     /* units per second that the neighbor reaches alone */
	const char *next; /* why no new pod could start in its place; "": a pod could */
	double next_ms;
	double found, next_found; /* bytes free for the killed pod, for the next */
};
/*
 * Value: verdict_recovered_ms() for VERDICT_RECOVERED_SHARE of .whole; NaN if the neighbor ended. Passed: at
 * most VERDICT_RECOVERED_MAX_MS, a new pod could start, and the new pod found about as much free memory as the
 * killed pod.
 */
void verdict_recovery(struct verdict *ret, const struct verdict_recovery *r);

/*
 * Time in ms from @at_ms to the first later block that begins a window of 50 ms with at least @units_per_s. NaN:
 * no such block.
 */
double verdict_recovered_ms(const struct verdict_blocks *b, double at_ms, double units_per_s);
