/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the parts of container/gate share: above all the state that a process has for the gates of its
 * GPUs. It is one piece of memory, which a child of fork sees as zero.
 *
 * Memory order of the gate. All these accesses are sequentially consistent.
 * 1. A submitting thread counts .begun, then loads the gate's word.
 * 2. The arbiter's scheduler thread changes the word. It never reads .begun.
 * 3. The gate thread, or a thread that reports, loads the word, then .begun.
 *
 * If step 3 does not see the submission in .begun, the submitting thread sees the word of step 3, or a
 * later one.
 *
 * The doorbell. While TURN_DOORBELL is not set in the gate's word, the gate thread is awake: it polls within
 * a known time and reports every change. So no other thread need report.
 * 1. The gate thread sets TURN_DOORBELL by compare-and-swap, then loads .begun, .waiters and .throttled.
 * 2. A submitting thread counts .begun, then loads the gate's word.
 * 3. At least one of the two threads sees the other (Dekker). Where the gate thread sees the submission,
 *    the gate thread takes TURN_DOORBELL away again and stays awake.
 * 4. A submitting thread that takes TURN_DOORBELL away, by compare-and-swap, wakes the gate thread.
 *
 * TURN_DOORBELL may be set while the gate thread is awake, too: where no context of the GPU is known
 * (container/gate/fences/fences.c). The next submitting thread then takes the slow path, and so adds its
 * own context. The arbiter keeps TURN_DOORBELL, except after SCHEDULER_GATE_TRIES failed tries
 * (node/arbiter/scheduler/settle.c). The gate thread may then sleep on, for 5 s at most.
 *
 * Reports.
 * 1. A thread holds .report_lock while it reads the state and sends the packet. So the packet sent last
 *    has the present state, or a thread that has changed the state since has yet to report.
 * 2. A report counts for the gate's generation that it was read with.
 * 3. On another generation the gate thread reports again while it is awake, and so does each thread that
 *    waits at the closed gate.
 * 4. Before the gate thread rests, it makes sure that the arbiter has read its last report, then that the
 *    gate is still of that generation.
 */
#include "abi/turn-page.h"
#include "container/client/socket.h"
#include "container/gate/gate.h"
#include "container/gate/fences/fences.h"
#include "container/gate/pace.h"
#include "container/gate/sched-link.h"
#include "container/gate/streams.h"

#include <stdbool.h>

enum gate_mode {
	GATE_MODE_NONE,       /* registration was not tried yet */
	GATE_MODE_OFF,        /* nothing is held; registration may be retried */
	GATE_MODE_UP,         /* the gates are those in the page */
	GATE_MODE_STANDALONE, /* no arbiter: the gates are .standalone_gate */
	GATE_MODE_ENDED, /* nothing is held, for good: the driver shut down, or no gate thread can run */
};

struct gate_gpu {
	_Atomic uint32_t waiters;       /* threads at the closed gate */
	_Atomic uint32_t throttled;     /* threads that TURN_THROTTLED holds */
	_Atomic uint32_t throttle_word; /* a futex; changes when a held thread may pass */
	_Atomic uint64_t allowed_ns;    /* of work in flight, the limit of TURN_THROTTLED */
	/* struct pace_flight, as of the gate thread's last poll. A mix of two polls is a worse guess. */
	_Atomic uint64_t front_ns, from_ns;
	_Atomic uint32_t throttled_cost_ns; /* cost of the submission that was held last */
	_Atomic bool tight;                 /* the window is (pace.h) */
	/* TURN_THROTTLED holds no thread for longer than this, if nothing ends meanwhile. */
	_Atomic uint64_t stall_ns;
	/* A word like turn_gpu_page.gate, for the time without an arbiter. A private futex. */
	_Atomic uint32_t standalone_gate;
	_Atomic uint32_t programmatic; /* launches in a row that passed as programmatic */
	_Atomic uint64_t ended_ns;     /* end of the last work in flight; of sys_now_ns() */

	/* Guarded by .report_lock. */
	struct {
		bool valid;
		bool busy, wants;
		uint32_t generation;
	} reported;

	/* The gate thread's alone. */
	struct pace pace;
	struct pace_bucket bucket;
	uint64_t done;           /* as in the page, which the program could overwrite */
	uint64_t last_begun;     /* .begun at the last poll */
	uint64_t last_ended;     /* .ended at the last poll that found a fence due */
	uint64_t unfenced_since; /* since when due fences wait; 0: none does */
	uint32_t last_gate;
	uint64_t last_quantum_ns;
	uint64_t unread_poll_ns;
	bool was_busy;
	bool resting;     /* it has set TURN_DOORBELL */
	bool report_read; /* .resting: the arbiter has read the report before the rest */
};

struct gate_process {
	struct gate gate; /* first: gate_root points here */

	_Atomic uint32_t mode;            /* enum gate_mode */
	_Atomic(struct turn_page *) page; /* set once; equal to .gate.page while .mode is UP */
	_Atomic int64_t next_try;         /* OFF, STANDALONE: not before this; of sys_now() */
	_Atomic uint32_t wake; /* the gate thread's futex: 0 awake, 1 to poll again, 2 asleep */
	_Atomic uint32_t n_registered; /* registrations that succeeded */
	_Atomic bool link_lost;        /* a send found that the connection has ended */

	/* Guards changes of .mode, and .link except what .report_lock guards. */
	struct sys_lock start_lock;
	bool thread_running; /* the gate thread was started */
	int back_off;        /* ms */

	/* Guards .reported and .link.socket. A thread that takes both locks takes .start_lock first. */
	struct sys_lock report_lock;
	struct gate_link link;

	struct fences fences;
	struct streams streams;
	struct gate_gpu gpus[SLICE_GPUS_MAX];
};

/* Allocates the state at the first call. NULL: there is no memory. */
struct gate_process *gate_process(void);
/* NULL: gate_process() was not called yet. */
struct gate_process *gate_process_if_any(void);

static inline enum gate_mode gate_mode(struct gate_process *process)
{
	return (enum gate_mode)atomic_load(&process->mode);
}

/* Whether submissions need own fences: a capture prevents fences, or the first fence is stuck. */
static inline bool gate_needs_event(struct gate_process *process, unsigned int gpu)
{
	return atomic_load(&process->gate.captures) || fences_is_stuck(&process->fences, gpu);
}

static inline struct cost_model *gate_cost_model(struct gate_process *process, unsigned int gpu)
{
	return &process->fences.rings[gpu].cost_model;
}

/* Whether the slice has gates now: those of the fair-share scheduler, or those under MPS, which never
 * close. */
bool gate_is_scheduled(void);

/* Wakes all waiting threads. Each checks again what it waits for. */
void gate_wake_all(struct gate_process *process);
