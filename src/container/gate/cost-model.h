/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What submissions take of a GPU, by their kind: the function of a launch with its grid, a graph, a size
 * of copies. TURN_THROTTLED lets only so much work be in flight (pace.h), and a program's submissions
 * differ by a factor of a thousand. With one mean for all, long submissions behind short ones would pass
 * at the price of the short ones. Short submissions behind long ones would leave the GPU without work.
 *
 * Work is counted in ns, as estimated when it is submitted.
 * 1. .begun_ns counts it at the gate.
 * 2. .ended_ns counts it behind the driver's call.
 * 3. .done_ns counts it once a fence behind it has passed.
 *
 * So work in flight is .begun_ns - .done_ns.
 *
 * Learning. Between two fences that pass, some time goes by (pace.h) and some submissions are done. A log
 * has the kinds of these submissions. If all are of one kind, the time is that kind's. If there are
 * several kinds, the error is divided in proportion to their estimates. As kinds come in changing mixes,
 * each estimate converges to what its kind takes. To learn soon, a submission whose kind was not measured
 * yet, or is long, has a fence before and behind it (cost_model_needs_fences()).
 *
 * Kinds with the same hash count as one. Only what TURN_THROTTLED let through is counted here. Zeroed
 * memory is a struct cost_model that knows nothing. Threads: cost_model_fence_passed() and
 * cost_model_learn() one; all others any.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define COST_MODEL_KINDS      256
#define COST_MODEL_LOG        4096   /* submissions; a power of two */
#define COST_MODEL_MIN_NS     500    /* of any submission */
#define COST_MODEL_DEFAULT_NS 100000 /* of a kind not measured yet, where no kind was */
#define COST_MODEL_LONG_NS    100000 /* from here on it has a fence before and behind it */
#define COST_MODEL_MAX_NS     1000000000

/* What was submitted up to a fence. */
struct cost_model_snapshot {
	uint64_t work_ns; /* .ended_ns then */
	uint32_t count;   /* .count then */
};

struct cost_model {
	_Atomic uint32_t each_ns[COST_MODEL_KINDS]; /* 0: not measured yet */
	_Atomic uint32_t mean_ns;                   /* of all, lately */
	_Atomic uint32_t count; /* submissions; it wraps. .log has the last ones' kinds */
	_Atomic uint64_t begun_ns, ended_ns, done_ns;
	_Atomic uint64_t fenced_ns; /* .ended_ns at the last fence */
	_Atomic uint8_t log[COST_MODEL_LOG];
	/* The gate thread's alone. */
	uint32_t passed,
		learned; /* .count of the submissions that have passed; of those that were learned from */
};

/* The kind of a key; 0 is a key, too. */
unsigned int cost_model_find_kind(uintptr_t key);

/* Estimated ns of any submission, lately; never 0. */
uint32_t cost_model_mean_ns(const struct cost_model *model);
/* Estimated ns of a submission; never 0. */
uint32_t cost_model_cost_ns(const struct cost_model *model, unsigned int kind);
/* Whether it needs a fence before and behind it. */
bool cost_model_needs_fences(const struct cost_model *model, unsigned int kind);

/* A submission passes the gate, or tries to. @cost: cost_model_cost_ns() of its kind. Returns .begun_ns with
 * this submission. */
static inline uint64_t cost_model_begin(struct cost_model *model, uint32_t cost)
{
	return atomic_fetch_add(&model->begun_ns, cost) + cost;
}

/* The gate takes the submission back: it does not pass now. @cost: as cost_model_begin() had it. */
static inline void cost_model_uncount(struct cost_model *model, uint32_t cost)
{
	(void)atomic_fetch_sub(&model->begun_ns, cost);
}

/* The driver has the submission: counts it in .ended_ns and in the log. @kind: cost_model_find_kind();
 * @cost: as cost_model_begin() had it. */
void cost_model_end(struct cost_model *model, unsigned int kind, uint32_t cost);

/* @begun_ns less the ns of work that is known to be done; never below 0. */
uint64_t cost_model_in_flight_ns(const struct cost_model *model, uint64_t begun_ns);

/* ns of work behind the last fence. */
static inline uint64_t cost_model_unfenced_ns(const struct cost_model *model)
{
	return atomic_load_explicit(&model->ended_ns, memory_order_relaxed) -
	       atomic_load_explicit(&model->fenced_ns, memory_order_relaxed);
}

/* A fence is recorded now. *ret: what it will show when it passes. The caller holds a lock that makes such
 * calls one at a time. */
void cost_model_snapshot(struct cost_model *model, struct cost_model_snapshot *ret);
/* The fence of @note has passed: what was submitted up to it is done. */
void cost_model_fence_passed(struct cost_model *model, const struct cost_model_snapshot *note);
/* Nothing is in flight: all that was counted is done. */
void cost_model_set_idle(struct cost_model *model);
/*
 * Learns from what has passed since the last call: @n submissions, which took @took_ns of the GPU. 0:
 * unknown, as they waited for other slices. Nothing is learned if not all of them were counted here.
 * @mean_ns: mean of one submission of any kind, lately; 0: unknown.
 */
void cost_model_learn(struct cost_model *model, uint64_t n, uint64_t took_ns, uint64_t mean_ns);
