/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The scheduler's thread: what model/sched/sched.h decides, for real processes and pages.
 *
 * A hand-over must not wait for what else the arbiter does (grants, status, /proc, files). So a thread of its own owns
 * all that a hand-over needs: the scheduler, the registrations of processes, the gates in their pages, the accounts.
 * Nothing of that is read or written by any other thread.
 *
 *	loop -> thread		the functions below. Each is a call: the loop waits, the thread runs it in steps
 *				between two rounds of events, so that a hand-over waits for one step at most
 *	process -> thread	states, by its connection; its death, by its pidfd
 *	thread -> process	gates, in its page (abi/turn-page.h)
 *	thread -> loop		.ended(): a registration that ended, whose connection the loop is to close
 *
 *	thread.c    start, halt, stop
 *	calls.c     what the loop asks the thread, and what the thread has the loop close
 *	serve.c     a round of events
 *	settle.c    what follows a change of turns: gates, charges, the timer
 *	gpus.c      the scheduler's GPUs by number
 *	slice.c     a slice's share, put in force. One under MPS is as one with turns, but that
 *	            model/sched/sched.h opens its gates for good
 *	register.c  a process comes for turns (abi/slice-wire.h): with a new page, or with the one that it has
 *	conn.c      its registration from then on: states, end
 *	gate.c      the gates in its page
 *	count.c     charges and counters: from the scheduler and the pages to the accounts
 *	records.c   records of processes and slices that are gone
 *	figures.c   what status shows
 *	tally/      accounts that outlive this program
 *
 * Thread: loop, for all of these. Blocks: for a round of events and the steps of the call, mostly some 10 us; sweeps and
 * figures for as long as there is to read.
 */
#include "abi/slice-wire.h"
#include "abi/turn-page.h"
#include "lib/base/error.h"
#include "node/arbiter/slices/file.h"
#include "node/arbiter/scheduler/usage-accounts/usage-accounts.h"

#include <uv.h>

struct scheduler;
struct scheduler_slice;        /* a slice that takes turns or runs under MPS, or did */
struct scheduler_registration; /* a registration of a process */

struct scheduler_options {
	uv_loop_t *loop;
	const char *run_dir, *procfs;
	/* On the loop: the registration of @conn has ended. scheduler_unregister() is still to be called. */
	void (*ended)(void *conn);
};

/* Also on failure the loop is to run once more, for a handle that closes. */
int scheduler_start(struct scheduler **ret, const struct scheduler_options *o,
	struct error *err) MUST_USE;

/* Before the arbiter's end: gates stay as they are from now on, also when a process leaves. The thread ends; calls run
 * in the caller. */
void scheduler_freeze(struct scheduler *t);

/* After all slices were freed. Its handle closes as the loop runs. NULL */
struct scheduler *scheduler_stop(struct scheduler *t);

/* ---- slices ----------------------------------------------------------------------------------- */

/*
 * The share of .gpus that @d says, from now on. *slice: NULL begins one, which the caller frees, also after a failure. A
 * slice that has a share has it on these GPUs: for others stop it first. On failure what was in force stays, and *err
 * is set. Returns what is in force: SLICE_TURNS_... of abi/slice-page.h.
 */
uint32_t scheduler_slice_set_share(struct scheduler *t, struct scheduler_slice **slice,
	const struct slice_def *d, struct error *err);

/* Ends all registrations of the slice, and opens its gates for good: threads that wait there go on. */
void scheduler_slice_release(struct scheduler *t, struct scheduler_slice *s);

/* It has no share any more; nobody is registered. Its figures stay. */
void scheduler_slice_stop(struct scheduler *t, struct scheduler_slice *s);
struct scheduler_slice *scheduler_slice_free(struct scheduler *t,
	struct scheduler_slice *s); /* stops it too. NULL */

/* ---- registrations ---------------------------------------------------------------------------- */

/* A process that comes for turns. */
struct scheduler_join_request {
	void *user;    /* for .ended() */
	int fd, pidfd; /* stay open until scheduler_unregister() */
	uint32_t pid, ns_pid;
	uint64_t start, image; /* of the process, as process/proc.h has them */
	const char *name;
	struct turn_page *page;
	ino_t page_ino;
	bool has_page; /* the page is one that it had */
};

/* Why a process has no turns. */
struct scheduler_refusal {
	enum slice_status status; /* SLICE_OK: it has */
	const char *reason;       /* constant */
	bool records; /* there is no room for records: scheduler_sweep_slice() may make some */
};

/* Whether there is room for one more registration of the process. Ends those of a program that it executed over. */
struct scheduler_refusal scheduler_check_room(struct scheduler *t, struct scheduler_slice *s,
	const struct scheduler_join_request *who);
/* From now on it takes turns; *ret has the page until scheduler_unregister(). Where it is refused the page stays the caller's. */
struct scheduler_refusal scheduler_register(struct scheduler *t, struct scheduler_slice *s,
	const struct scheduler_join_request *who, struct scheduler_registration **ret);
/* Status says for some seconds that there was no room for a process. */
void scheduler_report_crowded(struct scheduler *t, struct scheduler_slice *s);
/* The connection is about to be closed. Unmaps the page. */
void scheduler_unregister(struct scheduler *t, struct scheduler_registration *c);
/* Whether the process has one in the slice: its page is mapped here. */
bool scheduler_has_process(struct scheduler *t, struct scheduler_slice *s, uint32_t pid,
	uint64_t start);

/* ---- records of those who are gone ------------------------------------------------------------ */

/* Reads /proc, and so takes long. Of processes that are not there; and of slices that @is_slice does not know. */
void scheduler_sweep(struct scheduler *t, bool (*is_slice)(void *arg, const char *slice),
	void *arg);
/* Of this slice's processes; false: it was done a moment ago. A process that is refused asks each second. */
bool scheduler_sweep_slice(struct scheduler *t, struct scheduler_slice *s);

/* ---- memory that was refused: in the same accounts, also of slices without turns ---------------- */

uint64_t scheduler_read_refusals(struct scheduler *t, const char *slice, const uint8_t *uuid);
/* False: there is no room for one more account. */
bool scheduler_store_refusals(struct scheduler *t, const char *slice, const uint8_t *uuid,
	uint64_t refusals);

/* ---- status ----------------------------------------------------------------------------------- */

/* A slice on one GPU. */
struct scheduler_share_figures {
	uint8_t uuid[SLICE_UUID_BYTES];
	uint64_t charged_ns, counters[USAGE_COUNTERS];
	uint64_t quanta, revocations, queue_ns;
	uint64_t quantum_ends[SCHED_ENDS];
	uint32_t weight, cap;
	bool latency, has_quantum, demoted, stuck;
};

struct scheduler_slice_figures {
	bool crowded; /* there was no room for a process, some seconds ago at most */
	unsigned int n_gpus;
	struct scheduler_share_figures gpus[SLICE_GPUS_MAX];
};

/* A registration, with what it has had on each GPU of its slice. */
struct scheduler_process_figures {
	uint32_t pid, ns_pid;
	uint64_t start, number; /* a younger registration has a larger number */
	char name[SLICE_NAME_MAX];
	struct {
		uint64_t charged_ns, counters[USAGE_COUNTERS];
		bool stuck;
	} gpus[SLICE_GPUS_MAX];
};

#define SCHEDULER_GPUS_MAX 64
struct scheduler_gpu_figures {
	char uuid[SLICE_UUID_TEXT];
	uint64_t busy_ns;
	bool concurrent;
};

/*
 * Brings accounts up to date: a figure must be in them before status shows it, as no figure may become less. What is charged and how
 * long GPUs were busy is what it is at this call, in all figures until scheduler_figures_end(): turns go on meanwhile, and the
 * sums would not be those.
 */
void scheduler_figures_begin(struct scheduler *t);
void scheduler_figures_end(struct scheduler *t);
void scheduler_figures_slice(struct scheduler *t, struct scheduler_slice *s,
	struct scheduler_slice_figures *ret);
/* *ret: to be freed, in any order. < 0: no memory. */
int scheduler_figures_processes(struct scheduler *t, struct scheduler_slice *s,
	struct scheduler_process_figures **ret, size_t *ret_n) MUST_USE;
/* Into room for SCHEDULER_GPUS_MAX; how many. */
unsigned int scheduler_figures_gpus(struct scheduler *t, struct scheduler_gpu_figures *ret);
