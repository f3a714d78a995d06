/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of the engine:
 *
 *	engine.c   the clock: what happens next, on all GPUs
 *	compute.c  who has the compute engine, and which kernels run on it
 *	copy.c     the copy engines
 *	stream.c   queues of commands; where the first of each stands
 *	event.c    what streams record and wait for
 *	context.c  contexts, and the end of all that they have
 *
 * The first command of a stream stands at one place at a time: with the compute engine (ready, or
 * running), in the queue of a copy engine, among the delays, with the program, or among the waiters
 * of an event or a stream. When it has ended there (stream_complete()), its stream becomes one of
 * those whose next command is looked at (stream_settle()). So there is no recursion, and what
 * happens at the same time happens in one order.
 */
#include "testbed/sim/device/engine/engine.h"
#include "testbed/sim/device/engine/list.h"

struct engine_group {
	struct link in_round; /* gpu.round */
	struct engine_gpu *gpu;
	struct link ready;   /* streams whose kernel may start, in the order of their turn */
	struct link running; /* streams whose kernel runs, the first to end first */
	uint32_t used;       /* multiprocessors */
	uint64_t ran_ns;     /* its own clock: time it had the engine */
	struct link members; /* contexts that joined, and whom they joined: faults are of all */
	uint32_t contexts;
};

struct copy_engine {
	struct link queue; /* streams; the first is being served */
	uint64_t end_ns;
};

struct engine_gpu {
	struct engine *engine;
	struct engine_gpu_config config;
	struct link round;            /* groups */
	struct engine_group *mps;     /* of those that run side by side */
	struct engine_group *current; /* on the engine, or coming onto it */
	struct engine_group
		*resident; /* whose state is on the engine; NULL: nobody's that lives */
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
	struct link delays;  /* streams, the first to end first */
	struct link pending; /* streams whose first command is to be looked at */
	uint32_t gpu_count;
	struct engine_gpu **used; /* those that have ever had a context, in order */
	uint32_t n_used;
	struct engine_gpu gpus[];
};

struct engine_context {
	struct engine_group *group;
	struct link in_members; /* group.members; of those only */
	struct engine_gpu *gpu;
	struct link streams;
	void *user;
	uint32_t share; /* multiprocessors it may have */
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
	struct link in_list; /* ready, running, copy queue, delays, or a waited-for object's */
	struct link waiters; /* streams that wait for this one */
	enum engine_list list;
	int priority;
	uint32_t width;    /* of the kernel that runs */
	uint64_t end_ns;   /* RUNNING: by the group's clock; DELAY: of the engine */
	uint64_t wait_for; /* WAIT */
	void *user;
	uint64_t completed, submitted;
	struct engine_command *queue; /* a ring of @room */
	uint32_t room, first;
	uint32_t refs; /* itself, and waits in queues */
	bool dying, gone;
};

struct engine_event {
	struct engine *engine;
	void *user;
	uint64_t recorded, completed, time_ns;
	struct link waiters;
	uint32_t refs; /* its owner, and commands in queues */
	bool owned;
};

/* Sums and durations that would pass ENGINE_NEVER are that. */
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

/* engine.c: time passes there from now on, as it has a context. */
void engine_use(struct engine_gpu *g);
/* streams that moved go on, then the compute engines, at this moment. */
void engine_settle(struct engine *e);

/* compute.c. A group is gone with the last of its contexts. */
struct engine_group *compute_group_new(struct engine_gpu *g); /* NULL: no memory */
void compute_group_free(struct engine_group *q);
/* The stream's kernel may start. */
void compute_insert(struct engine_group *q, struct engine_stream *s);
/* The stream's kernel, which runs, leaves the engine. */
void compute_remove(struct engine_stream *s);
/* Settles who has the engine and what runs on it, at this moment. */
void compute_settle(struct engine_gpu *g);
void compute_pass(struct engine_gpu *g, uint64_t ns); /* time passes */
void compute_finish(struct engine_gpu *g);            /* kernels that have ended by now */
uint64_t compute_next(const struct engine_gpu *g); /* when something happens, or ENGINE_NEVER */

/* copy.c: joins the queue of the copy engine for @kind, and has it begin if it is the first. */
void copy_insert(struct engine_gpu *g, uint32_t kind, struct engine_stream *s);
void copy_remove(struct engine_stream *s);
void copy_finish(struct engine_gpu *g);
uint64_t copy_next(const struct engine_gpu *g);

/* stream.c: the first command is done: all that follows from it but looking at the next. */
void stream_complete(struct engine_stream *s);
/* Takes the stream out of wherever its first command is. */
void stream_withdraw(struct engine_stream *s);
/* Its commands count as done. */
void engine_stream_drop(struct engine_stream *s);
void stream_destroy(struct engine_stream *s);      /* at once, with what is in it */
void engine_stream_unref(struct engine_stream *s); /* gives a reference back */
/* Wakes those that wait for no more than @value of something. */
void stream_wake(struct link *waiters, uint64_t value);
/* Looks at the first commands of all streams that moved, until nothing moves any more. */
void stream_settle(struct engine *e);
/* Delays that are over by now; when the next one is. */
void stream_finish_delays(struct engine *e);
uint64_t stream_next_delay(const struct engine *e);

/* event.c: gives a reference back. */
void engine_event_unref(struct engine_event *v);
/* A stream has got to recording @number. */
void event_complete(struct engine_event *v, uint64_t number);

/* context.c: a kernel of @c has faulted. What follows is left to engine_settle(). */
void context_fault(struct engine_context *c, uint32_t code);
