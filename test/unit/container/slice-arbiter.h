/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A fake arbiter on a thread of the test. It serves the socket of one slice (abi/slice-wire.h) in one of two forms:
 *	- a slice with a memory limit on one GPU;
 *	- a slice with quanta: gates of abi/turn-page.h that the test opens and closes, and no memory limit.
 * The fake is simpler and less friendly than the real arbiter. It keeps the contract of abi/ and no more: it
 * reclaims unused credit and adds credit at any moment, and it answers late, never, or on a connection that has
 * ended. The slice has one form at a time. A packet that belongs to the other form ends the test.
 *
 * Thread: any, if the description of a member or of a function names no other.
 */
#include "abi/slice-wire.h"
#include "abi/turn-page.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#define SLICE_ARBITER_PROCESSES 64

/* What is wrong with the page that comes with a welcome. */
enum slice_arbiter_page {
	SLICE_ARBITER_PAGE_GOOD,
	SLICE_ARBITER_PAGE_SHORT,
	SLICE_ARBITER_PAGE_UNSEALED,
	SLICE_ARBITER_PAGE_MAGIC,
	SLICE_ARBITER_PAGE_NONE,
};

/* One connection, and what the process registered over it. Memory outlives its connection. */
struct slice_arbiter_process {
	bool known;  /* connected or registered, and not yet gone */
	bool quanta; /* registered for quanta */
	int fd;      /* -1: no connection */
	pid_t pid;
	struct slice_page *page; /* of a registration for memory; else NULL */
	uint64_t granted;        /* the truth */
	uint32_t request_tag;    /* of the last one granted */
	uint64_t request_bytes;
};

/* What the fake knows of a process on one GPU. */
struct slice_arbiter_client {
	bool busy, wants;
	uint64_t idle_ns; /* as last reported */
	uint64_t reports, ignored;
	uint64_t idles; /* of .reports: neither busy nor wanting */
};

/* Registrations of one kind. */
struct slice_arbiter_registrations {
	/* Set by the test: of the next welcomes. */
	_Atomic unsigned int status; /* enum slice_status */
	_Atomic enum slice_arbiter_page page;
	/* Read by the test. */
	_Atomic int hellos,
		again;    /* all; of these: with SLICE_HELLO_AGAIN and admitted so far */
	_Atomic int lost; /* connections that their process ended */
};

struct slice_arbiter {
	char dir[64];
	uint64_t limit; /* in bytes; 0: the slice has quanta */
	uint32_t gpu_count;
	struct slice_arbiter_registrations memory; /* and those that only read figures */
	struct slice_arbiter_registrations quanta;

	/* Set by the test. */
	_Atomic bool mute;      /* reads nothing; slice_arbiter_mute() waits until it is so */
	_Atomic int restart_ms; /* hangs up, is down for so long, comes back; then 0 again */
	_Atomic bool unkind;    /* takes and gives credit all the time */
	_Atomic bool generous;  /* all that is left comes as credit with the first grant */
	_Atomic bool take_all;  /* takes all processes' credit, once; then false again */
	_Atomic bool alone;     /* new pages have it */
	/* Grants the nth WANT from now, and hangs up without an answer. 1: the next one. */
	_Atomic int hang_up_at;
	_Atomic uint32_t start_state; /* of the gates of a process that registers */
	/* Read by the test. */
	_Atomic int wants, views, compares;
	_Atomic unsigned int rounds; /* of the thread */

	pthread_mutex_t lock; /* guards what follows */
	struct slice_arbiter_process processes[SLICE_ARBITER_PROCESSES];
	/* The pages of the last process that registered for memory, and for quanta. NULL: none did. */
	struct slice_page *slice_page;
	struct turn_page *turn_page;
	struct slice_arbiter_process
		*last; /* the connection for quanta that is used; NULL: none */
	struct slice_arbiter_client clients[SLICE_GPUS_MAX]; /* of that process */

	int listener, stop_fd;
	pthread_t thread;
	unsigned int seed;
	uint64_t serial;
};

/* The UUID of the GPU that has a memory limit. May be set before the start. The GPUs of a slice with quanta have
 * none. */
extern uint8_t slice_arbiter_uuid[SLICE_UUID_BYTES];

/* Allocates a fake in memory that forked children share, so that they can set its members. It is never
 * freed. */
struct slice_arbiter *slice_arbiter_new(void);

/* Clears @a, serves a slice of either form at @dir, and sets GPUSLICE_SLICE_DIR. @limit: in bytes, not 0. */
void slice_arbiter_start_memory(struct slice_arbiter *a, const char *dir, uint64_t limit);
void slice_arbiter_start_quanta(struct slice_arbiter *a, const char *dir, uint32_t gpu_count);
/* Ends all connections and threads, and drops all processes. */
void slice_arbiter_stop(struct slice_arbiter *a);

/* Ends all connections, as a kill would. The pages stay with the processes. */
void slice_arbiter_kill(struct slice_arbiter *a);
/* Serves again after a kill. */
void slice_arbiter_restart(struct slice_arbiter *a);

/* Returns when the fake reads nothing more. */
void slice_arbiter_mute(struct slice_arbiter *a);

/* The process is dead and its memory free. Calls @check with it first, if @check is not NULL. */
void slice_arbiter_reap(struct slice_arbiter *a, pid_t pid,
	void (*check)(const struct slice_arbiter_process *p, void *arg), void *arg);

/* The granted bytes of all processes. */
uint64_t slice_arbiter_granted_sum(struct slice_arbiter *a);

/*
 * Quanta of the process that registered last.
 */

/* Sets the gate, with a new generation if the state changes, and wakes the waiting threads. */
void slice_arbiter_set_gate(struct slice_arbiter *a, uint32_t gpu, uint32_t state);
/* The same, as if the arbiter was killed before it woke the threads. */
void slice_arbiter_set_gate_only(struct slice_arbiter *a, uint32_t gpu, uint32_t state);
void slice_arbiter_set_throttle(struct slice_arbiter *a, uint32_t gpu, uint64_t window_ns,
	uint64_t overrun_ns, uint64_t quantum_ns);
/* Whether the slice has quanta, in the page of memory. */
void slice_arbiter_set_scheduled(struct slice_arbiter *a, bool on);

struct slice_arbiter_client slice_arbiter_client(struct slice_arbiter *a, uint32_t gpu);
/* Waits for a process to register. */
struct turn_gpu_page *slice_arbiter_page(struct slice_arbiter *a, uint32_t gpu);
bool slice_arbiter_is_connected(struct slice_arbiter *a);
