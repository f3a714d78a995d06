/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The protocol between a process of a slice and the arbiter: packets of one struct each on the slice's own
 * SOCK_SEQPACKET socket (abi/slice-dir.h). The socket determines the slice; the kernel identifies the process
 * (SO_PEERCRED). Every packet begins with struct slice_head. The arbiter answers requests in order, each with
 * one answer; SLICE_STATE has none. Fixed widths, no pointers, unused members are zero, at most SLICE_PACKET_MAX
 * bytes. After any other packet the arbiter closes the connection.
 *
 * The end of a connection does not change grants. A process keeps what it was granted until it is gone (pidfd),
 * or until it registers again and sends its page.
 */
#include "abi/slice-page.h"

#define SLICE_WIRE_VERSION 1
#define SLICE_PACKET_MAX   4096
#define SLICE_NAME_MAX     32 /* of a process, as in /proc/PID/comm, with the NUL */
#define SLICE_ID_MAX       40 /* of a slice, with the NUL */
#define SLICE_REASON_MAX   160

enum slice_op {
	SLICE_HELLO = 1,
	SLICE_WELCOME,
	SLICE_WANT,
	SLICE_GRANT,
	SLICE_VIEW,
	SLICE_VIEWED,
	SLICE_COMPARE,
	SLICE_COMPARED,
	SLICE_STATE,
};

struct slice_head {
	uint32_t op;  /* enum slice_op */
	uint32_t tag; /* of the request; its answer repeats it */
};

/*
 * The first packet on every connection. With SLICE_HELLO_MEMORY the answer carries a page (SCM_RIGHTS). Without
 * it the process only reads figures (nvidia-smi).
 *
 * To register again after the arbiter was down, the process sets SLICE_HELLO_AGAIN, sends its page along and
 * continues with the same memory. The arbiter knows from its own grants what the process was granted. If those
 * are lost, the arbiter uses the figures in the page.
 */
#define SLICE_HELLO_MEMORY UINT32_C(1)
#define SLICE_HELLO_AGAIN  UINT32_C(2)
/*
 * A connection for quanta, beside the one for memory. The answer carries a page of abi/turn-page.h instead.
 * After it the process sends only SLICE_STATE, which the arbiter never answers: it writes to the page instead.
 * With SLICE_HELLO_AGAIN the process sends its page along and keeps it. SLICE_REFUSED: this slice has no quanta.
 *
 * The process has its clients on the GPUs while this connection exists, and no longer than the process lives.
 * Until then the arbiter takes their work into account. When the connection ends, none of it counts any more.
 */
#define SLICE_HELLO_TURNS UINT32_C(4)

struct slice_hello {
	struct slice_head head;
	uint32_t version; /* SLICE_WIRE_VERSION */
	uint32_t flags;
	uint32_t pid; /* in the process's own PID namespace */
	/* With SLICE_HELLO_AGAIN: the tag of a SLICE_WANT whose answer did not arrive, else 0. If the arbiter
	 * granted those bytes, they become credit. So a tag is never 0, and differs from the one before. */
	uint32_t unanswered;
	char name[SLICE_NAME_MAX];
};

enum slice_status {
	SLICE_OK = 0,
	SLICE_NO_ROOM,     /* the slice's limit is reached */
	SLICE_BAD_VERSION, /* the arbiter does not support it */
	SLICE_GONE,        /* the slice no longer exists */
	SLICE_TOO_MANY,    /* processes, in this slice or on this node */
	SLICE_REFUSED,     /* .reason has the cause */
};

struct slice_welcome {
	struct slice_head head;
	uint32_t version, status; /* enum slice_status */
	uint32_t gpu_count, unused;
	char slice[SLICE_ID_MAX];
	char reason[SLICE_REASON_MAX];
	struct {
		uint8_t uuid[SLICE_UUID_BYTES];
		uint64_t limit;
	} gpus[SLICE_GPUS_MAX];
};

/*
 * A request for @bytes that the credit of the process does not hold. Granted bytes belong to the requesting
 * thread: they are part of .granted but not of .credit, as if taken from it. The arbiter may add more to the
 * credit, so that the next allocations need no request.
 */
struct slice_want {
	struct slice_head head;
	uint32_t gpu, unused; /* place in the page */
	uint64_t bytes;
};

struct slice_grant {
	struct slice_head head;
	uint32_t status; /* SLICE_OK; SLICE_NO_ROOM: even all unused credit is too little */
	uint32_t unused;
	uint64_t free_bytes; /* of the slice on that GPU, now */
};

/* Request for the slice's present figures. The answer lists processes (below) in the order of their registration,
 * from number @first on. */
struct slice_view {
	struct slice_head head;
	uint32_t first, unused;
};

#define SLICE_VIEW_PROCESSES 64

struct slice_viewed {
	struct slice_head head;
	uint32_t gpu_count;
	uint32_t process_count; /* of all entries; the answer has those from .first on */
	uint32_t here, unused;
	struct {
		uint64_t limit, used, peak;
	} gpus[SLICE_GPUS_MAX];
	struct { /* one for each process and GPU that it uses; sum of its registrations */
		uint32_t pid;      /* in the process's own PID namespace */
		uint32_t host_pid; /* in the node's, as the driver knows it */
		uint32_t gpu, unused;
		uint64_t used;
	} processes[SLICE_VIEW_PROCESSES];
};

/*
 * The process did something whose memory no hook can know in advance (a context, a module). The arbiter answers at
 * once and soon compares with NVML's figures.
 */
struct slice_compare {
	struct slice_head head;
	uint32_t gpu, unused;
};

struct slice_compared {
	struct slice_head head;
};

/*
 * The complete state of a process on one GPU.
 *
 *	1. The process reads the gate's generation and its own state, and sends both.
 *	2. The arbiter ignores the packet if the gate changed since: @generation is not the gate's present one.
 *	3. After each change of the gate that a process sees, it reports again if it has work in flight or wants
 *	   some.
 *
 * When a gate opens, the arbiter assumes that a process that wanted the GPU has work in flight and wants no
 * more. Otherwise a change of the gate leaves the state as it was.
 *
 * Blocked work is work in flight that makes no progress while a stream of the process waits for an action of
 * another thread or process. That thread may be waiting at this gate. Behind a closed gate, blocked work takes
 * no GPU time, so the process is not busy; it wants the GPU like any other. While the gate is not closed, no
 * work counts as blocked.
 */
struct slice_state {
	struct slice_head head;
	uint32_t gpu;        /* place in the page */
	uint32_t generation; /* the gate's, in units of TURN_GENERATION */
	uint32_t busy;       /* 1: has work in flight that is not blocked */
	uint32_t wants;      /* 1: threads wait at the closed gate with more */
	uint64_t idle_ns;    /* unless .busy: how long it has been idle */
};

_Static_assert(sizeof(struct slice_viewed) <= SLICE_PACKET_MAX, "a view fits into a packet");
