/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the simulated libcuda.so.1 and the simulated GPU (src/testbed/sim/device) send to each other.
 *
 * Actors. The library is the user half of the driver: handles, arguments, captured graphs, the address space. The
 * daemon is the kernel half and the hardware: physical memory, contexts, queues, time.
 *
 * Connection. Each process has one SOCK_SEQPACKET connection to DIR/SIM_DEVICE_SOCKET. The daemon takes the
 * client's PID from the kernel (SO_PEERCRED). When the client's end is closed, as by its death, the daemon ends
 * all that the client had. Memory stays for cuda_free_ms (testbed/sim/model.h) longer.
 *
 * Packets. There are two kinds:
 *
 *	struct sim_device_request  answered in order by one struct sim_device_reply with the same tag
 *	struct sim_device_submit   one-way: commands for streams
 *
 * The daemon never speaks first. It ends the connection on any other packet, on a command in a stream that does
 * not exist, and on a number out of order: those are bugs of the library. It answers requests that a program can
 * get wrong with an error. Widths are fixed, byte order is the host's, unused fields are zero.
 *
 * Completion. The daemon sends no packet for it. Each client shares a page with the daemon (struct
 * sim_device_page), so that a query costs a load and a wait costs a futex.
 *
 * Units. Bytes; nanoseconds of the simulated GPU, which run scaled to real time. GPUSLICE_SIM_SPEED in the
 * daemon's environment is the scale in percent: 100, the default, is the same speed.
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

/* Memory that an MPS server itself takes of each GPU (measured on an H100). */
#define SIM_DEVICE_MPS_SERVER_BYTES (UINT64_C(66) << 20)
#define SIM_DEVICE_TICKETS_MAX      256 /* unused ones of a server's GPU */

/*
 * Requests: the fields that each one reads and answers; .op, .tag and .status always. Fields that are not named
 * are 0. Status is a CUresult:
 *
 *	0    success                      201, 400  no such context or object
 *	1    a value out of range         304       too many objects, or the host has no memory
 *	2    no memory                    801       not supported
 *	46   the GPU cannot be used       808       too many contexts
 *	101  no such slot
 *
 *	op              reads                        answers
 *	HELLO           bytes = SIM_DEVICE_VERSION   fd: the page (struct sim_device_page). The first request
 *	MEM_INFO        slot                         bytes: free, total: as cuMemGetInfo reports
 *	CONTEXT_CREATE  slot percent                 object: place in page.contexts. Takes memory of the
 *	                                             process (bytes: how much). percent: of MPS, 0 is 100.
 *	                id cookie: a ticket of       With a ticket the context is a client's of that server,
 *	                an MPS server                with the ticket's limits
 *	CONTEXT_DESTROY object                       ends its streams too, with the commands in them
 *	CONTEXT_STACK   object bytes                 bytes of stack for each thread; takes or gives memory.
 *	                                             Answered bytes: what the context takes now. 2 if there
 *	                                             is not enough
 *	STREAM_CREATE   object = context, percent =  object: place in page.streams; completed begins at 0
 *	                priority: 0 normal, > 0 higher
 *	STREAM_DESTROY  object                       commands in it still run; the daemon reuses the place
 *	                                             only after they have
 *	EVENT_CREATE    (ignores slot)               object: place in page.events, id + cookie: to open it
 *	EVENT_OPEN      id cookie                    object: a place in this client's page for an event of
 *	                                             another process
 *	EVENT_DESTROY   object                       waits for it go on as recorded
 *	MEM_ALLOC       slot bytes flags             bytes rounded up to granules; id; cookie; fd to map
 *	                                             (MAP_SHARED) unless flags say none. One reference
 *	MEM_RELEASE     id                           drops one reference of this process. Answered when
 *	                                             NVML shows it
 *	MEM_EXPORT      id                           fd: opaque; any process may pass it to MEM_IMPORT. The
 *	                                             memory lives while any copy of the fd is open
 *	MEM_IMPORT      (with such an fd)            id bytes slot flags fd: one reference
 *	MEM_OPEN        id cookie                    the same for the content of an IPC handle
 *	HOST_DONE       object = stream, id = seq    the host command is done (one-way: no answer)
 *	COUNTERS        slot                         bytes: ns that the compute engine worked, total: ns of
 *	                                             its switches, id: switches; of all clients
 *	CONTEXT_FAULT   object flags = a CUresult    fails the context: a kernel made an error that the
 *	                                             library finds, not the daemon
 *	MPS_SERVE       slot                         object: the process is an MPS server of the GPU. When a
 *	                                             client of the server faults, the error of this place
 *	                                             says so, and all its clients have failed. When the
 *	                                             server ends they fail with 806
 *	MPS_TICKET      object bytes = limit of the  id cookie: good for one context of one client. The limit
 *	                process's memory, percent =  includes what the process's contexts take; 0: none
 *	                multiprocessors, flags =
 *	                1: lower priority
 *	MPS_END         id = a ticket, flags = a     fails the context that was made with the ticket, and no
 *	                CUresult                     other
 *	INSTANCE        slot, id = GPU instance,     from now on the process has only this MIG device of the
 *	                cookie = compute instance    node: 101 for other slots. Once, before the process has
 *	                                             a context or memory
 *
 * A memory belongs to the process that allocated it while that process has a reference. Then it belongs to the
 * process that has had a reference for longest, and NVML shows it there. Memory with a reference by descriptor
 * only is in use, but belongs to no process.
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
#define SIM_DEVICE_MEM_NO_FD   UINT32_C(1) /* never mapped: code, memory of the driver */
#define SIM_DEVICE_MEM_MANAGED UINT32_C(2) /* takes no GPU memory, NVML does not show it */

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
 * Commands of a stream run in order, each after the one before has completed. @seq counts them: 1 for the first of
 * a stream, then one more each. The client must send the packets of one stream in that order.
 *
 *	KERNEL       amount: ns, width: multiprocessors it fills (SIM_DEVICE_WIDTH_ALL: all), object: the CUresult
 *	             that its context fails with at its end; 0: none
 *	COPY         amount: bytes, object: enum sim_device_copy; takes time only, the library moves the
 *	             bytes
 *	RECORD       object: event, amount: the number of this recording (1, 2 …) if only this process records
 *	             the event, or 0: the next number
 *	WAIT_EVENT   object: event, amount: until so many recordings have completed; 0: those that the
 *	             daemon knows of when the command arrives
 *	WAIT_STREAM  object: a stream of this client, amount: until so many of its commands have completed. A
 *	             stream that does not exist has completed all
 *	HOST         ends when the library has sent HOST_DONE for it
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
	SIM_DEVICE_ON_GPU, /* a copy within the GPU, or memset */
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
	struct sim_device_command commands[SIM_DEVICE_BATCH_MAX]; /* @count are sent */
};

#define SIM_DEVICE_SUBMIT_BYTES(n) \
	(offsetof(struct sim_device_submit, commands) + (n) * sizeof(struct sim_device_command))

/*
 * The page. Only the daemon writes to it, except for .waiters, which belongs to the clients. With .waiters at 0
 * the daemon makes no system call. A sleeper (sim_device_wait()):
 *
 *	1. raises .waiters;
 *	2. reads .completed again;
 *	3. waits with FUTEX_WAIT (not private) on the low half of .completed;
 *	4. lowers .waiters.
 *
 * The daemon stores .completed before it reads .waiters, so at least one side sees the other side's store.
 *
 * .error is sticky: the context is dead, the daemon has dropped its commands, and its streams have "completed" all
 * they had. A client reads .error after each wait. Times are ns of the simulated GPU's clock.
 */
struct sim_device_context_cell {
	_Atomic uint32_t error; /* CUresult */
	uint32_t unused;
	_Atomic uint64_t busy_ns; /* time with work on the compute engine */
};

struct sim_device_stream_cell {
	_Atomic uint64_t completed; /* commands */
	/* The host command that waits for HOST_DONE now, or an older one. */
	_Atomic uint64_t host_seq;
	_Atomic uint32_t waiters, unused;
};

struct sim_device_event_cell {
	_Atomic uint64_t completed; /* recordings */
	_Atomic uint64_t recorded;  /* commands that the daemon has received */
	_Atomic uint64_t time_ns;   /* of the last completed recording */
	_Atomic uint32_t waiters, unused;
};

struct sim_device_page {
	uint32_t version, unused;
	_Atomic uint32_t host_word; /* futex: changes with each .host_seq; always woken */
	_Atomic uint32_t host_unused;
	struct sim_device_context_cell contexts[SIM_DEVICE_CONTEXTS_MAX];
	struct sim_device_stream_cell streams[SIM_DEVICE_STREAMS_MAX];
	struct sim_device_event_cell events[SIM_DEVICE_EVENTS_MAX];
};

_Static_assert(sizeof(struct sim_device_request) == 48, "a request has no holes");
_Static_assert(sizeof(struct sim_device_reply) == 56, "a reply has no holes");
_Static_assert(sizeof(struct sim_device_command) == 32, "a command has no holes");
