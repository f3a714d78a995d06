/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A driver and an arbiter for the tests of the hooks: async pools, graph memory and arrays with the
 * sizes of an H100, streams that capture, and a page whose credit is all that a slice has. At each
 * growth the driver compares its allocated bytes with the charged ones. One GPU, number 0. Thread: any.
 */
#include "support/test.h"

#include "abi/slice-wire.h"
#include "container/cuda/driver.h"
#include "container/client/link.h"

#include <stdatomic.h>

#define MIB (UINT64_C(1) << 20)

struct fake {
	enum link_state state;
	bool old_driver; /* refuses pools of a largest size */
	int never_idle; /* queries of streams that return "not ready" before the streams are done */
	/* Counts of calls and faults. */
	_Atomic unsigned int calls; /* of the driver, but for those that make things */
	unsigned int spoiled;       /* captures, by calls that are forbidden then */
	unsigned int over;          /* growths beyond what was charged, or beyond the limit */
	unsigned int compares;      /* asked of the arbiter */
	unsigned int trims, destroyed;
	_Atomic unsigned int own_calls; /* of variants whose stream 0 is the thread's */
	size_t max_size;                /* of the last pool made */
	/* What other threads do while the next call runs, before and after it grows something. */
	void (*meanwhile)(void);
	void (*after)(void);
};

extern struct fake fake;
extern struct slice_page fake_page;

/* A new driver in a slice of @limit bytes. */
void fake_new(uint64_t limit);

uint64_t fake_used(void);         /* as the arbiter sees it */
uint64_t fake_physical(void);     /* as the driver has it */
void fake_hidden(uint64_t bytes); /* a context: charged and there */

CUstream fake_stream(int n); /* 1 to 7 */
CUmemoryPool fake_default_pool(void);
void fake_capture(CUstream stream, unsigned int mode);
CUgraph fake_capture_end(CUstream stream);
CUgraph fake_graph(void);
void fake_node_alloc(CUgraph graph, size_t bytes);
void fake_node_child(CUgraph graph, CUgraph child);
unsigned int fake_thread_mode(void);

/* Synchronizes by calls that no hook sees. */
void fake_unseen_sync(void);
void fake_reset(void);
