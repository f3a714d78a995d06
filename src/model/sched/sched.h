/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who has a GPU when: turns of slices, weighted fair by virtual time. Pure: what happens and what time
 * it is are passed in, gates are set through a callback; so the same code runs in the arbiter and in a
 * simulation of thousands of scenarios.
 *
 *	slice ── part ── seat		a part is a slice on one GPU, a seat one of its processes there
 *
 * Turns. One part of a GPU has the turn: the gates of its seats let work through, METERED, so that only so
 * much is in flight. When the turn is over the next part's gates open at once: it submits its first kernels
 * while the few that are in flight run out (overlap), so the GPU never runs dry, and nobody waits for a
 * kernel that may itself wait for the next launch of its own process. Nobody is asked, and nothing is waited
 * for: a process that hangs or is gone holds up no other one. While no other part has wanted the GPU for
 * SCHED_IDLE_NS the gates of the holder are OPEN: nothing is metered.
 *
 * Anticipation. A holder that becomes idle keeps its turn for up to SCHED_GRACE_MAX_NS if it mostly comes
 * back within that: a loop that launches and waits would else lose the turn after each kernel. One that
 * lost its turn so, and has had less than the holder, need not wait for the end of that one's turn: once
 * the holder has gone on for SCHED_INTERRUPT_MAX_NS, or less, down to SCHED_INTERRUPT_MIN_NS, the further that one is
 * behind, it goes in between until it is level with the holder or idle again; and the holder goes on
 * afterwards. So who rests now and then does not lose a round each time.
 *
 * Together. A program whose processor hardly keeps up leaves gaps between its kernels that are too short for
 * another turn; with turns they are lost. So where turns leave the GPU idle (SCHED_BUSY_PERCENT percent of the time
 * or less has work in flight) all gates are opened, and the hardware's rotation fills the gaps. How fast each
 * part got on with turns was measured before: as submissions that ended, for the time in which it wanted the
 * GPU. As soon as one has lost SCHED_CONCURRENT_LOSS_NS of such time against that, turns go on, and who has lost has it
 * back first; it is tried again later and later. So no part gets on more slowly than with turns but for that
 * little, whatever the others do; what each has beyond that is not divided by weights. What turns give is
 * measured anew every SCHED_CONCURRENT_MAX_NS, and when a part comes, goes, rests or has another share. In between a
 * part whose submissions become shorter is judged by the longer ones before; and a part is judged as a whole,
 * not each of its seats. Never together where anybody on the GPU has a cap, is of class latency, or in a gang.
 *
 * Class latency. Such a part goes first as long as it is within its share: its gates never close, METERED
 * without a limit beside others, so that its processes watch closely when they become idle, else OPEN. When
 * it has work the holder of the turn is paused at once, and goes on when it is idle again. It is beyond its
 * share when it is SCHED_LATENCY_LEAD_NS ahead of a part that has work too; from then until it is level again it
 * takes turns as all others. So a part of class batch keeps its share whatever a latency part does, which is
 * more than a fixed floor, and is kept waiting for no more than about (SCHED_LATENCY_LEAD_NS + SCHED_QUANTUM_NS) at a time.
 *
 * Under MPS kernels of several processes run side by side, which is what it is good for: turns would take that
 * away. So parts that say .mps have their gates OPEN at all times, whatever class and cap they say (percentages
 * of MPS do what a cap does), and are charged like all others. For those that take turns they are not there: they
 * are not next, not behind, not ahead, not contended with, not together with anybody, lend nothing and borrow
 * nothing, and their virtual time stands still. Beside them, which is so only while a GPU changes from the one to
 * the other, a holder of the turn is charged its part of the time, as beside any other that has work. So its v
 * rises no faster than the clock, and what is said of lag below holds among those that take turns: it begins from
 * what they are charged. What the GPU gives them is less than its turns then, as much as it gives away.
 *
 * Capped parts have a bucket that fills by the clock and that charges empty: in any stretch of time a part
 * is charged cap * time + SCHED_CAP_BURST_NS at most, and what was in flight when the bucket was empty. When it
 * is empty the part waits until it has SCHED_CAP_PORTION_NS: each time it goes on costs a change of contexts.
 *
 * Gangs. A slice with seats on several GPUs has its turn on all of them or on none. It may take a GPU from
 * a slice that has only that one at any time, from another gang at the end of that one's turn; and gangs
 * that are further ahead stand back from the GPUs that a gang waits for. That order is total, so no two
 * wait for each other.
 *
 * Urgency. What is in flight may itself wait for the next launch of its own program: as the kernel of one rank of
 * a collective does for those of the others. Behind a closed gate it then never ends, is charged all along, and
 * the slice would never be behind the others, or have anything in its bucket. So where nothing of what a process
 * has in flight behind its closed gate ends for a while, and its slice has something to submit, the slice goes
 * next, whatever its lead, for SCHED_BOOST_QUANTUM_NS; that is charged as any turn, and one with a cap is lent what it needs
 * for it, no more often than its cap fills as much. If something of it then ends, the next time comes earlier, down
 * to 5 ms; else later, up to SCHED_STUCK_NS, as with kernels that are long or never end. One slice at a time on a
 * GPU, and SCHED_QUANTUM_NS lie between two of them: so all who are urged take SCHED_BOOST_QUANTUM_NS of (SCHED_QUANTUM_NS +
 * SCHED_BOOST_QUANTUM_NS) at most. One of class latency that goes first goes before them, too.
 *
 * Charges. Seen on an H100: what is in flight when the gates of a part close has the GPU until it has run,
 * for as long as the hardware's own slice, SCHED_TIME_SLICE_NS; the next one's first kernel begins behind it,
 * after a change of contexts of about 160 us. So for so long that part is charged alone. But now and then
 * (6 % of the turns) that slice is just over when the next one's kernel comes, which has the next slice then,
 * and what was in flight waits behind it. So a part whose tails are mostly short is charged for half as long
 * again as these, and a slice from then on the others are. Not if another one had work in flight already
 * when its gates closed: then the hardware rotates among them. Then, and behind all that, all parts with work
 * in flight share the time equally. So the sum of all charges on a GPU is the time in which anybody had work
 * there, by construction and to the nanosecond; the change is charged to who comes. Time in which a holder is
 * waited for is charged to nobody, but counts against it in virtual time.
 *
 * Lag. v = (charged + waited for) / weight: virtual time, in which all should go forward alike. Let
 * q = turn / (largest weight of those that want), where turn is SCHED_QUANTUM_NS, or shorter with many. Then for
 * any two parts i and j of a GPU that want it all the time and take turns, as all slices have only this GPU and
 * no limit, and i is not urged,
 *
 *	v_i - v_j <= q/4 + max(5/4 q, SCHED_QUANTUM_MIN_NS / w_i) + tail_i / w_i
 *
 * where tail_i is the most that i is charged for what runs on after its gates were closed: alone, as far as
 * that ends within SCHED_TIME_SLICE_NS, as what is METERED to the end of a turn does but for a long kernel. Proof:
 * v_j never falls, and v_i rises only while i has the turn or its tail runs. To whom of both the time goes in
 * which a tail runs beside the next turn does not matter, as it is charged once. i gets a turn only if no
 * part that wants is more than q/4 behind it (sched_pick_next(), sched_pick_interrupting(); a holder goes on after the end of
 * its turn only if all are ahead of it): v_i - v_j <= q/4 when the turn begins. A turn lasts no longer than
 * for 5/4 q of virtual time, or SCHED_QUANTUM_MIN_NS (sched_quantum_length()), and is charged its length at most; less,
 * where it begins behind the tail of another. Then comes its own tail, and no other turn before
 * v_i - v_j <= q/4 again. The tail is charged too, and so repaid. []
 *
 * A part that has been idle comes back with a credit of one turn at most, and owes SCHED_DEBT_MAX_NS at most.
 *
 * Waiting. A part i that wants has its gate open when its own tail has run, all others have come to where
 * it stands, and have had one turn each: after tail_i + sum over j of (w_j * (lag of i against j) + 5/4
 * turn + tail_j), and (SCHED_LATENCY_LEAD_NS + SCHED_QUANTUM_NS) for each latency part. With equal weights and short kernels
 * that is one round, the sum of the others' turns.
 *
 * Times are nanoseconds of one monotonic clock; they never go back. Thread: one. Blocks: never.
 */
#include "model/sched/quantum-end.h"
#include "abi/slice-limits.h"

#include <stdbool.h>
#include <stdint.h>

#define SCHED_GPUS_MAX         64
#define SCHED_QUANTUM_NS       UINT64_C(25000000) /* a turn; up to 5/4 of it */
#define SCHED_ROUND_NS         UINT64_C(100000000) /* many have shorter ones, to keep this round */
#define SCHED_QUANTUM_MIN_NS   UINT64_C(2000000)
#define SCHED_INTERRUPT_MIN_NS UINT64_C(1000000) /* before another one goes in between */
#define SCHED_INTERRUPT_MAX_NS UINT64_C(4000000)
#define SCHED_IDLE_NS          UINT64_C(1000000000)
#define SCHED_DEBT_MAX_NS      UINT64_C(5000000000)
#define SCHED_CAP_BURST_NS     UINT64_C(40000000) /* of a capped part */
#define SCHED_CAP_PORTION_NS   UINT64_C(15000000) /* it has this much before it goes on */
#define SCHED_BOOST_QUANTUM_NS UINT64_C(5000000)  /* the turn of one that is urged */
#define SCHED_TIME_SLICE_NS    UINT64_C(2000000)  /* the hardware's own */
#define SCHED_LATENCY_LEAD_NS \
	UINT64_C(50000000) /* that a latency part may be ahead of its share */
#define SCHED_GRACE_MIN_NS       UINT64_C(100000) /* that an idle holder is waited for */
#define SCHED_GRACE_MAX_NS       UINT64_C(200000)
#define SCHED_STUCK_NS           UINT64_C(10000000000)
#define SCHED_BUSY_PERCENT       95                  /* percent: what turns use is enough */
#define SCHED_CONCURRENT_LOSS_NS UINT64_C(100000000) /* by going together */
#define SCHED_CONCURRENT_MAX_NS  UINT64_C(10000000000)
#define SCHED_WINDOW_NS          SCHED_TIME_SLICE_NS /* of work in flight */
#define SCHED_OVERRUN_NS         UINT64_C(250000)    /* the same at the end of a turn */
#define SCHED_WINDOW_LATENCY_NS  UINT64_C(300000)    /* both, beside a latency part */

enum sched_gate { SCHED_GATE_CLOSED, SCHED_GATE_THROTTLED, SCHED_GATE_OPEN };

/* Of a slice on one GPU. */
struct sched_share_config {
	uint32_t weight; /* 1 to SLICE_WEIGHT_MAX */
	uint32_t cap;    /* of SLICE_CAP_ALL; 0: none, it may have all that others leave */
	bool latency;
	bool mps; /* no turns: under MPS all have their gates open. .cap and .latency say nothing */
};

/*
 * What holds while a gate is METERED. In flight may be min(.window_ns, what is left of the turn +
 * .overrun_ns); left is .quantum_ns from the moment it was set, UINT64_MAX if the turn has no end yet. No limit
 * at all: all three are UINT64_MAX.
 */
struct sched_throttle {
	uint64_t window_ns, overrun_ns, quantum_ns;
};

struct sched;
struct sched_slice;
struct sched_share;

/* Who reads these reads them only. */
struct sched_client {
	struct sched_client *next; /* of .share */
	struct sched_share *share;
	enum sched_gate gate;
	struct sched_throttle throttle;
	bool busy, wants;
	uint64_t charged_ns; /* of the part's, shared equally among its seats that were busy */
	uint64_t done;       /* submissions that have ended, at the last look */
	uint64_t last_done,
		last_progress_at; /* while its gate is closed: the same, and since when */
	bool boosted;             /* what it has in flight should end in this turn */
	void *user;
};

/*
 * @gate sets what .gate and .throttle of a seat say from now on: called when either has changed, also for
 * another turn behind the last one, where the gate stays as it is and .throttle.turn_ns counts anew. It must
 * not call back. Where the gate of a seat opens that wants, the seat counts as busy from then on and wants
 * no more. @done says how many submissions of the process on the seat's GPU have ended so far, never less than
 * before; it is asked some hundred times a second. What it says decides only whether there are turns, and
 * when somebody waits for a launch of its own. NULL: there always are. Returns NULL: no memory.
 */
struct sched *sched_new(void (*gate)(void *arg, struct sched_client *client),
	uint64_t (*done)(void *arg, const struct sched_client *client), void *arg);
struct sched *sched_free(struct sched *t); /* with all that is in it. NULL */

/* NULL: no memory. Its share of a GPU is { .weight = 1 } until it is set. */
struct sched_slice *sched_slice_new(struct sched *t, void *user);
/* Another share of GPU number @gpu, from now on: also from turns to MPS and back, with work in flight and
 * whoever waits at a gate. < 0: no memory, and nothing has changed. */
int sched_slice_set_share(struct sched *t, struct sched_slice *s, unsigned int gpu,
	const struct sched_share_config *share, uint64_t now);
/* Its seats have been dropped. */
void sched_slice_free(struct sched *t, struct sched_slice *s);

/* A process that may have work on the GPU: idle, its gate as that of the slice is. NULL: no memory. */
struct sched_client *sched_client_new(struct sched *t, struct sched_slice *s, unsigned int gpu,
	void *user, uint64_t now);
/* It is gone, and with it what it had in flight. */
void sched_client_free(struct sched *t, struct sched_client *client, uint64_t now);

/*
 * Where a process stands (abi/slice-wire.h, struct slice_state): it has work in flight or not, and if
 * not since @idle_ns, for which it is not charged as far as its GPU's time has not been charged yet (at
 * the last event there); it stands before its closed gate with more or not. If it wants and its gate is
 * not closed it counts as busy.
 */
void sched_client_set_state(struct sched *t, struct sched_client *client, bool busy, bool wants,
	uint64_t idle_ns, uint64_t now);

/* When sched_advance_time() is to be called at the latest; UINT64_MAX: need not be. Later than the last call. */
uint64_t sched_next_deadline(const struct sched *t);
void sched_advance_time(struct sched *t, uint64_t now);

/* Brings the charges up to @now, for whoever reads them. */
void sched_update_charges(struct sched *t, uint64_t now);

/* Of a slice on one GPU, as of the last settlement. */
struct sched_account {
	uint64_t charged_ns; /* never less than before */
	uint64_t quanta;     /* that it has had */
	uint64_t resumed;    /* quanta that were interrupted, and went on */
	/* Why it gave the GPU up, and how often. .quanta and .resumed together are the sum of these, and one
	 * more while it holds the GPU. */
	uint64_t quantum_ends[SCHED_ENDS];
	uint64_t revoked;   /* its gates closed while it had work in flight or wanted more */
	uint64_t waited_ns; /* in which some seat of it wanted and had no turn */
	bool has_quantum;   /* it has the turn now */
	bool demoted;       /* of class latency, but beyond its share, or its cap, now */
	uint64_t
		stuck_ns; /* has had work in flight for so long since its gates closed; 0: has none */
};
/* All zero: it has no seats there, and never had. */
void sched_account(const struct sched *t, const struct sched_slice *s, unsigned int gpu,
	uint64_t now, struct sched_account *ret);
/* All have their gates open now, as turns would leave the GPU idle. */
bool sched_is_concurrent(const struct sched *t, unsigned int gpu);
/* ns in which anybody had work on the GPU: the sum of all charges there, of slices that are gone too. */
uint64_t sched_gpu_busy_ns(const struct sched *t, unsigned int gpu);
