/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The scheduler thread: applies the decisions of model/sched/sched.h to real processes and their pages.
 *
 * A hand-over must not wait for the arbiter's other work (grants, status, /proc, files). So one thread owns all
 * that a hand-over needs: the scheduler, the registrations of processes, the gates in their pages, the usage
 * accounts. No other thread reads or writes these.
 *
 * A time-shared slice (SLICE_TURNS_ON) gets quanta on its GPUs. A slice under MPS (SLICE_TURNS_MPS) has the
 * same registrations, gates and accounts, but the scheduler keeps its gates open.
 *
 *	loop -> thread		the functions below. Each is a call: the loop waits, and the thread runs one step
 *				of it after each round of events. So a hand-over waits for one step at most
 *	process -> thread	states, on the process's connection; its death, by its pidfd
 *	thread -> process	gates, in the process's page (abi/turn-page.h)
 *	thread -> loop		.ended(): a registration ended, and the loop must close its connection
 *
 *	thread.c        start, halt, stop
 *	calls.c         calls of the loop, and the ended registrations that the loop must close
 *	serve.c         a round of events
 *	settle.c        after a change of the scheduler: the gates in the pages, charges and counters, the timer
 *	slice.c         applies the share of a slice; the scheduler's GPUs by number
 *	register.c      registers a process (abi/slice-wire.h), with a new page or with its old one; its states, its end
 *	sweep.c         drops records of processes and slices that are gone
 *	refusals.c      counts of refused memory
 *	figures.c       what status shows
 *	usage-accounts/ accounts that outlive this program
 *
 * Thread: loop, for all functions of this header. Blocks: for a round of events and the steps of the call,
 * mostly about 10 us. Sweeps and figures block for as long as there is data to read.
 */
#include "abi/slice-wire.h"
#include "abi/turn-page.h"
#include "lib/base/error.h"
#include "node/arbiter/slices/file.h"
#include "node/arbiter/scheduler/usage-accounts/usage-accounts.h"

#include <uv.h>

struct scheduler;
struct scheduler_slice;        /* a slice that is or was time-shared or under MPS */
struct scheduler_registration; /* of one process */

struct scheduler_options {
	uv_loop_t *loop;
	const char *run_dir, *procfs;
	/* Called on the loop: the registration of @conn ended. The loop must still call scheduler_unregister(). */
	void (*ended)(void *conn);
};

/* The caller must run the loop once more also after a failure: a handle may still be closing. */
int scheduler_start(struct scheduler **ret, const struct scheduler_options *o,
	struct error *err) MUST_USE;

/* Called before the arbiter ends. From now on gates stay as they are, also when a process leaves. Ends the
 * thread: later calls run in the caller. */
void scheduler_freeze(struct scheduler *scheduler);

/* Called after all slices are freed. The handle of @scheduler closes as the loop runs. Returns NULL. */
struct scheduler *scheduler_stop(struct scheduler *scheduler);

/* --- slices --- */

/*
 * Applies the share that @d gives the slice on .gpus. If *slice is NULL, makes a slice; the caller frees it,
 * also after a failure. The GPUs of a slice that has a share do not change: the caller stops the slice first.
 * On failure the share in force stays, and *err is set. Returns what is in force: SLICE_TURNS_... of
 * abi/slice-page.h.
 */
uint32_t scheduler_slice_set_share(struct scheduler *scheduler, struct scheduler_slice **slice,
	const struct slice_def *d, struct error *err);

/* Ends all registrations of the slice, then opens their gates for good: blocked threads go on. */
void scheduler_slice_release(struct scheduler *scheduler, struct scheduler_slice *s);

/* Removes the share of a slice that has no registrations any more. The slice's figures stay. */
void scheduler_slice_stop(struct scheduler *scheduler, struct scheduler_slice *s);
/* Stops the slice, too. Returns NULL. */
struct scheduler_slice *scheduler_slice_free(struct scheduler *scheduler,
	struct scheduler_slice *s);

/* --- registrations --- */

/* A process that registers. */
struct scheduler_join_request {
	void *user;    /* passed to .ended() */
	int fd, pidfd; /* open until scheduler_unregister() */
	uint32_t pid, ns_pid;
	uint64_t start, image; /* of the process, as in process/proc.h */
	const char *name;
	struct turn_page *page;
	ino_t page_ino;
	bool has_page; /* the process brought this page */
};

/* Why a process is not registered. */
struct scheduler_refusal {
	enum slice_status status; /* SLICE_OK: registered */
	const char *reason;       /* constant */
	bool records; /* no room for client records: scheduler_sweep_slice() may make some */
};

/* Whether there is room for one more registration of the process. Ends registrations that the process made
 * before it executed its present program. */
struct scheduler_refusal scheduler_check_room(struct scheduler *scheduler,
	struct scheduler_slice *s, const struct scheduler_join_request *who);
/* Registers a process. On success *ret owns the page until scheduler_unregister(). On a refusal the caller
 * keeps the page. */
struct scheduler_refusal scheduler_register(struct scheduler *scheduler,
	struct scheduler_slice *s, const struct scheduler_join_request *who,
	struct scheduler_registration **ret);
/* Status shows for 10 s that the slice had no room for a process. */
void scheduler_report_crowded(struct scheduler *scheduler, struct scheduler_slice *s);
/* Called before the connection is closed. Unmaps the page. */
void scheduler_unregister(struct scheduler *scheduler, struct scheduler_registration *reg);
/* Whether the process has a registration in the slice, so that its page is mapped here. */
bool scheduler_has_process(struct scheduler *scheduler, struct scheduler_slice *s, uint32_t pid,
	uint64_t start);

/* --- records of processes and slices that are gone --- */

/* Drops the records of processes that are gone, and of slices that @is_slice does not know. Reads /proc, so it
 * takes long. */
void scheduler_sweep(struct scheduler *scheduler,
	bool (*is_slice)(void *arg, const char *slice), void *arg);
/* Drops the records of one slice's processes that are gone. Reads /proc. Returns false and does nothing if the last
 * sweep of this kind was less than a second ago: a refused process retries every second. */
bool scheduler_sweep_slice(struct scheduler *scheduler, struct scheduler_slice *s);

/* --- refused memory: in the usage accounts, also of slices without compute --- */

/* How many allocations the limit of the slice refused on the GPU @uuid, as last stored; 0: no account. */
uint64_t scheduler_read_refusals(struct scheduler *scheduler, const char *slice,
	const uint8_t *uuid);
/* Stores the count, unless the stored one is larger. False: no room for one more account. */
bool scheduler_store_refusals(struct scheduler *scheduler, const char *slice,
	const uint8_t *uuid, uint64_t refusals);

/* --- status --- */

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
	bool crowded; /* the slice had no room for a process in the last 10 s */
	unsigned int n_gpus;
	struct scheduler_share_figures gpus[SLICE_GPUS_MAX];
};

/* A registration, with its use of each GPU of its slice. */
struct scheduler_process_figures {
	uint32_t pid, ns_pid;
	uint64_t start, number; /* larger for a younger registration */
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
 * Opens a snapshot for status, and updates the accounts first. A figure must be in the accounts before status
 * shows it, as no figure may decrease. Until scheduler_figures_end() all figures show the charges and the busy
 * times of GPUs as of this call. The scheduler goes on meanwhile, and the sums would not match otherwise.
 */
void scheduler_figures_begin(struct scheduler *scheduler);
/* Closes the snapshot: the updates of the accounts go on. */
void scheduler_figures_end(struct scheduler *scheduler);
/* Fills *ret with the slice's figures. */
void scheduler_figures_slice(struct scheduler *scheduler, struct scheduler_slice *s,
	struct scheduler_slice_figures *ret);
/* The caller frees *ret, in any order. Returns < 0 without memory. */
int scheduler_figures_processes(struct scheduler *scheduler, struct scheduler_slice *s,
	struct scheduler_process_figures **ret, size_t *ret_n) MUST_USE;
/* Fills at most SCHEDULER_GPUS_MAX entries of @ret. Returns their number. */
unsigned int scheduler_figures_gpus(struct scheduler *scheduler,
	struct scheduler_gpu_figures *ret);
