/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The page that a process shares with the arbiter for its turns on the GPUs: whether its work may go
 * to a GPU now (the gate), and what it has sent there. Given by the answer to a SLICE_HELLO_TURNS
 * (abi/slice-wire.h); one for each process of a slice whose compute is isolated.
 *
 * The gate. Every submission counts .begun, looks at .gate, calls the driver and counts .ended:
 *
 *	OPEN     goes on; always so in a slice under MPS (SLICE_TURNS_MPS), so that its time is counted and
 *	         nothing is held. .window_ns other than 0: somebody waits for the end of what it has in flight
 *	         (a latency slice, that others wait for), so it watches as closely as when METERED
 *	METERED  goes on while no more than .window_ns of work is in flight, as the process estimates it
 *	         (.tail_ns at the end of the turn, which is .turn_ns after the gate was opened)
 *	CLOSED   takes its count back, says that it wants, and waits on .gate (a futex)
 *	BELL     besides: the arbiter thinks that the process has nothing in flight and wants nothing. The
 *	         first one takes the bell away, says so (SLICE_STATE) and goes on as the state says
 *
 * The arbiter changes the state and the generation by compare-and-swap and leaves BELL as it is; the
 * process changes BELL alone. Each change of state is a new generation.
 *
 * What is in flight. A marker (an event of the whole context) that was recorded when .ended was n and
 * has passed means .done = n. Nothing is in flight when .done == .begun.
 *
 * Times are lengths in nanoseconds: no clock is compared across the page, as containers may have their
 * own (time namespaces). The page is a memfd of TURN_PAGE_BYTES, sealed against any change of size.
 * Little-endian, fixed widths, no pointers.
 *
 * A process that writes nonsense here spoils what is shown and counted of its own slice, and no more: the
 * arbiter decides by what it reads from the page only whether there are turns at all (model/sched/sched.h,
 * "Together"), and whether the slice waits for a launch of its own (model/sched/sched.h, "Urgency"), both by .done:
 * who says that it gets on slowly has turns for that, and who says that nothing gets on has TURNS_URGED_NS between
 * TURNS_NS of the others at most, which is charged. For all else it goes by what the
 * process says (struct slice_state), and nobody else can know whether work is in flight. So there is a limit
 * to what turns can do: a process that does not look at its gate is not held by it. And one that says that it
 * is busy and then says no more, as it is stopped (SIGSTOP, a frozen cgroup, a debugger) or lies, is taken to
 * be busy for as long as it is connected. It has no turn by that and holds up nobody; but its slice is charged an
 * equal part of the time in which others work, as if its kernels still ran beside theirs (which they may).
 * The others are charged so much less than they use, and those with a cap get more than it. The status calls
 * such a process and its slice "stuck" after 10 s (abi/arbiter-control.h), and the arbiter's log says it once; but
 * one that goes on writing .done passes for one that works.
 *
 * The other way round, one that says that it is not busy while its work runs has the others charged for it.
 * With libraries that say the truth a program can have that, too, if a stream of it stands at a wait (parked,
 * struct slice_state) while a kernel of another one takes long: what that takes behind the closed gate.
 */
#include "abi/slice-page.h"

#define TURN_PAGE_MAGIC   UINT32_C(0x47505453) /* "STPG" */
#define TURN_PAGE_VERSION 1
#define TURN_PAGE_BYTES   8192

#define TURN_OPEN       UINT32_C(0)
#define TURN_METERED    UINT32_C(1)
#define TURN_CLOSED     UINT32_C(2)
#define TURN_STATE      UINT32_C(3) /* mask */
#define TURN_BELL       UINT32_C(4)
#define TURN_GENERATION UINT32_C(256) /* one; the upper 24 bits, they wrap */

struct turn_gpu_page {
	/* The arbiter writes these; the process reads, and changes TURN_BELL. */
	_Alignas(64) _Atomic uint32_t gate;
	_Atomic uint32_t
		cap; /* millionths of the GPU that this process holds itself to while there is
				 no arbiter: its part of what its slice may have at most; 0: no limit */
	_Atomic uint64_t window_ns, tail_ns, turn_ns;
	_Atomic uint64_t charged_ns; /* GPU time of this process: of its slice's, a part */
	/* The process writes these; the arbiter reads. Each is only ever added to, but for .begun,
	 * which those who wait take back. */
	_Alignas(64) _Atomic uint64_t begun;
	_Alignas(64) _Atomic uint64_t ended;
	_Alignas(64) _Atomic uint64_t done;
	_Atomic uint64_t copies,
		bytes; /* of .ended: copies and fills, and their bytes. The rest are
					   launches */
	_Atomic uint64_t waits, wait_ns; /* at the closed gate, all threads together */
	_Atomic uint64_t meter_ns;       /* that METERED held threads */
};

struct turn_page {
	uint32_t magic, version;
	uint32_t bytes; /* TURN_PAGE_BYTES */
	uint32_t gpu_count;
	uint64_t serial; /* of this registration; never 0, never used again by this arbiter */
	_Alignas(64) struct turn_gpu_page gpus[SLICE_GPUS_MAX];
};

_Static_assert(sizeof(struct turn_gpu_page) == 256, "layout");
_Static_assert(sizeof(struct turn_page) <= TURN_PAGE_BYTES, "layout");
