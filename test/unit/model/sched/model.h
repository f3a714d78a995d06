/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A discrete-event model of GPUs and of processes that share them by the protocol of abi/turn-page.h and
 * abi/slice-wire.h. src/model/sched makes the arbiter's decisions. One seed gives one run: all random numbers come
 * from it.
 *
 * GPU. The context of one process has the GPU until the context has no more work, or until another context has had
 * work for SCHED_TIME_SLICE_NS. The time is shorter if the hardware's slice had begun before (as for 6 % of the
 * overruns on an H100). Then the next context has the GPU, after MODEL_CHANGE_NS in which no process makes
 * progress. Processes under MPS share a context. In it all of them make progress side by side, each as if alone.
 *
 * Process. It submits as its task says, if its gate in the page lets it pass. A process that waits at a closed
 * gate wakes up some time after the gate opens.
 *
 * Gate thread. It notices the end of work with a lag, and reports the state of the process:
 *
 *	1. Packets arrive with a delay, in order.
 *	2. The arbiter ignores packets of an older generation of the gate.
 *	3. After each change of the gate the gate thread reports again. It does not where the process has
 *	   nothing, the arbiter knows that already (DOORBELL), and no packet under way reports otherwise.
 *
 * The model checks the invariants (header of test-sched-model.c) at each event. The first failure is in .failure.
 */
#include "model/sched/sched.h"

#define MODEL_PROCS_MAX   48
#define MODEL_SLICES_MAX  24
#define MODEL_GPUS_MAX    8
#define MODEL_PACKETS_MAX 16
#define MODEL_CHANGE_NS   UINT64_C(160000) /* a context switch; from an H100, as the time slice */
#define MODEL_MIDST       4 /* one of so many that come, comes within a time slice */
#define MODEL_TIGHT_NS    UINT64_C(400000) /* as container/gate/pace.h */
#define MODEL_LEAD_NS     UINT64_C(100000)

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

enum model_kind {
	MODEL_SATURATE, /* always has .ahead kernels to submit */
	MODEL_LOOP, /* one kernel, waits for it, thinks for .think_ns; after each .burst of them, if that
			 * is not 0 */
	MODEL_TOKEN, /* .burst kernels, and waits for each of them: the one in the middle of .kernel_ns, the
			* others of .piece_ns; then thinks for .think_ns to .rest_ns */
	MODEL_BURST, /* .burst kernels one after the other each .think_ns */
	MODEL_PACED, /* .burst kernels, one submitted each .think_ns, as its CPU allows; then waits for all,
			* and does something else for .rest_ns */
	MODEL_GROUP, /* a kernel each .think_ns (0: saturates), at most .ahead steps before the slowest of its
			* slice */
	MODEL_BLOCKED, /* .burst kernels, submitted one each .think_ns, behind a wait that ends with the last:
			 * blocked behind a closed gate (abi/slice-wire.h) */
	MODEL_FLAPPER,    /* reports at random that it wants, is busy, is idle */
	MODEL_FALSE_BUSY, /* wants, and once its gate opens reports busy for ever */
	MODEL_SHY,        /* wants, does nothing when its gate opens, and soon wants again */
	MODEL_KINDS,
};

struct model_task {
	enum model_kind kind;
	uint64_t kernel_ns, think_ns, rest_ns, piece_ns;
	unsigned int ahead, burst;
	unsigned int estimate_permille; /* the process's estimate of its kernels; 0: 1000 */
};

struct model_slice {
	struct sched_slice *slice; /* NULL: unused */
	struct sched_share_config config[MODEL_GPUS_MAX];
	uint64_t charged[MODEL_GPUS_MAX];                  /* at the last check */
	uint64_t quantum_ends[MODEL_GPUS_MAX][SCHED_ENDS]; /* the same */
	uint64_t used[MODEL_GPUS_MAX];                     /* true time of the GPU */
	double allowed;    /* of a capped one on GPU 0: cap * time */
	double over_least; /* the least that charged - allowed has been */
	/* The largest charge after its gates were closed. */
	uint64_t closed_at[MODEL_GPUS_MAX], overrun[MODEL_GPUS_MAX];
	uint64_t in_flight; /* limit for its processes together, by their own estimate */
	/* Bits of the slices that were level with it, and wanted GPU 0 at each start of its quanta since. */
	uint32_t level;
	uint64_t quanta; /* number of quanta */
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
	uint64_t head_ns;  /* left of the kernel at the head, once the process makes progress */
	uint64_t think_at; /* has more to submit then */
	uint64_t burst_at; /* the burst under way began then; 0: none */
	bool blocked;      /* at the closed gate */
	uint32_t reported_generation; /* the generation of the gate in which it reported that */
	uint64_t woken_at;            /* the gate is open, but the process notices only then */
	uint64_t poll_at;             /* the gate thread polls then */
	uint64_t steps;               /* kernels done */
	uint64_t work_ns;             /* of kernels done */
	uint64_t waiting_since;       /* the arbiter knows since then that the process waits */
	uint64_t waited_most;
	struct model_packet {
		bool busy, wants;
		uint32_t generation;
		uint64_t idle_ns, at;
	} packets[MODEL_PACKETS_MAX]; /* under way, the first is the next to arrive */
	unsigned int n_packets;
	bool reported;    /* the last sent packet reports work or a want */
	uint64_t idle_at; /* in truth */
	uint64_t lat[4096];
	unsigned int n_lat;
};

struct model_gpu {
	struct model_proc *runs; /* has the GPU (MPS: one of them), or had it; NULL: it ended */
	uint64_t change_ns;      /* left until it makes progress */
	uint64_t ends;           /* of its time slice; UINT64_MAX: no other context has work */
};

struct model {
	struct sched *sched;
	struct model_gpu gpus[MODEL_GPUS_MAX];
	uint64_t now, seed, n_events;
	unsigned int n_gpus, n_procs, n_slices; /* slots that were ever used */
	struct model_slice slices[MODEL_SLICES_MAX];
	struct model_proc procs[MODEL_PROCS_MAX];
	uint64_t busy[MODEL_GPUS_MAX];       /* in truth */
	uint64_t concurrent[MODEL_GPUS_MAX]; /* ns without quanta */
	uint64_t wrong[MODEL_GPUS_MAX]; /* ns in which the arbiter was wrong about a process */
	uint64_t gone[MODEL_GPUS_MAX];  /* charged to removed slices */
	uint64_t dry[MODEL_GPUS_MAX]; /* idle since then, though a process wants; 0: not idle */
	uint64_t dry_most;
	uint64_t stood_at, stood; /* so many events within 100 us of .stood_at */
	uint64_t n_gates;         /* changes */
	uint64_t quantum_ends[SCHED_ENDS];
	uint64_t n_lags; /* pairs whose lag was checked */
	bool stock; /* no gate holds anything, and nothing is checked: the hardware alone shares the GPUs */
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

/* Runs the model for @ns, or until an invariant fails. */
void model_run(struct model *m, uint64_t ns);
uint64_t model_charged(struct model *m, const struct model_slice *s, unsigned int gpu);
