/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Turns on the GPUs: what model/sched/sched.h decides, for real processes and pages.
 *
 *	serve.c     start, stop; GPUs; time; the events that hand-overs hang on
 *	slice.c     what slice.json says of a slice's share, put in force. One under MPS is as one with turns, but
 *	            that model/sched/sched.h opens its gates for good
 *	register.c  a process comes for turns (abi/slice-wire.h): for a new page, or with the one that it has
 *	conn.c      its connection from then on: states, end
 *	page.c      the page (abi/turn-page.h); gate.c: the gates in it
 *	node/arbiter/turns/tally/tally.h     accounts that outlive this program
 *	count.c     charges and counters: from turns and pages to the accounts
 *	status.c    the same, as JSON
 *
 * A hand-over must not wait for what else the arbiter does. So all that it hangs on (the connections for
 * turns, the pidfds of their processes, a timer) is on an epoll instance of its own: the loop watches that,
 * and any step of the arbiter that may take long calls turn_breathe() now and then, which serves it. Serving
 * frees nothing that others may be looking at: connections that ended have left their seats at once, and
 * are closed when the loop comes round.
 *
 * Thread: loop. Blocks: never.
 */
#include "abi/turn-page.h"
#include "node/arbiter/internal.h"
#include "node/arbiter/turns/tally/tally.h"
#include "model/sched/sched.h"

#define TURN_PAGE_NAME   "gpuslice-turns"
#define TURN_CONNS_SLICE BOOK_SLICE_MAX /* who may have memory may have turns */
#define TURN_CONNS_PID   16             /* libraries that were loaded several times */
#define TURN_EVENTS      1024
#define TURN_BATCH       8    /* packets and ends of one slice before others have their turn */
#define TURN_GATE_TRIES  64   /* against a process that changes its gate all the time */
#define TURN_WAKES_MAX   1024 /* threads of one gate; more come by themselves, they wait 100 ms */
#define TURN_COUNT_MS    200 /* so often accounts are brought up to date */
#define TURN_BREATHE_NS  UINT64_C(50000)
#define TURN_PIDS        64                   /* buckets of a slice's connections */
#define TURN_SWEEP_NS    UINT64_C(1000000000) /* no sooner again for who finds no room */
/* So long the status says that there was no room. Who was refused asks each second. */
#define TURN_CROWDED_NS UINT64_C(10000000000)
/* Of a slice as a whole: later than of a process, which says more. */
#define TURN_STUCK_NS (TURNS_STUCK_NS + UINT64_C(1000000000))
#define TURN_NICE     (-10)

struct turn_source {
	enum { TURN_TIMER, TURN_PACKETS, TURN_DEATH } kind;
	struct turn_conn *conn; /* not of the timer */
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
	struct turn_conn *prev, *next; /* of the slice */
	struct turn_conn *next_of_pid; /* in the bucket */
	struct conn *conn;
	struct turn_page *page;
	ino_t page_ino;
	struct turn_source packets, death;
	bool ended; /* its seats have left; to be closed */
	unsigned int n_gpus;
	uint32_t ns_pid; /* this and the name as the process says */
	char name[SLICE_NAME_MAX];
	struct turn_seat seats[SLICE_GPUS_MAX];
};

/* A slice on one of its GPUs. */
struct turn_share {
	uint8_t uuid[SLICE_UUID_BYTES];
	unsigned int number; /* of turns' GPUs; while .turns is there */
	struct turns_share share;
	struct tally_account *account;
	uint64_t charged_ns, queue_ns, turns, revocations; /* before this arbiter's turns */
	uint64_t told_ns;     /* charged: as the status that is being written has it */
	unsigned int n_stuck; /* seats */
	bool stuck;           /* said so */
};

struct turn_slice {
	struct slice *slice;
	struct turns_slice *turns; /* NULL: has none now */
	struct turn_slice *next_touched;
	bool touched;      /* a gate of it was set since its charges were stored */
	unsigned int left; /* of TURN_BATCH in this .round */
	uint64_t round;
	unsigned int n_gpus, n_conns;
	struct turn_conn *conns, *by_pid[TURN_PIDS];
	uint64_t crowded_ns; /* when there was no room for a process last; 0: never */
	struct error error;  /* why it has none although it should */
	struct turn_share gpus[SLICE_GPUS_MAX];
};

/* One of turns' GPUs. */
struct turn_gpu {
	char text[SLICE_UUID_TEXT];
	uint8_t uuid[SLICE_UUID_BYTES];
	unsigned int users; /* slices; 0: it is nobody's */
	uint64_t told_ns;   /* busy: as the status that is being written has it */
	struct tally_busy *record;
};

struct turn {
	struct turns *turns;
	struct tally tally;
	int epoll, timer;
	struct watch *watch; /* of .epoll, owns it */
	struct turn_source timer_source;
	uint64_t armed; /* .timer is set to; UINT64_MAX: not */
	uint64_t served_ns, counted_ns, swept_ns;
	uint64_t round; /* of serving */
	uv_prepare_t prepare;
	uv_timer_t count;
	unsigned int n_handles; /* that are closing */
	unsigned int n_conns;
	bool some_ended;
	struct turn_slice *touched;
	struct turn_gpu gpus[TURNS_GPUS_MAX];
};

/* ---- serve.c ---------------------------------------------------------------------------------- */

int turn_start(struct arbiter *a, struct error *err) MUST_USE;
void turn_stop(struct arbiter *a); /* after all connections and slices. NULL .turn */

/* Serves what hand-overs hang on, if it was not just done. From within anything that takes long. */
void turn_breathe(struct arbiter *a);

/* The time, after what was to be done by then. Between any two things that somebody may send us many of. */
uint64_t turn_now(struct turn *t);

/* After anything that changed the turns, with the time that was told them: the timer, and what was charged. */
void turn_settled(struct turn *t, uint64_t now);

/* Accounts are kept up to date from now on, until there are no connections. */
void turn_count_start(struct turn *t);

int turn_watch(struct turn *t, int fd, struct turn_source *source);
void turn_unwatch(struct turn *t, int fd);

/* The number of a GPU for one more slice, or of one less. < 0: all numbers are in use. */
int turn_gpu_get(struct turn *t, const uint8_t *uuid, const char *text,
	struct error *err) MUST_USE;
void turn_gpu_put(struct turn *t, unsigned int number);

/* ---- slice.c ---------------------------------------------------------------------------------- */

/* What .def of the slice says, from now on. What cannot be is in .turn->error, and logged. */
void turn_slice_apply(struct slice *s);
void turn_slices_retry(struct arbiter *a); /* those that have an error */
/* Gates of connections that there are stay as they are. */
void turn_slice_free(struct slice *s);
bool turn_slice_on(const struct slice *s);
uint32_t turn_slice_compute(const struct slice *s); /* SLICE_TURNS_... that is in force */
/* What each of its processes holds itself to without an arbiter: its part of the cap. None under MPS. */
void turn_tell_cap(struct turn_slice *ts, unsigned int gpu);

/* What compute the slice has, into the page of one of its processes. */
void turn_tell(const struct book_member *m);

/* ---- register.c ------------------------------------------------------------------------------- */

/* The answer to it too. */
void turn_hello(struct conn *c, const struct slice_hello *h, int fd);

/* ---- conn.c ----------------------------------------------------------------------------------- */

void turn_packets(struct turn_conn *tc); /* as many as its slice has .left */
/* Its seats leave; it is to be closed. */
void turn_conn_end(struct turn_conn *tc, uint64_t now);
void turn_conn_free(struct conn *c);                   /* by conn_close() */
void turn_conns_close(struct turn_slice *s, bool all); /* else those that ended */

/* Connections of the process are among these, by .next_of_pid. */
struct turn_conn *turn_conns_of(const struct turn_slice *s, uint32_t pid);
bool turn_conn_is_of(const struct turn_conn *tc, uint32_t pid, uint64_t start);

/* ---- page.c ----------------------------------------------------------------------------------- */

/* As page_new(), page_accept(). */
int turn_page_new(const struct page_who *who, struct turn_page **ret, ino_t *ino,
	uint64_t serial, unsigned int n_gpus);
int turn_page_accept(const struct page_who *who, int fd, struct turn_page **ret, ino_t *ino,
	unsigned int n_gpus);

/* ---- gate.c ----------------------------------------------------------------------------------- */

/* Writes what turns decided into the page: a new generation, and those who wait look again. */
void turn_set_gate(struct turn_seat *seat, enum turns_gate gate,
	const struct turns_meter *meter);

/* ---- count.c ---------------------------------------------------------------------------------- */

void turn_counters(const struct turn_gpu_page *p, uint64_t ret[TALLY_COUNTERS]);
void turn_count_seat(struct turn_seat *seat);
/* Its process has work in flight and nothing of it ends, long after its gate was closed: it may be stopped. */
void turn_look_at_seat(struct turn_seat *seat, uint64_t now);
/* What was charged to the slice; as of turns' last settlement. */
void turn_count_slice(struct turn *t, struct turn_slice *s, uint64_t now);
void turn_count_all(struct arbiter *a);
/* Records of processes that are gone, of which no connection is there; and of slices that are no more: after a
 * scan that saw all that there are. */
void turn_sweep(struct arbiter *a);
/* Those of this slice's GPUs only. */
void turn_sweep_slice(struct turn_slice *s);

/* ---- status.c: json_t of jansson -------------------------------------------------------------- */

struct json_t;
/*
 * What is charged, and how long GPUs were busy, as the status says it: of one moment, or the sums would not be
 * those, as turns go on while it is written.
 */
void turn_status_begin(struct arbiter *a);
/* What a slice has to say of its compute, into an object each; @gpu: place in the book's slice. */
void turn_status_slice(struct slice *s, struct json_t *slice);
void turn_status_gpu(struct slice *s, const uint8_t *uuid, struct json_t *gpu);
void turn_status_process(const struct slice *s, uint32_t pid, uint64_t start,
	const uint8_t *uuid, struct json_t *gpu);
bool turn_status_has(const struct slice *s, uint32_t pid, uint64_t start, const uint8_t *uuid);
struct json_t *turn_status_gpus(struct arbiter *a);
