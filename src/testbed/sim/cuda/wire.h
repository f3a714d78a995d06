/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the simulated libcuda.so.1 and the simulated GPU (src/testbed/sim/device) say to each other. The
 * library is the user half of the driver: handles, arguments, captured graphs, places of pointers in
 * the address space. The daemon is the kernel half and the hardware: physical memory, contexts, queues,
 * time.
 *
 * One SOCK_SEQPACKET connection of each process to DIR/SIM_DEVICE_SOCKET; who it is, the kernel says
 * (SO_PEERCRED). A connection that ends, or a process that is gone, loses all it had at once. Three
 * kinds of packets:
 *
 *	struct sim_device_request  answered in order by one struct sim_device_reply with the same tag
 *	struct sim_device_submit   one-way: commands for streams
 *	(nothing else; the daemon never speaks first)
 *
 * A packet that is none of these, a stream that does not exist, or a number out of order ends the
 * connection: that is a bug of the library. Requests that a program can get wrong are answered with
 * an error instead. Fixed widths, host byte order, zero where unused.
 *
 * Completion is not told by packets: each client shares a page with the daemon (struct
 * sim_device_page), so that asking costs a load and waiting a futex.
 *
 * Units: bytes; nanoseconds of the simulated GPU, which run scaled to real time (GPUSLICE_SIM_SPEED of
 * the daemon's environment, in percent: 100, the default, is the same speed).
 */
#include <stdatomic.h>
#include <stdint.h>

#define SIM_DEVICE_VERSION 2
#define SIM_DEVICE_SOCKET  "cuda.sock"

#define SIM_DEVICE_CONTEXTS_MAX 64    /* of one client */
#define SIM_DEVICE_STREAMS_MAX  4096  /* of one client */
#define SIM_DEVICE_EVENTS_MAX   65536 /* of one client */
#define SIM_DEVICE_MEMORIES_MAX 65536 /* references of one client */
#define SIM_DEVICE_QUEUE_MAX    4096  /* commands of one stream that have not completed */
#define SIM_DEVICE_BATCH_MAX    64    /* commands in one packet */
#define SIM_DEVICE_GRANULE      (UINT64_C(2) << 20)
#define SIM_DEVICE_WIDTH_ALL    0 /* all multiprocessors of the GPU */

/* What an MPS server takes of each GPU by itself (measured on an H100). */
#define SIM_DEVICE_MPS_SERVER_BYTES (UINT64_C(66) << 20)
#define SIM_DEVICE_TICKETS_MAX      256 /* of one server's GPU, that nobody has used yet */

/*
 * Requests. Which fields each one reads and answers; .op, .tag and .status always. What is not named is 0.
 * Status is a CUresult: 1 a value out of range, 2 no memory, 46 the GPU cannot be used, 101 no such slot,
 * 201 and 400 no such context or object, 801 not supported; 808 too many contexts, and 304 too many
 * objects.
 *
 *	op              reads                        answers
 *	HELLO           bytes = SIM_DEVICE_VERSION   fd: the page (struct sim_device_page). First of all
 *	MEM_INFO        slot                         bytes: free, total: as cuMemGetInfo says
 *	CONTEXT_CREATE  slot percent                 object: place in page.contexts. Takes memory of the
 *	                                             process (bytes: how much); percent: of MPS, 0 is 100.
 *	                id cookie: a ticket of       With a ticket the context is a client's of that server,
 *	                an MPS server                with the limits that the ticket says
 *	CONTEXT_DESTROY object                       its streams go too, with what is in them
 *	CONTEXT_STACK   object bytes                 a stack of so many bytes for each thread; takes or
 *	                                             gives memory (answered bytes: what the context takes
 *	                                             now), 2 if there is not enough
 *	STREAM_CREATE   object = context, percent =  object: place in page.streams; completed begins at 0
 *	                priority: 0 normal, > 0 higher
 *	STREAM_DESTROY  object                       commands in it still run; the place is given again
 *	                                             only when they have
 *	EVENT_CREATE    (slot is not looked at)      object: place in page.events, id + cookie: to open it
 *	EVENT_OPEN      id cookie                    object: a place of its own for another's event
 *	EVENT_DESTROY   object                       waits for it go on as recorded
 *	MEM_ALLOC       slot bytes flags             bytes rounded up to granules; id; cookie; fd to map
 *	                                             (MAP_SHARED) unless flags say none. One reference
 *	MEM_RELEASE     id                           one reference of this process less. Answered when
 *	                                             NVML shows it
 *	MEM_EXPORT      id                           fd: an opaque one that any process may hand to
 *	                                             MEM_IMPORT. It keeps the memory as long as any copy
 *	                                             of it is open
 *	MEM_IMPORT      (with such an fd)            id bytes slot flags fd: one reference
 *	MEM_OPEN        id cookie                    the same for what an IPC handle tells
 *	HOST_DONE       object = stream, id = seq    the host command is done (one-way: not answered)
 *	COUNTERS        slot                         bytes: ns the compute engine worked, total: ns it
 *	                                             switched, id: switches, of all clients
 *	CONTEXT_FAULT   object flags = a CUresult    a kernel of the context did what the library finds out,
 *	                                             not the daemon: it fails
 *	MPS_SERVE       slot                         object: the process is an MPS server of the GPU. When a
 *	                                             client of it faults, the error of this place says so, and
 *	                                             all have failed; when it ends they fail with 806
 *	MPS_TICKET      object bytes = limit of the  id cookie: good for one context of one client. A limit
 *	                process's memory, percent =  is kept with what the process's contexts take; 0: none
 *	                multiprocessors, flags =
 *	                1: lower priority
 *	MPS_END         id = a ticket, flags = a     the context that was made with it fails; the others do not
 *	                CUresult
 *	INSTANCE        slot, id = GPU instance,     from now on this MIG device is all that the process has of
 *	                cookie = compute instance    the node: 101 for other slots. Once, before it has a context
 *	                                             or memory of its own
 *
 * A memory belongs to the process that allocated it while that has a reference, then to the one that
 * has had one for longest, and NVML shows it there. With a reference by descriptor only it is in use,
 * but no process's.
 */
enum sim_device_op {
	SIM_DEVICE_HELLO = 1,
	SIM_DEVICE_MEM_INFO,
	SIM_DEVICE_CONTEXT_CREATE,
	SIM_DEVICE_CONTEXT_DESTROY,
	SIM_DEVICE_CONTEXT_STACK,
	SIM_DEVICE_STREAM_CREATE,
	SIM_DEVICE_STREAM_DESTROY,
	SIM_DEVICE_EVENT_CREATE,
	SIM_DEVICE_EVENT_OPEN,
	SIM_DEVICE_EVENT_DESTROY,
	SIM_DEVICE_MEM_ALLOC,
	SIM_DEVICE_MEM_RELEASE,
	SIM_DEVICE_MEM_EXPORT,
	SIM_DEVICE_MEM_IMPORT,
	SIM_DEVICE_MEM_OPEN,
	SIM_DEVICE_HOST_DONE,
	SIM_DEVICE_COUNTERS,
	SIM_DEVICE_CONTEXT_FAULT,
	SIM_DEVICE_MPS_SERVE,
	SIM_DEVICE_MPS_TICKET,
	SIM_DEVICE_MPS_END,
	SIM_DEVICE_INSTANCE,
	SIM_DEVICE_OPS,

	SIM_DEVICE_SUBMIT = 100,
};

/* Flags of MEM_ALLOC. */
#define SIM_DEVICE_MEM_NO_FD   UINT32_C(1) /* never mapped: code, what the driver needs */
#define SIM_DEVICE_MEM_MANAGED UINT32_C(2) /* takes nothing of the GPU, not shown by NVML */

struct sim_device_request {
	uint32_t op, tag;
	uint32_t slot; /* of the GPU in the node's state */
	uint32_t object;
	uint64_t id, cookie;
	uint64_t bytes;
	uint32_t flags, percent;
};

struct sim_device_reply {
	uint32_t op, tag;
	uint32_t status; /* CUresult */
	uint32_t object;
	uint64_t id, cookie;
	uint64_t bytes, total;
	uint32_t slot, flags;
};

/*
 * Commands of a stream run in order, each when the one before has completed. @seq counts them: 1 for the
 * first of a stream, then one more each; packets of one stream must be sent in that order.
 *
 *	KERNEL       amount: ns, width: multiprocessors it fills (SIM_DEVICE_WIDTH_ALL: all), object: the CUresult
 *	             that its context fails with at its end; 0: none
 *	COPY         amount: bytes, object: enum sim_device_copy; takes time only, the library moves the
 *	             bytes
 *	RECORD       object: event, amount: how many-eth recording of it (1, 2 …) where this process is the
 *	             only one to record it, or 0: one more
 *	WAIT_EVENT   object: event, amount: until so many recordings have completed; 0: those that the
 *	             daemon knows of when the command arrives
 *	WAIT_STREAM  object: a stream of this client, amount: until so much of it has completed
 *	HOST         nothing happens until the library has sent HOST_DONE for it
 *	DELAY        amount: ns that pass without any engine
 */
enum sim_device_command_kind {
	SIM_DEVICE_KERNEL = 1,
	SIM_DEVICE_COPY,
	SIM_DEVICE_RECORD,
	SIM_DEVICE_WAIT_EVENT,
	SIM_DEVICE_WAIT_STREAM,
	SIM_DEVICE_HOST,
	SIM_DEVICE_DELAY,
	SIM_DEVICE_KINDS,
};

enum sim_device_copy {
	SIM_DEVICE_TO_GPU,
	SIM_DEVICE_FROM_GPU,
	SIM_DEVICE_ON_GPU, /* also memset */
	SIM_DEVICE_TO_PEER,
	SIM_DEVICE_COPIES,
};

struct sim_device_command {
	uint32_t kind, stream;
	uint64_t seq;
	uint64_t amount;
	uint32_t object, width;
};

struct sim_device_submit {
	uint32_t op; /* SIM_DEVICE_SUBMIT */
	uint32_t count;
	struct sim_device_command commands[SIM_DEVICE_BATCH_MAX]; /* only @count are sent */
};

#define SIM_DEVICE_SUBMIT_BYTES(n) \
	(offsetof(struct sim_device_submit, commands) + (n) * sizeof(struct sim_device_command))

/*
 * The page. Written by the daemon, but for .waiters, which a sleeper raises around its wait so that
 * the daemon makes no system call for nothing: raise, look again, FUTEX_WAIT on the low half of .completed
 * (not private). sim_device_wait() does it.
 *
 * .error is sticky: the context is dead, its commands have been dropped, and its streams have
 * "completed" all they had. Look at it after each wait. Times are ns of the simulated GPU's clock.
 */
struct sim_device_context_cell {
	_Atomic uint32_t error; /* CUresult */
	uint32_t unused;
	_Atomic uint64_t busy_ns; /* for which it had work on the compute engine */
};

struct sim_device_stream_cell {
	_Atomic uint64_t completed; /* commands */
	_Atomic uint64_t
		host_seq; /* the host command that waits for HOST_DONE now, or an older one */
	_Atomic uint32_t waiters, unused;
};

struct sim_device_event_cell {
	_Atomic uint64_t completed; /* recordings */
	_Atomic uint64_t recorded;  /* those that the daemon has got the command of */
	_Atomic uint64_t time_ns;   /* of the last completed one */
	_Atomic uint32_t waiters, unused;
};

struct sim_device_page {
	uint32_t version, unused;
	_Atomic uint32_t host_word; /* futex: changes when a .host_seq does; woken always */
	_Atomic uint32_t host_unused;
	struct sim_device_context_cell contexts[SIM_DEVICE_CONTEXTS_MAX];
	struct sim_device_stream_cell streams[SIM_DEVICE_STREAMS_MAX];
	struct sim_device_event_cell events[SIM_DEVICE_EVENTS_MAX];
};

_Static_assert(sizeof(struct sim_device_request) == 48, "a request has no holes");
_Static_assert(sizeof(struct sim_device_reply) == 56, "a reply has no holes");
_Static_assert(sizeof(struct sim_device_command) == 32, "a command has no holes");
