/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A discrete-event model of GPUs and of processes that take turns on them by the protocol of
 * abi/turn-page.h and abi/slice-wire.h, with src/model/sched as the arbiter's mind. One seed, one story: all
 * that is random comes from it.
 *
 * GPU: the context of one process has it until it has no more work, or until another one has had some
 * for SCHED_TIME_SLICE_NS, or less if its slice had begun before (as for 6 % of the tails on an H100); then it is
 * the next one's, after MODEL_CHANGE_NS in which nobody gets on. Those under MPS share a context, in which all of
 * them get on side by side, each as if alone. Process: submits as its task says, past its gate as it is in its page;
 * one that waits at a closed gate is woken some time after that opens. A keeper beside it finds out
 * with a lag what is done, and says where the process stands: packets arrive with a delay, in order,
 * and those of an older generation of the gate count for nothing. After each change of the gate it says
 * so anew, unless there is nothing, the arbiter knows that already (BELL) and no packet under way says
 * otherwise.
 *
 * What must hold at each moment (header of test-sched-model.c) is checked at each event: the first thing
 * that does not is kept in .failure.
 */
#include "model/sched/sched.h"

#define MODEL_PROCS_MAX   48
#define MODEL_SLICES_MAX  24
#define MODEL_GPUS_MAX    8
#define MODEL_PACKETS_MAX 16
#define MODEL_CHANGE_NS   UINT64_C(160000) /* of contexts; measured on an H100, as the slice is */
#define MODEL_MIDST       4 /* of so many that come, one comes in the midst of a slice */
#define MODEL_TIGHT_NS    UINT64_C(400000) /* as container/gate/pace.h */
#define MODEL_LEAD_NS     UINT64_C(100000)

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

enum model_kind {
	MODEL_SATURATE, /* always has .ahead kernels to submit */
	MODEL_LOOP, /* one kernel, waits for it, thinks for .think_ns; after each .burst of them, if that
			 * is not 0 */
	MODEL_BURST, /* .burst kernels one after the other each .think_ns */
	MODEL_PACED, /* .burst kernels, one submitted each .think_ns, as its CPU gets on; then waits for all,
			* and does something else for .rest_ns */
	MODEL_GROUP, /* saturates, at most .ahead steps before the slowest of its slice */
	MODEL_BLOCKED, /* .burst kernels, submitted one each .think_ns, behind a wait that ends with the last:
			 * parked behind a closed gate (abi/slice-wire.h) */
	MODEL_FLAPPER,    /* says that it wants, is busy, is idle, as it comes */
	MODEL_FALSE_BUSY, /* wants, and is busy for ever once it may */
	MODEL_SHY,        /* wants, and when it may it does nothing, and soon wants again */
	MODEL_KINDS,
};

struct model_task {
	enum model_kind kind;
	uint64_t kernel_ns, think_ns, rest_ns;
	unsigned int ahead, burst;
	unsigned int estimate_permille; /* what the process takes its kernels for; 0: 1000 */
};

struct model_slice {
	struct sched_slice *slice; /* NULL: unused */
	struct sched_share_config config[MODEL_GPUS_MAX];
	uint64_t charged[MODEL_GPUS_MAX];                  /* at the last look */
	uint64_t quantum_ends[MODEL_GPUS_MAX][SCHED_ENDS]; /* the same */
	uint64_t used[MODEL_GPUS_MAX];                     /* time of the GPU in truth */
	double allowed;    /* of a capped one on GPU 0: cap * time */
	double over_least; /* the least that charged - allowed has been */
	/* Most that was charged after its gates were closed. */
	uint64_t closed_at[MODEL_GPUS_MAX], overrun[MODEL_GPUS_MAX];
	uint64_t
		in_flight; /* may be at most, its processes together, with what they take it for */
	/* With whom it was level, who wanted GPU 0 at each start of a turn of it since. */
	uint32_t level;
	uint64_t quanta; /* it has had so many */
	bool lies;       /* one of its processes does */
	bool steady;     /* always wants GPU 0, and nothing about that changes */
};

struct model_proc {
	struct model *m;
	struct model_slice *slice; /* NULL: unused */
	struct sched_client *client;
	unsigned int gpu;
	struct model_task task;
	uint32_t generation; /* of the gate */
	uint64_t gate_at;    /* when it was set */

	unsigned int in_flight, todo;
	uint64_t head_ns;             /* left of the kernel at the head, once it gets on */
	uint64_t think_at;            /* has more to do then */
	uint64_t burst_at;            /* the burst under way began then; 0: none */
	bool blocked;                 /* at the closed gate */
	uint32_t reported_generation; /* that it is, in this generation of it */
	uint64_t woken_at;            /* it has opened, but it sees that only then */
	uint64_t poll_at;             /* the keeper looks */
	uint64_t steps;               /* kernels done */
	uint64_t work_ns;             /* of kernels done */
	uint64_t wanted_at;           /* the arbiter knows that it waits, since then */
	uint64_t waited_most;
	struct model_packet {
		bool busy, wants;
		uint32_t generation;
		uint64_t idle_ns, at;
	} packets[MODEL_PACKETS_MAX]; /* under way, the first is the next to arrive */
	unsigned int n_packets;
	bool reported;    /* that it has, or wants, something: the last one sent */
	uint64_t idle_at; /* in truth */
	uint64_t lat[4096];
	unsigned int n_lat;
};

struct model_gpu {
	struct model_proc *runs; /* has it (under MPS: one of them), or had; NULL: is gone */
	uint64_t change_ns;      /* left until it gets on */
	uint64_t ends;           /* of its slice; UINT64_MAX: no other one has work */
};

struct model {
	struct sched *sched;
	struct model_gpu gpus[MODEL_GPUS_MAX];
	uint64_t now, seed, n_events;
	unsigned int n_gpus, n_procs, n_slices; /* places that were ever used */
	struct model_slice slices[MODEL_SLICES_MAX];
	struct model_proc procs[MODEL_PROCS_MAX];
	uint64_t busy[MODEL_GPUS_MAX];       /* in truth */
	uint64_t concurrent[MODEL_GPUS_MAX]; /* ns in which there were no turns */
	uint64_t wrong[MODEL_GPUS_MAX];      /* so long was the arbiter wrong about somebody */
	uint64_t gone[MODEL_GPUS_MAX];       /* charged to slices that are gone */
	uint64_t dry[MODEL_GPUS_MAX];        /* idle since, though somebody wants; 0: is not */
	uint64_t dry_most;
	uint64_t stood_at, stood; /* so many events within 100 us of that */
	uint64_t n_gates;         /* changes */
	uint64_t quantum_ends[SCHED_ENDS];
	uint64_t n_lags;   /* pairs whose lag was looked at */
	char failure[200]; /* "": none */
};

struct model *model_new(uint64_t seed, unsigned int n_gpus);
struct model *model_free(struct model *m);
uint64_t model_random(struct model *m, uint64_t below);

struct model_slice *model_slice(struct model *m, const struct sched_share_config *share);
void model_share(struct model *m, struct model_slice *s,
	const struct sched_share_config *share);
void model_slice_drop(struct model *m, struct model_slice *s); /* kills its processes */
struct model_proc *model_proc(struct model *m, struct model_slice *s, unsigned int gpu,
	const struct model_task *task);
void model_kill(struct model_proc *p);

/* For @ns, or until something is wrong. */
void model_run(struct model *m, uint64_t ns);
uint64_t model_charged(struct model *m, const struct model_slice *s, unsigned int gpu);
