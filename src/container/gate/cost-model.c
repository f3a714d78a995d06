/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/cost-model.h"

#include <stddef.h>

#define ONE UINT64_C(256) /* of factors */

unsigned int cost_model_find_kind(uintptr_t key)
{
	return (unsigned int)(((uint64_t)key * UINT64_C(0x9e3779b97f4a7c15)) >> 56) %
	       COST_MODEL_KINDS;
}

uint32_t cost_model_mean_ns(const struct cost_model *model)
{
	uint32_t ns = atomic_load_explicit(&model->mean_ns, memory_order_relaxed);

	return ns ? ns : COST_MODEL_DEFAULT_NS;
}

uint32_t cost_model_cost_ns(const struct cost_model *model, unsigned int kind)
{
	uint32_t ns = atomic_load_explicit(&model->each_ns[kind], memory_order_relaxed);

	return ns ? ns : cost_model_mean_ns(model);
}

bool cost_model_needs_fences(const struct cost_model *model, unsigned int kind)
{
	uint32_t ns = atomic_load_explicit(&model->each_ns[kind], memory_order_relaxed);

	return !ns || ns >= COST_MODEL_LONG_NS;
}

void cost_model_end(struct cost_model *model, unsigned int kind, uint32_t cost)
{
	uint32_t at = atomic_fetch_add(&model->count, 1) % COST_MODEL_LOG;

	atomic_store_explicit(&model->log[at], (uint8_t)kind, memory_order_relaxed);
	(void)atomic_fetch_add(&model->ended_ns, cost);
}

uint64_t cost_model_in_flight_ns(const struct cost_model *model, uint64_t begun_ns)
{
	uint64_t done = atomic_load(&model->done_ns);

	return begun_ns > done ? begun_ns - done : 0;
}

/* A submission that another thread counts meanwhile may be counted though it is behind the fence: it is
 * an estimate anyway. */
void cost_model_snapshot(struct cost_model *model, struct cost_model_snapshot *ret)
{
	ret->count = atomic_load(&model->count);
	ret->work_ns = atomic_load(&model->ended_ns);
	atomic_store_explicit(&model->fenced_ns, ret->work_ns, memory_order_relaxed);
}

void cost_model_fence_passed(struct cost_model *model, const struct cost_model_snapshot *note)
{
	model->passed = note->count;
	if (note->work_ns > atomic_load(&model->done_ns))
		atomic_store(&model->done_ns, note->work_ns);
}

void cost_model_set_idle(struct cost_model *model)
{
	uint64_t ended = atomic_load(&model->ended_ns);

	if (atomic_load(&model->done_ns) != ended)
		atomic_store(&model->done_ns, ended);
}

/* --- what submissions take --- */

static uint64_t clamp_cost_value(uint64_t n, uint64_t min, uint64_t max)
{
	return n < min ? min : n > max ? max : n;
}

static void set_kind_cost(struct cost_model *model, unsigned int kind, uint64_t ns)
{
	atomic_store_explicit(&model->each_ns[kind],
		(uint32_t)clamp_cost_value(ns, COST_MODEL_MIN_NS, COST_MODEL_MAX_NS),
		memory_order_relaxed);
}

/* Half of the way, as the error may be another kind's. Not far at once, as the time may be another
 * process's. */
static uint64_t compute_cost_factor(uint64_t took, uint64_t work)
{
	return (ONE + clamp_cost_value(took * ONE / work, ONE / 8, 4 * ONE)) / 2;
}

/* What has passed since the last time, at the present estimates. */
struct cost_sample {
	uint64_t work;
	uint32_t n;        /* submissions */
	unsigned int kind; /* of the last one */
	bool several;      /* kinds */
	bool seen[COST_MODEL_KINDS];
};

static void read_cost_sample(const struct cost_model *model, struct cost_sample *ret)
{
	*ret = (struct cost_sample){ .n = model->passed - model->learned };
	if (ret->n > COST_MODEL_LOG)
		ret->n = 0;
	for (uint32_t i = 0; i < ret->n; i++) {
		unsigned int kind =
			atomic_load_explicit(&model->log[(model->learned + i) % COST_MODEL_LOG],
				memory_order_relaxed);

		ret->several |= i && kind != ret->kind;
		ret->kind = kind;
		ret->seen[kind] = true;
		ret->work += cost_model_cost_ns(model, kind);
	}
}

/* A submission that a thread counts while a fence is placed is counted before or behind that fence. */
static bool is_complete_sample(const struct cost_sample *l, uint64_t n)
{
	uint64_t off = n > l->n ? n - l->n : l->n - n;

	return l->n && off <= n / 8 + 1;
}

void cost_model_learn(struct cost_model *model, uint64_t n, uint64_t took_ns, uint64_t mean_ns)
{
	uint64_t took = took_ns < COST_MODEL_MAX_NS ? took_ns : COST_MODEL_MAX_NS, factor;
	struct cost_sample lot;

	read_cost_sample(model, &lot);
	model->learned = model->passed;
	if (!is_complete_sample(&lot, n))
		took = 0;
	if (took && !lot.several) {
		set_kind_cost(model, lot.kind, took / lot.n);
	} else if (took) {
		factor = compute_cost_factor(took, lot.work);
		for (unsigned int i = 0; i < COST_MODEL_KINDS; i++)
			if (lot.seen[i])
				set_kind_cost(model, i,
					cost_model_cost_ns(model, i) * factor / ONE);
	}
	atomic_store_explicit(&model->mean_ns,
		(uint32_t)clamp_cost_value(mean_ns, 0, COST_MODEL_MAX_NS),
		memory_order_relaxed);
}
