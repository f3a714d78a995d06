/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* State of the scheduler thread (scheduler.h). Thread: the scheduler's, except where a comment names the loop. */
#include "node/arbiter/scheduler/scheduler.h"

#include "lib/base/log.h"
#include "model/sched/sched.h"

#include <pthread.h>

#define SCHEDULER_REGISTRATIONS_SLICE 1024 /* the limit of registrations for memory, too */
#define SCHEDULER_REGISTRATIONS_PID   16   /* a process may load a library several times */
/* A round serves this many slices with events, and events of one slice. epoll rotates among more slices. */
#define SCHEDULER_EVENTS       64
#define SCHEDULER_SLICE_EVENTS 8
/* Registrations, or slices without one, that one step of a call or a count handles. */
#define SCHEDULER_STEP 8
/* Attempts against a process that changes its gate word all the time. */
#define SCHEDULER_GATE_TRIES 64
/* Threads that a gate wakes. Further threads wake by themselves within 100 ms. */
#define SCHEDULER_WAKES_MAX   1024
#define SCHEDULER_COUNT_NS    UINT64_C(200000000) /* interval of the updates of the accounts */
#define SCHEDULER_PID_BUCKETS 64                  /* buckets of a slice's registrations */
/* Shortest time between two sweeps for refused processes. */
#define SCHEDULER_SWEEP_NS UINT64_C(1000000000)
/* How long status shows that there was no room. A refused process retries every second. */
#define SCHEDULER_CROWDED_NS UINT64_C(10000000000)
/* When a slice as a whole counts as stuck: later than a process, as the message for a process says more. */
#define SCHEDULER_STUCK_NS (SCHED_STUCK_NS + UINT64_C(1000000000))
#define SCHEDULER_NICE     (-10)

/* What a descriptor in an epoll instance is for. */
struct scheduler_source {
	enum {
		SCHEDULER_SOURCE_CALL,
		SCHEDULER_SOURCE_TIMER,
		SCHEDULER_SOURCE_COUNT,
		SCHEDULER_SOURCE_SLICE,
		SCHEDULER_SOURCE_PACKETS,
		SCHEDULER_SOURCE_DEATH
	} kind;
	void *of; /* struct scheduler_slice, or struct scheduler_registration for the last two kinds */
};

/* A process on one GPU. */
struct scheduler_client {
	struct scheduler_registration *registration;
	unsigned int gpu;            /* index in the page */
	struct sched_client *client; /* NULL: the client has left */
	uint32_t gate;               /* as last set, without the doorbell */
	struct usage_client *record;
	uint64_t charged_ns; /* charged before this registration */
	/* .done of the page when last read. Since when .done has not changed; it began while the client was
	 * busy and its gate closed (0: not so). Whether that has lasted SCHED_STUCK_NS. */
	uint64_t done, stalled_since;
	bool stuck;
};

struct scheduler_registration {
	struct scheduler *scheduler;
	struct scheduler_slice *slice;
	struct scheduler_registration *prev, *next; /* of the slice */
	struct scheduler_registration *next_of_pid; /* in the bucket */
	void *user;
	int fd, pidfd; /* owned by the loop */
	uint32_t pid, ns_pid;
	uint64_t start, image, number;
	char name[SLICE_NAME_MAX];
	struct turn_page *page;
	ino_t page_ino;
	struct scheduler_source packets, death;
	bool ended;  /* its clients have left; written by the thread */
	bool posted; /* it is in .posted of struct scheduler; under that struct's .lock */
	struct scheduler_registration *next_post; /* in .posted */
	unsigned int n_gpus;
	struct scheduler_client clients[SLICE_GPUS_MAX];
};

/* A slice on one of its GPUs. */
struct scheduler_share {
	char text[SLICE_UUID_TEXT];
	uint8_t uuid[SLICE_UUID_BYTES];
	unsigned int number; /* index in .gpus of struct scheduler, while .sched is set */
	struct sched_share_config config;
	struct usage_account *account;
	/* In the account when the share started. */
	uint64_t charged_ns, queue_ns, quanta, revocations;
	uint64_t quantum_ends[SCHED_ENDS];
	uint64_t shown_charged_ns; /* charges, as of scheduler_figures_begin() */
	uint32_t process_cap;      /* of each process */
	unsigned int n_stuck;      /* clients */
	bool stuck;                /* logged */
};

struct scheduler_slice {
	struct scheduler_slice *prev, *next;
	char id[SLICE_ID_MAX];
	struct sched_slice *sched; /* NULL: no share now */
	int epoll;                 /* descriptors of its registrations; < 0: no share now */
	struct scheduler_source source;
	struct scheduler_slice *next_touched;
	bool touched;                 /* a gate was set since the charges were stored */
	unsigned int n_gpus;          /* of .gpus, also after .sched is gone */
	unsigned int n_registrations; /* not ended */
	struct scheduler_registration *registrations, *by_pid[SCHEDULER_PID_BUCKETS];
	uint64_t crowded_ns; /* when the slice last had no room for a process; 0: never */
	struct log_limit log_limit;
	struct scheduler_share gpus[SLICE_GPUS_MAX];
};

/* One of the scheduler's GPUs. */
struct scheduler_gpu {
	char text[SLICE_UUID_TEXT];
	uint8_t uuid[SLICE_UUID_BYTES];
	unsigned int users;     /* slices; 0: this entry is free */
	uint64_t shown_busy_ns; /* busy time, as of scheduler_figures_begin() */
	struct usage_gpu *record;
};

/* Progress of a count. */
struct scheduler_count {
	struct scheduler_slice *slice; /* NULL: the count is over */
	struct scheduler_registration *registration;
};

/* True: the call is done. False: the thread runs the next step after the next round of events. */
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
	uint64_t armed;                     /* deadline of .timer; UINT64_MAX: none */
	uint64_t numbers;
	unsigned int n_registrations; /* not ended */
	struct scheduler_count count;
	bool is_working; /* a call or a count is under way */
	bool shown; /* between scheduler_figures_begin() and _end(): no count, as figures show one moment */
	bool frozen;
	bool is_halting; /* the thread must end */

	struct scheduler_call *_Atomic call; /* set by the loop, cleared by the thread */

	/* Under the lock. */
	pthread_mutex_t lock;
	pthread_cond_t answered;
	bool answer;                           /* the thread finished .call */
	struct scheduler_registration *posted; /* registrations that the loop must close */

	/* Owned by the loop. */
	struct scheduler_options options;
	pthread_t thread;
	bool is_running; /* .thread is running */
	uv_async_t async;
	uint64_t swept_ns;
};

/* --- thread.c --- */

/* Thread: loop. Ends the thread. Later calls run in the caller. */
void scheduler_halt(struct scheduler *scheduler);

/* --- calls.c --- */

/* Thread: loop. Runs the steps of a call on the thread, or in the caller after scheduler_halt(). */
void scheduler_call(struct scheduler *scheduler, scheduler_step *step, void *arg);
/* Asks the loop to close the registration. */
void scheduler_post_ended(struct scheduler_registration *reg);
/* Withdraws that request: the loop closes the registration on its own. */
void scheduler_unpost_ended(struct scheduler_registration *reg);
/* Thread: loop. Takes one registration that the loop must close. NULL: nothing is posted. */
struct scheduler_registration *scheduler_next_posted(struct scheduler *scheduler);
/* Runs a step of the present call. False: the call is over, or there is none. */
bool scheduler_step_call(struct scheduler *scheduler);

/* --- serve.c --- */

/* Opens .epoll, .wake and the two timers. < 0: no descriptors; the caller calls scheduler_events_close(). */
int scheduler_events_open(struct scheduler *scheduler, struct error *err) MUST_USE;
/* Closes those of the four that are open. */
void scheduler_events_close(struct scheduler *scheduler);

/* Starts the updates of the accounts, every SCHEDULER_COUNT_NS until there are no registrations. */
void scheduler_count_start(struct scheduler *scheduler);

/* A round of events, then a step of a call and of a count. @wait: blocks until there is something to do. */
void scheduler_round(struct scheduler *scheduler, bool wait);

/* Makes @epoll report that @fd is readable, with @source. < 0: no memory, or no watches left. */
int scheduler_watch_fd(int epoll, int fd, struct scheduler_source *source);
/* Ends the watch. Call it before @fd is closed. */
void scheduler_unwatch_fd(int epoll, int fd);

/* --- slice.c --- */

/* NULL: no slice uses the GPU. */
struct scheduler_gpu *scheduler_gpu_find(struct scheduler *scheduler, const uint8_t *uuid);

/* --- register.c --- */

/* Reads the next packet of the process. */
void scheduler_registration_read(struct scheduler_registration *reg, uint64_t now);
/* The registration's clients leave, and the thread asks the loop to close it. */
void scheduler_registration_end(struct scheduler_registration *reg, uint64_t now);

/* --- settle.c --- */

/* Returns the time, after doing what the scheduler has due by then. The thread calls this between any two items
 * that a process can send in large numbers. */
uint64_t scheduler_now(struct scheduler *scheduler);

/* Called after each change of the scheduler, with the time of that change. Stores charges, arms the timer. */
void scheduler_settle(struct scheduler *scheduler, uint64_t now);

/* The callbacks of model/sched/ (sched_new()). @arg: struct scheduler. */

/* The scheduler has changed the client's gate. Writes it to the page, unless frozen, and marks the slice, so that
 * scheduler_settle() stores its charges. */
void scheduler_on_gate(void *arg, struct sched_client *s);
/* How many submissions of the client are done, as its process's page says. The process can falsify that. */
uint64_t scheduler_on_done(void *arg, const struct sched_client *s);

/* Writes the scheduler's decision into the page, with a new generation. Wakes blocked threads unless the gate is
 * closed. */
void scheduler_set_gate(struct scheduler_client *client, enum sched_gate gate,
	const struct sched_throttle *throttle);
/*
 * The cap that each process of the slice keeps to while there is no arbiter: an equal part of the slice's cap,
 * none under MPS. Computes it and, when it changes, writes it to all pages of the slice.
 */
void scheduler_set_process_caps(struct scheduler_slice *s, unsigned int gpu);
/* Writes the cap of scheduler_set_process_caps() to the page of a new registration. */
void scheduler_set_process_cap(struct scheduler_registration *reg, unsigned int gpu);

/* Reads the counters that the process writes in its page. It may have written any value. */
void scheduler_read_counters(const struct turn_gpu_page *p, uint64_t ret[USAGE_COUNTERS]);
/* Stores the client's counters and charges in its account, and its charges in its page. Nothing happens if the
 * client has left or has no record. */
void scheduler_count_client(struct scheduler_client *client);
/* Marks the client stuck if nothing of its work in flight ends, long after its gate closed: the process may be
 * stopped. */
void scheduler_check_stuck(struct scheduler_client *client, uint64_t now);
/* Stores the slice's charges, as of the scheduler's last settlement. */
void scheduler_count_slice(struct scheduler *scheduler, struct scheduler_slice *s,
	uint64_t now);
/* Begins an update of all accounts: charges all shares, and puts @c at the first slice with a share. */
void scheduler_count_begin(struct scheduler *scheduler, struct scheduler_count *c);
/* Updates the next SCHEDULER_STEP registrations and slices. The count is over when @c->slice is NULL. */
void scheduler_count_step(struct scheduler *scheduler, struct scheduler_count *c);
/* Called before the slice is freed: .count goes on behind it. */
void scheduler_count_skip_slice(struct scheduler *scheduler, const struct scheduler_slice *s);
/* Called before the registration is freed: .count goes on behind it. */
void scheduler_count_skip_process(struct scheduler *scheduler,
	const struct scheduler_registration *reg);
