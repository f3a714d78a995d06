/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who has been granted how much: slices, their GPUs, the processes in them. Decisions over plain
 * data and the pages that are shared with the processes (abi/slice-page.h); no files, sockets or
 * clocks, so all of it is tested as it is.
 *
 *	slice ── member ── task		a task is a process (PID and start time); a member is one
 *	      └─ member ──┘		registration of it: one page. A process can have several.
 *
 * What a member is granted stands in its record, which lies in a file that outlives this program
 * (node/arbiter/grants/journal.h) or, in tests, anywhere. The record is never behind: it is raised before the
 * page and lowered after it. So after a kill at any instruction the record of a member is no less
 * than what its process can hold, and book_adopt() finds what was under way from the page.
 *
 * Always: the sum of what a slice's members are granted on a GPU, and of what processes past the
 * libraries use there, is at most the limit, unless the limit was lowered below what is in use or
 * the driver took what nobody could know beforehand (book_compare()); then nothing more is granted.
 * A request that fits into what is not in use is always granted: unused credit is taken away from
 * other members, and from the one that asks.
 *
 * Pages are a process's own to spoil: what is read from them is bounded by what was granted.
 * Thread: loop. Blocks: never.
 */
#include "abi/slice-wire.h"
#include "node/arbiter/grants/room.h"
#include "lib/base/error.h"

#include <stdbool.h>

/* More credit than was asked for, so that the next requests need none: this part of what would be
 * left, at most so much. */
#define BOOK_EXTRA_PART 16
#define BOOK_EXTRA_MAX  (UINT64_C(64) << 20)
#define BOOK_GRANT_MAX  (UINT64_C(1) << 48) /* no sum over a slice or a node overflows */
#define BOOK_CAS_TRIES  64 /* against a process that changes its credit all the time */
#define BOOK_MEMBERS_MAX \
	4096 /* of the node; how slices share them: node/arbiter/grants/room.h */
#define BOOK_SLICE_MAX  1024 /* members of one slice */
#define BOOK_TASK_MAX   64   /* members of one task: libraries that were loaded several times */
#define BOOK_BUCKETS    1024
#define BOOK_MISSED_MAX 20         /* readings */
#define BOOK_NOTHING    UINT64_MAX /* of a figure: not known */

enum book_want_state { BOOK_WANT_NONE, BOOK_WANT_BEGUN, BOOK_WANT_DONE };

/* One registration, as it outlives this program. Fields above .check do not change while .state
 * says BOOK_USED; each of those below is one store. */
enum { BOOK_FREE = 0, BOOK_USED = 0x4b4f4f42 };

struct book_record {
	_Atomic uint32_t state;
	uint32_t pid;
	uint64_t start;  /* of the process, as in /proc/PID/stat */
	uint64_t serial; /* of the page */
	uint32_t ns_pid, gpu_count;
	char slice[SLICE_ID_MAX];
	char name[SLICE_NAME_MAX];
	uint8_t uuids[SLICE_GPUS_MAX][SLICE_UUID_BYTES];
	uint64_t image; /* changes when the process executes another program; 0: not known */
	uint64_t check;
	/* The last request: its tag, and what .granted was in the page before. Valid by .want_state. */
	_Atomic uint32_t want_state;
	uint32_t want_tag, want_gpu;
	_Atomic uint32_t kept; /* by a process that is gone, as a reading since showed */
	uint64_t want_bytes, want_before;
	_Atomic uint64_t granted[SLICE_GPUS_MAX];
};

struct book_gpu {
	uint8_t uuid[SLICE_UUID_BYTES];
	uint64_t limit;    /* SLICE_NO_LIMIT: none */
	uint64_t granted;  /* sum over the members */
	uint64_t unhooked; /* used by processes past the libraries */
	bool read;         /* a reading said so; else it is not known */
	uint64_t peak;
	uint64_t refused; /* allocations: see book_slice_refused() */
};

struct book_slice {
	struct book_slice *next; /* of the book, in no order */
	char id[SLICE_ID_MAX];
	unsigned int n_gpus, n_members;
	struct book_gpu gpus[SLICE_GPUS_MAX];
	struct book_member *members, **members_end; /* in the order of registration */
	bool gone;  /* nobody may register any more; removed with its last member */
	void *user; /* the server's */
};

struct book_task {
	struct book_task *next; /* in the bucket */
	uint32_t pid, n_members;
	uint64_t start;
	struct book_member *members;
	bool dead; /* gone: see book_task_dead() */
	void *user;
};

struct book_member {
	struct book_member *next, *next_of_task;
	struct book_slice *slice;
	struct book_task *task;
	struct slice_page *page; /* NULL: not known (yet); all that is granted counts as used */
	struct book_record *rec;
	bool abandoned;  /* nobody will write its page again: see book_abandon() */
	bool asked;      /* NVML was, since then */
	uint32_t missed; /* readings since then that lacked one of its GPUs, in a row */
	struct {
		uint64_t peak, most; /* bytes used, granted */
		uint64_t physical;   /* of the whole process; BOOK_NOTHING */
		uint64_t begun;      /* at the last book_snapshot(); BOOK_NOTHING: busy */
		bool read;           /* since the last book_snapshot(), and compared */
	} gpus[SLICE_GPUS_MAX];
	void *user;
};

struct book {
	struct book_slice *slices;
	struct book_task *buckets[BOOK_BUCKETS];
	unsigned int n_slices, n_tasks;
	struct room members;
	/* Before a member, the last member's task, a slice that is gone: for what .user holds. None of
	 * them may change the book. */
	void (*dropped)(void *arg, struct book_member *m);
	void (*ended)(void *arg, struct book_task *t);
	void (*removed)(void *arg, struct book_slice *s);
	void *arg;
};

void book_init(struct book *b);
void book_fini(struct book *b); /* forgets all without a word; the records stay as they are */

/* ---- slices ----------------------------------------------------------------------------------- */

/* NULL: none, or no memory. */
struct book_slice *book_slice_find(const struct book *b, const char *id);
struct book_slice *book_slice_new(struct book *b, const char *id, unsigned int n_gpus,
	const uint8_t uuids[][SLICE_UUID_BYTES], const uint64_t *limits);

/* Other limits, at once: credit that is above the new one is taken back. */
void book_slice_limit(struct book_slice *s, unsigned int gpu, uint64_t limit);

/*
 * Where more is granted than the limit, what processes have freed since is taken back. They can use it
 * again until then, as nobody asks for what lies in the credit; so it is to be called now and then.
 */
void book_shrink(struct book *b);

/* No such slice any more. Freed here if it has no members, else with the last one. */
void book_slice_gone(struct book *b, struct book_slice *s);

/* Bytes in use by all members and past the libraries; what is left of the limit. */
uint64_t book_slice_used(struct book_slice *s, unsigned int gpu);
uint64_t book_slice_free(struct book_slice *s, unsigned int gpu);
bool book_slice_over(const struct book_slice *s, unsigned int gpu);

/*
 * Allocations that the limit refused, by what the members' pages say and said. It begins with what is in .refused,
 * and goes on where another arbiter has looked at a page before.
 */
uint64_t book_slice_refused(struct book_slice *s, unsigned int gpu);

/* What processes past the libraries use, now. */
void book_slice_unhooked(struct book_slice *s, unsigned int gpu, uint64_t bytes);

/* ---- members ---------------------------------------------------------------------------------- */

struct book_task *book_task_find(const struct book *b, uint32_t pid, uint64_t start);
struct book_task *book_task_by_pid(const struct book *b, uint32_t pid); /* the newest */

/* Of this slice only: what one slice's process writes into its page does not reach another's. NULL: none. */
struct book_member *book_member_by_serial(struct book_slice *s, uint64_t serial);
/* Of its process's registrations in this slice the oldest: the one that is shown, for all of them. */
bool book_member_is_first(const struct book_member *m);

/*
 * A process registers. @rec is a free record, which is filled (its .serial, .pid, .start, .name, ...
 * from the arguments) and marked used as the last of all; @page is filled too.
 * SLICE_OK, SLICE_GONE, or SLICE_TOO_MANY with @rec and @page as they were (also: no memory).
 */
struct book_who {
	uint32_t pid, ns_pid;
	uint64_t start, image, serial;
	const char *name;
};
bool book_has_room(const struct book *b, const struct book_slice *s);
enum slice_status book_register(struct book *b, struct book_slice *s,
	const struct book_who *who, struct book_record *rec, struct slice_page *page,
	struct book_member **ret);

/*
 * A member from a record that an earlier arbiter left, or, where that book is lost, from a record
 * that book_record_fill() made from the page that a process brought. Has no page yet. NULL: no memory
 * or too many. What its slice has already is not looked at: where that matters, ask book_has_room() before.
 */
struct book_member *book_restore(struct book *b, struct book_slice *s, struct book_record *rec);
void book_record_fill(struct book_record *rec, const struct book_slice *s,
	const struct book_who *who, const struct slice_page *page);

/* Whether a record is whole: used, with a right check, and figures in range. */
bool book_record_valid(const struct book_record *rec);

/*
 * The page of a restored member, already checked for size, magic, version and serial. Finishes or
 * takes back what was under way when the arbiter before this one ended.
 */
void book_adopt(struct book_member *m, struct slice_page *page);

/* Magic, version, size, serial and number of GPUs are those of the record. */
bool book_page_matches(const struct book_record *rec, const struct slice_page *page);

/* The answer to the request with this @tag never reached the process: what was granted becomes
 * credit. */
void book_unanswered(struct book_member *m, uint32_t tag);

/*
 * SLICE_OK: @bytes more belong to the process; SLICE_NO_ROOM: there is not so much, and what was
 * taken back for it stays free. *ret_free, unless NULL: of the slice, after it. @gpu is in range.
 */
enum slice_status book_want(struct book_member *m, unsigned int gpu, uint64_t bytes,
	uint32_t tag, uint64_t *ret_free);

uint64_t book_granted(const struct book_member *m, unsigned int gpu);
uint64_t book_used(const struct book_member *m, unsigned int gpu);
uint64_t book_peak(struct book_member *m, unsigned int gpu);
uint64_t book_overhead(const struct book_member *m, unsigned int gpu);

/* On no GPU is anything granted to it. */
bool book_has_nothing(const struct book_member *m);

/* The process is gone, and the driver has freed what it had. Frees the task and its members. */
void book_task_gone(struct book *b, struct book_task *t);

/*
 * The process is gone. The driver has freed what it had, unless a child of it lives that has its files
 * open: then NVML lists the PID that is no more. All its members are abandoned.
 */
void book_task_dead(struct book_task *t);

/* Nobody reads NVML any more: what a process had that is gone is free, unless a reading has shown it since. */
void book_give_up(struct book *b);

/* This member holds nothing any more. Frees the task with its last member. */
void book_member_drop(struct book *b, struct book_member *m);

/*
 * The process executes another program now (same PID, same start time) or is gone, so nobody will ever
 * write this page again. The driver frees the memory about then, but no sooner than we notice: it is
 * counted until a reading shows how much the process has beyond its other members.
 */
void book_abandon(struct book_member *m);

/* It was abandoned, and a reading since has shown that it still has memory. */
bool book_is_kept(const struct book_member *m);

/* A member that was abandoned has memory on the GPU, and there was no reading since then. */
bool book_slice_awaits(const struct book_slice *s, unsigned int gpu);

/* ---- what NVML says --------------------------------------------------------------------------- */

/* Before NVML is asked: which members do nothing now, and which are abandoned. */
void book_snapshot(struct book *b);

/*
 * NVML said, of a moment since the last book_snapshot(), that the process has @bytes on the GPU
 * @uuid. Sets what no hook charged: more is added even beyond the limit, as it is taken already;
 * less is given back. Does nothing for a process that was or is at work. BOOK_NOTHING: the process is
 * there, but its figure is not known. True: a change.
 */
bool book_compare(struct book_task *t, const uint8_t *uuid, uint64_t bytes);

/*
 * All comparisons since the last book_snapshot() are made. Of the abandoned members those that have
 * nothing any more are dropped, and with the last one the task; the others stay. Those of a process that
 * is gone, of whose GPUs one could not be read BOOK_MISSED_MAX times in a row, are given up.
 */
void book_compared(struct book *b);
