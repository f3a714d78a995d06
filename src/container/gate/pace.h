/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the keeper decides from what it sees (gate-thread.h): how much may be in flight, when a marker is due,
 * when to look again, when the arbiter is to know that nothing is left. Pure: no clock, no driver; one
 * struct pace for each GPU. Times are nanoseconds of one clock, lengths nanoseconds. Thread: one.
 *
 * The numbers are of an H100 (driver 580): a marker costs 0.2 to 5 us, a look at one 0.2 to 4, a thread
 * that sleeps 20 us sees an end 35 us after it; an event that is waited for in the driver 85 to 560.
 */
#include <stdbool.h>
#include <stdint.h>

#define PACE_WINDOW_NS          UINT64_C(900000) /* in flight, where nobody says how much */
#define PACE_IN_FLIGHT_MIN      2 /* submissions in flight: fewer and the GPU runs dry */
#define PACE_FENCE_GAP_MAX      (1u << 20) /* between two markers */
#define PACE_FIRST_NS           UINT64_C(100000) /* that a submission takes, before one was measured */
#define PACE_FENCE_GAP_NS       UINT64_C(250000) /* markers, in GPU time */
#define PACE_SAMPLES            5
#define PACE_TIGHT_NS           UINT64_C(400000) /* a window of less is tight */
#define PACE_LEAD_NS            UINT64_C(100000) /* a thread that is woken submits 20 to 90 us later */
#define PACE_FENCE_GAP_TIGHT_NS UINT64_C(80000) /* markers, where the window is tight */
#define PACE_LATE_NS \
	UINT64_C(5000000) /* no other's slice: what is in flight is longer than it seemed */
#define PACE_STALL_NS      UINT64_C(10000000)
#define PACE_STALL_MAX_NS  UINT64_C(5000000000)
#define PACE_EARLY_NS      UINT64_C(30000) /* before an end is expected one looks closely */
#define PACE_POLL_CLOSE_NS UINT64_C(20000) /* between two close looks */
#define PACE_POLL_THROTTLED_NS \
	UINT64_C(40000) /* the same where threads are held, if no end is expected yet */
#define PACE_POLL_OVERDUE_MAX_NS \
	UINT64_C(500000) /* the most between two looks at what takes longer */
#define PACE_POLL_OPEN_MIN_NS \
	UINT64_C(50000) /* between two looks where nobody waits, doubled up to */
#define PACE_POLL_OPEN_MAX_NS UINT64_C(2000000)
#define PACE_LINGER_NS        UINT64_C(300000) /* looks on after an end: most programs go on soon */

struct pace {
	uint64_t each_ns; /* that a submission takes, as it seems; 0: none was measured */
	struct pace_sample {
		uint64_t took_ns, n;
	} samples[PACE_SAMPLES]; /* of the last markers, which that is from */
	uint64_t
		measured_ns[PACE_SAMPLES]; /* of one: as above, but only what was seen to end */
	unsigned int next;
	uint64_t
		from_ns; /* when the work that is measured now began: the last end seen, or later */
	uint64_t
		pending_ns; /* when the last look found work in flight; 0: none did since an end */
	uint64_t ended_ns;  /* when, as it seems, the last work in flight ended */
	uint64_t quiet_ns;  /* since when looks found nothing in flight; 0: there is some */
	uint64_t open_ns;   /* the present interval of looks where nobody waits */
	uint64_t opened_ns; /* when the gate's present state was first seen */
	bool closed; /* the gate: what ends may have waited for others' work: no measure */
	bool behind; /* what ends next may have, too */
	bool idle; /* no look has found work in flight since .from_ns: what ends next began later */
};

/* ---- what is in flight -------------------------------------------------------------------------- */

/* The bell rang: the keeper rested and looks again. */
void pace_doorbell_rang(struct pace *p);
/* A look at the gate: whether it, or the turn, is another one than at the look before. What ends where it is
 * closed may have waited for others' work, and what ends first behind a change. */
void pace_gate(struct pace *p, uint64_t now, bool changed, bool closed);
/* There is work in flight where there was none at the look before. */
void pace_begins(struct pace *p, uint64_t now);
/* A look found that it is still there. */
void pace_pending(struct pace *p, uint64_t now);
/* The first marker, behind @ahead submissions, is yet to pass: if that is long already, they are. */
void pace_overdue(struct pace *p, uint64_t now, uint64_t ahead);
/* A look found that @n submissions more are done. Returns how long they took; 0: that cannot be told, as
 * they may have waited for others' work. */
uint64_t pace_done(struct pace *p, uint64_t now, uint64_t n);
/* A look found nothing in flight. */
void pace_idle(struct pace *p, uint64_t now);

/* ---- how much may be ---------------------------------------------------------------------------- */

/* ns of work: @window_ns, or what is left of a turn of @turn_ns that began @age_ns ago and the tail after
 * it. 0 for all: PACE_WINDOW_NS. */
uint64_t pace_window(uint64_t window_ns, uint64_t tail_ns, uint64_t turn_ns, uint64_t age_ns);

/* What is in flight. */
struct pace_flight {
	uint64_t n;       /* submissions */
	uint64_t work_ns; /* what they take */
	uint64_t
		front_ns; /* of it, up to the first marker that is yet to pass; 0: none is known */
	uint64_t from_ns; /* when that began */
};

/* Somebody is kept waiting by whatever is in flight: a window of so little is kept to the clock. */
static inline bool pace_is_tight(uint64_t window_ns)
{
	return window_ns && window_ns < PACE_TIGHT_NS;
}

/*
 * Whether one more, of @cost_ns, fits where @allow_ns may be in flight. There are PACE_IN_FLIGHT_MIN all the same, as
 * the GPU would run dry: where it is @tight the last of them only PACE_LEAD_NS before the others end, and
 * what is over of the first counts no more. @now: needed only then.
 */
bool pace_fits(const struct pace_flight *f, uint64_t cost_ns, uint64_t allow_ns, bool tight,
	uint64_t now);

/* When one more of @cost_ns will fit where it is tight, if nothing ends before that; UINT64_MAX: not. */
uint64_t pace_fits_at(const struct pace_flight *f, uint64_t cost_ns, uint64_t allow_ns);

/* Submissions between two markers. */
uint32_t pace_fence_gap(const struct pace *p);

/*
 * How long METERED holds a thread while nothing ends. What is in flight may itself wait for that thread (a
 * wait for a value that the host writes), so it must not be for ever; but a kernel may just be long. That is
 * known from those that have ended: were it taken from what is overdue it would grow while one waits.
 */
uint64_t pace_stall(const struct pace *p);

/* Whether a marker is to be placed behind @unmarked submissions. @pending: there are markers yet to
 * pass; @held: threads wait for an end. */
bool pace_fence_due(const struct pace *p, uint64_t unmarked, bool pending, bool held);

/* ---- when to look again ------------------------------------------------------------------------- */

struct pace_state {
	bool is_awaited; /* somebody waits for the end of what is in flight */
	bool throttled;  /* METERED holds threads */
	uint64_t
		ahead; /* submissions up to the first marker that is yet to pass; 0: there is none */
	uint64_t unfenced; /* behind the last one */
	uint64_t fits_ns;  /* when a held one may go, by the clock; 0: nobody knows */
};
/* From now. */
uint64_t pace_sleep(struct pace *p, uint64_t now, const struct pace_state *s);

/* ---- nothing in flight -------------------------------------------------------------------------- */

enum pace_rest {
	PACE_STAY,   /* look again: the arbiter need not know yet */
	PACE_REPORT, /* say so, and look again */
	PACE_REST,   /* say so, and rest until the bell */
};
/* After pace_idle(). @closed: the gate is; who comes says so anyway. */
enum pace_rest pace_rest(const struct pace *p, uint64_t now, bool near, bool closed);

/* ---- alone -------------------------------------------------------------------------------------- */

/* What a slice holds itself to while there is no arbiter. Zero: full, at its first use. */
struct pace_bucket {
	uint64_t at_ns;
	int64_t left_ns; /* of GPU time; < 0: owed */
};

#define PACE_BURST_NS INT64_C(20000000)

/* Brings it to @now, at @cap millionths of the GPU; @busy: there was work in flight since it was last.
 * Returns whether work may go on. */
bool pace_bucket(struct pace_bucket *b, uint64_t now, uint32_t cap, bool busy);

/* How long it will be until work may go on. */
uint64_t pace_bucket_wait(const struct pace_bucket *b, uint32_t cap);
