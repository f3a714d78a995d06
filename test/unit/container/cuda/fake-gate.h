/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A gate that never blocks, for the tests of the hooks in front of it: it records its calls,
 * and counts on one GPU. Several threads may make contexts known, but do nothing else.
 */
#include "container/gate/gate-thread.h"

#define FAKE_CONTEXTS 16

struct fake_gate {
	unsigned int slow; /* calls of gate_begin_slow() */
	CUstream stream;   /* of the last one */
	unsigned int flags;
	uintptr_t kind;
	CUstream streams[8];    /* of all, the first eight */
	bool place_fence;       /* it asks for an event behind the submission */
	unsigned int own_fence; /* such events */
	bool refuse;            /* it counts nothing, as for work that a capture records */
	/* Calls that may make a stream wait: all, and those that the driver accepted; the last such call. */
	unsigned int waits, waits_given;
	CUstream wait_stream;
	unsigned int wait_flags;
	/* Captures: that were announced, and that ended or did not begin; never more ends than begins. */
	unsigned int begins, ended;
	/* Contexts that the gate thread knows. The library may add one twice, and the gate thread forgets it
	 * once. */
	CUcontext contexts[FAKE_CONTEXTS];
	unsigned int gpus[FAKE_CONTEXTS];
	unsigned int leaves, gone, stays; /* calls */
	CUcontext
		leaving; /* the last context that begins to leave, until it is destroyed or stays */
};

extern struct fake_gate fake_gate;
extern struct turn_page fake_gate_page;

/* Forgets all. @page: gates are open on a page of one GPU; else each submission asks the slow way. */
void fake_gate_new(bool page);

bool fake_gate_knows(CUcontext context);
