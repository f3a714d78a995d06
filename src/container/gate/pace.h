/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The gate thread's decisions (gate-thread.h): how much may be in flight, when a fence is due, when to
 * poll again, when to report that nothing is left. Pure: no clock, no driver; one struct pace for each
 * GPU. Times are nanoseconds of one clock, lengths nanoseconds. Thread: one, except pace_is_tight() and
 * pace_fits(), which keep no state.
 *
 * The figures are of an H100 (driver 580). A fence costs 0.2 to 5 us, a poll of a fence 0.2 to 4 us. A
 * thread that sleeps 20 us sees an end 35 us after it. A wait for an event in the driver sees an end
 * after 85 to 560 us.
 */
#include <stdbool.h>
#include <stdint.h>

#define PACE_WINDOW_NS     UINT64_C(900000) /* work in flight, where the arbiter sets no window */
#define PACE_IN_FLIGHT_MIN 2          /* submissions in flight: with fewer the GPU runs dry */
#define PACE_FENCE_GAP_MAX (1u << 20) /* submissions between two fences */
#define PACE_FIRST_NS      UINT64_C(100000) /* of a submission, before one was measured */
#define PACE_FENCE_GAP_NS  UINT64_C(250000) /* GPU time between two fences */
#define PACE_SAMPLES       5
#define PACE_TIGHT_NS      UINT64_C(400000) /* a smaller window is tight */
#define PACE_LEAD_NS       UINT64_C(100000) /* a woken thread submits 20 to 90 us later */
/* GPU time between two fences, where the window is tight. */
#define PACE_FENCE_GAP_TIGHT_NS UINT64_C(80000)
/* Work that takes longer than this was estimated too short. It is longer than other slices' time slice. */
#define PACE_LATE_NS UINT64_C(5000000)
/* The least and the most that pace_stall() returns. */
#define PACE_STALL_NS     UINT64_C(10000000)
#define PACE_STALL_MAX_NS UINT64_C(5000000000)
/* Polls are close, PACE_POLL_CLOSE_NS apart, from PACE_EARLY_NS before an expected end on. */
#define PACE_EARLY_NS      UINT64_C(30000)
#define PACE_POLL_CLOSE_NS UINT64_C(20000)
/* Interval of polls while threads are held and no end is expected yet. */
#define PACE_POLL_THROTTLED_NS UINT64_C(40000)
/* Longest interval of polls of work that takes longer than expected. */
#define PACE_POLL_OVERDUE_MAX_NS UINT64_C(500000)
/* Interval of polls while no slice waits, doubled up to PACE_POLL_OPEN_MAX_NS. */
#define PACE_POLL_OPEN_MIN_NS UINT64_C(50000)
#define PACE_POLL_OPEN_MAX_NS UINT64_C(2000000)
/* For how long the polls go on after an end: most programs submit again soon. The thread that submits next after a
 * rest must report and wake the gate thread. PACE_REST_OPEN_NS: while no slice waits. */
#define PACE_LINGER_NS    UINT64_C(300000)
#define PACE_REST_OPEN_NS UINT64_C(1000000)

struct pace {
	uint64_t each_ns; /* estimate for one submission; 0: none was measured */
	struct pace_sample {
		uint64_t took_ns, n;
	} samples[PACE_SAMPLES];            /* of the last fences, which .each_ns is from */
	uint64_t measured_ns[PACE_SAMPLES]; /* per submission, from ends that were seen */
	unsigned int next;                  /* the next entry of both, modulo PACE_SAMPLES */
	/* Start of the work that is measured now: the last end seen, or later. */
	uint64_t from_ns;
	/* Time of the last poll that found work in flight; 0: a later poll found none. */
	uint64_t pending_ns;
	uint64_t ended_ns;  /* estimated end of the last work in flight */
	uint64_t quiet_ns;  /* since when polls found nothing in flight; 0: work is in flight */
	uint64_t open_ns;   /* present interval of polls where no slice waits */
	uint64_t opened_ns; /* time of the first poll that saw the gate's present state */
	/* Ends that these three flags exclude from .each_ns (pace_done()). */
	bool closed; /* the gate is closed: work that ends now may have waited for other slices */
	bool behind; /* the gate has changed since the last end: the next work that ends may have waited */
	bool idle; /* no poll has found work in flight since .from_ns: what ends next began later */
};

/* --- what is in flight --- */

/* The gate thread rested, and a thread has taken TURN_DOORBELL away: the polls begin again. */
void pace_doorbell_rang(struct pace *p);
/* A poll of the gate. @changed: the gate, or the quantum, has changed since the last poll. Work that ends
 * at a closed gate may have waited for other slices' work. So may the first work that ends after a
 * change. */
void pace_gate(struct pace *p, uint64_t now, bool changed, bool closed);
/* A poll found work in flight where the poll before found none. */
void pace_begins(struct pace *p, uint64_t now);
/* A poll found that the work is still in flight. */
void pace_pending(struct pace *p, uint64_t now);
/* The first fence, behind @ahead submissions, has not passed. Raises the estimate if that takes much longer
 * than estimated. @ahead 0: nothing happens. */
void pace_overdue(struct pace *p, uint64_t now, uint64_t ahead);
/* A poll found that @n submissions more are done. Returns how many ns they took; 0: unknown, as they may
 * have waited for other slices' work, or @n is 0. */
uint64_t pace_done(struct pace *p, uint64_t now, uint64_t n);
/* A poll found nothing in flight. */
void pace_idle(struct pace *p, uint64_t now);

/* --- how much may be in flight --- */

/* Returns how many ns of work may be in flight: @window_ns (0: PACE_WINDOW_NS), or the rest of the quantum plus
 * @overrun_ns, if that is less. The quantum has @quantum_ns and began @age_ns ago. @quantum_ns 0: the quantum
 * is no limit. */
uint64_t pace_window(uint64_t window_ns, uint64_t overrun_ns, uint64_t quantum_ns,
	uint64_t age_ns);

/* What is in flight. */
struct pace_flight {
	uint64_t n;       /* submissions */
	uint64_t work_ns; /* estimate for all of them */
	/* Part of .work_ns up to the first fence that has not passed; 0: unknown. */
	uint64_t front_ns;
	uint64_t from_ns; /* when the work of .front_ns began */
};

/* Whether the window is so small that pace_fits() goes by the clock: another slice waits for whatever is in
 * flight. */
static inline bool pace_is_tight(uint64_t window_ns)
{
	return window_ns && window_ns < PACE_TIGHT_NS;
}

/*
 * Whether one more submission, of @cost_ns, fits where @allow_ns may be in flight. PACE_IN_FLIGHT_MIN
 * submissions always fit, as the GPU would run dry. @tight: the window is tight. Then the time since
 * .from_ns counts as done, up to .front_ns. Only the first submission always fits, and the second one fits
 * PACE_LEAD_NS before the expected end of the first at the latest. @now: used only if @tight.
 */
bool pace_fits(const struct pace_flight *f, uint64_t cost_ns, uint64_t allow_ns, bool tight,
	uint64_t now);

/* Returns the time at which one more submission of @cost_ns will fit a tight window, if no fence passes before;
 * UINT64_MAX: it will not. */
uint64_t pace_fits_at(const struct pace_flight *f, uint64_t cost_ns, uint64_t allow_ns);

/*
 * For how many ns TURN_THROTTLED holds a thread while nothing ends. What is in flight may itself wait for that
 * thread (a wait for a value that the host writes), so the hold must end. But a kernel may just be long.
 * The limit comes from submissions that have ended: taken from an overdue one, it would grow during the
 * hold.
 */
uint64_t pace_stall(const struct pace *p);

/* Whether a fence is due behind the @unmarked submissions that have none. @pending: some fences have not passed
 * yet. @held: threads wait for an end. */
bool pace_fence_due(const struct pace *p, uint64_t unmarked, bool pending, bool held);

/* --- when to poll again --- */

struct pace_state {
	bool is_awaited; /* another slice waits for the end of what is in flight */
	bool throttled;  /* TURN_THROTTLED holds threads */
	/* Submissions up to the first fence that has not passed; 0: there is none. */
	uint64_t ahead;
	uint64_t unfenced; /* submissions behind the last fence */
	uint64_t fits_ns;  /* when a held submission may pass, by the clock; 0: unknown */
};
/* Returns how many ns after @now the next poll is due. */
uint64_t pace_sleep(struct pace *p, uint64_t now, const struct pace_state *s);

/* --- nothing in flight --- */

enum pace_rest {
	PACE_REPORT, /* report that nothing is in flight, and poll again */
	PACE_REST,   /* report that nothing is in flight, and rest until the doorbell rings */
};
/* What to do after pace_idle(). @near: another slice waits. @closed: the gate is closed, so each thread that
 * comes reports by itself. */
enum pace_rest pace_rest(const struct pace *p, uint64_t now, bool near, bool closed);

/* --- without an arbiter --- */

/* The GPU time that a process may still use while there is no arbiter. Zeroed memory is a bucket that is full
 * at its first use. */
struct pace_bucket {
	uint64_t at_ns;  /* of the last pace_bucket(); 0: none */
	int64_t left_ns; /* GPU time; < 0: owed */
};

#define PACE_BURST_NS INT64_C(20000000) /* a full bucket */

/* Updates the bucket to @now, at @cap millionths of the GPU. @busy: work was in flight since the last
 * call. Returns whether more work may be submitted. */
bool pace_bucket(struct pace_bucket *b, uint64_t now, uint32_t cap, bool busy);

/* Returns ns until more work may be submitted, at most a little over PACE_POLL_OPEN_MAX_NS: the caller then
 * checks again. */
uint64_t pace_bucket_wait(const struct pace_bucket *b, uint32_t cap);
