/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Streams. The library sends commands to the daemon, which runs them in order in its own time. Two threads of the
 * library do what the commands change in memory and in the program, when the daemon reaches them (queue.c). All
 * functions need the lock; those that wait free it meanwhile.
 */
#include "testbed/sim/cuda/node.h"

/* Behind a launch that runs, a stream has room for 1,021 launches. The next one blocks, as on an H100. */
#define LAUNCHES_MAX 1022

/* Work for the library's threads. The queue has a HOST command of the same number. */
struct host_work_item {
	struct host_work_item *next;
	uint64_t seq;
	struct cuda_work work;
};

/* The daemon's stream. It outlives the program's stream while it has work. */
struct sim_cuda_queue {
	struct sim_cuda_queue *next;
	struct sim_cuda_ctx *ctx;
	uint32_t id;
	unsigned refs;      /* its stream, memory freed in it */
	bool gone;          /* the daemon has dropped its context */
	uint64_t last;      /* number of the last command */
	uint64_t cpu_last;  /* last one for the library's threads */
	uint64_t fenced;    /* last command that the context's fence waits for */
	uint64_t *launches; /* ring: number of each of the last LAUNCHES_MAX launches */
	unsigned launch_at;
	struct host_work_item *items, **items_end;
};

enum stream_kind { STREAM_LEGACY, STREAM_THREAD, STREAM_OWN };

struct capture;

struct sim_cuda_stream {
	struct obj obj;
	struct sim_cuda_ctx *ctx;
	struct sim_cuda_stream *next; /* of the context */
	enum stream_kind kind;
	uint64_t thread; /* of STREAM_THREAD */
	unsigned flags;  /* 1: neither waits for the legacy stream nor the reverse */
	int priority;
	uint64_t id;
	struct sim_cuda_queue *queue;
	uint64_t legacy_seen; /* last command of the legacy stream that it waits for */
	uint64_t gate_seen;   /* the same of the context's gate */
	uint64_t joined;      /* its last command that the legacy stream waits for */
	uint64_t wait_until;  /* for a wait for several streams */
	struct capture *capture;
	struct graph_node **deps; /* of the next node, during a capture */
	size_t dep_count;
};

struct sim_cuda_event {
	struct obj obj;
	struct sim_cuda_ctx *ctx;
	unsigned flags; /* 1 blocking sync, 2 no timing, 4 for other processes */
	uint32_t id;    /* the daemon's */
	uint64_t token, cookie;
	bool foreign;            /* opened; another process made it */
	uint64_t recorded;       /* by this process */
	struct capture *capture; /* of the stream that recorded it last */
	struct graph_node **nodes;
	size_t node_count;
};

/* The stream of a handle, in the calling thread's context. Makes default streams at the first need. */
CUresult stream_of(CUstream h, struct sim_cuda_stream **ret);
void stream_drop_all(struct sim_cuda_ctx *c);

/* Puts @w into the stream, or into the graph that the stream captures. Moves or clears @w. */
CUresult stream_add_work(struct sim_cuda_stream *s, struct cuda_work *w);

/* The same for a function that does nothing else. Takes the lock. */
CUresult stream_submit_work(CUstream h, struct cuda_work *w);

/* Runs @w and returns when it is done. Takes the lock. */
CUresult submit_wait(CUstream h, struct cuda_work *w);

CUresult ctx_wait(struct sim_cuda_ctx *c); /* waits for all its streams */
/* Makes the stream's next command wait for what the context waits for. */
CUresult gate_wait(struct sim_cuda_stream *s);
void fence_drop(struct sim_cuda_ctx *c);           /* the context ends */
CUresult device_wait_free(struct sim_cuda_ctx *c); /* before memory is freed */

bool queue_done(const struct sim_cuda_queue *q, uint64_t seq);
CUresult queue_wait(struct sim_cuda_queue *q, uint64_t seq);
struct sim_cuda_queue *queue_ref(struct sim_cuda_queue *q);
void queue_drop(struct sim_cuda_queue *q);
CUresult queue_new(struct sim_cuda_ctx *c, int priority, struct sim_cuda_queue **ret);
CUresult queue_push(struct sim_cuda_queue *q, struct sim_device_command c);
/* The same for consecutive commands; @n is at most the number reserved with queue_reserve(). */
CUresult queue_push_many(struct sim_cuda_queue *q, struct sim_device_command *c, size_t n);
/* Waits for room for @n commands; @n is at most SIM_DEVICE_QUEUE_MAX / 2. */
CUresult queue_reserve(struct sim_cuda_queue *q, uint64_t n);
/* Before a launch: waits while the queue has LAUNCHES_MAX launches. *waited: the lock was free meanwhile. */
CUresult queue_wait_launch_slot(struct sim_cuda_queue *q, bool *waited);
void queue_launched(struct sim_cuda_queue *q);
CUresult queue_push_host(struct sim_cuda_queue *q, struct cuda_work *w);
void queue_forget(struct sim_cuda_ctx *c); /* the daemon has dropped its streams */
struct sim_cuda_queue *queues_all(void);

/* Capture (capture.c). */
CUresult capture_add_work(struct sim_cuda_stream *s, struct cuda_work *w);
CUresult capture_unsafe(void); /* for calls forbidden during captures: 900, breaks them */
CUresult capture_unsafe_in(struct sim_cuda_stream *s); /* the same on a stream that captures */
CUresult capture_unsafe_ctx(struct sim_cuda_ctx *c);   /* the same if a stream of it captures */
CUresult capture_legacy(struct sim_cuda_ctx *c);       /* a call on the legacy stream */
bool stream_capturing(const struct sim_cuda_stream *s);
CUresult capture_record(struct sim_cuda_stream *s, struct sim_cuda_event *e);
CUresult capture_wait(struct sim_cuda_stream *s, struct sim_cuda_event *e);
/*
 * For an event that was recorded in a capture. The first forgets the capture. The second is for a use outside of
 * it (907).
 */
void capture_event_forget(struct sim_cuda_event *e);
CUresult capture_event_touched(struct sim_cuda_event *e);
CUresult event_record(struct sim_cuda_stream *s, struct sim_cuda_event *e, bool node);
CUresult capture_alloc(struct sim_cuda_stream *s, const CUmemPoolProps *props, uint64_t bytes,
	CUdeviceptr *ret);
void capture_forget(struct sim_cuda_stream *s);

/* Checks the arguments of a wait for, or a write of, a value in memory. */
bool value_ok(enum work_kind kind, CUdeviceptr at, unsigned flags, bool wide);

/* Frees memory in the order of the stream (pool.c). */
CUresult memory_free_in(struct sim_cuda_stream *s, CUdeviceptr p);
void pools_trim_all(void); /* after a wait */

/* Whether a copy treats the memory as host memory. */
bool copy_is_host_side(unsigned type, const void *host, CUdeviceptr device);

/* For the end of a context. */
void modules_drop_all(struct sim_cuda_ctx *c);
void arrays_drop_all(struct sim_cuda_ctx *c);
void memory_drop_all(struct sim_cuda_ctx *c);

/* Makes the work of a launch; moves nothing on failure. */
CUresult kernel_work(const void *function, const unsigned *grid, const unsigned *block,
	unsigned shared, void **params, void **extra, struct cuda_work *ret);

/* Duration and effect of a kernel. */
uint64_t kernel_ns(const struct cuda_work *w, unsigned sm_count);
CUresult kernel_error(const struct cuda_work *w); /* its context's error at its end */
bool kernel_has_effect(const struct cuda_work *w);
void kernel_effect(const struct cuda_work *w);
