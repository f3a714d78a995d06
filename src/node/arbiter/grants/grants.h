/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The grants: how much GPU memory each process of each slice may use. This module decides over plain data and over
 * the pages that the arbiter shares with the processes (abi/slice-page.h). The module uses no file, socket or
 * clock, so unit tests run it unchanged.
 *
 *	slice ── member ── task		task: a process (PID and start time)
 *	      └─ member ──┘		member: a registration of it, with one page; a task can have several
 *
 * Records. Each member has a record of the bytes that are granted to it. The records are in a file that outlives
 * the arbiter (node/arbiter/grants/journal.h); in tests, in any memory. A record is never less than the grant in
 * its page, so never less than what its process can hold. The order of the stores ensures this, whatever
 * instruction the arbiter is killed at:
 *
 * 1. To raise a grant, the arbiter stores the new figure in the record, then in the page, then adds to the page's
 *    credit.
 * 2. To lower a grant, the arbiter takes the credit, stores the new figure in the page, then in the record.
 * 3. After a kill, grants_adopt_page() of the next arbiter compares record and page. It takes back a raise that
 *    had not reached the page, and finishes a lowering that had not reached the record.
 *
 * Requests. A request can be granted although its answer is lost:
 *
 * 1. The arbiter stores tag, GPU, bytes and the present grant in the record, then GRANTS_REQUEST_BEGUN.
 * 2. The arbiter raises the grant, stores GRANTS_REQUEST_DONE, then answers.
 * 3. After a kill, grants_adopt_page() changes GRANTS_REQUEST_BEGUN to DONE if the grant has changed, else to
 *    NONE.
 * 4. A process without an answer names the tag when it registers again. grants_return_unanswered() turns the bytes
 *    into credit.
 *
 * Invariant. On each GPU, the grants of a slice's members plus the memory of unhooked processes are at most the
 * limit. There are two exceptions: the limit was lowered below what is in use, or the driver took memory that no
 * hook could know before (grants_compare()). In both cases the arbiter grants nothing more. The arbiter always
 * grants a request that fits into the memory that is not in use: it reclaims unused credit of other members, and
 * of the requesting member.
 *
 * A process can spoil its own page. So each figure read from a page is limited by what was granted.
 *
 * Thread: loop. Blocks: never.
 */
#include "abi/slice-wire.h"
#include "node/arbiter/grants/fair-quota.h"
#include "lib/base/error.h"

#include <stdbool.h>

/* Extra credit, so that the process need not request memory for its next allocations: this fraction of what would
 * be left, at most GRANTS_EXTRA_MAX bytes. */
#define GRANTS_EXTRA_DIVISOR 16
#define GRANTS_EXTRA_MAX     (UINT64_C(64) << 20)
#define GRANTS_BYTES_MAX     (UINT64_C(1) << 48) /* no sum over a slice or a node overflows */
#define GRANTS_CAS_TRIES     64 /* against a process that keeps changing its credit */
/* Members: of the node, which slices share by node/arbiter/grants/fair-quota.h; of one slice; of one task, in which
 * the interception library may be loaded several times. */
#define GRANTS_MEMBERS_MAX       4096
#define GRANTS_SLICE_MEMBERS_MAX 1024
#define GRANTS_TASK_MEMBERS_MAX  64
#define GRANTS_BUCKETS           1024
#define GRANTS_MISSED_MAX        20         /* successive readings: see grants_compare_end() */
#define GRANTS_UNKNOWN           UINT64_MAX /* of a figure: not known */

enum grants_request_state { GRANTS_REQUEST_NONE, GRANTS_REQUEST_BEGUN, GRANTS_REQUEST_DONE };

/* One registration, as the file keeps it. While .state is GRANTS_RECORD_USED, the fields above .check do not
 * change. Each field below .check changes by one store. GRANTS_RECORD_USED is "BOOK" in ASCII. */
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
	/* The last request: its tag, and .granted before it. .request_state says whether they are valid. */
	_Atomic uint32_t request_state;
	uint32_t request_tag, request_gpu;
	_Atomic uint32_t retained; /* abandoned, but a later reading showed its memory */
	uint64_t request_bytes, granted_before;
	_Atomic uint64_t granted[SLICE_GPUS_MAX];
};

struct grants_gpu {
	uint8_t uuid[SLICE_UUID_BYTES];
	uint64_t limit;     /* SLICE_NO_LIMIT: none */
	uint64_t granted;   /* sum over the members */
	uint64_t unhooked;  /* used by unhooked processes */
	bool reading_known; /* .unhooked is known from a reading */
	uint64_t peak;
	uint64_t refused; /* allocations: see grants_slice_refused() */
};

struct grants_slice {
	struct grants_slice *next; /* in the table, in no order */
	char id[SLICE_ID_MAX];
	unsigned int n_gpus, n_members;
	struct grants_gpu gpus[SLICE_GPUS_MAX];
	struct grants_member *members, **members_end; /* in the order of registration */
	bool removed; /* accepts no registration; freed with its last member */
	void *user;   /* the server's */
};

struct grants_task {
	struct grants_task *next; /* in the bucket */
	uint32_t pid, n_members;
	uint64_t start;
	struct grants_member *members;
	bool dead; /* the process ended: see grants_task_abandon() */
	void *user;
};

struct grants_member {
	struct grants_member *next, *next_of_task;
	struct grants_slice *slice;
	struct grants_task *task;
	struct slice_page *page; /* NULL: not known (yet); the whole grant counts as used */
	struct grants_record *rec;
	bool abandoned; /* no process writes the page any more: see grants_member_abandon() */
	bool reading_requested; /* NVML was asked after .abandoned */
	uint32_t missed;        /* successive readings since then without one of its GPUs */
	struct {
		uint64_t peak, most; /* largest bytes used, granted */
		uint64_t physical;   /* of the whole process; GRANTS_UNKNOWN */
		uint64_t begun;      /* at the last grants_snapshot(); GRANTS_UNKNOWN: busy */
		bool read;           /* read and compared since the last grants_snapshot() */
	} gpus[SLICE_GPUS_MAX];
	void *user;
};

struct grants_table {
	struct grants_slice *slices;
	struct grants_task *buckets[GRANTS_BUCKETS];
	unsigned int n_slices, n_tasks;
	struct fair_quota members;
	/* Called before a member, a task with its last member, or a removed slice is freed, so that the server
	 * frees .user. The callbacks must not change the table. */
	void (*dropped)(void *arg, struct grants_member *m);
	void (*ended)(void *arg, struct grants_task *t);
	void (*removed)(void *arg, struct grants_slice *s);
	void *arg;
};

/* An empty table. The caller sets the callbacks afterwards. */
void grants_init(struct grants_table *table);
void grants_fini(
	struct grants_table *table); /* frees all without a callback; the records stay */

/* --- slices --- */

/* NULL: no such slice. */
struct grants_slice *grants_slice_find(const struct grants_table *table, const char *id);
/* Adds a slice with @n_gpus GPUs: their @uuids and their @limits in bytes (SLICE_NO_LIMIT: none). The caller has
 * checked that there is no slice with this @id. The table owns the slice. NULL: no memory, or @id or @n_gpus is too
 * large. */
struct grants_slice *grants_slice_new(struct grants_table *table, const char *id,
	unsigned int n_gpus, const uint8_t uuids[][SLICE_UUID_BYTES], const uint64_t *limits);

/* Changes the limit at once. Reclaims the credit above the new limit. */
void grants_slice_set_limit(struct grants_slice *s, unsigned int gpu, uint64_t limit);

/*
 * Where more is granted than the limit, reclaims the credit of memory that processes have freed since. Until then
 * the processes can use this credit again, since no process requests it. So call this function periodically.
 */
void grants_reclaim_over_limit(struct grants_table *table);

/* The slice no longer exists. A slice without members is freed here, else with its last member. */
void grants_slice_remove(struct grants_table *table, struct grants_slice *s);

/* Bytes in use by all members and by unhooked processes. Updates the peaks. */
uint64_t grants_slice_used(struct grants_slice *s, unsigned int gpu);
/* Bytes of the limit that are not in use; SLICE_NO_LIMIT: there is no limit. Updates the peaks. */
uint64_t grants_slice_free_bytes(struct grants_slice *s, unsigned int gpu);
/* Whether the grants, unused credit included, and the memory of unhooked processes exceed the limit. */
bool grants_slice_is_over_limit(const struct grants_slice *s, unsigned int gpu);

/*
 * Allocations that the limit refused, according to the pages of present and former members. The count begins with
 * the value in .refused. The count continues where an earlier arbiter stopped counting a page.
 */
uint64_t grants_slice_refused(struct grants_slice *s, unsigned int gpu);

/* What unhooked processes use now. */
void grants_slice_set_unhooked(struct grants_slice *s, unsigned int gpu, uint64_t bytes);

/* --- members --- */

/* The process with this PID and start time, as in /proc/PID/stat. NULL: none. */
struct grants_task *grants_task_find(const struct grants_table *table, uint32_t pid,
	uint64_t start);

/* Searches this slice only, so that what a process writes into its page does not affect another slice. NULL:
 * none. */
struct grants_member *grants_member_find_serial(struct grants_slice *s, uint64_t serial);
/* Whether this is the oldest registration of its process in this slice. Status shows that one for all of them. */
bool grants_member_is_oldest(const struct grants_member *m);

/* A process that registers. The members are those of struct grants_record. */
struct grants_client {
	uint32_t pid, ns_pid;
	uint64_t start, image, serial;
	const char *name;
};
/* Whether the slice and its fair quota have room for one more member. */
bool grants_has_capacity(const struct grants_table *table, const struct grants_slice *s);
/*
 * Registers a process. Fills @page and the free record @rec; the last store marks @rec used. SLICE_OK: *ret is the
 * member, which the table owns; @page and @rec must outlive it. SLICE_GONE: the slice is removed. SLICE_TOO_MANY: a
 * limit is reached, or there is no memory. A refusal for the slice or the quota leaves @rec and @page unchanged.
 * After the other refusals @rec is free, and @page is filled.
 */
enum slice_status grants_register(struct grants_table *table, struct grants_slice *s,
	const struct grants_client *who, struct grants_record *rec, struct slice_page *page,
	struct grants_member **ret);

/*
 * Makes a member without a page from a record. The record comes from an earlier arbiter. If the grants file was
 * lost, grants_record_fill() makes the record from the page that a process brings. NULL: no memory, or a limit of
 * the table, slice or task is reached. Does not check the slice's fair quota: a caller that needs this check calls
 * grants_has_capacity() first.
 */
struct grants_member *grants_restore(struct grants_table *table, struct grants_slice *s,
	struct grants_record *rec);
/* Fills @rec for the process @who of the slice, and marks it used with the last store. Its grants are those in
 * @page, at most GRANTS_BYTES_MAX each; NULL: 0. */
void grants_record_fill(struct grants_record *rec, const struct grants_slice *s,
	const struct grants_client *who, const struct slice_page *page);

/* Whether a record is used, its checksum is right and its figures are in range. */
bool grants_record_is_valid(const struct grants_record *rec);

/*
 * Gives a restored member its page. The caller has checked size, magic, version and serial. Finishes or takes back
 * the change that was under way when the earlier arbiter ended.
 */
void grants_adopt_page(struct grants_member *m, struct slice_page *page);

/* Whether magic, version, size, serial and number of GPUs are those of the record. */
bool grants_page_matches(const struct grants_record *rec, const struct slice_page *page);

/* The process never received the answer to the request with this @tag. The bytes that were granted become
 * credit. */
void grants_return_unanswered(struct grants_member *m, uint32_t tag);

/*
 * SLICE_OK: @bytes more belong to the process. SLICE_NO_ROOM: the slice has less than @bytes left; credit that was
 * reclaimed for the request stays free. *ret_free, unless NULL: the slice's free bytes afterwards. The caller has
 * checked the range of @gpu.
 */
enum slice_status grants_request(struct grants_member *m, unsigned int gpu, uint64_t bytes,
	uint32_t tag, uint64_t *ret_free);

/* Figures of a member, in bytes. The caller has checked the range of @gpu. */

/* What is granted, unused credit included. */
uint64_t grants_get_granted(const struct grants_member *m, unsigned int gpu);
/* The grant without unused credit: the whole grant while the page is not known, or the member is abandoned. */
uint64_t grants_get_used(const struct grants_member *m, unsigned int gpu);
/* The most that was used, also between two calls. Never more than was granted. */
uint64_t grants_get_peak(struct grants_member *m, unsigned int gpu);
/* The part in use that no hook charged (grants_compare()). 0 also without a page, or if the member is abandoned. */
uint64_t grants_get_overhead(const struct grants_member *m, unsigned int gpu);

/* Whether nothing is granted to the member on any GPU. */
bool grants_member_is_empty(const struct grants_member *m);

/* The process has ended, and the driver has freed its memory. Frees the task and its members. */
void grants_task_remove(struct grants_table *table, struct grants_task *t);

/*
 * The process has ended. The driver has freed its memory, unless a living child has its files open. In that case
 * NVML still lists the PID of the ended process. Abandons all members of the task.
 */
void grants_task_abandon(struct grants_task *t);

/* NVML is no longer read. Frees ended tasks, except those whose members were all seen with memory by a reading
 * since they ended. */
void grants_drop_dead_tasks(struct grants_table *table);

/* The member holds nothing any more. Frees the task with its last member. */
void grants_member_drop(struct grants_table *table, struct grants_member *m);

/*
 * The process has ended or executes another program (same PID, same start time), so no process writes this page
 * again. The driver frees the memory at about the same time, possibly after the arbiter notices. So the memory
 * counts until a reading shows how much the process has beyond its other members.
 */
void grants_member_abandon(struct grants_member *m);

/* Whether the member was abandoned and a reading since then showed that it still has memory. */
bool grants_member_is_retained(const struct grants_member *m);

/* Whether an abandoned member has a grant on the GPU and there was no reading since it was abandoned. */
bool grants_slice_needs_reading(const struct grants_slice *s, unsigned int gpu);

/* --- NVML's figures --- */

/* Call before NVML is asked. Notes which members are idle now, and which are abandoned. */
void grants_snapshot(struct grants_table *table);

/*
 * NVML reports that the process has @bytes on the GPU @uuid, at a moment after the last grants_snapshot(). Sets
 * the overhead, which no hook charged. A larger overhead is added even beyond the limit, since the driver has
 * taken the memory already. A smaller overhead is given back. Ignores a process with an operation under way now or
 * since the snapshot. GRANTS_UNKNOWN: the process is there, but its figure is not known. True: a figure changed.
 */
bool grants_compare(struct grants_task *t, const uint8_t *uuid, uint64_t bytes);

/*
 * Call after all comparisons since the last grants_snapshot(). Drops abandoned members that have nothing any more,
 * and a task with its last member. Also drops abandoned members of an ended process after GRANTS_MISSED_MAX
 * successive readings that lack one of their GPUs.
 */
void grants_compare_end(struct grants_table *table);
