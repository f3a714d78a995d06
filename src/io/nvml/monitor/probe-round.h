/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One probe of all GPUs, put together from the worker's messages, and the results of earlier probes.
 *
 * A probe may end half-way, when a call hangs or the worker dies. The last complete inventory then stays as it is,
 * except for the GPU that caused the end. A GPU that hung is skipped in the following probes until its retry time,
 * and is listed as stuck with the fields that are known of it. A skipped GPU is known by its NVML index only, so
 * all marks end when the number of GPUs changes.
 *
 * MIG devices of a GPU without a new list (it is stuck, or its calls fail) stay as they were. The worker reads the
 * links of a pair once, and again when they are to have .p2p. The links are kept as long as both GPUs are listed.
 *
 * Pure data: no I/O, no clock. Thread: owner's.
 */
#include "model/gpu/gpu.h"
#include "io/nvml/proto.h"

struct probe_round_mark {
	bool stuck;
	bool skipped;     /* in the probe under way */
	uint32_t n;       /* GPUs of the node when this one was marked; 0: not known */
	uint32_t crashes; /* workers in a row that died on this GPU */
	uint64_t retry_at_ns;
	char reason[GPU_REASON_MAX];
};

struct probe_round {
	struct inventory *last; /* last complete inventory, marks applied; NULL: none yet */
	struct inventory *next; /* being received */
	bool active;
	bool p2p; /* set by the owner: read .p2p of links */
	uint32_t seq;
	uint32_t n_received;
	bool received[GPU_NODE_MAX], received_mig[GPU_NODE_MAX], row[GPU_NODE_MAX];
	struct probe_round_mark marks[GPU_NODE_MAX]; /* by NVML index */
};

/* Frees both inventories. The marks stay. */
void probe_round_fini(struct probe_round *round);

/* Starts a probe: @ret says which GPUs to skip, and which have known links. */
void probe_round_start(struct probe_round *round, uint64_t now_ns, struct worker_probe *ret);

/* The worker has ended: drops the probe under way. */
void probe_round_abandon(struct probe_round *round);

/*
 * Applies a BEGIN, GPU, MIG, LINKS or END that worker_msg_check() accepted. 1: the probe is complete and .last is
 * new. 0: the probe goes on. < 0: the worker violates the protocol, or no memory.
 */
int probe_round_feed(struct probe_round *round, const union worker_msg *m,
	struct error *err) MUST_USE;

/* The worker hung or crashed on GPU @index: skip this GPU until @retry_at_ns. Marks it in .last, too. */
void probe_round_mark_stuck(struct probe_round *round, uint32_t index, uint64_t retry_at_ns,
	const char *reason);

/* The next probe includes stuck GPUs, whatever their retry time. */
void probe_round_unskip_all(struct probe_round *round);

/* The earliest retry time of a stuck GPU; UINT64_MAX: no GPU is stuck. */
uint64_t probe_round_retry_at(const struct probe_round *round);

/*
 * Whether a GPU of the last probe is in a state (lost, waits for a reset) for which this NVML session may never
 * report the end.
 */
bool probe_round_needs_session(const struct probe_round *round);
