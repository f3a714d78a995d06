/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The state of the scheduler's thread (scheduler.h). Thread: the scheduler's, but where a comment says the loop's. */
#include "node/arbiter/scheduler/scheduler.h"

#include "lib/base/log.h"
#include "model/sched/sched.h"

#include <pthread.h>

#define SCHEDULER_REGISTRATIONS_SLICE 1024 /* as many may have memory */
#define SCHEDULER_REGISTRATIONS_PID   16   /* libraries that were loaded several times */
#define SCHEDULER_EVENTS \
	64 /* of a round: slices with events; each time others, where there are more */
#define SCHEDULER_SLICE_EVENTS 8 /* of one slice in a round; then others have their turn */
#define SCHEDULER_STEP \
	8 /* registrations, or slices without one, that a step of a call or a count looks at */
#define SCHEDULER_GATE_TRIES 64 /* against a process that changes its gate all the time */
#define SCHEDULER_WAKES_MAX \
	1024 /* threads of one gate; more come by themselves, they wait 100 ms */
#define SCHEDULER_COUNT_NS    UINT64_C(200000000) /* so often accounts are brought up to date */
#define SCHEDULER_PID_BUCKETS 64                  /* buckets of a slice's registrations */
#define SCHEDULER_SWEEP_NS    UINT64_C(1000000000) /* no sooner again for who finds no room */
/* So long the status says that there was no room. Who was refused asks each second. */
#define SCHEDULER_CROWDED_NS UINT64_C(10000000000)
/* Of a slice as a whole: later than of a process, which says more. */
#define SCHEDULER_STUCK_NS (SCHED_STUCK_NS + UINT64_C(1000000000))
#define SCHEDULER_NICE     (-10)

/* What an epoll instance has a descriptor for. */
struct scheduler_source {
	enum {
		SCHEDULER_SOURCE_CALL,
		SCHEDULER_SOURCE_TIMER,
		SCHEDULER_SOURCE_COUNT,
		SCHEDULER_SOURCE_SLICE,
		SCHEDULER_SOURCE_PACKETS,
		SCHEDULER_SOURCE_DEATH
	} kind;
	void *of; /* struct scheduler_slice, or struct scheduler_registration of the last two */
};

/* A process on one GPU. */
struct scheduler_client {
	struct scheduler_registration *registration;
	unsigned int gpu;            /* place in the page */
	struct sched_client *client; /* NULL: it has left */
	uint32_t gate;               /* as last set, without BELL */
	struct usage_client *record;
	uint64_t charged_ns; /* before this registration */
	/* .done of the page; since when that stood still, it being busy and its gate closed (0: does not);
	 * and whether for SCHED_STUCK_NS. */
	uint64_t done, stalled_since;
	bool stuck;
};

struct scheduler_registration {
	struct scheduler *scheduler;
	struct scheduler_slice *slice;
	struct scheduler_registration *prev, *next; /* of the slice */
	struct scheduler_registration *next_of_pid; /* in the bucket */
	void *user;
	int fd, pidfd; /* the loop's */
	uint32_t pid, ns_pid;
	uint64_t start, image, number;
	char name[SLICE_NAME_MAX];
	struct turn_page *page;
	ino_t page_ino;
	struct scheduler_source packets, death;
	bool ended;  /* its seats have left; the thread's */
	bool posted; /* it is in .posted of struct scheduler, and under its .lock */
	struct scheduler_registration *next_post; /* there */
	unsigned int n_gpus;
	struct scheduler_client clients[SLICE_GPUS_MAX];
};

/* A slice on one of its GPUs. */
struct scheduler_share {
	char text[SLICE_UUID_TEXT];
	uint8_t uuid[SLICE_UUID_BYTES];
	unsigned int number; /* of turns' GPUs; while .sched is there */
	struct sched_share_config config;
	struct usage_account *account;
	uint64_t charged_ns, queue_ns, quanta, revocations; /* before this arbiter's turns */
	uint64_t quantum_ends[SCHED_ENDS];                  /* the same */
	uint64_t shown_charged_ns; /* charged: as scheduler_figures_begin() found it */
	uint32_t process_cap;      /* to each process */
	unsigned int n_stuck;      /* seats */
	bool stuck;                /* said so */
};

struct scheduler_slice {
	struct scheduler_slice *prev, *next;
	char id[SLICE_ID_MAX];
	struct sched_slice *sched; /* NULL: has none now */
	int epoll;                 /* its registrations' descriptors; < 0: while it has none */
	struct scheduler_source source;
	struct scheduler_slice *next_touched;
	bool touched;                 /* a gate of it was set since its charges were stored */
	unsigned int n_gpus;          /* of .gpus, also where .sched is gone */
	unsigned int n_registrations; /* that have not ended */
	struct scheduler_registration *registrations, *by_pid[SCHEDULER_PID_BUCKETS];
	uint64_t crowded_ns; /* when there was no room for a process last; 0: never */
	struct log_limit log_limit;
	struct scheduler_share gpus[SLICE_GPUS_MAX];
};

/* One of turns' GPUs. */
struct scheduler_gpu {
	char text[SLICE_UUID_TEXT];
	uint8_t uuid[SLICE_UUID_BYTES];
	unsigned int users;     /* slices; 0: it is nobody's */
	uint64_t shown_busy_ns; /* busy: as scheduler_figures_begin() found it */
	struct usage_gpu *record;
};

/* How far a count has come. */
struct scheduler_count {
	struct scheduler_slice *slice; /* NULL: it is over */
	struct scheduler_registration *registration;
};

/* True: it is done; false: it goes on after the next round of events. */
typedef bool scheduler_step(struct scheduler *t, void *arg);

struct scheduler_call {
	scheduler_step *step;
	void *arg;
};

struct scheduler {
	struct sched *sched;
	struct usage_accounts accounts;
	struct scheduler_slice *slices, *touched;
	struct scheduler_gpu gpus[SCHED_GPUS_MAX];
	int epoll, wake, timer, count_timer;
	struct scheduler_source sources[3]; /* of .wake, .timer, .count_timer */
	uint64_t armed;                     /* .timer is set to; UINT64_MAX: not */
	uint64_t numbers;
	unsigned int n_registrations; /* that have not ended */
	struct scheduler_count count;
	bool is_working; /* a call or a count goes on */
	bool shown; /* between scheduler_figures_begin() and _end(): no count, as figures are of one moment */
	bool frozen;
	bool is_halting; /* the thread is to end */

	struct scheduler_call *_Atomic call; /* set by the loop, taken out by the thread */

	/* Under the lock. */
	pthread_mutex_t lock;
	pthread_cond_t answered;
	bool answer;                           /* .call was answered */
	struct scheduler_registration *posted; /* for the loop to close */

	/* The loop's. */
	struct scheduler_options options;
	pthread_t thread;
	bool is_running; /* .thread */
	uv_async_t async;
	uint64_t swept_ns;
};

/* ---- thread.c --------------------------------------------------------------------------------- */

/* Thread: loop. Ends the thread; what is called from now on runs in the caller. */
void scheduler_halt(struct scheduler *t);

/* ---- calls.c ---------------------------------------------------------------------------------- */

/* Thread: loop. Runs the steps of a call on the thread, or here where that was halted. */
void scheduler_call(struct scheduler *t, scheduler_step *step, void *arg);
/* The loop is to close it. */
void scheduler_post_ended(struct scheduler_registration *c);
/* What was posted and is about to be closed by itself. */
void scheduler_unpost_ended(struct scheduler_registration *c);
/* Thread: loop. NULL: nothing is posted. */
struct scheduler_registration *scheduler_next_posted(struct scheduler *t);
/* A step of the call that there is. False: it is over, or there is none. */
bool scheduler_step_call(struct scheduler *t);

/* ---- serve.c ---------------------------------------------------------------------------------- */

int scheduler_events_open(struct scheduler *t, struct error *err) MUST_USE;
void scheduler_events_close(struct scheduler *t);

/* Accounts are brought up to date every SCHEDULER_COUNT_NS, until there are no registrations. */
void scheduler_count_start(struct scheduler *t);

/* A round of events, and a step of a call and of a count. @wait: until there is something to do. */
void scheduler_round(struct scheduler *t, bool wait);

/* < 0: no memory or no descriptors. */
int scheduler_watch_fd(int epoll, int fd, struct scheduler_source *source);
void scheduler_unwatch_fd(int epoll, int fd);

/* ---- gpus.c ----------------------------------------------------------------------------------- */

/* NULL: no slice uses it. */
struct scheduler_gpu *turn_gpu_find(struct scheduler *t, const uint8_t *uuid);
/* The number of a GPU for one more slice, or of one less. < 0: all numbers are in use. */
int scheduler_gpu_ref(struct scheduler *t, const uint8_t *uuid, const char *text,
	struct error *err) MUST_USE;
void scheduler_gpu_unref(struct scheduler *t, unsigned int number);

/* ---- settle.c --------------------------------------------------------------------------------- */

/* The time, after what was to be done by then. Between any two things that somebody may send us many of. */
uint64_t scheduler_now(struct scheduler *t);

/* After each change of turns, with the time of that change: arms the timer, stores what was charged. */
void scheduler_settle(struct scheduler *t, uint64_t now);

/* The scheduler's callbacks. */
void scheduler_on_gate(void *turn, struct sched_client *s);
uint64_t scheduler_on_done(void *turn, const struct sched_client *s);

/* ---- conn.c ----------------------------------------------------------------------------------- */

void scheduler_registration_read(struct scheduler_registration *c,
	uint64_t now); /* the next packet */
/* Its seats leave; the loop is to close it. */
void scheduler_registration_end(struct scheduler_registration *c, uint64_t now);

/* Registrations of the process are among these, by .next_of_pid. */
struct scheduler_registration *scheduler_registrations_of(const struct scheduler_slice *s,
	uint32_t pid);
bool scheduler_registration_is_of(const struct scheduler_registration *c, uint32_t pid,
	uint64_t start);

/* ---- gate.c ----------------------------------------------------------------------------------- */

/* Writes what turns decided into the page: a new generation, and those who wait look again. */
void scheduler_set_gate(struct scheduler_client *client, enum sched_gate gate,
	const struct sched_throttle *throttle);
/* What each of its processes holds itself to without an arbiter: its part of the cap. None under MPS. Written to all pages
 * where it changes, and to the page of each new registration. */
void scheduler_set_process_caps(struct scheduler_slice *s, unsigned int gpu);
void scheduler_set_process_cap(struct scheduler_registration *c, unsigned int gpu);

/* ---- count.c ---------------------------------------------------------------------------------- */

void scheduler_read_counters(const struct turn_gpu_page *p, uint64_t ret[USAGE_COUNTERS]);
void scheduler_count_client(struct scheduler_client *client);
/* Its process has work in flight and nothing of it ends, long after its gate was closed: it may be stopped. */
void scheduler_check_stuck(struct scheduler_client *client, uint64_t now);
/* What was charged to the slice; as of turns' last settlement. */
void scheduler_count_slice(struct scheduler *t, struct scheduler_slice *s, uint64_t now);
void scheduler_count_begin(struct scheduler *t, struct scheduler_count *c);
void scheduler_count_step(struct scheduler *t,
	struct scheduler_count *c); /* until .slice is NULL */
/* Of what is about to be freed. */
void scheduler_count_skip_slice(struct scheduler *t, const struct scheduler_slice *s);
void scheduler_count_skip_process(struct scheduler *t, const struct scheduler_registration *c);
