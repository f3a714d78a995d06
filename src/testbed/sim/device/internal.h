/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of the device:
 *
 *	device.c   packets and time
 *	request.c  what a packet asks for: contexts, streams, events, memory
 *	mps.c      the same of MPS servers; who may have a context at all
 *	peer.c     clients, and the end of all that they have
 *	node.c     the node's state, what the engine tells, start and stop
 *	instance.c MIG devices: a GPU of its own for the engine, a part of one for NVML
 *	usage.c    what NVML shows of it
 *	account.c  what each process has had, for tests
 */
#include "testbed/sim/device/device.h"
#include "testbed/sim/device/engine/engine.h"
#include "testbed/sim/device/memory.h"
#include "testbed/sim/load.h"

/* Answers, as CUDA numbers them. */
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
	uint64_t bytes; /* it takes, without what its process takes */
	uint64_t more;  /* of them, not for stacks */
	uint32_t width; /* multiprocessors it may have */
	uint64_t ticket;
	struct device_context
		*server;         /* of a client of MPS: whose; NULL: none, or it has ended */
	bool ended;              /* by its server: no fault of its own */
	bool is_server, faulted; /* a fault of one of its clients has been told */
	struct ticket *tickets;
	uint32_t ticket_count;
};

/* What an MPS server lets one context of a client have. */
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

/* What one client sees of an event. */
struct event_view {
	struct device_event *event;
	struct device_client *client;
	uint32_t index;
	struct event_view *next; /* of the same event */
};

struct device_event {
	struct engine_event *engine;
	struct event_view *views;
	uint64_t id, cookie;
	struct device_event *next, **at;
};

/* What a client has on one GPU. */
struct share {
	uint64_t bytes;        /* shown by NVML */
	uint64_t base;         /* of them, what the process takes as long as it has a context */
	uint64_t busy_ns;      /* of contexts that are gone */
	uint64_t served_ns;    /* of an MPS server: of its clients' contexts that are gone */
	uint64_t seen_busy_ns; /* of all, when it was last measured */
	uint32_t contexts;
	uint32_t percent;         /* of the last interval, that its kernels ran */
	bool listed;              /* in NVML's list */
	bool mps;                 /* there as a client of MPS, too */
	uint64_t sampled_busy_ns; /* by the last tick */
	uint64_t limit;           /* of .bytes, by MPS; 0: none */
	/* account.c: */
	uint64_t shown_bytes, shown_ns; /* .bytes as they were last shown, and when */
	double byte_s;                  /* of memory, up to then */
	uint64_t peak_bytes, reported_busy_ns;
};

struct device_client {
	struct simulated_gpus *device;
	struct device_client *next, **at;
	uint32_t pid;
	char name[COMM_MAX + 1];
	struct memory_holder holder;
	bool gone;
	uint64_t free_at_ns; /* of one that is gone: by the simulated clock */
	int page_fd;
	struct sim_device_page *page; /* NULL: no hello yet */
	struct device_context contexts[SIM_DEVICE_CONTEXTS_MAX];
	struct device_stream **streams; /* by index */
	struct event_view **events;
	uint32_t stream_cursor, event_cursor;
	uint32_t stream_top, event_top; /* places behind these were never given */
	struct share shares[SIM_MAX_GPUS];
	struct instance *instance; /* all that it has is there; NULL: whole GPUs */
};

/* A MIG device that clients use. Its copy engines and multiprocessors are its own, memory is its GPU instance's. */
struct instance {
	uint32_t users; /* clients; 0: a free place */
	uint32_t slot, gi, ci;
	uint32_t serial; /* of the compute instance: a newer one may have its ids */
	bool usable;     /* it is there; one that comes back, as a lost GPU does, is again */
	uint32_t compute_mode;
	uint32_t width;        /* multiprocessors */
	uint64_t total, room;  /* bytes, as those of a slot */
	uint64_t seen_busy_ns; /* of the engine, when it was last measured */
};

/* What of the node's state is looked at all the time. */
struct device_slot {
	bool usable;
	uint32_t epoch;
	bool mig, mps;
	uint32_t compute_mode;
	uint64_t room;    /* bytes that CUDA may have in all */
	uint64_t total;   /* as CUDA shows it */
	uint64_t used;    /* by CUDA */
	uint64_t context; /* of a process's first, 0: derived */
	uint64_t free_ns;
	uint32_t sm_count;
	struct sim_load load;
	uint64_t seen_busy_ns; /* of the engine, when it was last measured */
	uint64_t left_busy_ns; /* of instances that nobody uses any more, since then */
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
	uint64_t measured_ns, measured_mono_ns; /* by the simulated and by the real clock */
	uint64_t late_ns;                       /* that no GPU has in its state yet */
	int account_fd;                         /* -1: nobody wants to know */
	struct device_slot slots[SIM_MAX_GPUS];
	struct instance
		instances[DEVICE_INSTANCES_MAX]; /* the engine has them behind the slots */
};

/* The codes that end all clients of an MPS server: of kernels. */
static inline bool device_is_fault(uint32_t code)
{
	return code >= ILLEGAL_ADDRESS && code <= LAUNCH_FAILED;
}

/* device.c: wakes who waits for a word of a shared page; the same after a number that clients wait for. */
void device_wake(const void *word);
void device_publish(_Atomic uint64_t *completed, _Atomic uint32_t *waiters, uint64_t value);

/* node.c: looks at the node's state, if it has changed or @first. */
void node_read(struct simulated_gpus *d, bool first);
/* Whether kernels of the context's process run now, for NVML. */
void node_show_busy(const struct device_context *c);

/* usage.c: the sums of a GPU; and of one where memory may have gone over to a process that is not listed. */
void usage_show(struct simulated_gpus *d, uint32_t slot);
void usage_show_again(struct simulated_gpus *d, uint32_t slot);
/* The row of a process; its bytes are told by usage_show(). False: no room, or it was not there. */
bool usage_list(struct device_client *c, uint32_t slot);
void usage_unlist(struct device_client *c); /* where it has nothing any more */
bool usage_remove_row(struct sim_gpu *g, uint32_t pid);
uint64_t usage_free_bytes(const struct device_slot *s);
uint64_t usage_get_free(const struct device_client *c, uint32_t slot); /* for this one */
/* Memory changed hands: of the memory book. */
void usage_moved(void *arg, const struct memory_facts *m, struct memory_holder *from,
	struct memory_holder *to, bool lives);
/* How busy each process was since the last time. */
void usage_measure(struct simulated_gpus *d, uint64_t now_ns);
/* How long the kernels of a client ran on a GPU, by the simulated clock. */
uint64_t usage_busy_ns(const struct device_client *c, uint32_t slot);

/* load.c: @sim_ns of the simulated and @real_ns of the real clock have passed; a client leaves a GPU's list. */
void load_measure(struct simulated_gpus *d, uint64_t sim_ns, uint64_t real_ns,
	uint64_t mono_ns);
void load_remove_client(struct device_client *c, uint32_t slot);

/* instance.c: what the client has of the GPU; NULL: all of it, or nothing. */
const struct instance *instance_on(const struct device_client *c, uint32_t slot);
/* What its contexts there are on, as the engine counts GPUs. */
uint32_t instance_index(const struct device_client *c, uint32_t slot);
uint32_t instance_use(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a);
void instance_leave(struct device_client *c);
void instance_read(struct simulated_gpus *d); /* the node has changed */
uint64_t instance_free_bytes(const struct simulated_gpus *d, const struct instance *in);
/* How long its instances computed since the last call, as much of the GPU as their multiprocessors are. */
uint64_t instance_measure(struct simulated_gpus *d, uint32_t slot);

/* account.c: the memory of a client is another; it leaves a GPU's list. */
void account_shown(struct device_client *c, uint32_t slot);
void account_end(struct device_client *c, uint32_t slot);

/* peer.c */
void peer_free(struct device_client *c);

/* request.c: does what a packet asks for. False: the peer broke the protocol. */
bool device_request(struct device_client *c, const struct sim_device_request *q, int fd,
	uint64_t now_ns, struct device_answer *a);
struct device_stream *request_stream(struct device_client *c, uint32_t object); /* NULL: none */
struct event_view *request_event(const struct device_client *c, uint32_t object);
/* How a request begins that makes a context: its place; the rest is the caller's. */
uint32_t request_context_begin(struct device_client *c, uint32_t slot,
	struct device_context **ret);
void request_charge(struct device_client *c, uint32_t slot, uint64_t bytes);
/* A context with its streams; one client's view of an event. */
void request_context_end(struct device_context *c);
void request_view_end(struct event_view *w);

/* mps.c. */
uint32_t mps_serve(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a);
uint32_t mps_ticket(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a);
uint32_t mps_end(struct device_client *c, const struct sim_device_request *q,
	struct device_answer *a);
/*
 * The server and the ticket (yours: free()) of a request that makes a context; both NULL where it has none.
 * An error: there is no such ticket, or the server's clients have failed.
 */
uint32_t mps_use_ticket(struct simulated_gpus *d, const struct sim_device_request *q,
	struct device_context **server, struct ticket **ret);
/* The compute mode lets a context of @c have the GPU, as a client of @server if that is not NULL. */
bool mps_mode_allows(const struct device_client *c, uint32_t slot,
	const struct device_context *server);
/* A server's context ends: so do those of its clients. */
void mps_server_end(struct device_context *x);
