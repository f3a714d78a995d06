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
 * than what its process can hold, and grants_adopt_page() finds what was under way from the page.
 *
 * Always: the sum of what a slice's members are granted on a GPU, and of what processes past the
 * libraries use there, is at most the limit, unless the limit was lowered below what is in use or
 * the driver took what nobody could know beforehand (grants_compare()); then nothing more is granted.
 * A request that fits into what is not in use is always granted: unused credit is taken away from
 * other members, and from the one that asks.
 *
 * Pages are a process's own to spoil: what is read from them is bounded by what was granted.
 * Thread: loop. Blocks: never.
 */
#include "abi/slice-wire.h"
#include "node/arbiter/grants/fair-quota.h"
#include "lib/base/error.h"

#include <stdbool.h>

/* More credit than was asked for, so that the next requests need none: this part of what would be
 * left, at most so much. */
#define GRANTS_EXTRA_DIVISOR 16
#define GRANTS_EXTRA_MAX     (UINT64_C(64) << 20)
#define GRANTS_BYTES_MAX     (UINT64_C(1) << 48) /* no sum over a slice or a node overflows */
#define GRANTS_CAS_TRIES     64 /* against a process that changes its credit all the time */
#define GRANTS_MEMBERS_MAX \
	4096 /* of the node; how slices share them: node/arbiter/grants/fair-quota.h */
#define GRANTS_SLICE_MEMBERS_MAX 1024 /* members of one slice */
#define GRANTS_TASK_MEMBERS_MAX \
	64 /* members of one task: libraries that were loaded several times */
#define GRANTS_BUCKETS    1024
#define GRANTS_MISSED_MAX 20         /* readings */
#define GRANTS_UNKNOWN    UINT64_MAX /* of a figure: not known */

enum grants_request_state { GRANTS_REQUEST_NONE, GRANTS_REQUEST_BEGUN, GRANTS_REQUEST_DONE };

/* One registration, as it outlives this program. Fields above .check do not change while .state
 * says GRANTS_RECORD_USED; each of those below is one store. */
enum { GRANTS_RECORD_FREE = 0, GRANTS_RECORD_USED = 0x4b4f4f42 };

struct grants_record {
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
	/* The last request: its tag, and what .granted was in the page before. Valid by .request_state. */
	_Atomic uint32_t request_state;
	uint32_t request_tag, request_gpu;
	_Atomic uint32_t retained; /* by a process that is gone, as a reading since showed */
	uint64_t request_bytes, granted_before;
	_Atomic uint64_t granted[SLICE_GPUS_MAX];
};

struct grants_gpu {
	uint8_t uuid[SLICE_UUID_BYTES];
	uint64_t limit;     /* SLICE_NO_LIMIT: none */
	uint64_t granted;   /* sum over the members */
	uint64_t unhooked;  /* used by processes past the libraries */
	bool reading_known; /* a reading said so; else it is not known */
	uint64_t peak;
	uint64_t refused; /* allocations: see grants_slice_refused() */
};

struct grants_slice {
	struct grants_slice *next; /* of the book, in no order */
	char id[SLICE_ID_MAX];
	unsigned int n_gpus, n_members;
	struct grants_gpu gpus[SLICE_GPUS_MAX];
	struct grants_member *members, **members_end; /* in the order of registration */
	bool removed; /* nobody may register any more; removed with its last member */
	void *user;   /* the server's */
};

struct grants_task {
	struct grants_task *next; /* in the bucket */
	uint32_t pid, n_members;
	uint64_t start;
	struct grants_member *members;
	bool dead; /* gone: see grants_task_abandon() */
	void *user;
};

struct grants_member {
	struct grants_member *next, *next_of_task;
	struct grants_slice *slice;
	struct grants_task *task;
	struct slice_page *page; /* NULL: not known (yet); all that is granted counts as used */
	struct grants_record *rec;
	bool abandoned; /* nobody will write its page again: see grants_member_abandon() */
	bool reading_requested; /* NVML was, since then */
	uint32_t missed;        /* readings since then that lacked one of its GPUs, in a row */
	struct {
		uint64_t peak, most; /* bytes used, granted */
		uint64_t physical;   /* of the whole process; GRANTS_UNKNOWN */
		uint64_t begun;      /* at the last grants_snapshot(); GRANTS_UNKNOWN: busy */
		bool read;           /* since the last grants_snapshot(), and compared */
	} gpus[SLICE_GPUS_MAX];
	void *user;
};

struct grants_table {
	struct grants_slice *slices;
	struct grants_task *buckets[GRANTS_BUCKETS];
	unsigned int n_slices, n_tasks;
	struct fair_quota members;
	/* Before a member, the last member's task, a slice that is gone: for what .user holds. None of
	 * them may change the book. */
	void (*dropped)(void *arg, struct grants_member *m);
	void (*ended)(void *arg, struct grants_task *t);
	void (*removed)(void *arg, struct grants_slice *s);
	void *arg;
};

void grants_init(struct grants_table *b);
void grants_fini(
	struct grants_table *b); /* forgets all without a word; the records stay as they are */

/* ---- slices ----------------------------------------------------------------------------------- */

/* NULL: none, or no memory. */
struct grants_slice *grants_slice_find(const struct grants_table *b, const char *id);
struct grants_slice *grants_slice_new(struct grants_table *b, const char *id,
	unsigned int n_gpus, const uint8_t uuids[][SLICE_UUID_BYTES], const uint64_t *limits);

/* Other limits, at once: credit that is above the new one is taken back. */
void grants_slice_set_limit(struct grants_slice *s, unsigned int gpu, uint64_t limit);

/*
 * Where more is granted than the limit, what processes have freed since is taken back. They can use it
 * again until then, as nobody asks for what lies in the credit; so it is to be called now and then.
 */
void grants_reclaim_over_limit(struct grants_table *b);

/* No such slice any more. Freed here if it has no members, else with the last one. */
void grants_slice_remove(struct grants_table *b, struct grants_slice *s);

/* Bytes in use by all members and past the libraries; what is left of the limit. */
uint64_t grants_slice_used(struct grants_slice *s, unsigned int gpu);
uint64_t grants_slice_free_bytes(struct grants_slice *s, unsigned int gpu);
bool grants_slice_is_over_limit(const struct grants_slice *s, unsigned int gpu);

/*
 * Allocations that the limit refused, by what the members' pages say and said. It begins with what is in .refused,
 * and goes on where another arbiter has looked at a page before.
 */
uint64_t grants_slice_refused(struct grants_slice *s, unsigned int gpu);

/* What processes past the libraries use, now. */
void grants_slice_set_unhooked(struct grants_slice *s, unsigned int gpu, uint64_t bytes);

/* ---- members ---------------------------------------------------------------------------------- */

struct grants_task *grants_task_find(const struct grants_table *b, uint32_t pid,
	uint64_t start);
struct grants_task *grants_task_find_pid(const struct grants_table *b,
	uint32_t pid); /* the newest */

/* Of this slice only: what one slice's process writes into its page does not reach another's. NULL: none. */
struct grants_member *grants_member_find_serial(struct grants_slice *s, uint64_t serial);
/* Of its process's registrations in this slice the oldest: the one that is shown, for all of them. */
bool grants_member_is_oldest(const struct grants_member *m);

/*
 * A process registers. @rec is a free record, which is filled (its .serial, .pid, .start, .name, ...
 * from the arguments) and marked used as the last of all; @page is filled too.
 * SLICE_OK, SLICE_GONE, or SLICE_TOO_MANY with @rec and @page as they were (also: no memory).
 */
struct grants_client {
	uint32_t pid, ns_pid;
	uint64_t start, image, serial;
	const char *name;
};
bool grants_has_capacity(const struct grants_table *b, const struct grants_slice *s);
enum slice_status grants_register(struct grants_table *b, struct grants_slice *s,
	const struct grants_client *who, struct grants_record *rec, struct slice_page *page,
	struct grants_member **ret);

/*
 * A member from a record that an earlier arbiter left, or, where that book is lost, from a record
 * that grants_record_fill() made from the page that a process brought. Has no page yet. NULL: no memory
 * or too many. What its slice has already is not looked at: where that matters, ask grants_has_capacity() before.
 */
struct grants_member *grants_restore(struct grants_table *b, struct grants_slice *s,
	struct grants_record *rec);
void grants_record_fill(struct grants_record *rec, const struct grants_slice *s,
	const struct grants_client *who, const struct slice_page *page);

/* Whether a record is whole: used, with a right check, and figures in range. */
bool grants_record_is_valid(const struct grants_record *rec);

/*
 * The page of a restored member, already checked for size, magic, version and serial. Finishes or
 * takes back what was under way when the arbiter before this one ended.
 */
void grants_adopt_page(struct grants_member *m, struct slice_page *page);

/* Magic, version, size, serial and number of GPUs are those of the record. */
bool grants_page_matches(const struct grants_record *rec, const struct slice_page *page);

/* The answer to the request with this @tag never reached the process: what was granted becomes
 * credit. */
void grants_return_unanswered(struct grants_member *m, uint32_t tag);

/*
 * SLICE_OK: @bytes more belong to the process; SLICE_NO_ROOM: there is not so much, and what was
 * taken back for it stays free. *ret_free, unless NULL: of the slice, after it. @gpu is in range.
 */
enum slice_status grants_request(struct grants_member *m, unsigned int gpu, uint64_t bytes,
	uint32_t tag, uint64_t *ret_free);

uint64_t grants_get_granted(const struct grants_member *m, unsigned int gpu);
uint64_t grants_get_used(const struct grants_member *m, unsigned int gpu);
uint64_t grants_get_peak(struct grants_member *m, unsigned int gpu);
uint64_t grants_get_overhead(const struct grants_member *m, unsigned int gpu);

/* On no GPU is anything granted to it. */
bool grants_member_is_empty(const struct grants_member *m);

/* The process is gone, and the driver has freed what it had. Frees the task and its members. */
void grants_task_remove(struct grants_table *b, struct grants_task *t);

/*
 * The process is gone. The driver has freed what it had, unless a child of it lives that has its files
 * open: then NVML lists the PID that is no more. All its members are abandoned.
 */
void grants_task_abandon(struct grants_task *t);

/* Nobody reads NVML any more: what a process had that is gone is free, unless a reading has shown it since. */
void grants_drop_dead_tasks(struct grants_table *b);

/* This member holds nothing any more. Frees the task with its last member. */
void grants_member_drop(struct grants_table *b, struct grants_member *m);

/*
 * The process executes another program now (same PID, same start time) or is gone, so nobody will ever
 * write this page again. The driver frees the memory about then, but no sooner than we notice: it is
 * counted until a reading shows how much the process has beyond its other members.
 */
void grants_member_abandon(struct grants_member *m);

/* It was abandoned, and a reading since has shown that it still has memory. */
bool grants_member_is_retained(const struct grants_member *m);

/* A member that was abandoned has memory on the GPU, and there was no reading since then. */
bool grants_slice_needs_reading(const struct grants_slice *s, unsigned int gpu);

/* ---- what NVML says --------------------------------------------------------------------------- */

/* Before NVML is asked: which members do nothing now, and which are abandoned. */
void grants_snapshot(struct grants_table *b);

/*
 * NVML said, of a moment since the last grants_snapshot(), that the process has @bytes on the GPU
 * @uuid. Sets what no hook charged: more is added even beyond the limit, as it is taken already;
 * less is given back. Does nothing for a process that was or is at work. GRANTS_UNKNOWN: the process is
 * there, but its figure is not known. True: a change.
 */
bool grants_compare(struct grants_task *t, const uint8_t *uuid, uint64_t bytes);

/*
 * All comparisons since the last grants_snapshot() are made. Of the abandoned members those that have
 * nothing any more are dropped, and with the last one the task; the others stay. Those of a process that
 * is gone, of whose GPUs one could not be read GRANTS_MISSED_MAX times in a row, are given up.
 */
void grants_compare_end(struct grants_table *b);
