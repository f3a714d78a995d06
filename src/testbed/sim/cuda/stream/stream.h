/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Streams: commands go to the daemon, which runs them in order in its own time; what they do to
 * memory and to the program is done by two threads of ours when their turn has come (queue.c).
 * All of it needs the lock; functions that wait free it meanwhile.
 */
#include "testbed/sim/cuda/gpu.h"

/* Behind a launch that runs 1,021 have room in a stream, the next blocks: as an H100. */
#define LAUNCHES_MAX 1022

/* What a queue has for our own threads: with a HOST command of the same number. */
struct host_work_item {
	struct host_work_item *next;
	uint64_t seq;
	struct cuda_work work;
};

/* The daemon's stream. Outlives the stream of the program while there is work in it. */
struct sim_cuda_queue {
	struct sim_cuda_queue *next;
	struct sim_cuda_ctx *ctx;
	uint32_t id;
	unsigned refs;      /* its stream, memory that was freed in it */
	bool gone;          /* its context is */
	uint64_t last;      /* the number of the last command */
	uint64_t cpu_last;  /* of the last one for our threads */
	uint64_t fenced;    /* command that the context's fence waits for */
	uint64_t *launches; /* the last commands of the last LAUNCHES_MAX launches, a ring */
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
	unsigned flags;  /* 1: does not wait for the legacy stream, nor that for it */
	int priority;
	uint64_t id;
	struct sim_cuda_queue *queue;
	uint64_t legacy_seen; /* command of the legacy stream that was waited for */
	uint64_t gate_seen;   /* of the context's gate */
	uint64_t joined;      /* command of this one that the legacy stream waits for */
	uint64_t wait_until;  /* of those who wait for several */
	struct capture *capture;
	struct graph_node **deps; /* of the next node, while it captures */
	size_t dep_count;
};

struct sim_cuda_event {
	struct obj obj;
	struct sim_cuda_ctx *ctx;
	unsigned flags; /* 1 blocking sync, 2 no timing, 4 for other processes */
	uint32_t id;    /* the daemon's */
	uint64_t token, cookie;
	bool foreign;            /* of another process */
	uint64_t recorded;       /* by us */
	struct capture *capture; /* of the stream it was last recorded in */
	struct graph_node **nodes;
	size_t node_count;
};

/* The stream of a handle in the calling thread's context; makes default streams when needed. */
CUresult stream_of(CUstream h, struct sim_cuda_stream **ret);
CUresult stream_new(struct sim_cuda_ctx *c, enum stream_kind kind, unsigned flags, int priority,
	struct sim_cuda_stream **ret);
void cuda_stream_drop(struct sim_cuda_stream *s);
void stream_drop_all(struct sim_cuda_ctx *c);

/* Puts @w into the stream or into what captures it. @w is moved or cleared. */
CUresult stream_add_work(struct sim_cuda_stream *s, struct cuda_work *w);

/* The same for a function that does nothing else: takes the lock itself. */
CUresult stream_submit_work(CUstream h, struct cuda_work *w);

/* Runs @w as a function that returns when it is done. Takes the lock itself. */
CUresult submit_wait(CUstream h, struct cuda_work *w);

CUresult stream_wait_submitted(struct sim_cuda_stream *s); /* for all that is in it now */
bool stream_idle(const struct sim_cuda_stream *s);
CUresult ctx_wait(struct sim_cuda_ctx *c); /* for all its streams */
/* What the context waits for, its next command waits for (fence.c). */
CUresult gate_wait(struct sim_cuda_stream *s);
void fence_drop(struct sim_cuda_ctx *c);           /* it goes */
CUresult device_wait_free(struct sim_cuda_ctx *c); /* what a free waits for */

bool queue_done(const struct sim_cuda_queue *q, uint64_t seq);
CUresult queue_wait(struct sim_cuda_queue *q, uint64_t seq);
struct sim_cuda_queue *queue_ref(struct sim_cuda_queue *q);
void queue_drop(struct sim_cuda_queue *q);
CUresult queue_new(struct sim_cuda_ctx *c, int priority, struct sim_cuda_queue **ret);
CUresult queue_push(struct sim_cuda_queue *q, struct sim_device_command c);
/* The same, one behind the other; @n is at most what queue_reserve() was asked for. */
CUresult queue_push_many(struct sim_cuda_queue *q, struct sim_device_command *c, size_t n);
/* Waits until so many more commands have room; at most SIM_DEVICE_QUEUE_MAX / 2. */
CUresult queue_reserve(struct sim_cuda_queue *q, uint64_t n);
/* Before a launch: waits while too many are on the way. *waited: the lock was free meanwhile. */
CUresult queue_wait_launch_slot(struct sim_cuda_queue *q, bool *waited);
void queue_launched(struct sim_cuda_queue *q);
CUresult queue_push_host(struct sim_cuda_queue *q, struct cuda_work *w);
void queue_forget(struct sim_cuda_ctx *c); /* it is gone, with all its streams in the daemon */
struct sim_cuda_queue *queues_all(void);

/* Starts our threads; once. */
bool host_start(void);

/* Capture (capture.c). */
CUresult capture_add_work(struct sim_cuda_stream *s, struct cuda_work *w);
CUresult capture_unsafe(void); /* a call that captures forbid: 900, and they are broken */
CUresult capture_unsafe_in(struct sim_cuda_stream *s); /* the same on a stream that captures */
CUresult capture_unsafe_ctx(struct sim_cuda_ctx *c);   /* when a stream of it captures */
CUresult capture_legacy(struct sim_cuda_ctx *c);       /* a call on the legacy stream */
bool stream_capturing(const struct sim_cuda_stream *s);
CUresult capture_record(struct sim_cuda_stream *s, struct sim_cuda_event *e);
CUresult capture_wait(struct sim_cuda_stream *s, struct sim_cuda_event *e);
/* An event that was recorded in a capture: forgets that; is used outside of it (907). */
void capture_event_forget(struct sim_cuda_event *e);
CUresult capture_event_touched(struct sim_cuda_event *e);
CUresult event_record(struct sim_cuda_stream *s, struct sim_cuda_event *e, bool node);
uint64_t event_target(const struct sim_cuda_event *e); /* recordings until it has happened */
bool event_is_shared(const struct sim_cuda_event *e);  /* other processes may record it */
CUresult capture_alloc(struct sim_cuda_stream *s, const CUmemPoolProps *props, uint64_t bytes,
	CUdeviceptr *ret);
void capture_forget(struct sim_cuda_stream *s);

/* The arguments of a wait for, or a write of, a value in memory. */
bool value_ok(enum work_kind kind, CUdeviceptr at, unsigned flags, bool wide);

/* Memory that a stream frees when its turn has come (pool.c). */
CUresult memory_free_in(struct sim_cuda_stream *s, CUdeviceptr p);
void pools_trim_all(void); /* after something was waited for */

/* Memory of the host, as far as copies go. */
bool copy_is_host_side(unsigned type, const void *host, CUdeviceptr device);

/* What a context has, when it goes. */
void modules_drop_all(struct sim_cuda_ctx *c);
void arrays_drop_all(struct sim_cuda_ctx *c);
void memory_drop_all(struct sim_cuda_ctx *c);

/* A launch as work; moves nothing on failure. */
CUresult kernel_work(const void *function, const unsigned *grid, const unsigned *block,
	unsigned shared, void **params, void **extra, struct cuda_work *ret);

/* How long a kernel runs, and what it does. */
uint64_t kernel_ns(const struct cuda_work *w, unsigned sm_count);
CUresult kernel_error(const struct cuda_work *w); /* what its context fails with at its end */
bool kernel_has_effect(const struct cuda_work *w);
void kernel_effect(const struct cuda_work *w);
