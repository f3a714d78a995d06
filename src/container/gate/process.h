/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What gate.c, report.c and gate-thread.c share: all that a process has for its turns, in one piece of memory
 * that a child of fork sees as zero.
 *
 * The bell. While TURN_BELL is not set in the gate's word the keeper is awake: it looks again within a
 * known time, and says whatever is not as it was said. So nobody else need. It sets the bell, then looks
 * at .begun and .waiters once more; who submits counts .begun, then looks at the bell. Both are
 * sequentially consistent, so at least one of the two sees the other (Dekker), and whoever takes the bell
 * away, by compare-and-swap, wakes the keeper. It may be set while the keeper is awake, too: where no context of
 * the GPU is known (container/gate/fences/fences.c), so that the next one to submit brings its own. The same holds for the gate's state between who submits
 * and the arbiter.
 *
 * What is said. One lock (.report_lock): what is sent is the truth at a moment within it, so what was sent last
 * is the truth, or somebody who changed it since has yet to say so. It counts for the gate's generation that
 * it was read with. Whoever is awake says it anew when it sees another one: the keeper while it is awake,
 * and each thread that waits at the closed gate. Before the keeper rests it makes sure that the arbiter
 * has read its last word and that the gate is still of that generation.
 */
#include "container/gate/gate.h"
#include "container/gate/fences/fences.h"
#include "container/gate/pace.h"
#include "container/gate/gate-link.h"

#include <stdbool.h>

enum gate_mode {
	GATE_MODE_NONE,       /* not tried yet */
	GATE_MODE_OFF,        /* nothing is held; may be tried again */
	GATE_MODE_UP,         /* the gates are what the page says */
	GATE_MODE_STANDALONE, /* no arbiter: they are what .standalone_gate says */
	GATE_MODE_ENDED, /* nothing is held, for good: the driver shut down, or there can be no keeper */
};

struct gate_gpu {
	_Atomic uint32_t waiters;       /* threads before the closed gate */
	_Atomic uint32_t throttled;     /* threads that METERED holds */
	_Atomic uint32_t throttle_word; /* changes when it may let one through; a futex */
	_Atomic uint64_t allowed_ns;    /* of work in flight that it lets through */
	/* struct pace_flight, as the keeper saw it last; from two looks they are a worse guess. */
	_Atomic uint64_t front_ns, from_ns;
	_Atomic uint32_t throttled_cost_ns; /* what the last one takes that was held */
	_Atomic bool tight;                 /* the window is */
	_Atomic uint64_t
		stall_ns; /* METERED holds nobody for longer, if nothing ends meanwhile */
	_Atomic uint32_t
		standalone_gate; /* while there is no arbiter, as turn_gpu_page.gate; a private futex */
	_Atomic uint32_t programmatic; /* launches in a row that were not held for being so */
	_Atomic uint64_t ended_ns;     /* when the last work in flight ended, on our clock */

	/* Guarded by .report_lock. */
	struct {
		bool valid, full;
		bool busy, wants;
		uint32_t generation;
	} reported;

	/* The keeper's alone. */
	struct pace pace;
	struct pace_bucket bucket;
	uint64_t done;           /* as in the page, which a program could write to */
	uint64_t last_begun;     /* .begun at the last look */
	uint64_t last_ended;     /* under MPS: .ended at the last look that wanted a marker */
	uint64_t unfenced_since; /* since when such looks wait for it to stand; 0: none does */
	uint32_t last_gate;
	uint64_t last_quantum_ns;
	uint64_t unread_poll_ns;
	bool was_busy;
	bool resting;     /* since it set the bell */
	bool report_read; /* and the arbiter has read that */
};

struct gate_process {
	struct gate gate; /* first: gate_root points here */

	_Atomic uint32_t mode;            /* enum gate_mode */
	_Atomic(struct turn_page *) page; /* set once; .gate.page is the same while UP */
	_Atomic int64_t next_try;         /* OFF: not before this, on sys_now()'s clock */
	_Atomic uint32_t wake; /* the keeper's futex: 0 awake, 1 to look again, 2 sleeps */
	_Atomic uint32_t n_registered; /* how often */
	_Atomic bool link_lost;        /* a send found that the connection has ended */

	struct sys_lock
		start_lock; /* guards changes of .mode, and .link but for what .report_lock does */
	bool thread_running; /* the keeper is there */
	int back_off;        /* ms */

	struct sys_lock
		report_lock; /* guards .reported and .link.socket; taken within .start_lock */
	struct gate_link link;

	struct fences fences;
	struct gate_gpu gpus[SLICE_GPUS_MAX];
};

/* Made at the first call. NULL: there is no memory. */
struct gate_process *gate_process(void);
/* NULL if there was no such call. */
struct gate_process *gate_process_if_any(void);

static inline enum gate_mode gate_mode(struct gate_process *t)
{
	return (enum gate_mode)atomic_load(&t->mode);
}

/* No marker can be placed, or none passes for long: submissions have events of their own behind them. */
static inline bool gate_needs_event(struct gate_process *t, unsigned int gpu)
{
	return atomic_load(&t->gate.captures) || fences_is_stuck(&t->fences, gpu);
}

static inline struct cost_model *gate_cost_model(struct gate_process *t, unsigned int gpu)
{
	return &t->fences.rings[gpu].cost_model;
}

/* Whether the slice takes turns now. */
bool gate_is_scheduled(void);

/* Whether it runs beside others under MPS: nobody waits for its work to end. */
bool gate_is_under_mps(void);

/* ---- report.c -------------------------------------------------------------------------------------- */

/* Says to the arbiter where @gpu stands, unless that is what was said last. False: it could not be said
 * now. Thread: any; never blocks for long. */
bool gate_report_state(struct gate_process *t, unsigned int gpu);

/* Whether what was said last is the truth, is of the gate's generation, and was read. */
bool gate_state_is_reported(struct gate_process *t, unsigned int gpu);

/* All who wait look anew at what they wait for. */
void gate_wake_all(struct gate_process *t);
