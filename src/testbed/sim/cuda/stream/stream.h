/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Streams. The library sends commands to the daemon, which runs them in order in its own time. Two threads of the
 * library do what the commands change in memory and in the program, when the daemon reaches them (queue.c). All
 * functions need the lock; those that wait free it meanwhile.
 * Thread: any that holds the lock.
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
	unsigned refs;      /* of the stream, and of memory freed in the stream */
	bool gone;          /* the daemon has dropped its context */
	uint64_t last;      /* number of the last command */
	uint64_t cpu_last;  /* last one for the library's threads */
	uint64_t fenced;    /* the context's fence waits for all commands up to this one */
	uint64_t *launches; /* ring: number of each of the last LAUNCHES_MAX launches */
	unsigned launch_at;
	struct host_work_item *items, **items_end;
};

enum stream_kind { STREAM_LEGACY, STREAM_THREAD, STREAM_OWN };

struct capture;

struct sim_cuda_stream {
	struct sim_cuda_object obj;
	struct sim_cuda_ctx *ctx;
	struct sim_cuda_stream *next; /* of the context */
	enum stream_kind kind;
	uint64_t thread; /* of STREAM_THREAD */
	unsigned flags;  /* 1: neither waits for the legacy stream nor the reverse */
	int priority;
	uint64_t id;
	struct sim_cuda_queue *queue;
	uint64_t legacy_seen; /* the stream waits for the legacy stream up to this command */
	uint64_t gate_seen;   /* the stream waits for the context's gate up to this command */
	uint64_t joined;      /* the legacy stream waits for this stream up to this command */
	uint64_t wait_until;  /* for a wait for several streams */
	struct capture *capture;
	struct graph_node **deps; /* of the next node, during a capture */
	size_t dep_count;
};

struct sim_cuda_event {
	struct sim_cuda_object obj;
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

/*
 * The stream of a handle; borrowed. NULL and CU_STREAM_LEGACY: the legacy stream of the calling thread's context, made
 * at the first need, as is the stream of CU_STREAM_PER_THREAD. Errors: 400, and those of ctx_current() and ctx_check().
 */
CUresult sim_cuda_find_stream(CUstream h, struct sim_cuda_stream **ret);
/* Ends all streams of the context. Their queues stay while they have references. */
void stream_drop_all(struct sim_cuda_ctx *c);

/* Puts @w into the stream, or into the graph that the stream captures. Moves or clears @w. */
CUresult stream_add_work(struct sim_cuda_stream *s, struct cuda_work *w);

/* stream_add_work() on the stream of @h, as a whole call of the library: takes and frees the lock. */
CUresult stream_submit_work(CUstream h, struct cuda_work *w);

/*
 * A whole call that copies or sets memory (@w) and returns when that is done. Only captures the work if the stream
 * captures. Takes and frees the lock.
 */
CUresult sim_cuda_submit_and_wait(CUstream h, struct cuda_work *w);

/* Waits for all streams of the context, and for its fence. */
CUresult ctx_wait(struct sim_cuda_ctx *c);
/* Makes the stream's next command wait for what the context waits for. */
CUresult sim_cuda_wait_context_gate(struct sim_cuda_stream *s);
void sim_cuda_drop_context_fence(struct sim_cuda_ctx *c); /* for the end of the context */
/* Before memory is freed: waits for all streams of the context. */
CUresult device_wait_free(struct sim_cuda_ctx *c);

/* Whether the command @seq is done. Command 0 is, and each command of a queue that is gone. */
bool queue_done(const struct sim_cuda_queue *q, uint64_t seq);
/*
 * Waits until the command @seq is done, and frees the lock meanwhile. Returns the context's error (ctx_check()), or
 * CUDA_ERROR_UNKNOWN if the daemon is gone.
 */
CUresult queue_wait(struct sim_cuda_queue *q, uint64_t seq);
/* queue_ref() returns @q. After the last queue_drop() the queue lives until its work is done. */
struct sim_cuda_queue *queue_ref(struct sim_cuda_queue *q);
void queue_drop(struct sim_cuda_queue *q);
/* Makes a stream of the daemon, with one reference. @priority as in CUDA: lower numbers come first. */
CUresult sim_cuda_queue_new(struct sim_cuda_ctx *c, int priority, struct sim_cuda_queue **ret);
/* Sends a command; sets its .stream and .seq. Waits for room. */
CUresult queue_push(struct sim_cuda_queue *q, struct sim_device_command c);
/*
 * Sends consecutive commands without a wait, and sets their .stream and .seq. @n is at most the number reserved with
 * queue_reserve(). 709: the context is gone.
 */
CUresult queue_push_many(struct sim_cuda_queue *q, struct sim_device_command *c, size_t n);
/* Waits for room for @n commands; @n is at most SIM_DEVICE_QUEUE_MAX / 2. */
CUresult queue_reserve(struct sim_cuda_queue *q, uint64_t n);
/* Before a launch: waits while the queue has LAUNCHES_MAX launches. *waited: the lock was free meanwhile. */
CUresult queue_wait_launch_slot(struct sim_cuda_queue *q, bool *waited);
/* Counts the last command as a launch. */
void queue_launched(struct sim_cuda_queue *q);
/*
 * Sends a HOST command. A thread of the library does @w when the daemon reaches the command. @w is WORK_EMPTY if it was
 * moved, also after some errors; else the caller clears it.
 */
CUresult queue_push_host(struct sim_cuda_queue *q, struct cuda_work *w);
void queue_forget(struct sim_cuda_ctx *c); /* the daemon has dropped the context's streams */
/* The first of all queues, linked by .next. */
struct sim_cuda_queue *queues_all(void);

/* Capture (capture.c). Functions on a stream require that it captures, unless they say something else. */

/* Adds @w to the graph as a node behind the stream's dependencies. Moves or clears @w. */
CUresult capture_add_work(struct sim_cuda_stream *s, struct cuda_work *w);
/*
 * For a call that captures forbid. Breaks the captures that the calling thread's mode protects, and returns 900; 0
 * without one.
 */
CUresult capture_unsafe(void);
/* For a call that is forbidden on a stream that captures: breaks the capture, and returns 900. */
CUresult capture_unsafe_in(struct sim_cuda_stream *s);
/* For a call on a whole context: breaks all captures of its streams. Returns 900, or 0 without a capture. */
CUresult capture_unsafe_ctx(struct sim_cuda_ctx *c);
/* For a call on the legacy stream: breaks the captures of streams that wait for it. Returns 906, or 0 without one. */
CUresult capture_legacy(struct sim_cuda_ctx *c);
bool stream_capturing(const struct sim_cuda_stream *s); /* any stream */
/* The event records the stream's dependencies instead of a moment. */
CUresult capture_record(struct sim_cuda_stream *s, struct sim_cuda_event *e);
/*
 * Any stream waits for an event. If a capture recorded the event, the stream joins the capture, or gets more
 * dependencies. Nothing without a capture. 902, 905, 906: stream and event do not fit one capture, which breaks. 907:
 * the capture that recorded the event has ended.
 */
CUresult capture_wait(struct sim_cuda_stream *s, struct sim_cuda_event *e);
/* The event forgets the capture that recorded it, if any. */
void capture_event_forget(struct sim_cuda_event *e);
/* For a use outside of the capture that recorded the event: breaks that capture, and returns 907. */
CUresult capture_event_touched(struct sim_cuda_event *e);
/* Records the event in any stream. @node: as a node of the graph, if the stream captures. */
CUresult event_record(struct sim_cuda_stream *s, struct sim_cuda_event *e, bool node);
/* Adds a node that allocates @bytes; *ret is the address. */
CUresult capture_alloc(struct sim_cuda_stream *s, const CUmemPoolProps *props, uint64_t bytes,
	CUdeviceptr *ret);
/* The stream ends: it leaves the capture. The capture ends with the stream that began it. */
void capture_forget(struct sim_cuda_stream *s);

/* Checks the arguments of a wait for, or a write of, a value in memory. */
bool value_ok(enum work_kind kind, CUdeviceptr at, unsigned flags, bool wide);

/* Frees memory in the order of the stream (pool.c). */
CUresult memory_free_in(struct sim_cuda_stream *s, CUdeviceptr p);
void pools_trim_all(void); /* after a wait */

/* Whether a copy treats the memory as host memory. */
bool copy_is_host_side(unsigned type, const void *host, CUdeviceptr device);

/* For the end of a context: free all that it still has. */
void modules_drop_all(struct sim_cuda_ctx *c);
void arrays_drop_all(struct sim_cuda_ctx *c);
void memory_drop_all(struct sim_cuda_ctx *c);

/*
 * Makes the work of a launch of @function, an OBJ_FUNCTION. @grid and @block have three elements; @shared is in bytes.
 * @params or @extra are the arguments, as in cuLaunchKernel(), which the work copies. 1 or 400: invalid.
 */
CUresult kernel_work(const void *function, const unsigned *grid, const unsigned *block,
	unsigned shared, void **params, void **extra, struct cuda_work *ret);

/* Duration of a kernel in ns of the simulated GPU, which has @sm_count multiprocessors. */
uint64_t kernel_ns(const struct cuda_work *w, unsigned sm_count);
/* The error that the context gets at the kernel's end; 0: none. */
CUresult kernel_error(const struct cuda_work *w);
/* Whether the kernel writes memory. If so, kernel_effect() does that: call it without the lock. */
bool kernel_has_effect(const struct cuda_work *w);
void kernel_effect(const struct cuda_work *w);
