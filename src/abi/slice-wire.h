/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a process of a slice and the arbiter say to each other: packets of one struct each over the
 * slice's own SOCK_SEQPACKET socket (abi/slice-dir.h). Which slice it is about is which socket it is;
 * who the process is, the kernel says (SO_PEERCRED). Every packet begins with struct slice_head.
 * Requests are answered in order, one answer each. Fixed widths, no pointers, zero where unused; at
 * most SLICE_PACKET_MAX bytes. A packet that is none of these ends the connection.
 *
 * A connection that ends means nothing for memory: what was granted stays until the process is gone
 * (pidfd), or until it registers again and tells what it has.
 */
#include "abi/slice-page.h"

#define SLICE_WIRE_VERSION 1
#define SLICE_PACKET_MAX   4096
#define SLICE_NAME_MAX     32 /* of a process, as in /proc/PID/comm, with its end */
#define SLICE_ID_MAX       40 /* of a slice, with its end */
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
	uint32_t tag; /* of the request, repeated in its answer */
};

/*
 * First on every connection. With SLICE_HELLO_MEMORY the answer carries a page (SCM_RIGHTS); without
 * it the process only looks (nvidia-smi). Registering anew after the arbiter was away
 * (SLICE_HELLO_AGAIN), the process sends its page along and goes on with it: the same memory, the
 * same words. What it was granted the arbiter knows from its own book, or, if that is lost, believes
 * the page.
 */
#define SLICE_HELLO_MEMORY UINT32_C(1)
#define SLICE_HELLO_AGAIN  UINT32_C(2)
/*
 * A connection for turns, beside that for memory: the answer carries a page of abi/turn-page.h instead,
 * and after it only SLICE_STATE comes, which is never answered: what the arbiter has to say is in the
 * page. The process has its seats on the GPUs for as long as this connection is there (and no longer
 * than it lives): until then it is waited for, after that nothing of it counts. With SLICE_HELLO_AGAIN
 * the page that it has is sent along and kept. SLICE_REFUSED: this slice has no turns.
 */
#define SLICE_HELLO_TURNS UINT32_C(4)

struct slice_hello {
	struct slice_head head;
	uint32_t version; /* SLICE_WIRE_VERSION */
	uint32_t flags;
	uint32_t pid; /* as the process knows itself */
	/* With SLICE_HELLO_AGAIN: the tag of a SLICE_WANT whose answer never came, else 0. If it was
	 * granted all the same, the bytes become credit. So a tag is not 0, and not that of the last one. */
	uint32_t unanswered;
	char name[SLICE_NAME_MAX];
};

enum slice_status {
	SLICE_OK = 0,
	SLICE_NO_ROOM,     /* the limit is reached */
	SLICE_BAD_VERSION, /* this arbiter does not speak it */
	SLICE_GONE,        /* there is no such slice any more */
	SLICE_TOO_MANY,    /* processes, in this slice or on this node */
	SLICE_REFUSED,     /* .reason says why */
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
 * @bytes more, which its credit does not hold. Granted, they belong to the one who asked: they are
 * in .granted and not in .credit, as if taken from it. The arbiter may put more into the credit
 * besides, so that the next ones need not ask.
 */
struct slice_want {
	struct slice_head head;
	uint32_t gpu, unused; /* place in the page */
	uint64_t bytes;
};

struct slice_grant {
	struct slice_head head;
	uint32_t
		status; /* SLICE_OK, or SLICE_NO_ROOM: not even with all unused credit of the slice */
	uint32_t unused;
	uint64_t free_bytes; /* of the slice on that GPU, now */
};

/* The slice as it is now. Entries of processes (below) from number @first on, in the order of their
 * registration. */
struct slice_view {
	struct slice_head head;
	uint32_t first, unused;
};

#define SLICE_VIEW_PROCESSES 64

struct slice_viewed {
	struct slice_head head;
	uint32_t gpu_count;
	uint32_t process_count; /* entries of all; those below are the ones from .first on */
	uint32_t here, unused;
	struct {
		uint64_t limit, used, peak;
	} gpus[SLICE_GPUS_MAX];
	struct { /* one for each GPU that a process uses; all its registrations together */
		uint32_t pid;      /* in the process's own PID namespace */
		uint32_t host_pid; /* as the driver knows it */
		uint32_t gpu, unused;
		uint64_t used;
	} processes[SLICE_VIEW_PROCESSES];
};

/*
 * The process did something whose memory no hook can know beforehand (a context, a module): look at
 * what the driver says of it soon. Answered at once.
 */
struct slice_compare {
	struct slice_head head;
	uint32_t gpu, unused;
};

struct slice_compared {
	struct slice_head head;
};

/*
 * Where a process stands on a GPU, all of it each time. It counts only if @generation is the gate's
 * present one: one that crosses a change of the gate is lost, so after each change that a process sees
 * while it has work in flight or wants some it says anew where it stands. What the arbiter takes for
 * granted after a change: whoever wanted has work in flight and wants no more, if the gate opened; all
 * else is as it was.
 *
 * Parked is what is in flight of a process of which nothing gets on while a stream of it stands at something
 * that another thread, or another process, is to do: it may be a thread that stands at this gate.
 * Behind a closed gate it takes no time of the GPU, so such a process is not busy; it wants as any other.
 * Where the gate is not closed what is in flight is never parked.
 */
struct slice_state {
	struct slice_head head;
	uint32_t gpu;        /* place in the page */
	uint32_t generation; /* the gate's, in units of TURN_GENERATION */
	uint32_t busy;       /* 1: has work in flight that is not parked */
	uint32_t wants;      /* 1: stands before the closed gate with more */
	uint64_t idle_ns;    /* not .busy: since so long */
};

_Static_assert(sizeof(struct slice_viewed) <= SLICE_PACKET_MAX, "a view fits into a packet");
