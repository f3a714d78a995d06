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
 * (cost_model_needs_fences()).
 *
 * Kinds that fall together by their hash are taken for one. Only what METERED let through is counted here.
 * Zeroed memory is a struct cost_model that knows nothing. Threads: cost_model_fence_passed() and cost_model_learn() one; all
 * others any.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define COST_MODEL_KINDS      256
#define COST_MODEL_LOG        4096   /* submissions; a power of two */
#define COST_MODEL_MIN_NS     500    /* of any submission */
#define COST_MODEL_DEFAULT_NS 100000 /* of one that was not measured yet, where none was */
#define COST_MODEL_LONG_NS    100000 /* from here on it has markers of its own */
#define COST_MODEL_MAX_NS     1000000000

/* What was submitted up to a marker. */
struct cost_model_snapshot {
	uint64_t work_ns; /* .ended_ns then */
	uint32_t count;   /* .count then */
};

struct cost_model {
	_Atomic uint32_t each_ns[COST_MODEL_KINDS]; /* 0: not measured yet */
	_Atomic uint32_t mean_ns;                   /* of all, lately */
	_Atomic uint32_t count; /* submissions, which wraps: the last ones' kinds are in .log */
	_Atomic uint64_t begun_ns, ended_ns, done_ns;
	_Atomic uint64_t fenced_ns; /* .ended_ns at the last marker */
	_Atomic uint8_t log[COST_MODEL_LOG];
	/* The keeper's alone. */
	uint32_t passed, learned; /* .count that has passed; and that was learnt from */
};

/* Of anything that names a kind; 0 is one, too. */
unsigned int cost_model_find_kind(uintptr_t key);

/* Of any, lately; never 0. */
uint32_t cost_model_mean_ns(const struct cost_model *k);
/* Estimated ns of one; never 0. */
uint32_t cost_model_cost_ns(const struct cost_model *k, unsigned int kind);
/* It is to have a marker before and behind it. */
bool cost_model_needs_fences(const struct cost_model *k, unsigned int kind);

/* A submission passes the gate; it is taken back there; the driver has it. @cost: cost_model_cost_ns() of it. */
static inline uint64_t cost_model_begin(struct cost_model *k, uint32_t cost)
{
	return atomic_fetch_add(&k->begun_ns, cost) + cost;
}

static inline void cost_model_uncount(struct cost_model *k, uint32_t cost)
{
	(void)atomic_fetch_sub(&k->begun_ns, cost);
}

void cost_model_end(struct cost_model *k, unsigned int kind, uint32_t cost);

/* ns of work in flight, of @begun_ns. */
uint64_t cost_model_in_flight_ns(const struct cost_model *k, uint64_t begun_ns);

/* ns of work behind the last marker. */
static inline uint64_t cost_model_unfenced_ns(const struct cost_model *k)
{
	return atomic_load_explicit(&k->ended_ns, memory_order_relaxed) -
	       atomic_load_explicit(&k->fenced_ns, memory_order_relaxed);
}

/* A marker is recorded now: what it will say. A lock of the caller's is held. */
void cost_model_snapshot(struct cost_model *k, struct cost_model_snapshot *ret);
/* It has passed. */
void cost_model_fence_passed(struct cost_model *k, const struct cost_model_snapshot *note);
/* Nothing is in flight. */
void cost_model_set_idle(struct cost_model *k);
/*
 * What has passed since the last call: @n submissions, which took @took_ns of the GPU; 0: nobody knows, they
 * waited for others. Of those that were not all seen here nothing is learnt. @mean_ns: of all, lately.
 */
void cost_model_learn(struct cost_model *k, uint64_t n, uint64_t took_ns, uint64_t mean_ns);
