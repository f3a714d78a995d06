/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The fair-share scheduler: which slice has a GPU when. It shares GPU time by weight, with virtual time. The
 * code is pure: the caller passes events and the time in, and the scheduler sets gates through a callback. So
 * the same code runs in the arbiter and in a simulation of thousands of scenarios.
 *
 *	slice ── share ── client	a share is a slice on one GPU, a client one of its processes there
 *
 * Quanta. One share of a GPU, the holder, has the quantum. The gates of its clients are THROTTLED: a limited
 * amount of work may be in flight. At the end of the quantum the gates of the next share open at once, and its
 * first kernels are submitted while the holder's last kernels drain. So the GPU never runs dry. No share waits
 * for a kernel that itself needs the next launch of its own process. The scheduler asks no process and waits for
 * none, so a process that hangs or is gone holds up no other process. Once no other share has wanted the GPU for
 * SCHED_IDLE_NS, the holder's gates are OPEN, without any limit. Exceptions are a holder with a cap and a holder
 * beside a latency share.
 *
 * Waiting for an idle holder. A program that launches, waits and thinks is idle again and again. To pass the GPU on
 * each time costs two context switches, and the program's weight: it would have one burst each time, whatever its
 * weight. To wait costs the idle time. So the scheduler waits for a return for as long as that pays, by the lengths
 * of the share's idle times before (gaps.c). A return is worth
 * 1. one context switch and the hand-over;
 * 2. another switch, if the next share does not give the GPU up by itself (it did not in its last quantum);
 * 3. what the next share would do first, if the next share is ahead in virtual time.
 * So two loops of equal weight take turns, one burst each, and fill each other's idle times. With weights 1 and 3 the
 * second has three bursts in a row. The wait is at most SCHED_GRACE_MAX_NS, is charged to no share, and adds to the
 * virtual time of the share that is waited for.
 *
 * Let in. Where all bursts of the holder take the same time, and the GPU will not be waiting for the holder, the gates of
 * the next share open just before the burst ends (burst.c). Its work then follows after one switch of the hardware. If
 * the burst was not over, the holder's next bursts end without that.
 *
 * Interruption. A share that lost its quantum by being idle, and is behind the holder, need not wait for the end
 * of the holder's quantum:
 * 1. The holder runs for SCHED_INTERRUPT_NS first. All interruptions of a GPU cost SCHED_INTERRUPT_PERCENT of its
 *    time at most, in context switches; a share that comes when that is used up waits for more, or for the quantum's end.
 * 2. The share that is behind runs until it is level with the holder or idle again. Then others that are behind do.
 * 3. The holder goes on with the rest of its quantum.
 * A holder that gave the GPU up by itself the last time, and has bursts within a time slice, is not interrupted for that
 * long: its work would run on.
 * So a share that rests now and then does not lose a round each time.
 *
 * Concurrent. A program whose CPU hardly keeps up leaves gaps between its kernels. They are too short for
 * another quantum, so time sharing loses them. Therefore:
 * 1. With time sharing, the scheduler measures the pace of each share: submissions that ended per time in which
 *    the share wanted the GPU.
 * 2. Where work is in flight for SCHED_BUSY_PERCENT percent or less of the time in which any share wants the
 *    GPU, all gates open. The hardware's time-slicing fills the gaps. Where weights differ, the limit is
 *    SCHED_BUSY_WEIGHTED_PERCENT: concurrent gates have no weights.
 * 3. As soon as one share has lost SCHED_CONCURRENT_LOSS_NS of wanted time against its pace, time sharing
 *    resumes. That share gets the loss back first. The delay before the next attempt doubles with each loss.
 * 4. After SCHED_CONCURRENT_MAX_NS the pace is measured again. This is also so when a share appears, disappears,
 *    rests or gets another config.
 * So no share gets on more slowly than with time sharing, apart from that small loss, whatever the others do. A share
 * that had more than its weight gives it, as others left theirs, is judged by what its weight gives it. What each
 * share gains beyond that is not divided by weights. Two limits: between measurements, a share whose
 * submissions become shorter is judged by the longer ones before. A share is judged as a whole, not each client.
 * GPUs that a gang ties together have concurrent gates all at once, or none of them has.
 * The gates never open concurrently on a GPU where a share has a cap, class latency or MPS.
 *
 * Class latency. A latency share goes first as long as it is within its share of the time. Its gates never
 * close. Beside other shares, or with a cap, they are THROTTLED, so that its processes watch closely when they
 * become idle. Without a cap this throttle has no limits. Otherwise the gates are OPEN. When the latency share
 * has work, the holder is paused at once (but see "Trickle"), and goes on when the latency share is idle again. The
 * latency share is demoted when it is SCHED_LATENCY_LEAD_NS ahead of another share that has work, or when its cap is used up.
 * From then until it is level again it takes quanta like all others. So a batch share keeps its share of the
 * time whatever a latency share does, which is more than a fixed floor. It waits for no more than about
 * (SCHED_LATENCY_LEAD_NS + SCHED_QUANTUM_NS) at a time.
 *
 * Trickle. A latency share whose CPU hardly keeps up has a short kernel every few 10 us. To pause the holder each time, or
 * to keep the GPU for it in between, would cost both shares most of the GPU. So a latency share may leave the GPU idle
 * for SCHED_LATENCY_WASTE_PERCENT percent of the time, and a little more after a rest. That pays for the context switches
 * of each pause, and for waiting. While the share has used that up, its work waits behind the holder's, in the
 * hardware's order, until it may pause the holder again. For half a time slice, the holder alone is charged; after that
 * the share probably has the GPU, too.
 *
 * MPS. MPS runs kernels of several processes side by side, and quanta would take that away. So the gates of
 * shares with .mps are always OPEN, whatever their class and cap (percentages of MPS do what a cap does). They
 * are charged like all others. The scheduler ignores MPS shares where it orders time-shared shares: an MPS share
 * is never next, behind or ahead, contends for nothing, lends and borrows nothing, and its virtual time does not
 * move. A GPU has both kinds only while it changes from one kind to the other. Meanwhile the holder is charged its
 * part of the time, as beside any other share with work. So the holder's virtual time rises no faster than the
 * clock, and the bound of "Lag" below holds among the time-shared shares. The GPU gives these shares less than
 * their quanta, by what the MPS shares use.
 *
 * Caps. A share with a cap has a bucket. The clock fills it, and charges empty it. In any stretch of time the
 * share is charged at most cap * time + SCHED_CAP_BURST_NS, and what was in flight when the bucket became empty.
 * Then the share waits until the bucket has SCHED_CAP_PORTION_NS, as each new start costs a context switch.
 *
 * Gangs. A slice with clients on several GPUs, a gang, has its quantum on all of them or on none. It may
 * interrupt, at any time, a slice that has only one GPU, unless that slice is behind the gang. It takes a GPU
 * from another gang, or from a boosted slice, at the end of that slice's quantum. A gang that is further ahead
 * yields the GPUs that another gang waits for. The order of gangs is total, so no two wait for each other.
 *
 * Boost. Work in flight may itself need the next launch of its own program: a collective's kernel of one rank
 * waits for those of the other ranks. Behind a closed gate such work never ends. It would be charged all along,
 * and its slice would never be behind the others or have anything in its bucket. Therefore:
 * 1. The scheduler sees that for a while (100 ms at first) no work of a process behind its closed gate has
 *    ended, and that its slice has more to submit.
 * 2. It boosts the slice: the slice goes next, whatever its lead, for SCHED_BOOST_QUANTUM_NS. Only a latency
 *    share with priority goes before it.
 * 3. That quantum is charged like any other. A share with a cap borrows what it needs, no more often than its
 *    cap refills as much.
 * 4. If some of the work then ends, the next boost comes earlier, down to 5 ms. If not, it comes later, up to
 *    SCHED_STUCK_NS, as with kernels that are long or never end.
 * A GPU has one boosted slice at a time, and SCHED_QUANTUM_NS between two. So all boosted slices together take
 * at most SCHED_BOOST_QUANTUM_NS of (SCHED_QUANTUM_NS + SCHED_BOOST_QUANTUM_NS).
 *
 * Charges. Measured on an H100: work that is in flight when a share's gates close, its overrun, keeps the GPU
 * until it is done, for up to the hardware's time slice, SCHED_TIME_SLICE_NS. The first kernel of the next share
 * starts after that and after a context switch of about 160 us. In 6 % of the quanta the time slice ends just
 * when that kernel arrives: then the next share has the next time slice, and the overrun waits behind it. So the
 * time after the gates close is charged in this order:
 * 1. To the closed share alone, for half as long again as its overruns usually last (plus SCHED_GRACE_MIN_NS),
 *    and for at most SCHED_TIME_SLICE_NS.
 * 2. If step 1 is shorter than a time slice: to the other shares with work, if any, for SCHED_TIME_SLICE_NS.
 * 3. To all shares with work in flight, equally.
 * If another share had work in flight already when the gates closed, the hardware rotates among them, and step 3
 * applies at once. So the sum of all charges on a GPU is the time in which any share had work there, by
 * construction and to the nanosecond. The next share pays for the context switch. Time in which the GPU
 * waits for an idle holder is charged to no share, but adds to the holder's virtual time.
 *
 * Lag. Let v = (charged + time waited for it) / weight. This is virtual time, in which all shares should advance alike.
 * Let q = quantum / (largest weight of the shares that want the GPU). The quantum is SCHED_QUANTUM_NS, or
 * shorter with many shares. Take any two time-shared shares i and j of a GPU that want it all the time. All
 * slices have only this GPU and no cap, and i is not boosted. Then:
 *
 *	v_i - v_j <= q/4 + max(5/4 q, SCHED_QUANTUM_MIN_NS / w_i) + overrun_i / w_i
 *
 * Here overrun_i is the most that i is charged for work that runs on after its gates closed. i alone is charged
 * for it, as far as it ends within SCHED_TIME_SLICE_NS. The overrun of THROTTLED work does, unless a kernel is
 * long.
 *
 * Proof.
 * 1. v_j never falls. (The limit of debts, SCHED_DEBT_MAX_NS, lowers only a lead of seconds.)
 * 2. v_i rises only while i has the quantum or its overrun runs. An overrun beside the next quantum is charged
 *    once, so it does not matter to which of the two shares.
 * 3. i gets a quantum only if no share that wants the GPU is more than q/4 behind i (sched_pick_next(),
 *    sched_pick_interrupting()). A holder gets another quantum only if all others are ahead of it. So v_i - v_j
 *    <= q/4 when the quantum begins.
 * 4. A quantum lasts at most 5/4 q of virtual time, or SCHED_QUANTUM_MIN_NS (sched_quantum_length()). i is
 *    charged at most its length, and less if it begins behind the overrun of another share. A quantum that goes
 *    on after a pause or an interruption is the same quantum: earlier charges count (sched_quantum_max()).
 * 5. Then comes the overrun of i, and no other quantum of i before v_i - v_j <= q/4 again. The overrun is
 *    charged too, and so repaid. []
 *
 * Credit. A share that was idle comes back with a credit of one quantum at most, and never owes more than
 * SCHED_DEBT_MAX_NS.
 *
 * Waiting. The gate of a share i that wants the GPU opens at the latest after
 *
 *	overrun_i + sum over j of (w_j * (v_i - v_j) + 5/4 quantum + overrun_j)
 *
 * and another (SCHED_LATENCY_LEAD_NS + SCHED_QUANTUM_NS) for each latency share. Proof: by then
 * 1. the overrun of i is done,
 * 2. all other shares have caught up with i, and
 * 3. each of them has had one quantum more.
 * With equal weights and short kernels this is one round, the sum of the others' quanta.
 *
 * Times are nanoseconds of one monotonic clock, and never go back. Thread: one. Never blocks.
 */
#include "model/sched/quantum-end.h"
#include "abi/slice-limits.h"

#include <stdbool.h>
#include <stdint.h>

#define SCHED_GPUS_MAX   64
#define SCHED_QUANTUM_NS UINT64_C(25000000) /* a quantum; it may last up to 5/4 of this */
/* With many shares quanta are shorter, to keep this round. */
#define SCHED_ROUND_NS          UINT64_C(100000000)
#define SCHED_QUANTUM_MIN_NS    UINT64_C(2000000)
#define SCHED_INTERRUPT_NS      UINT64_C(500000) /* before an interruption */
#define SCHED_INTERRUPT_PERCENT 20 /* percent: of the time, that interruptions may cost */
#define SCHED_IDLE_NS           UINT64_C(1000000000)
#define SCHED_DEBT_MAX_NS       UINT64_C(5000000000)
#define SCHED_CAP_BURST_NS      UINT64_C(40000000) /* size of the bucket of a cap */
#define SCHED_CAP_PORTION_NS    UINT64_C(15000000) /* bucket needed for a new start */
#define SCHED_BOOST_QUANTUM_NS  UINT64_C(5000000)  /* quantum of a boosted slice */
#define SCHED_TIME_SLICE_NS     UINT64_C(2000000)  /* the hardware's */
#define SCHED_LATENCY_LEAD_NS   UINT64_C(50000000) /* lead at which a latency share is demoted */
#define SCHED_SWITCH_NS         UINT64_C(160000) /* of the hardware, from one process to another */
/* Percent of the time that a latency share may leave the GPU idle. */
#define SCHED_LATENCY_WASTE_PERCENT 10
#define SCHED_GRACE_MIN_NS          UINT64_C(100000)  /* shorter times do not matter */
#define SCHED_GRACE_MAX_NS          UINT64_C(2000000) /* longest wait for an idle holder */
#define SCHED_STUCK_NS              UINT64_C(10000000000)
#define SCHED_BUSY_PERCENT          95 /* percent: above this, time sharing uses the GPU well */
#define SCHED_BUSY_WEIGHTED_PERCENT 85 /* the same, where weights differ */
#define SCHED_CONCURRENT_LOSS_NS    UINT64_C(100000000) /* of one share, by concurrent gates */
#define SCHED_CONCURRENT_MAX_NS     UINT64_C(10000000000)
#define SCHED_WINDOW_NS             SCHED_TIME_SLICE_NS /* limit of work in flight */
#define SCHED_OVERRUN_NS            UINT64_C(250000)    /* the limit at the end of a quantum */
/* Both limits, beside a latency share that does not trickle. */
#define SCHED_WINDOW_LATENCY_NS UINT64_C(300000)

enum sched_gate { SCHED_GATE_CLOSED, SCHED_GATE_THROTTLED, SCHED_GATE_OPEN };

/* The configuration of a share. */
struct sched_share_config {
	uint32_t weight; /* 1 to SLICE_WEIGHT_MAX */
	uint32_t cap;    /* of SLICE_CAP_ALL; 0: no cap */
	bool latency;
	/* runs under MPS: gates always open, and .cap and .latency are ignored */
	bool mps;
};

/*
 * Limits while a gate is THROTTLED. Work in flight is at most min(.window_ns, time left of the quantum +
 * .overrun_ns). The time left is .quantum_ns when the throttle is set; UINT64_MAX: the quantum has no end yet.
 * All three UINT64_MAX: no limit.
 */
struct sched_throttle {
	uint64_t window_ns, overrun_ns, quantum_ns;
};

struct sched;
struct sched_slice;
struct sched_share;

/* Read-only outside the scheduler. */
struct sched_client {
	struct sched_client *next; /* of .share */
	struct sched_share *share;
	enum sched_gate gate;
	struct sched_throttle throttle;
	bool busy, wants;
	/* its part of the share's charge: equal parts for all clients that were busy */
	uint64_t charged_ns;
	uint64_t done; /* submissions that have ended, when last read */
	/* behind a closed gate: submissions that have ended, and since when that number is unchanged */
	uint64_t last_done, last_progress_at;
	bool boosted; /* some of its work in flight should end in this boosted quantum */
	void *user;
};

/*
 * @gate applies the .gate and .throttle of a client. The scheduler calls it when either has changed, and for a
 * renewed quantum, where the gate stays and .throttle.quantum_ns starts again. It must not call the scheduler.
 * If a gate opens at which a client wants the GPU, the client counts as busy from then on and wants no more.
 *
 * @done returns how many submissions of the process on the client's GPU have ended. It never returns less than
 * before. The scheduler calls it some hundred times a second. The result decides only about concurrent gates and
 * boosts. NULL: always time sharing.
 *
 * Returns NULL: no memory.
 */
struct sched *sched_new(void (*gate)(void *arg, struct sched_client *client),
	uint64_t (*done)(void *arg, const struct sched_client *client), void *arg);
struct sched *sched_free(
	struct sched *sched); /* frees all slices and clients too; NULL is accepted */

/* NULL: no memory. Each share is { .weight = 1 } until it is set. */
struct sched_slice *sched_slice_new(struct sched *sched, void *user);
/*
 * Changes the share on GPU number @gpu from now on, also from time sharing to MPS and back, with work in flight
 * and with threads that wait at a gate. < 0: no memory, nothing has changed.
 */
int sched_slice_set_share(struct sched *sched, struct sched_slice *s, unsigned int gpu,
	const struct sched_share_config *config, uint64_t now);
/* The caller has freed the clients before. */
void sched_slice_free(struct sched *sched, struct sched_slice *s);

/*
 * A process that may have work on the GPU. It begins idle, with its gate as the other gates of the share. NULL:
 * no memory.
 */
struct sched_client *sched_client_new(struct sched *sched, struct sched_slice *s,
	unsigned int gpu, void *user, uint64_t now);
/* The process is gone, and its work in flight with it. */
void sched_client_free(struct sched *sched, struct sched_client *client, uint64_t now);

/*
 * The state that a process reports (abi/slice-wire.h, struct slice_state). @busy: it has work in flight. If not,
 * it has been idle for @idle_ns. It is not charged for that time, as far back as the GPU's last event: earlier
 * time is charged already. @wants: it waits at its closed gate with more work. A client that wants the GPU while
 * its gate is not closed counts as busy.
 */
void sched_client_set_state(struct sched *sched, struct sched_client *client, bool busy,
	bool wants, uint64_t idle_ns, uint64_t now);

/*
 * The latest time for the next sched_advance_time(), later than the last call's @now; UINT64_MAX: no call is
 * needed.
 */
uint64_t sched_next_deadline(const struct sched *sched);
/* Makes all decisions that are due at @now. A call that is too early changes nothing. */
void sched_advance_time(struct sched *sched, uint64_t now);

/* Brings the charges up to @now, before a caller reads them. */
void sched_update_charges(struct sched *sched, uint64_t now);

/* The figures of a share, as of the last settlement. */
struct sched_account {
	uint64_t charged_ns; /* never less than before */
	uint64_t quanta;     /* its quanta, with renewed ones */
	uint64_t resumed;    /* its quanta that went on after an interruption */
	/*
	 * Ends by reason. Their sum is .quanta + .resumed, less one while the share holds the GPU (also while it
	 * is paused).
	 */
	uint64_t quantum_ends[SCHED_ENDS];
	/* how often its gates closed while it had work in flight or wanted more */
	uint64_t revoked;
	/* time in which some client waited at a closed gate */
	uint64_t waited_ns;
	bool has_quantum; /* has the quantum now, and is not paused */
	bool demoted; /* of class latency, but ahead of its share, or without cap left, now */
	/* how long it has had work in flight since its gates closed; 0: it has none */
	uint64_t stuck_ns;
};
/* The account of the slice on GPU number @gpu, at @now. All zero: the slice never had clients on that GPU. */
void sched_account(const struct sched *sched, const struct sched_slice *s, unsigned int gpu,
	uint64_t now, struct sched_account *ret);
/* Whether all gates are open now, as time sharing would leave the GPU idle. */
bool sched_is_concurrent(const struct sched *sched, unsigned int gpu);
/* ns in which any share had work on the GPU: the sum of all charges there, including slices that are gone. */
uint64_t sched_gpu_busy_ns(const struct sched *sched, unsigned int gpu);
