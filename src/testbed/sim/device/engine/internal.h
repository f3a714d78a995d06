/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of the engine:
 *
 *	engine.c   the clock: what happens next, on all GPUs
 *	compute.c  which group has the compute engine, and which kernels run on it
 *	copy.c     the copy engines
 *	stream.c   queues of commands, and the place of each first command
 *	event.c    what streams record and wait for
 *	context.c  contexts, and the end of all that they have
 *
 * The first command of a stream is in one place at a time: the compute engine (ready or running), the queue of a
 * copy engine, the delays, the program, or the waiters of an event or a stream.
 *
 *	1. stream_complete() ends the command there, and puts the stream on the pending list.
 *	2. stream_settle() starts the next command of each pending stream.
 *
 * So there is no recursion, and simultaneous changes have a defined order.
 * Thread: one.
 */
#include "testbed/sim/device/engine/engine.h"
#include "testbed/sim/device/engine/list.h"

struct engine_group {
	struct link in_round; /* in gpu.round */
	struct engine_gpu *gpu;
	struct link ready;   /* streams whose kernel may start, in starting order */
	struct link running; /* streams whose kernel runs, by end */
	uint32_t used;       /* multiprocessors */
	uint64_t ran_ns;     /* the group's clock: time on the engine */
	struct link members; /* contexts of an MPS server and its clients; they fail together */
	uint32_t contexts;
};

struct copy_engine {
	struct link queue; /* streams; the engine serves the first */
	uint64_t end_ns;
};

struct engine_gpu {
	struct engine *engine;
	struct engine_gpu_config config;
	struct link round;             /* groups */
	struct engine_group *mps;      /* contexts that run side by side */
	struct engine_group *current;  /* on the engine, or switching to it */
	struct engine_group *resident; /* with state on the engine; NULL: none that lives */
	bool was_used, had_context;
	bool switching;
	uint64_t switch_end_ns, slice_end_ns;
	struct copy_engine copies[SIM_DEVICE_COPIES];
	struct engine_counters counters;
};

struct engine {
	struct engine_hooks hooks;
	void *arg;
	uint64_t now_ns;
	struct link delays;  /* streams, by end */
	struct link pending; /* streams whose first command may have to start */
	uint32_t gpu_count;
	struct engine_gpu **used; /* those that ever had a context, in order */
	uint32_t n_used;
	struct engine_gpu gpus[];
};

struct engine_context {
	struct engine_group *group;
	struct link in_members; /* in group.members, if it is a member */
	struct engine_gpu *gpu;
	struct link streams;
	void *user;
	uint32_t share; /* multiprocessors that it may use */
	uint32_t used;
	uint32_t running;               /* kernels */
	uint64_t busy_ns, busy_from_ns; /* by the group's clock */
	uint32_t error;
	int priority;
	bool freed;
};

enum engine_list {
	ENGINE_LIST_NONE,
	ENGINE_LIST_READY,
	ENGINE_LIST_RUNNING,
	ENGINE_LIST_COPY,
	ENGINE_LIST_DELAY,
	ENGINE_LIST_HOST,
	ENGINE_LIST_WAIT
};

struct engine_stream {
	struct engine_context *context;
	struct link in_context, in_pending;
	struct link in_list; /* in READY, RUNNING, COPY, DELAY or a WAIT object's list */
	struct link waiters; /* streams that wait for this stream */
	enum engine_list list;
	int priority;
	uint32_t width;    /* of the running kernel */
	uint64_t end_ns;   /* RUNNING: by the group's clock; DELAY: by the engine's */
	uint64_t wait_for; /* WAIT: the number */
	void *user;
	uint64_t completed, submitted;
	struct engine_command *queue; /* a ring of @room */
	uint32_t room, first;
	uint32_t refs; /* itself, and WAIT_STREAM commands in queues */
	bool dying, gone;
};

struct engine_event {
	struct engine *engine;
	void *user;
	uint64_t recorded, completed, time_ns;
	struct link waiters;
	uint32_t refs; /* of the owner, and of commands in queues */
	bool owned;
};

/* Sums and durations above ENGINE_NEVER become ENGINE_NEVER. */
static inline uint64_t add_saturated_ns(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

static inline uint64_t convert_double_ns(double ns)
{
	return ns < 1e18 ? (uint64_t)ns : ENGINE_NEVER;
}

static inline struct engine *engine_of(const struct engine_stream *s)
{
	return s->context->gpu->engine;
}

static inline struct engine_command *head_of(struct engine_stream *s)
{
	return s->submitted > s->completed ? &s->queue[s->first] : NULL;
}

/* engine.c: makes the clock cover the GPU from now on, as it has a context. */
void engine_use(struct engine_gpu *g);
/* Starts the pending streams' commands, then settles the compute engines, at this moment. */
void engine_settle(struct engine *e);

/* compute.c. A group ends with the last of its contexts. */
struct engine_group *compute_group_new(struct engine_gpu *g); /* NULL: no memory */
void compute_group_free(struct engine_group *group);
/* The stream's kernel may start. */
void compute_insert(struct engine_group *group, struct engine_stream *s);
/* Takes the stream's running kernel off the engine. */
void compute_remove(struct engine_stream *s);
/* Decides which group has the engine and which kernels run, at this moment. */
void compute_settle(struct engine_gpu *g);
void compute_pass(struct engine_gpu *g, uint64_t ns); /* @ns pass */
void compute_finish(struct engine_gpu *g);            /* ends the kernels that are due */
uint64_t compute_next(const struct engine_gpu *g);    /* the next change, or ENGINE_NEVER */

/*
 * copy.c: appends the stream to the queue of the copy engine for @kind, and starts its copy if it is the first.
 */
void copy_insert(struct engine_gpu *g, uint32_t kind, struct engine_stream *s);
void copy_remove(struct engine_stream *s);      /* takes the stream out of that queue */
void copy_finish(struct engine_gpu *g);         /* ends the copies that are due */
uint64_t copy_next(const struct engine_gpu *g); /* the next end of a copy, or ENGINE_NEVER */

/* stream.c: the first command is done. Does all that follows from this, except starting the next command. */
void stream_complete(struct engine_stream *s);
/* Takes the stream out of the place of its first command. */
void stream_withdraw(struct engine_stream *s);
/* Completes all its commands without running them. */
void engine_stream_drop(struct engine_stream *s);
void stream_destroy(struct engine_stream *s); /* at once, with its commands */
/* Wakes the streams that wait for @value or less of an object. */
void stream_wake(struct link *waiters, uint64_t value);
/* Starts the first commands of pending streams, until none is pending. */
void stream_settle(struct engine *e);
/* Ends the delays that are due. stream_next_delay(): the end of the next delay, or ENGINE_NEVER. */
void stream_finish_delays(struct engine *e);
uint64_t stream_next_delay(const struct engine *e);

/* event.c: drops a reference. */
void engine_event_unref(struct engine_event *event);
/* A stream has reached recording @number. */
void event_complete(struct engine_event *event, uint64_t number);

/* context.c: a kernel of @c made an error. The caller calls engine_settle() later. */
void context_fault(struct engine_context *c, uint32_t code);
