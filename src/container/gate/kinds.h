/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What submissions take of a GPU, by their kind: the function of a launch with its grid, a graph, a size of
 * copies. METERED lets only so much work be in flight (pace.h), and a program's submissions differ by a
 * factor of a thousand: with one mean for all, a row of long ones behind short ones would be let in at the
 * price of the short ones, and short ones behind long ones would leave the GPU without work.
 *
 * Work is counted in ns as it is estimated when it is submitted: .begun_ns at the gate, .ended_ns behind the
 * driver's call, .done_ns once a marker behind it has passed. So work in flight is .begun_ns - .done_ns.
 *
 * Between two markers that pass, some time goes by (pace.h) and some submissions are done, whose kinds are
 * in a log. Were they of one kind, that is what it takes. Were they of several, the error is theirs in
 * proportion to what they are taken for; as they come in ever other rows, each comes to what it takes. To
 * learn soon, one that was not measured yet, and one that is long, has a marker before and behind it
 * (kinds_alone()).
 *
 * Kinds that fall together by their hash are taken for one. Only what METERED let through is counted here.
 * Zeroed memory is a struct kinds that knows nothing. Threads: kinds_passed() and kinds_learn() one; all
 * others any.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define KINDS          256
#define KINDS_LOG      4096   /* submissions; a power of two */
#define KINDS_LEAST_NS 500    /* of any submission */
#define KINDS_FIRST_NS 100000 /* of one that was not measured yet, where none was */
#define KINDS_LONG_NS  100000 /* from here on it has markers of its own */
#define KINDS_MOST_NS  1000000000

/* What was submitted up to a marker. */
struct kinds_note {
	uint64_t work_ns; /* .ended_ns then */
	uint32_t count;   /* .count then */
};

struct kinds {
	_Atomic uint32_t each_ns[KINDS]; /* 0: not measured yet */
	_Atomic uint32_t mean_ns;        /* of all, lately */
	_Atomic uint32_t count; /* submissions, which wraps: the last ones' kinds are in .log */
	_Atomic uint64_t begun_ns, ended_ns, done_ns;
	_Atomic uint64_t noted_ns; /* .ended_ns at the last marker */
	_Atomic uint8_t log[KINDS_LOG];
	/* The keeper's alone. */
	uint32_t passed, learnt; /* .count that has passed; and that was learnt from */
};

/* Of anything that names a kind; 0 is one, too. */
unsigned int kinds_of(uintptr_t key);

/* Of any, lately; never 0. */
uint32_t kinds_mean(const struct kinds *k);
/* Estimated ns of one; never 0. */
uint32_t kinds_cost(const struct kinds *k, unsigned int kind);
/* It is to have a marker before and behind it. */
bool kinds_alone(const struct kinds *k, unsigned int kind);

/* A submission passes the gate; it is taken back there; the driver has it. @cost: kinds_cost() of it. */
static inline uint64_t kinds_begin(struct kinds *k, uint32_t cost)
{
	return atomic_fetch_add(&k->begun_ns, cost) + cost;
}

static inline void kinds_take_back(struct kinds *k, uint32_t cost)
{
	(void)atomic_fetch_sub(&k->begun_ns, cost);
}

void kinds_end(struct kinds *k, unsigned int kind, uint32_t cost);

/* ns of work in flight, of @begun_ns. */
uint64_t kinds_in_flight(const struct kinds *k, uint64_t begun_ns);

/* ns of work behind the last marker. */
static inline uint64_t kinds_unmarked(const struct kinds *k)
{
	return atomic_load_explicit(&k->ended_ns, memory_order_relaxed) -
	       atomic_load_explicit(&k->noted_ns, memory_order_relaxed);
}

/* A marker is recorded now: what it will say. A lock of the caller's is held. */
void kinds_note(struct kinds *k, struct kinds_note *ret);
/* It has passed. */
void kinds_passed(struct kinds *k, const struct kinds_note *note);
/* Nothing is in flight. */
void kinds_idle(struct kinds *k);
/*
 * What has passed since the last call: @n submissions, which took @took_ns of the GPU; 0: nobody knows, they
 * waited for others. Of those that were not all seen here nothing is learnt. @mean_ns: of all, lately.
 */
void kinds_learn(struct kinds *k, uint64_t n, uint64_t took_ns, uint64_t mean_ns);
