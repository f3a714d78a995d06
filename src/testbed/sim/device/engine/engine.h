/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The engines of simulated GPUs: who computes and copies when. Pure: time is an argument, so that tests
 * run in virtual time and the daemon in real time.
 *
 * What is modelled, with figures measured on an H100 (docs of the keys cuda_slice_us, cuda_switch_us in
 * testbed/sim/model.h):
 *	- Each context is a time-slice group of its GPU. One group has the compute engine at a time, for a
 *	  slice; then the next in the round that has work gets it. Groups without work are skipped, a group
 *	  without rivals goes on, and one that runs dry hands over at once. Taking over from another group costs
 *	  the switch time, in which nobody computes, and some more where kernels are interrupted. Those go on
 *	  later where they were. (Measured: 4 that saturate an H100 get 90.1 to 90.8 % of one, the last of them
 *	  waits 7 ms; who hands over between kernels each 20 ms loses 0.6 %, each 5 ms 2.6 %.)
 *	- Under MPS the contexts of a GPU are one group, each with at most its share of the multiprocessors;
 *	  a kernel that is wider than the share takes longer in proportion.
 *	- Inside a group kernels start in the order in which they became ready (higher priority of the context
 *	  first, then of the stream), side by side as long as their widths fit; one that does not fit holds back
 *	  those behind it, unless it is its own context's share that is full.
 *	- A copy engine for each direction, first come first served, no slices.
 *	- Streams are in order. Events and waits cost nothing.
 *
 * A context that failed drops what it has: its streams count as done. Under an MPS server a kernel's fault is
 * one of all its clients, as on the hardware.
 *
 * Hooks are called from engine_advance(), engine_submit() and engine_context_fail() only, in the order of time; they
 * must not call the engine. Thread: one.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "testbed/sim/cuda/wire.h"

#define ENGINE_NEVER UINT64_MAX

struct engine_gpu_config {
	uint64_t slice_ns, switch_ns;
	uint64_t preempt_ns; /* of a switch that takes the engine from kernels that run */
	uint32_t width;      /* multiprocessors */
	uint32_t host_mbps, local_mbps;
};

struct engine;
struct engine_context;
struct engine_stream;
struct engine_event;

struct engine_hooks {
	/* @seq commands of the stream have completed; @user as given at its creation. */
	void (*completed)(void *arg, void *user, uint64_t seq);
	/* Command @seq waits for engine_host_done(). */
	void (*host)(void *arg, void *user, uint64_t seq);
	void (*recorded)(void *arg, void *user, uint64_t completed, uint64_t time_ns);
	/* The context has failed: called before its streams complete. */
	void (*failed)(void *arg, void *user, uint32_t code);
	/* A destroyed stream has nothing left; it is gone after the call. */
	void (*drained)(void *arg, void *user);
};

/* NULL without memory; for all functions below that return a pointer. */
struct engine *engine_new(uint32_t gpu_count, const struct engine_hooks *hooks, void *arg);
struct engine *engine_free(struct engine *e); /* with all that is in it, without hooks */

/* May be changed at any time; what runs goes on as it was begun. */
void engine_gpu_set(struct engine *e, uint32_t gpu, const struct engine_gpu_config *config);

/* @mps: joins the group of those; @percent of the multiprocessors at most, 0: all. */
struct engine_context *engine_context_new(struct engine *e, uint32_t gpu, bool mps,
	uint32_t percent, void *user);
/*
 * A context of @of's group: a client of an MPS server, whose own context @of is. It may have @width
 * multiprocessors (0: all), and its kernels start after those of contexts with a higher @priority. A kernel
 * that faults fails all contexts of such a group.
 */
struct engine_context *engine_context_join(struct engine_context *of, uint32_t width,
	int priority, void *user);
/* Its commands are dropped without hooks of its own streams; waits on them end. */
void engine_context_free(struct engine_context *c);
void engine_context_fail(struct engine_context *c, uint32_t code);
void engine_context_fault(struct engine_context *c, uint32_t code); /* as a kernel of it does */
/* A kernel of it runs, or waits for room only. */
bool engine_context_computes(struct engine_context *c);
/* Time for which it had kernels on the engine. */
uint64_t engine_context_busy_ns(const struct engine_context *c);

struct engine_stream *engine_stream_new(struct engine_context *c, int priority, void *user);
void engine_stream_free(struct engine_stream *s); /* when it has drained: .drained */
uint64_t engine_stream_submitted(const struct engine_stream *s);
uint64_t engine_stream_completed(const struct engine_stream *s);

struct engine_event *engine_event_new(struct engine *e, void *user);
void engine_event_free(struct engine_event *v); /* waits and recordings under way go on */
uint64_t engine_event_recorded(const struct engine_event *v);
uint64_t engine_event_completed(const struct engine_event *v);

struct engine_command {
	uint32_t kind;   /* enum sim_device_command_kind */
	uint32_t object; /* COPY: direction */
	uint64_t amount;
	uint32_t width;
	uint32_t fail; /* KERNEL: the code its context fails with at its end; 0: none */
	struct engine_event *event;   /* RECORD, WAIT_EVENT */
	struct engine_stream *stream; /* WAIT_STREAM */
};

/*
 * Puts a command behind the others at time @now_ns, which must not be before an earlier call's. False: the
 * queue has SIM_DEVICE_QUEUE_MAX, or there is no memory. An amount of ENGINE_NEVER never ends.
 */
bool engine_submit(struct engine_stream *s, const struct engine_command *command,
	uint64_t now_ns);
/* False: command @seq of the stream does not wait for it. */
bool engine_host_done(struct engine_stream *s, uint64_t seq, uint64_t now_ns);

/* Lets time pass until @now_ns. */
void engine_advance(struct engine *e, uint64_t now_ns);
/* When something happens next unless something is submitted; ENGINE_NEVER: nothing does. */
uint64_t engine_next(const struct engine *e);

struct engine_counters {
	uint64_t busy_ns, switch_ns, switches;
};
struct engine_counters engine_gpu_counters(const struct engine *e, uint32_t gpu);
