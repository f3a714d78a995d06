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

#define JUDGE_MEMORY_LEAST 95.0  /* percent of its limit that a pod can use, with its context */
#define JUDGE_MEMORY_MOST  100.5 /* a GPU gives out memory in pieces */
#define JUDGE_LOSS_MOST    10.0  /* percent of its share that a neighbour may cost */
#define JUDGE_LATE_MOST_MS 2.0   /* by which a neighbour may make the slowest answers slower */
#define JUDGE_BACK         0.9   /* of its share: a pod is back */
#define JUDGE_BACK_MOST_MS 1000.0

struct verdict {
	bool passed, known;
	double value; /* NaN: there is none */
	const char *unit;
	char what[VERDICT_TEXT_MAX];
};

/* It could not be found out, for that reason. */
void judge_unknown(struct verdict *ret, const char *fmt, ...) PRINTF(2, 3);

/* It was disturbed by @doubt: what was measured all the same is reported, and decides no verdict. */
void judge_doubt(struct verdict *v, const char *doubt);

/* One pod took all that it got, then its neighbour did. Bytes. */
struct judge_memory {
	double limit;        /* 0: the mode has none */
	double found, taken; /* free at first, with a context; got after that */
	double gpu;
	int refusal; /* CUDA's error; 0: nothing was refused */
	double refusal_ns;
	double neighbour_limit, neighbour_found, neighbour_taken;
};
void judge_memory(struct verdict *ret, const struct judge_memory *m);

/* Units per second alone on the GPU, and beside each of the neighbours. */
struct judge_loss {
	double alone, share; /* of the GPU, 0 to 1 */
	size_t n;
	const double *rates;
	const char *const *neighbours; /* in words */
};
void judge_loss(struct verdict *ret, const struct judge_loss *l);

/* p99 of a pod's answers in ns, the same way. */
struct judge_late {
	double alone;
	size_t n;
	const double *p99s;
	const char *const *neighbours;
};
void judge_late(struct verdict *ret, const struct judge_late *l);

/* Units of a pod in equal blocks of time. */
struct judge_blocks {
	size_t n;
	const uint32_t *units;
	double block_ms;
};

/* A pod made an illegal access beside a neighbour. */
struct judge_fault {
	const char *fault;     /* what it was told; "": nothing, so that there was none */
	const char *neighbour; /* what went wrong with that; "": nothing */
	struct judge_blocks blocks;
	double at_ms;     /* of the access, from the first block on */
	const char *next; /* why no pod could begin after all had ended; "": one could */
	double next_ms;   /* until one could */
};
void judge_fault(struct verdict *ret, const struct judge_fault *f);

/* A pod was killed beside a neighbour. */
struct judge_recovery {
	const char *neighbour;
	struct judge_blocks blocks;
	double at_ms;
	double whole;     /* units per second that the neighbour can do when it is alone */
	const char *next; /* as above; in the place of the one that was killed */
	double next_ms;
	double found, next_found; /* bytes that the killed one found free, and the next one */
};
void judge_recovery(struct verdict *ret, const struct judge_recovery *r);

/* The longest time from @from_ms on without a unit, ms; of whole blocks. */
double judge_pause_ms(const struct judge_blocks *b, double from_ms);
/* From @at_ms to the first block behind it from which on @units_per_s are done, over 50 ms; NaN: there is none. */
double judge_back_ms(const struct judge_blocks *b, double at_ms, double units_per_s);
