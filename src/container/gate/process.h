/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What gate.c, say.c and keeper.c share: all that a process has for its turns, in one piece of memory
 * that a child of fork sees as zero.
 *
 * The bell. While TURN_BELL is not set in the gate's word the keeper is awake: it looks again within a
 * known time, and says whatever is not as it was said. So nobody else need. It sets the bell, then looks
 * at .begun and .waiters once more; who submits counts .begun, then looks at the bell. Both are
 * sequentially consistent, so at least one of the two sees the other (Dekker), and whoever takes the bell
 * away, by compare-and-swap, wakes the keeper. It may be set while the keeper is awake, too: where no context of
 * the GPU is known (container/gate/marks/marks.c), so that the next one to submit brings its own. The same holds for the gate's state between who submits
 * and the arbiter.
 *
 * What is said. One lock (.say): what is sent is the truth at a moment within it, so what was sent last
 * is the truth, or somebody who changed it since has yet to say so. It counts for the gate's generation that
 * it was read with. Whoever is awake says it anew when it sees another one: the keeper while it is awake,
 * and each thread that waits at the closed gate. Before the keeper rests it makes sure that the arbiter
 * has read its last word and that the gate is still of that generation.
 */
#include "container/gate/gate.h"
#include "container/gate/marks/marks.h"
#include "container/gate/pace.h"
#include "container/gate/turn-link.h"

#include <stdbool.h>

enum turn_mode {
	TURN_NONE, /* not tried yet */
	TURN_OFF,  /* nothing is held; may be tried again */
	TURN_UP,   /* the gates are what the page says */
	TURN_AWAY, /* no arbiter: they are what .alone says */
	TURN_OVER, /* nothing is held, for good: the driver shut down, or there can be no keeper */
};

struct turn_gpu {
	_Atomic uint32_t waiters;  /* threads before the closed gate */
	_Atomic uint32_t held;     /* threads that METERED holds */
	_Atomic uint32_t meter;    /* changes when it may let one through; a futex */
	_Atomic uint64_t allow_ns; /* of work in flight that it lets through */
	/* struct pace_flight, as the keeper saw it last; from two looks they are a worse guess. */
	_Atomic uint64_t front_ns, from_ns;
	_Atomic uint32_t held_ns; /* what the last one takes that was held */
	_Atomic bool tight;       /* the window is */
	_Atomic uint64_t
		stall_ns; /* METERED holds nobody for longer, if nothing ends meanwhile */
	_Atomic uint32_t
		alone; /* while there is no arbiter, as turn_gpu_page.gate; a private futex */
	_Atomic uint32_t programmatic; /* launches in a row that were not held for being so */
	_Atomic uint64_t ended_ns;     /* when the last work in flight ended, on our clock */

	/* Guarded by .say. */
	struct {
		bool valid, full;
		bool busy, wants;
		uint32_t generation;
	} said;

	/* The keeper's alone. */
	struct pace pace;
	struct pace_bucket bucket;
	uint64_t done;        /* as in the page, which a program could write to */
	uint64_t begun_seen;  /* .begun at the last look */
	uint64_t ended_seen;  /* under MPS: .ended at the last look that wanted a marker */
	uint64_t unmarked_ns; /* since when such looks wait for it to stand; 0: none does */
	uint32_t gate_seen;
	uint64_t turn_seen;
	uint64_t unread_ns;
	bool was_busy;
	bool rests; /* since it set the bell */
	bool told;  /* and the arbiter has read that */
};

struct turn_process {
	struct gate gate; /* first: gate_root points here */

	_Atomic uint32_t mode;            /* enum turn_mode */
	_Atomic(struct turn_page *) page; /* set once; .gate.page is the same while UP */
	_Atomic int64_t next_try;         /* OFF: not before this, on sys_now()'s clock */
	_Atomic uint32_t wake; /* the keeper's futex: 0 awake, 1 to look again, 2 sleeps */
	_Atomic uint32_t registered; /* how often */
	_Atomic bool gone;           /* a send found that the connection has ended */

	struct sys_lock start; /* guards changes of .mode, and .link but for what .say does */
	bool running;          /* the keeper is there */
	int back_off;          /* ms */

	struct sys_lock say; /* guards .said and .link.socket; taken within .start */
	struct turn_link link;

	struct marks marks;
	struct turn_gpu gpus[SLICE_GPUS_MAX];
};

/* Made at the first call. NULL: there is no memory. */
struct turn_process *turn_process(void);
/* NULL if there was no such call. */
struct turn_process *turn_process_if(void);

static inline enum turn_mode turn_mode(struct turn_process *t)
{
	return (enum turn_mode)atomic_load(&t->mode);
}

/* No marker can be placed, or none passes for long: submissions have events of their own behind them. */
static inline bool turn_wants_event(struct turn_process *t, unsigned int gpu)
{
	return atomic_load(&t->gate.captures) || marks_stuck(&t->marks, gpu);
}

static inline struct kinds *turn_kinds(struct turn_process *t, unsigned int gpu)
{
	return &t->marks.rings[gpu].kinds;
}

/* Whether the slice takes turns now. */
bool turn_wanted(void);

/* Whether it runs beside others under MPS: nobody waits for its work to end. */
bool turn_beside(void);

/* ---- say.c -------------------------------------------------------------------------------------- */

/* Says to the arbiter where @gpu stands, unless that is what was said last. False: it could not be said
 * now. Thread: any; never blocks for long. */
bool turn_say(struct turn_process *t, unsigned int gpu);

/* Whether what was said last is the truth, is of the gate's generation, and was read. */
bool turn_said(struct turn_process *t, unsigned int gpu);

/* All who wait look anew at what they wait for. */
void turn_wake_all(struct turn_process *t);
