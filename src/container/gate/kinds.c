/* SPDX-License-Identifier: Apache-2.0 */
#include "container/gate/kinds.h"

#include <stddef.h>

#define ONE UINT64_C(256) /* of factors */

unsigned int kinds_of(uintptr_t key)
{
	return (unsigned int)(((uint64_t)key * UINT64_C(0x9e3779b97f4a7c15)) >> 56) % KINDS;
}

uint32_t kinds_mean(const struct kinds *k)
{
	uint32_t ns = atomic_load_explicit(&k->mean_ns, memory_order_relaxed);

	return ns ? ns : KINDS_FIRST_NS;
}

uint32_t kinds_cost(const struct kinds *k, unsigned int kind)
{
	uint32_t ns = atomic_load_explicit(&k->each_ns[kind], memory_order_relaxed);

	return ns ? ns : kinds_mean(k);
}

bool kinds_alone(const struct kinds *k, unsigned int kind)
{
	uint32_t ns = atomic_load_explicit(&k->each_ns[kind], memory_order_relaxed);

	return !ns || ns >= KINDS_LONG_NS;
}

void kinds_end(struct kinds *k, unsigned int kind, uint32_t cost)
{
	uint32_t at = atomic_fetch_add(&k->count, 1) % KINDS_LOG;

	atomic_store_explicit(&k->log[at], (uint8_t)kind, memory_order_relaxed);
	(void)atomic_fetch_add(&k->ended_ns, cost);
}

uint64_t kinds_in_flight(const struct kinds *k, uint64_t begun_ns)
{
	uint64_t done = atomic_load(&k->done_ns);

	return begun_ns > done ? begun_ns - done : 0;
}

/* What is submitted meanwhile may be counted though it is behind the marker: it is a guess anyhow. */
void kinds_note(struct kinds *k, struct kinds_note *ret)
{
	ret->count = atomic_load(&k->count);
	ret->work_ns = atomic_load(&k->ended_ns);
	atomic_store_explicit(&k->noted_ns, ret->work_ns, memory_order_relaxed);
}

void kinds_passed(struct kinds *k, const struct kinds_note *note)
{
	k->passed = note->count;
	if (note->work_ns > atomic_load(&k->done_ns))
		atomic_store(&k->done_ns, note->work_ns);
}

void kinds_idle(struct kinds *k)
{
	uint64_t ended = atomic_load(&k->ended_ns);

	if (atomic_load(&k->done_ns) != ended)
		atomic_store(&k->done_ns, ended);
}

/* ---- what they take ----------------------------------------------------------------------------- */

static uint64_t within(uint64_t n, uint64_t least, uint64_t most)
{
	return n < least ? least : n > most ? most : n;
}

static void set(struct kinds *k, unsigned int kind, uint64_t ns)
{
	atomic_store_explicit(&k->each_ns[kind],
		(uint32_t)within(ns, KINDS_LEAST_NS, KINDS_MOST_NS), memory_order_relaxed);
}

/* Half of the way, as the error may be another kind's, and not far at once, as the time may be another
 * process's. */
static uint64_t factor_of(uint64_t took, uint64_t work)
{
	return (ONE + within(took * ONE / work, ONE / 8, 4 * ONE)) / 2;
}

/* What has passed since the last time, as the kinds are taken for now. */
struct lot {
	uint64_t work;
	uint32_t n;        /* submissions */
	unsigned int kind; /* of the last one */
	bool several;      /* kinds */
	bool seen[KINDS];
};

static void look_at_lot(const struct kinds *k, struct lot *ret)
{
	*ret = (struct lot){ .n = k->passed - k->learnt };
	if (ret->n > KINDS_LOG)
		ret->n = 0;
	for (uint32_t i = 0; i < ret->n; i++) {
		unsigned int kind = atomic_load_explicit(&k->log[(k->learnt + i) % KINDS_LOG],
			memory_order_relaxed);

		ret->several |= i && kind != ret->kind;
		ret->kind = kind;
		ret->seen[kind] = true;
		ret->work += kinds_cost(k, kind);
	}
}

/* Who counts one more while a marker is placed counts it here or there. */
static bool is_whole(const struct lot *l, uint64_t n)
{
	uint64_t off = n > l->n ? n - l->n : l->n - n;

	return l->n && off <= n / 8 + 1;
}

void kinds_learn(struct kinds *k, uint64_t n, uint64_t took_ns, uint64_t mean_ns)
{
	uint64_t took = took_ns < KINDS_MOST_NS ? took_ns : KINDS_MOST_NS, factor;
	struct lot lot;

	look_at_lot(k, &lot);
	k->learnt = k->passed;
	if (!is_whole(&lot, n))
		took = 0;
	if (took && !lot.several) {
		set(k, lot.kind, took / lot.n);
	} else if (took) {
		factor = factor_of(took, lot.work);
		for (unsigned int i = 0; i < KINDS; i++)
			if (lot.seen[i])
				set(k, i, kinds_cost(k, i) * factor / ONE);
	}
	atomic_store_explicit(&k->mean_ns, (uint32_t)within(mean_ns, 0, KINDS_MOST_NS),
		memory_order_relaxed);
}
