/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An arbiter on a thread of the test, for one slice of one GPU. It is simpler and less friendly than the real
 * arbiter. It keeps the contract of abi/slice-page.h and no more: it takes unused credit away and gives it at any
 * moment, and it answers late, never, or on a connection that has ended.
 */
#include "abi/slice-wire.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#define TA_PROCESSES 64

enum ta_page { TA_PAGE_GOOD, TA_PAGE_SHORT, TA_PAGE_UNSEALED, TA_PAGE_MAGIC, TA_PAGE_NONE };

struct ta_process {
	bool known; /* registered, and not yet gone */
	int fd;     /* -1: no connection */
	pid_t pid;
	int page_fd;
	struct slice_page *page;
	uint64_t granted;  /* the truth */
	uint32_t want_tag; /* of the last one granted */
	uint64_t want_bytes;
};

struct test_arbiter {
	char dir[64];
	uint64_t limit;
	/* Set by the test. */
	_Atomic bool unkind;   /* takes and gives credit all the time */
	_Atomic bool mute;     /* reads nothing; ta_mute() waits until it is so */
	_Atomic bool generous; /* all that is left comes as credit with the first grant */
	_Atomic int
		hang_up_at; /* grants the nth WANT from now, hangs up unanswered; 1: the next */
	_Atomic bool alone; /* new pages say so */
	_Atomic bool take_all;  /* takes all processes' credit, once; then false again */
	_Atomic int restart_ms; /* hangs up, is down for so long, comes back; then 0 again */
	_Atomic unsigned int status; /* of the next welcomes */
	_Atomic enum ta_page page;
	/* For the test to read. */
	_Atomic int hellos, again, wants, views, compares, rounds;

	pthread_mutex_t lock; /* guards what follows */
	struct ta_process processes[TA_PROCESSES];

	int listener, stop_fd;
	pthread_t thread;
	unsigned int seed;
	uint64_t serial;
};

/* In memory that children of fork share, so that they can set its members. */
struct test_arbiter *ta_new(void);

/* Serves @limit bytes at @dir, and sets GPUSLICE_SLICE_DIR. */
void ta_start(struct test_arbiter *a, const char *dir, uint64_t limit);
void ta_fini(struct test_arbiter *a);

/* Returns when nothing more is read. */
void ta_mute(struct test_arbiter *a);

/* The process is dead and its memory free. @check is called with it first. */
void ta_reap(struct test_arbiter *a, pid_t pid,
	void (*check)(const struct ta_process *p, void *arg), void *arg);

uint64_t ta_granted_sum(struct test_arbiter *a);

/* The UUID of its only GPU; may be set before ta_start(). */
extern uint8_t ta_uuid[SLICE_UUID_BYTES];
