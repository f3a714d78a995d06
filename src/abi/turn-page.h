/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The page that a process shares with the arbiter for its quanta on the GPUs: whether work of the process may go
 * to a GPU now (the gate), and how much it has submitted there. The answer to a SLICE_HELLO_TURNS
 * (abi/slice-wire.h) carries it. Each process of a slice whose compute is isolated has one.
 *
 * The gate. A submitting thread
 *	1. adds one to .begun;
 *	2. reads .gate, and acts on its state (below);
 *	3. calls the driver;
 *	4. adds one to .ended.
 *
 * The states of the gate:
 *
 *	OPEN     The thread goes on. A slice under MPS (SLICE_TURNS_MPS) has this state always: the arbiter counts
 *	         its time and holds no thread. If .window_ns is not 0, other shares wait until work of this latency
 *	         share ends. The process then watches its work as closely as in state THROTTLED.
 *	THROTTLED
 *	         The thread goes on while at most .window_ns of work is in flight, as the process estimates it. At the
 *	         end of the quantum, .quantum_ns after the gate opened, the bound is .overrun_ns.
 *	CLOSED   The thread subtracts its one from .begun, reports that it wants the GPU, and waits on .gate (a
 *	         futex).
 *	DOORBELL A bit beside the state. The gate thread sets it when the process has nothing in flight and wants
 *	         nothing, or when no context of the GPU is known. The next submitting thread clears the bit, reports
 *	         (SLICE_STATE), and goes on as the state says.
 *
 * The arbiter changes state and generation by compare-and-swap and keeps DOORBELL as it is. The process changes
 * DOORBELL alone, by atomic operations. A new page begins as CLOSED with DOORBELL. Each change of the state has a
 * new generation.
 *
 * Work in flight. A fence is an event of a whole context. If it was recorded when .ended was n, and has passed,
 * the process sets .done to n. Nothing is in flight when .done == .begun.
 *
 * Units and layout. Times are durations in nanoseconds. Neither side compares a clock across the page, as a
 * container may have its own (time namespaces). The page is a memfd of TURN_PAGE_BYTES, sealed against any
 * change of size. Little-endian, fixed widths, no pointers.
 *
 * Trust. A process that writes false values here falsifies the figures and accounts of its own slice only. The
 * arbiter uses values of the page for two decisions, both by .done:
 *	- whether shares have quanta or run concurrently (model/sched/concurrent.c). A process that reports slow
 *	  progress has quanta instead;
 *	- whether a slice waits for a launch of its own (model/sched/boost.c). A process that reports no progress
 *	  gets at most SCHED_BOOST_QUANTUM_NS after each SCHED_QUANTUM_NS of the others, and is charged for it.
 * For all else the arbiter relies on what the process reports (struct slice_state), as only the process knows
 * whether work is in flight. This limits what quanta can enforce:
 *	- A process that does not read its gate is not held.
 *	- A process may report that it is busy and then nothing more: it is stopped (SIGSTOP, a frozen cgroup, a
 *	  debugger), or its state is false. It counts as busy while it is connected. It gets no quantum by that
 *	  and delays no other process. Its slice is charged an equal part of the time in which others work, as if
 *	  its kernels ran beside theirs (which may be so). The others are charged less than they use by that
 *	  amount, and those with a cap get more than the cap. After 10 s the status shows the process and its
 *	  slice as "stuck" (abi/arbiter-control.h) and the arbiter logs it once. A process that continues to
 *	  write .done does not appear as stuck.
 *	- If a process reports that it is not busy while its work runs, the others are charged for that work.
 *	  This can happen with a correct library as well: a stream of the process is blocked (struct slice_state)
 *	  while a kernel of another of its streams takes long. The others then pay for what that kernel takes
 *	  behind the closed gate.
 */
#include "abi/slice-page.h"

#define TURN_PAGE_MAGIC   UINT32_C(0x47505453) /* "STPG" */
#define TURN_PAGE_VERSION 1
#define TURN_PAGE_BYTES   8192

#define TURN_OPEN       UINT32_C(0)
#define TURN_THROTTLED  UINT32_C(1)
#define TURN_CLOSED     UINT32_C(2)
#define TURN_STATE      UINT32_C(3) /* mask */
#define TURN_DOORBELL   UINT32_C(4)
#define TURN_GENERATION UINT32_C(256) /* 1 in the upper 24 bits, which wrap */

struct turn_gpu_page {
	/* The arbiter writes these; the process reads them, and changes TURN_DOORBELL. */
	_Alignas(64) _Atomic uint32_t gate;
	/* While there is no arbiter: the process's part of its slice's cap, millionths of the GPU; 0: no limit. */
	_Atomic uint32_t cap;
	_Atomic uint64_t window_ns, overrun_ns, quantum_ns;
	_Atomic uint64_t charged_ns; /* GPU time of this process, a part of its slice's */
	/* The process writes these; the arbiter reads them. They only increase, except .begun: a thread that
	 * has to wait subtracts its one again. */
	_Alignas(64) _Atomic uint64_t begun;
	_Alignas(64) _Atomic uint64_t ended;
	_Alignas(64) _Atomic uint64_t done;
	_Atomic uint64_t copies, bytes; /* copies and fills, of .ended; the rest are launches */
	_Atomic uint64_t waits, wait_ns; /* at the closed gate, sum of all threads */
	_Atomic uint64_t throttled_ns;   /* in which THROTTLED held threads */
};

struct turn_page {
	uint32_t magic, version;
	uint32_t bytes; /* TURN_PAGE_BYTES */
	uint32_t gpu_count;
	uint64_t serial; /* of this registration; never 0, and this arbiter never reuses it */
	_Alignas(64) struct turn_gpu_page gpus[SLICE_GPUS_MAX];
};

_Static_assert(sizeof(struct turn_gpu_page) == 256, "layout");
_Static_assert(sizeof(struct turn_page) <= TURN_PAGE_BYTES, "layout");
