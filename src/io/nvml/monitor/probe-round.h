/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One look at all GPUs, put together from the worker's messages, and what earlier looks found.
 *
 * A look may end half-way, when a call hangs or the worker dies; then the last whole one stays as
 * it is, but for the GPU that is to blame. A GPU that hung is left out of the following looks
 * until its time has come, and is listed as stuck, as it was last known. Since NVML's index is all
 * that one has of a GPU that must not be touched, a change of the number of GPUs ends that.
 *
 * MIG devices of a GPU of which no list came, since it is stuck or its calls fail, stay as they were.
 * The links of a pair are asked for once (again, if they are to say more than before), and kept as long as both GPUs are listed.
 * Pure data: no I/O, no clock. Thread: owner's.
 */
#include "model/gpu/gpu.h"
#include "io/nvml/proto.h"

struct probe_round_mark {
	bool stuck;
	bool skipped;     /* in the look that is under way */
	uint32_t n;       /* GPUs of the node when it was marked; 0: not known */
	uint32_t crashes; /* workers in a row that died with this GPU in hand */
	uint64_t retry_at_ns;
	char reason[GPU_REASON_MAX];
};

struct probe_round {
	struct inventory *last; /* the last whole one, marks applied; NULL: none yet */
	struct inventory *next; /* being received */
	bool active;
	bool p2p; /* the owner's: links are to have .p2p */
	uint32_t seq;
	uint32_t n_received;
	bool received[GPU_NODE_MAX], received_mig[GPU_NODE_MAX], row[GPU_NODE_MAX];
	struct probe_round_mark marks[GPU_NODE_MAX]; /* by NVML index */
};

void probe_round_fini(struct probe_round *l);

/* Starts a look: which GPUs to leave alone, whose links are known. */
void probe_round_start(struct probe_round *l, uint64_t now_ns, struct worker_probe *ret);

/* The worker is gone; nothing more will come of the look under way. */
void probe_round_abandon(struct probe_round *l);

/*
 * Takes a BEGIN, GPU, MIG, LINKS or END that worker_msg_check() has passed. Returns 1 when the look is
 * complete and .last is new; 0 while it goes on; < 0: the worker does not keep to the protocol.
 */
int probe_round_feed(struct probe_round *l, const union worker_msg *m,
	struct error *err) MUST_USE;

/* @index hung or crashed the worker: leave it alone until @retry_at_ns. Also tells .last. */
void probe_round_mark_stuck(struct probe_round *l, uint32_t index, uint64_t retry_at_ns,
	const char *reason);

/* Those that are stuck are in the next look, whatever their time. */
void probe_round_unskip_all(struct probe_round *l);

/* The earliest end of a mark; UINT64_MAX: no GPU is stuck. */
uint64_t probe_round_retry_at(const struct probe_round *l);

/* Whether a GPU of the last look is in a state that this NVML session may not see the end of. */
bool probe_round_needs_session(const struct probe_round *l);
