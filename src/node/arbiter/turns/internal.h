/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The state of the scheduler's thread (turn.h). Thread: the scheduler's, but where a comment says the loop's. */
#include "node/arbiter/turns/turn.h"

#include "lib/base/log.h"
#include "model/sched/sched.h"

#include <pthread.h>

#define TURN_CONNS_SLICE 1024 /* as many may have memory */
#define TURN_CONNS_PID   16   /* libraries that were loaded several times */
#define TURN_EVENTS \
	64          /* of a round: slices with events; each time others, where there are more */
#define TURN_FAIR 8 /* of one slice in a round; then others have their turn */
#define TURN_STEP \
	8 /* registrations, or slices without one, that a step of a call or a count looks at */
#define TURN_GATE_TRIES 64   /* against a process that changes its gate all the time */
#define TURN_WAKES_MAX  1024 /* threads of one gate; more come by themselves, they wait 100 ms */
#define TURN_COUNT_NS   UINT64_C(200000000)  /* so often accounts are brought up to date */
#define TURN_PIDS       64                   /* buckets of a slice's registrations */
#define TURN_SWEEP_NS   UINT64_C(1000000000) /* no sooner again for who finds no room */
/* So long the status says that there was no room. Who was refused asks each second. */
#define TURN_CROWDED_NS UINT64_C(10000000000)
/* Of a slice as a whole: later than of a process, which says more. */
#define TURN_STUCK_NS (TURNS_STUCK_NS + UINT64_C(1000000000))
#define TURN_NICE     (-10)

/* What an epoll instance has a descriptor for. */
struct turn_source {
	enum { TURN_CALL, TURN_TIMER, TURN_COUNT, TURN_SLICE, TURN_PACKETS, TURN_DEATH } kind;
	void *of; /* struct turn_slice, or struct turn_conn of the last two */
};

/* A process on one GPU. */
struct turn_seat {
	struct turn_conn *conn;
	unsigned int gpu;        /* place in the page */
	struct turns_seat *seat; /* NULL: it has left */
	uint32_t gate;           /* as last set, without BELL */
	struct tally_seat *record;
	uint64_t charged_ns; /* before this registration */
	/* .done of the page; since when that stood still, it being busy and its gate closed (0: does not);
	 * and whether for TURNS_STUCK_NS. */
	uint64_t done, still_ns;
	bool stuck;
};

struct turn_conn {
	struct turn *turn;
	struct turn_slice *slice;
	struct turn_conn *prev, *next; /* of the slice */
	struct turn_conn *next_of_pid; /* in the bucket */
	void *user;
	int fd, pidfd; /* the loop's */
	uint32_t pid, ns_pid;
	uint64_t start, image, number;
	char name[SLICE_NAME_MAX];
	struct turn_page *page;
	ino_t page_ino;
	struct turn_source packets, death;
	bool ended;                  /* its seats have left; the thread's */
	bool posted;                 /* it is in .posted of struct turn, and under its .lock */
	struct turn_conn *next_post; /* there */
	unsigned int n_gpus;
	struct turn_seat seats[SLICE_GPUS_MAX];
};

/* A slice on one of its GPUs. */
struct turn_share {
	char text[SLICE_UUID_TEXT];
	uint8_t uuid[SLICE_UUID_BYTES];
	unsigned int number; /* of turns' GPUs; while .turns is there */
	struct turns_share share;
	struct tally_account *account;
	uint64_t charged_ns, queue_ns, turns, revocations; /* before this arbiter's turns */
	uint64_t told_ns;     /* charged: as turn_figures_begin() found it */
	uint32_t told_cap;    /* to each process */
	unsigned int n_stuck; /* seats */
	bool stuck;           /* said so */
};

struct turn_slice {
	struct turn_slice *prev, *next;
	char id[SLICE_ID_MAX];
	struct turns_slice *turns; /* NULL: has none now */
	int epoll;                 /* its registrations' descriptors; < 0: while it has none */
	struct turn_source source;
	struct turn_slice *next_touched;
	bool touched;         /* a gate of it was set since its charges were stored */
	unsigned int n_gpus;  /* of .gpus, also where .turns is gone */
	unsigned int n_conns; /* that have not ended */
	struct turn_conn *conns, *by_pid[TURN_PIDS];
	uint64_t crowded_ns; /* when there was no room for a process last; 0: never */
	struct log_limit noise;
	struct turn_share gpus[SLICE_GPUS_MAX];
};

/* One of turns' GPUs. */
struct turn_gpu {
	char text[SLICE_UUID_TEXT];
	uint8_t uuid[SLICE_UUID_BYTES];
	unsigned int users; /* slices; 0: it is nobody's */
	uint64_t told_ns;   /* busy: as turn_figures_begin() found it */
	struct tally_busy *record;
};

/* How far a count has come. */
struct turn_count {
	struct turn_slice *slice; /* NULL: it is over */
	struct turn_conn *conn;
};

/* True: it is done; false: it goes on after the next round of events. */
typedef bool turn_step(struct turn *t, void *arg);

struct turn_call {
	turn_step *step;
	void *arg;
};

struct turn {
	struct turns *turns;
	struct tally tally;
	struct turn_slice *slices, *touched;
	struct turn_gpu gpus[TURNS_GPUS_MAX];
	int epoll, wake, timer, count_timer;
	struct turn_source sources[3]; /* of .wake, .timer, .count_timer */
	uint64_t armed;                /* .timer is set to; UINT64_MAX: not */
	uint64_t numbers;
	unsigned int n_conns; /* that have not ended */
	struct turn_count count;
	bool works; /* a call or a count goes on */
	bool shown; /* between turn_figures_begin() and _end(): no count, as figures are of one moment */
	bool frozen;
	bool halts; /* the thread is to end */

	struct turn_call *_Atomic call; /* set by the loop, taken out by the thread */

	/* Under the lock. */
	pthread_mutex_t lock;
	pthread_cond_t answered;
	bool answer;              /* .call was answered */
	struct turn_conn *posted; /* for the loop to close */

	/* The loop's. */
	struct turn_options o;
	pthread_t thread;
	bool runs; /* .thread */
	uv_async_t async;
	uint64_t swept_ns;
};

/* ---- thread.c --------------------------------------------------------------------------------- */

/* Thread: loop. Ends the thread; what is called from now on runs in the caller. */
void turn_halt(struct turn *t);

/* ---- calls.c ---------------------------------------------------------------------------------- */

/* Thread: loop. Runs the steps of a call on the thread, or here where that was halted. */
void turn_call(struct turn *t, turn_step *step, void *arg);
/* The loop is to close it. */
void turn_post(struct turn_conn *c);
/* What was posted and is about to be closed by itself. */
void turn_take_back(struct turn_conn *c);
/* Thread: loop. NULL: nothing is posted. */
struct turn_conn *turn_next_posted(struct turn *t);
/* A step of the call that there is. False: it is over, or there is none. */
bool turn_step_call(struct turn *t);

/* ---- serve.c ---------------------------------------------------------------------------------- */

int turn_events_open(struct turn *t, struct error *err) MUST_USE;
void turn_events_close(struct turn *t);

/* Accounts are brought up to date every TURN_COUNT_NS, until there are no registrations. */
void turn_count_start(struct turn *t);

/* A round of events, and a step of a call and of a count. @wait: until there is something to do. */
void turn_round(struct turn *t, bool wait);

/* < 0: no memory or no descriptors. */
int turn_watch(int epoll, int fd, struct turn_source *source);
void turn_unwatch(int epoll, int fd);

/* ---- gpus.c ----------------------------------------------------------------------------------- */

/* NULL: no slice uses it. */
struct turn_gpu *turn_gpu_find(struct turn *t, const uint8_t *uuid);
/* The number of a GPU for one more slice, or of one less. < 0: all numbers are in use. */
int turn_gpu_get(struct turn *t, const uint8_t *uuid, const char *text,
	struct error *err) MUST_USE;
void turn_gpu_put(struct turn *t, unsigned int number);

/* ---- settle.c --------------------------------------------------------------------------------- */

/* The time, after what was to be done by then. Between any two things that somebody may send us many of. */
uint64_t turn_now(struct turn *t);

/* After each change of turns, with the time of that change: arms the timer, stores what was charged. */
void turn_settled(struct turn *t, uint64_t now);

/* The scheduler's callbacks. */
void turn_on_gate(void *turn, struct turns_seat *s);
uint64_t turn_on_done(void *turn, const struct turns_seat *s);

/* ---- conn.c ----------------------------------------------------------------------------------- */

void turn_conn_read(struct turn_conn *c, uint64_t now); /* the next packet */
/* Its seats leave; the loop is to close it. */
void turn_conn_end(struct turn_conn *c, uint64_t now);

/* Registrations of the process are among these, by .next_of_pid. */
struct turn_conn *turn_conns_of(const struct turn_slice *s, uint32_t pid);
bool turn_conn_is_of(const struct turn_conn *c, uint32_t pid, uint64_t start);

/* ---- gate.c ----------------------------------------------------------------------------------- */

/* Writes what turns decided into the page: a new generation, and those who wait look again. */
void turn_set_gate(struct turn_seat *seat, enum turns_gate gate,
	const struct turns_meter *meter);
/* What each of its processes holds itself to without an arbiter: its part of the cap. None under MPS. Written to all pages
 * where it changes, and to the page of each new registration. */
void turn_tell_cap(struct turn_slice *s, unsigned int gpu);
void turn_tell_cap_of(struct turn_conn *c, unsigned int gpu);

/* ---- count.c ---------------------------------------------------------------------------------- */

void turn_counters(const struct turn_gpu_page *p, uint64_t ret[TALLY_COUNTERS]);
void turn_count_seat(struct turn_seat *seat);
/* Its process has work in flight and nothing of it ends, long after its gate was closed: it may be stopped. */
void turn_look_at_seat(struct turn_seat *seat, uint64_t now);
/* What was charged to the slice; as of turns' last settlement. */
void turn_count_slice(struct turn *t, struct turn_slice *s, uint64_t now);
void turn_count_begin(struct turn *t, struct turn_count *c);
void turn_count_step(struct turn *t, struct turn_count *c); /* until .slice is NULL */
/* Of what is about to be freed. */
void turn_count_skip_slice(struct turn *t, const struct turn_slice *s);
void turn_count_skip_conn(struct turn *t, const struct turn_conn *c);
