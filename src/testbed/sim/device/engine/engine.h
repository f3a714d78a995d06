/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The engines of simulated GPUs: which context computes and copies when. Pure: time is an argument, so that tests
 * run in virtual time and the daemon in real time.
 *
 * Model. The figures were measured on an H100 (keys cuda_slice_us, cuda_switch_us in testbed/sim/model.h):
 *
 *	- Each context is a time-slice group of its GPU. One group has the compute engine at a time, for one
 *	  time slice. The next group in the round that has work follows. The engine skips groups without work. A
 *	  group without rivals goes on. A group without work left hands over at once.
 *	- A context switch to another group costs the switch time, in which no group computes. It costs more if
 *	  it interrupts kernels, which continue later from where they were.
 *	- Measured: 4 processes that saturate an H100 reach 90.1 to 90.8 % of the throughput of one exclusive
 *	  process, and the last of them waits 7 ms. A hand-over between kernels every 20 ms costs 0.6 %, every 5
 *	  ms 2.6 %.
 *	- Under MPS the contexts of a GPU are one group. Each has at most its share of the multiprocessors. A
 *	  kernel that is wider than the share takes longer in proportion.
 *	- Inside a group, kernels start in the order in which they became ready. The context's higher priority
 *	  comes first, then the stream's. They run side by side while their widths fit. A kernel that does not
 *	  fit delays those behind it, unless only its own context's share is full.
 *	- Each direction has a copy engine: first come, first served, without time slices.
 *	- Streams are in order. Events and waits cost nothing.
 *
 * Failure. A context that failed drops its commands: its streams count as done. Under an MPS server a kernel's
 * fault fails all the server's clients, as on the hardware.
 *
 * Hooks. Any function below that submits or completes a command, lets time pass, or fails or ends a context or
 * stream may call hooks, in the order of time. A hook must not call the engine. Thread: one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "testbed/sim/cuda/wire.h"

#define ENGINE_NEVER UINT64_MAX

struct engine_gpu_config {
	uint64_t slice_ns, switch_ns;
	uint64_t preempt_ns; /* extra cost of a switch that interrupts kernels */
	uint32_t width;      /* multiprocessors */
	uint32_t host_mbps, local_mbps;
};

struct engine;
struct engine_context;
struct engine_stream;
struct engine_event;

struct engine_hooks {
	/* The stream has completed @seq commands; @user is its creator's argument. */
	void (*completed)(void *arg, void *user, uint64_t seq);
	/* Command @seq waits for engine_host_done(). */
	void (*host)(void *arg, void *user, uint64_t seq);
	void (*recorded)(void *arg, void *user, uint64_t completed, uint64_t time_ns);
	/* The context has failed. Comes before its streams complete. */
	void (*failed)(void *arg, void *user, uint32_t code);
	/* A destroyed stream has no command left; the engine frees it after the call. */
	void (*drained)(void *arg, void *user);
};

/* NULL: no memory. So for all functions below that return a pointer. */
struct engine *engine_new(uint32_t gpu_count, const struct engine_hooks *hooks, void *arg);
struct engine *engine_free(struct engine *e); /* the caller frees contexts and events first */

/* Allowed at any time. Running work keeps its old duration. */
void engine_gpu_set(struct engine *e, uint32_t gpu, const struct engine_gpu_config *config);

/* @mps: the context joins the GPU's MPS group; @percent: its cap in percent of the multiprocessors, 0: all. */
struct engine_context *engine_context_new(struct engine *e, uint32_t gpu, bool mps,
	uint32_t percent, void *user);
/*
 * A client's context in the group of @of, which is an MPS server's own context. It may use @width multiprocessors
 * (0: all). Its kernels start after those of contexts with a higher @priority. A kernel's fault fails all contexts
 * of such a group.
 */
struct engine_context *engine_context_join(struct engine_context *of, uint32_t width,
	int priority, void *user);
/* Drops its commands without .completed and .drained of its streams; waits for them end. */
void engine_context_free(struct engine_context *c);
/* Fails this context alone, with @code, a CUresult. */
void engine_context_fail(struct engine_context *c, uint32_t code);
void engine_context_fault(struct engine_context *c, uint32_t code); /* as by a kernel's error */
/* Whether a kernel of the context runs, or waits only for room or for the time slice. */
bool engine_context_computes(struct engine_context *c);
/* Time with kernels on the engine. */
uint64_t engine_context_busy_ns(const struct engine_context *c);

/* Higher numbers of @priority come first. @user is for the hooks. */
struct engine_stream *engine_stream_new(struct engine_context *c, int priority, void *user);
void engine_stream_free(struct engine_stream *s); /* after it has drained: .drained */
/* Numbers of commands since the stream's creation. */
uint64_t engine_stream_submitted(const struct engine_stream *s);
uint64_t engine_stream_completed(const struct engine_stream *s);

/* @user is for the hook .recorded. The caller frees the event with engine_event_free(). */
struct engine_event *engine_event_new(struct engine *e, void *user);
void engine_event_free(struct engine_event *event); /* pending waits and recordings go on */
/* Numbers of recordings: submitted, and completed. */
uint64_t engine_event_recorded(const struct engine_event *event);
uint64_t engine_event_completed(const struct engine_event *event);

struct engine_command {
	uint32_t kind;   /* enum sim_device_command_kind */
	uint32_t object; /* COPY: direction */
	uint64_t amount;
	uint32_t width;
	uint32_t fail;                /* KERNEL: its context's error at its end; 0: none */
	struct engine_event *event;   /* RECORD, WAIT_EVENT */
	struct engine_stream *stream; /* WAIT_STREAM */
};

/*
 * Appends a command at time @now_ns, which must not be before an earlier call's. False: the queue has
 * SIM_DEVICE_QUEUE_MAX commands, or there is no memory. An amount of ENGINE_NEVER never ends.
 */
bool engine_submit(struct engine_stream *s, const struct engine_command *command,
	uint64_t now_ns);
/* Ends HOST command @seq. False: the stream is not at that command. */
bool engine_host_done(struct engine_stream *s, uint64_t seq, uint64_t now_ns);

/* Lets time pass until @now_ns. */
void engine_advance(struct engine *e, uint64_t now_ns);
/* The next time at which something happens without a further submission; ENGINE_NEVER: none. */
uint64_t engine_next(const struct engine *e);

struct engine_counters {
	uint64_t busy_ns, switch_ns, switches;
};
/* Of the compute engine, since the creation of @e. */
struct engine_counters engine_gpu_counters(const struct engine *e, uint32_t gpu);
