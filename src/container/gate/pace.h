/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The gate thread's decisions (gate-thread.h): how much may be in flight, when a fence is due, when to
 * poll again, when to report that nothing is left. Pure: no clock, no driver; one struct pace for each
 * GPU. Times are nanoseconds of one clock, lengths nanoseconds. Thread: one.
 *
 * The figures are of an H100 (driver 580). A fence costs 0.2 to 5 us, a poll of a fence 0.2 to 4 us. A
 * thread that sleeps 20 us sees an end 35 us after it. A wait for an event in the driver sees an end
 * after 85 to 560 us.
 */
#include <stdbool.h>
#include <stdint.h>

#define PACE_WINDOW_NS          UINT64_C(900000) /* in flight, where the arbiter sets no window */
#define PACE_IN_FLIGHT_MIN      2 /* submissions in flight: with fewer the GPU runs dry */
#define PACE_FENCE_GAP_MAX      (1u << 20)       /* submissions between two fences */
#define PACE_FIRST_NS           UINT64_C(100000) /* of a submission, before one was measured */
#define PACE_FENCE_GAP_NS       UINT64_C(250000) /* of GPU time between two fences */
#define PACE_SAMPLES            5
#define PACE_TIGHT_NS           UINT64_C(400000) /* a smaller window is tight */
#define PACE_LEAD_NS            UINT64_C(100000) /* a woken thread submits 20 to 90 us later */
#define PACE_FENCE_GAP_TIGHT_NS UINT64_C(80000)  /* the same for a tight window */
#define PACE_LATE_NS \
	UINT64_C(5000000) /* longer than others' time slice: the estimate was too short */
#define PACE_STALL_NS      UINT64_C(10000000)
#define PACE_STALL_MAX_NS  UINT64_C(5000000000)
#define PACE_EARLY_NS      UINT64_C(30000) /* before an expected end the polls are close */
#define PACE_POLL_CLOSE_NS UINT64_C(20000) /* between two close polls */
#define PACE_POLL_THROTTLED_NS \
	UINT64_C(40000) /* the same where threads are held, if no end is expected yet */
#define PACE_POLL_OVERDUE_MAX_NS \
	UINT64_C(500000) /* the maximum between two polls of what takes longer */
#define PACE_POLL_OPEN_MIN_NS \
	UINT64_C(50000) /* between two polls where no slice waits, doubled up to */
#define PACE_POLL_OPEN_MAX_NS UINT64_C(2000000)
#define PACE_LINGER_NS        UINT64_C(300000) /* of polls after an end: most programs go on soon */

struct pace {
	uint64_t each_ns; /* of a submission, estimated; 0: none was measured */
	struct pace_sample {
		uint64_t took_ns, n;
	} samples[PACE_SAMPLES];            /* of the last fences, which .each_ns is from */
	uint64_t measured_ns[PACE_SAMPLES]; /* per submission, from ends that were seen */
	unsigned int next;
	uint64_t
		from_ns; /* when the work that is measured now began: the last end seen, or later */
	uint64_t
		pending_ns; /* when the last poll found work in flight; 0: none did since an end */
	uint64_t ended_ns;  /* estimated end of the last work in flight */
	uint64_t quiet_ns;  /* since when polls found nothing in flight; 0: there is some */
	uint64_t open_ns;   /* present interval of polls where no slice waits */
	uint64_t opened_ns; /* when a poll first saw the gate's present state */
	bool closed; /* the gate: what ends may have waited for other slices: no measure */
	bool behind; /* what ends next may have, too */
	bool idle; /* no poll has found work in flight since .from_ns: what ends next began later */
};

/* ---- what is in flight -------------------------------------------------------------------------- */

/* The doorbell rang: the gate thread rested and polls again. */
void pace_doorbell_rang(struct pace *p);
/* A poll of the gate. @changed: the gate, or the quantum, has changed since the poll before. Work that
 * ends at a closed gate may have waited for other slices' work. So may the first work that ends after a
 * change. */
void pace_gate(struct pace *p, uint64_t now, bool changed, bool closed);
/* A poll found work in flight where the poll before found none. */
void pace_begins(struct pace *p, uint64_t now);
/* A poll found that the work is still in flight. */
void pace_pending(struct pace *p, uint64_t now);
/* The first fence, behind @ahead submissions, has not passed. If that takes long already, the submissions
 * are long. */
void pace_overdue(struct pace *p, uint64_t now, uint64_t ahead);
/* A poll found that @n submissions more are done. Returns how long they took; 0: unknown, as they may
 * have waited for other slices' work. */
uint64_t pace_done(struct pace *p, uint64_t now, uint64_t n);
/* A poll found nothing in flight. */
void pace_idle(struct pace *p, uint64_t now);

/* ---- how much may be in flight ------------------------------------------------------------------ */

/* ns of work that may be in flight: @window_ns (0: PACE_WINDOW_NS), or less, if less is left of a quantum
 * of @quantum_ns that began @age_ns ago, with its overrun @overrun_ns. @quantum_ns 0: the quantum is no limit. */
uint64_t pace_window(uint64_t window_ns, uint64_t overrun_ns, uint64_t quantum_ns,
	uint64_t age_ns);

/* What is in flight. */
struct pace_flight {
	uint64_t n;        /* submissions */
	uint64_t work_ns;  /* what they take */
	uint64_t front_ns; /* of it, up to the first fence that has not passed; 0: unknown */
	uint64_t from_ns;  /* when that began */
};

/* Another slice waits for whatever is in flight: so small a window is kept by the clock. */
static inline bool pace_is_tight(uint64_t window_ns)
{
	return window_ns && window_ns < PACE_TIGHT_NS;
}

/*
 * Whether one more submission, of @cost_ns, fits where @allow_ns may be in flight. PACE_IN_FLIGHT_MIN fit
 * anyway, as the GPU would run dry. Where it is @tight, the last of these goes only PACE_LEAD_NS before
 * the others end, and what is over of the first counts no more. @now: needed only then.
 */
bool pace_fits(const struct pace_flight *f, uint64_t cost_ns, uint64_t allow_ns, bool tight,
	uint64_t now);

/* When one more of @cost_ns will fit a tight window, if nothing ends before that; UINT64_MAX: it will
 * not. */
uint64_t pace_fits_at(const struct pace_flight *f, uint64_t cost_ns, uint64_t allow_ns);

/*
 * How long TURN_THROTTLED holds a thread while nothing ends. What is in flight may itself wait for that
 * thread (a wait for a value that the host writes), so the hold must end. But a kernel may just be long.
 * The limit comes from submissions that have ended: taken from an overdue one, it would grow during the
 * hold.
 */
uint64_t pace_stall(const struct pace *p);

/* Whether a fence is due behind @unmarked submissions. @pending: fences have not passed yet. @held:
 * threads wait for an end. */
bool pace_fence_due(const struct pace *p, uint64_t unmarked, bool pending, bool held);

/* ---- when to poll again ------------------------------------------------------------------------- */

struct pace_state {
	bool is_awaited; /* another slice waits for the end of what is in flight */
	bool throttled;  /* TURN_THROTTLED holds threads */
	uint64_t
		ahead; /* submissions up to the first fence that has not passed; 0: there is none */
	uint64_t unfenced; /* behind the last fence */
	uint64_t fits_ns;  /* when a held submission may go, by the clock; 0: unknown */
};
/* ns from @now. */
uint64_t pace_sleep(struct pace *p, uint64_t now, const struct pace_state *s);

/* ---- nothing in flight -------------------------------------------------------------------------- */

enum pace_rest {
	PACE_STAY,   /* poll again: the arbiter need not know yet */
	PACE_REPORT, /* report that, and poll again */
	PACE_REST,   /* report that, and rest until the doorbell */
};
/* After pace_idle(). @near: another slice waits. @closed: the gate is; a thread that comes reports
 * anyway. */
enum pace_rest pace_rest(const struct pace *p, uint64_t now, bool near, bool closed);

/* ---- without an arbiter ------------------------------------------------------------------------- */

/* What a process holds itself to while there is no arbiter. Zero: full, at its first use. */
struct pace_bucket {
	uint64_t at_ns;
	int64_t left_ns; /* of GPU time; < 0: owed */
};

#define PACE_BURST_NS INT64_C(20000000)

/* Brings the bucket to @now, at @cap millionths of the GPU. @busy: work was in flight since the last
 * call. Returns whether work may go on. */
bool pace_bucket(struct pace_bucket *b, uint64_t now, uint32_t cap, bool busy);

/* How long it will be until work may go on. */
uint64_t pace_bucket_wait(const struct pace_bucket *b, uint32_t cap);
