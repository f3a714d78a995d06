/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A driver for the tests of gate and gate thread. Work in a context ends in the order of its submission, when the
 * test orders it. Events pass with the work before them. Calls that invalidate captures do so here too.
 * Thread: any.
 */
#include "container/cuda/driver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TD_CONTEXTS 40
#define TD_STREAM   ((CUstream)0x100) /* the place of its context is added */
#define TD_ASIDE \
	((CUstream)0x2100) /* of context 0: beside the work of td_submit() and td_finish() */

struct gate_driver {
	_Atomic bool at_once; /* all that is submitted is done */
	_Atomic int
		error; /* what queries of events and records of contexts answer; 0: the truth */
	_Atomic int create_error; /* the same of cuEventCreate() */
	_Atomic int capturing;    /* 2: until it is spoiled */
	_Atomic int moved;        /* added to the place of each stream's GPU */
	_Atomic uint64_t submitted[TD_CONTEXTS], done[TD_CONTEXTS];
	_Atomic uint64_t aside_submitted, aside_done; /* of context 0 */
	/* What happened. */
	_Atomic int records, queries, own_records, creates, destroys;
	_Atomic int spoiled;          /* captures */
	_Atomic int stream_questions; /* where a stream is */
	_Atomic int mps_probes;       /* whether it is under MPS */
	_Atomic int stale_calls;      /* calls with a context or an event that was destroyed */
	_Atomic int blocked_calls; /* in a mode that is not relaxed while a stream captures */
};

extern struct gate_driver td;

/* A driver with context 0 current, on GPU 0. Context n is of GPU n of the slice. */
void td_new(void);

CUcontext td_context(int n);
void td_current(int n); /* for the calling thread; -1: none */
void td_green(int n);   /* the same: a green context that lives in context n */
void td_destroy(int n); /* as the driver does in cuCtxDestroy */
void td_create(int n);  /* another context with its handle */

/* What a launch does. */
void td_submit(int n);
void td_submit_to(CUstream stream);
/* The driver completes all submitted work. */
void td_finish(int n);
