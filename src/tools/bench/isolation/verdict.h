/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether ways of sharing isolate, by what was measured. What is not known is NaN, and makes a verdict that is not
 * known. Pure. Thread: any.
 */
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERDICT_TEXT_MAX 1000 /* with what disturbed it */

#define VERDICT_MEMORY_MIN 95.0  /* percent of its limit that a pod can use, with its context */
#define VERDICT_MEMORY_MAX 100.5 /* a GPU gives out memory in pieces */
#define VERDICT_LOSS_MAX   10.0  /* percent of its share that a neighbour may cost */
#define VERDICT_LATENCY_MAX_MS \
	2.0 /* by which a neighbour may make the slowest answers slower */
#define VERDICT_RECOVERED_SHARE  0.9 /* of its share: a pod is back */
#define VERDICT_RECOVERED_MAX_MS 1000.0

struct verdict {
	bool passed, known;
	double value; /* NaN: there is none */
	const char *unit;
	char text[VERDICT_TEXT_MAX];
};

/* It could not be found out, for that reason. */
void verdict_set_unknown(struct verdict *ret, const char *fmt, ...) PRINTF(2, 3);

/* It was disturbed by @doubt: what was measured all the same is reported, and decides no verdict. */
void verdict_add_doubt(struct verdict *v, const char *doubt);

/* One pod took all that it got, then its neighbour did. Bytes. */
struct verdict_memory {
	double limit;           /* 0: the mode has none */
	double found, obtained; /* free at first, with a context; got after that */
	double gpu;
	int refusal; /* CUDA's error; 0: nothing was refused */
	double refusal_ns;
	double neighbor_limit, neighbor_found, neighbor_taken;
};
void verdict_memory(struct verdict *ret, const struct verdict_memory *m);

/* Units per second alone on the GPU, and beside each of the neighbours. */
struct verdict_loss {
	double alone, share; /* of the GPU, 0 to 1 */
	size_t n;
	const double *rates;
	const char *const *neighbors; /* in words */
};
void verdict_loss(struct verdict *ret, const struct verdict_loss *l);

/* p99 of a pod's answers in ns, the same way. */
struct verdict_latency {
	double alone;
	size_t n;
	const double *p99s;
	const char *const *neighbors;
};
void verdict_latency(struct verdict *ret, const struct verdict_latency *l);

/* Units of a pod in equal blocks of time. */
struct verdict_blocks {
	size_t n;
	const uint32_t *units;
	double block_ms;
};

/* A pod made an illegal access beside a neighbour. */
struct verdict_fault {
	const char *fault;    /* what it was told; "": nothing, so that there was none */
	const char *neighbor; /* what went wrong with that; "": nothing */
	struct verdict_blocks blocks;
	double at_ms;     /* of the access, from the first block on */
	const char *next; /* why no pod could begin after all had ended; "": one could */
	double next_ms;   /* until one could */
};
void verdict_fault(struct verdict *ret, const struct verdict_fault *f);

/* A pod was killed beside a neighbour. */
struct verdict_recovery {
	const char *neighbor;
	struct verdict_blocks blocks;
	double at_ms;
	double whole;     /* units per second that the neighbour can do when it is alone */
	const char *next; /* as above; in the place of the one that was killed */
	double next_ms;
	double found, next_found; /* bytes that the killed one found free, and the next one */
};
void verdict_recovery(struct verdict *ret, const struct verdict_recovery *r);

/* The longest time from @from_ms on without a unit, ms; of whole blocks. */
double verdict_pause_ms(const struct verdict_blocks *b, double from_ms);
/* From @at_ms to the first block behind it from which on @units_per_s are done, over 50 ms; NaN: there is none. */
double verdict_recovered_ms(const struct verdict_blocks *b, double at_ms, double units_per_s);
