/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of the device:
 *
 *	device.c   packets and time
 *	request.c  requests: contexts, streams, events, memory
 *	mps.c      requests of MPS servers; compute modes
 *	peer.c     clients, and the end of all that they have
 *	node.c     the node's state, the engine's hooks, start and stop
 *	instance.c MIG devices: for the engine a GPU of its own, for NVML a piece of one
 *	usage.c    NVML's lists of processes and their memory; samples of utilization for testbed/sim/load.h; what
 *	           each process used, for tests
 *	memory.c   physical memory (memory.h)
 *
 * Thread: one.
 */
#include "testbed/sim/device/device.h"
#include "testbed/sim/device/engine/engine.h"
#include "testbed/sim/device/memory.h"
#include "testbed/sim/load.h"

/* Status numbers of CUDA. */
enum {
	OK = 0,
	BAD_VALUE = 1,
	NO_MEMORY = 2,
	UNAVAILABLE = 46,
	BAD_DEVICE = 101,
	BAD_CONTEXT = 201,
	OS_ERROR = 304,
	BAD_HANDLE = 400,
	ILLEGAL_ADDRESS = 700,
	LAUNCH_FAILED = 719,
	NOT_SUPPORTED = 801,
	MPS_RPC_FAILURE = 806,
	TOO_MANY_CONTEXTS = 808,
	MPS_TERMINATED = 810,
};

#define COMM_MAX             16
#define DEVICE_INSTANCES_MAX 256

struct device_context {
	struct engine_context *engine; /* NULL: free place */
	struct device_client *client;
	uint32_t index, slot;
	uint64_t bytes; /* without the process's .base */
	uint64_t more;  /* of .bytes, not for stacks */
	uint32_t width; /* multiprocessors that it may use */
	uint64_t ticket;
	/* A client of MPS: the server's context; NULL: none, or ended. */
	struct device_context *server;
	bool ended; /* the MPS server ended this context, which had no fault of its own */
	bool is_server, faulted; /* the server's clients have failed */
	struct ticket *tickets;
	uint32_t ticket_count;
};

/* Limits of one context of an MPS client, set by the server. */
struct ticket {
	uint64_t id, cookie, limit;
	uint32_t width;
	int priority;
	struct ticket *next;
};

struct device_stream {
	struct device_client *client;
	struct engine_stream *engine;
	struct device_context *context;
	uint32_t index;
	bool dying;
};

/* One client's place for an event. */
struct event_view {
	struct device_event *event;
	struct device_client *client;
	uint32_t index;
	struct event_view *next; /* the next view of .event */
};

struct device_event {
	struct engine_event *engine;
	struct event_view *views;
	uint64_t id, cookie;
	struct device_event *next, **at;
};

/* One client's memory, contexts and time on one GPU. */
struct share {
	uint64_t bytes;        /* as NVML shows */
	uint64_t base;         /* of .bytes: for the process while it has a context */
	uint64_t busy_ns;      /* of its ended contexts */
	uint64_t served_ns;    /* an MPS server: ended contexts of its clients */
	uint64_t seen_busy_ns; /* of all contexts, at the last measurement */
	uint32_t contexts;
	uint32_t percent;         /* of the last interval, with kernels running */
	bool listed;              /* in NVML's list of compute processes */
	bool mps;                 /* in NVML's list of MPS processes too */
	uint64_t sampled_busy_ns; /* at the last load sample */
	uint64_t limit;           /* for .bytes, from MPS; 0: none */
	/* The rest is for the account (device_account()). */
	uint64_t shown_bytes, shown_ns; /* .bytes at the last figure, and its time */
	double byte_s;                  /* memory over time, up to shown_ns */
	uint64_t peak_bytes, reported_busy_ns;
};

struct device_client {
	struct simulated_gpus *device;
	struct device_client *next, **at;
	uint32_t pid;
	char name[COMM_MAX + 1];
	struct memory_holder holder;
	bool gone;
	uint64_t free_at_ns; /* of a gone client: by the simulated clock */
	int page_fd;
	struct sim_device_page *page; /* NULL: before HELLO */
	struct device_context contexts[SIM_DEVICE_CONTEXTS_MAX];
	struct device_stream **streams; /* by index */
	struct event_view **events;
	uint32_t stream_cursor, event_cursor;
	uint32_t stream_top, event_top; /* above these no place was ever used */
	struct share shares[SIM_MAX_GPUS];
	struct instance *instance; /* holds all of the client; NULL: whole GPUs */
};

/* A MIG device with clients. It has its own copy engines and multiprocessors, and its GPU instance's memory. */
struct instance {
	uint32_t users; /* clients; 0: a free place */
	uint32_t slot, gi, ci;
	uint32_t serial; /* of the compute instance: a newer one may reuse its ids */
	bool usable;     /* exists now; true again after a lost GPU comes back */
	uint32_t compute_mode;
	uint32_t width;        /* multiprocessors */
	uint64_t total, room;  /* bytes, as in struct device_slot */
	uint64_t seen_busy_ns; /* the engine's figure at the last measurement */
};

/* The part of the node's state that the device needs all the time. */
struct device_slot {
	bool usable;
	uint32_t epoch;
	bool mig, mps;
	uint32_t compute_mode;
	uint64_t room;    /* bytes for all CUDA programs together */
	uint64_t total;   /* as CUDA reports it */
	uint64_t used;    /* by CUDA */
	uint64_t context; /* for a process's first one; 0: derived */
	uint64_t free_ns;
	uint32_t sm_count;
	struct sim_load load;
	uint64_t seen_busy_ns; /* the engine's figure at the last measurement */
	uint64_t left_busy_ns; /* since then, of instances that lost their last client */
};

struct simulated_gpus {
	struct sim_state *state;
	uint64_t generation;
	struct engine *engine;
	struct memory_table *memories;
	struct device_client *clients;
	uint32_t client_count, gone_count;
	struct device_event *events;
	uint64_t last_event_id, last_ticket;
	uint64_t measured_ns, measured_mono_ns; /* by the simulated, by the real clock */
	uint64_t late_ns;                       /* not yet written to the state of the GPUs */
	int account_fd;                         /* -1: none */
	struct device_slot slots[SIM_MAX_GPUS];
	/* The engine numbers them after the slots. */
	struct instance instances[DEVICE_INSTANCES_MAX];
};

/* Errors of kernels, which end all clients of an MPS server. */
static inline bool device_is_fault(uint32_t code)
{
	return code >= ILLEGAL_ADDRESS && code <= LAUNCH_FAILED;
}

/*
 * device.c: wakes the threads that wait for a word of a shared page; stores a number, and wakes the clients that
 * wait for it.
 */
void device_wake(const void *word);
void device_publish(_Atomic uint64_t *completed, _Atomic uint32_t *waiters, uint64_t value);

/* node.c: reads the node's state, if it has changed or if @first. */
void node_read(struct simulated_gpus *gpus, bool first);

/* engine-hooks.c: for the engine, with struct simulated_gpus as the argument. */
extern const struct engine_hooks engine_hooks;
/* Writes the busy time of the context's kernels to the client's page. */
void node_show_busy(const struct device_context *c);

/*
 * usage.c: writes a GPU's sums. usage_show_again() first lists processes that have received memory and are not
 * listed yet.
 */
void usage_show(struct simulated_gpus *gpus, uint32_t slot);
void usage_show_again(struct simulated_gpus *gpus, uint32_t slot);
/* Adds the process's row; usage_show() writes its bytes. False: no room, or the state cannot be changed. */
bool usage_list(struct device_client *c, uint32_t slot);
void usage_unlist(struct device_client *c); /* from GPUs where the client has nothing */
/* Removes the rows of a process that are not graphics from @g. False: there was none. */
bool usage_remove_row(struct sim_gpu *g, uint32_t pid);
/* Bytes that the client can still allocate on the GPU. */
uint64_t usage_get_free(const struct device_client *c, uint32_t slot);
/* Memory changed its owner; a callback for memory.h. */
void usage_moved(void *arg, const struct memory_facts *m, struct memory_holder *from,
	struct memory_holder *to, bool lives);
/* Measures how busy each process was since the last time. */
void usage_measure(struct simulated_gpus *gpus, uint64_t now_ns);

/* instance.c: the client's MIG device on the GPU; NULL: the client has the whole GPU, or none of it. */
const struct instance *instance_on(const struct device_client *c, uint32_t slot);
/* The engine's number of the GPU or MIG device that the client's contexts on @slot use. */
uint32_t instance_index(const struct device_client *c, uint32_t slot);
/* The request INSTANCE: from now on the client has only that MIG device. */
uint32_t instance_use(struct device_client *c, const struct sim_device_request *request,
	struct device_answer *a);
/* The client ends. Nothing without an instance. */
void instance_leave(struct device_client *c);
void instance_read(struct simulated_gpus *gpus); /* after a change of the node */
/* Bytes that the GPU instance of @in has left for further allocations. */
uint64_t instance_free_bytes(const struct simulated_gpus *gpus, const struct instance *in);
/*
 * Compute time of the GPU's MIG devices since the last call, each weighted with its fraction of the
 * multiprocessors.
 */
uint64_t instance_measure(struct simulated_gpus *gpus, uint32_t slot);

/* peer.c: drops the memory of a client whose contexts have ended, updates NVML's figures, and frees the client. */
void peer_free(struct device_client *c);

/* request.c: handles a request. False: the peer broke the protocol. */
bool device_request(struct device_client *c, const struct sim_device_request *request, int fd,
	uint64_t now_ns, struct device_answer *a);
struct device_stream *request_stream(struct device_client *c, uint32_t object); /* NULL: none */
/* The client's view of the event at place @object; NULL: none. */
struct event_view *request_event(const struct device_client *c, uint32_t object);
/* The start of a request that makes a context: checks the slot, finds a place. The caller fills in the rest. */
uint32_t request_context_begin(struct device_client *c, uint32_t slot,
	struct device_context **ret);
/* Adds @bytes to the memory of the client and of the GPU, without a check. */
void request_charge(struct device_client *c, uint32_t slot, uint64_t bytes);
/* Ends a context with its streams; ends one client's view of an event. */
void request_context_end(struct device_context *c);
void request_view_end(struct event_view *w);

/* mps.c: the requests of the same names. Return a CUresult, and fill in the answer. */
uint32_t mps_serve(struct device_client *c, const struct sim_device_request *request,
	struct device_answer *a);
uint32_t mps_ticket(struct device_client *c, const struct sim_device_request *request,
	struct device_answer *a);
uint32_t mps_end(struct device_client *c, const struct sim_device_request *request,
	struct device_answer *a);
/*
 * For a request that makes a context: finds the server and takes the ticket (the caller frees it). Both stay NULL
 * for a request without a ticket. An error: no such ticket, or the server's clients have failed.
 */
uint32_t mps_use_ticket(struct simulated_gpus *gpus, const struct sim_device_request *request,
	struct device_context **server, struct ticket **ret);
/*
 * Whether the compute mode admits a context of @c on the GPU. @server: the context would be a client of it; may be
 * NULL.
 */
bool mps_mode_allows(const struct device_client *c, uint32_t slot,
	const struct device_context *server);
/* Ends the contexts of a server's clients, when the server's context ends. */
void mps_server_end(struct device_context *context);
