/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of a simulated node, outside of any process: one file, mapped by all who use it.
 *
 * Two copies of the node lie in it; the low bit of a generation counter says which one is current.
 * A writer takes a file lock, changes a private copy, stores it into the other place and then
 * raises the counter: one atomic store that makes all of it visible. So a writer that is killed at
 * any instruction leaves the old state whole and the lock free (the kernel drops it), and readers
 * take no lock: they copy what they need and start again if the counter has moved meanwhile.
 *
 * Beside the copies lie things that are used without the lock: the ring of events, which only grows,
 * one "hang" cell for each GPU, counters of NVML calls, and for CUDA (sim/device) faults to come and how
 * much each process holds: that changes with each allocation, and a transaction copies the node.
 *
 * The capability files of MIG instances (testbed/sim/fake-root/fake-root.h) follow the node: a writer that changes
 * instances makes new files before the change is visible, and removes what the node does not have
 * after it. So an instance that is seen has its files, and what a killed writer left behind goes
 * with the next change. A mark says that a writer is at it; who finds it makes its files anew, as
 * some may be half done.
 *
 * Thread: any. Fork: a child goes on with the same mapping; a lock is never inherited.
 */
#include "testbed/sim/model.h"

#include <stdatomic.h>

#define SIM_STATE_MAGIC   UINT32_C(0x534C4753) /* "SGLS" */
#define SIM_STATE_VERSION 7
#define SIM_STATE_FILE    "state"
#define SIM_RING_EVENTS   256 /* a power of two; older ones are gone for a slow reader */

/* An event of a kind beyond NVML's own: the GPU went away. A waiter gets GPU_IS_LOST once. */
#define SIM_EVENT_LOST (UINT64_C(1) << 63)

struct sim_event {
	uint64_t type; /* NVML_EVENT_*, or SIM_EVENT_LOST */
	uint64_t data;
	uint32_t slot, epoch;
	uint32_t gi, ci;
};

struct sim_state; /* a mapped state file */

/* Opens @dir's state. Returns 0; SIM_STATE_E_NONE if there is none; < 0 with @err set. */
#define SIM_STATE_E_NONE 1
int sim_state_open(const char *dir, struct sim_state **ret, struct error *err) MUST_USE;

/*
 * Creates @dir's state from @node. Returns 0; SIM_STATE_E_EXISTS if somebody was faster, who then
 * decided what is in it; < 0 with @err set. Readers see a whole file or none.
 */
#define SIM_STATE_E_EXISTS 2
int sim_state_create(const char *dir, const struct sim_node *node, struct error *err) MUST_USE;

/* The directory it was opened in. */
const char *sim_state_dir(const struct sim_state *s);

struct sim_state *sim_state_close(struct sim_state *s); /* returns NULL; NULL is fine */

/* Whether @s is still the file that stands in @dir (it may have been removed and made anew). */
bool sim_state_is_current(const struct sim_state *s, const char *dir);

uint64_t sim_state_generation(const struct sim_state *s);

/* Reading. */

/* A piece of struct sim_node; offset and length in bytes, multiples of 8. */
struct sim_part {
	size_t offset, len;
	void *to;
};

/*
 * Copies all the parts as they were at one moment. What CUDA holds (sim_usage_write()) is added to the
 * rows of its processes and to the sum; sim_state_read_bare() leaves that out, as a transaction does.
 */
void sim_state_read(const struct sim_state *s, const struct sim_part *parts, size_t n);
void sim_state_read_bare(const struct sim_state *s, const struct sim_part *parts, size_t n);

#define SIM_PART_HEAD(to) ((struct sim_part){ 0, sizeof(struct sim_node_head), (to) })
#define SIM_PART_INFO(to)                                         \
	((struct sim_part){ offsetof(struct sim_node_head, info), \
		sizeof(struct sim_node_info), (to) })
#define SIM_PART_SLOT(slot, to)                                       \
	((struct sim_part){ offsetof(struct sim_node_head, slots) +   \
				    (slot) * sizeof(struct sim_slot), \
		sizeof(struct sim_slot), (to) })
#define SIM_PART_GPU(slot, to) /* without the process table */                                 \
	((struct sim_part){ offsetof(struct sim_node, gpus) + (slot) * sizeof(struct sim_gpu), \
		SIM_GPU_CORE_BYTES, (to) })
#define SIM_PART_GPU_MIG(slot, to) /* with instances, without the process table */             \
	((struct sim_part){ offsetof(struct sim_node, gpus) + (slot) * sizeof(struct sim_gpu), \
		offsetof(struct sim_gpu, processes), (to) })
#define SIM_PART_GPU_ALL(slot, to)                                                             \
	((struct sim_part){ offsetof(struct sim_node, gpus) + (slot) * sizeof(struct sim_gpu), \
		sizeof(struct sim_gpu), (to) })

/* Writing. */

#define SIM_TXN_EVENTS 8

struct sim_txn {
	struct sim_state *state;
	struct sim_node *node;                   /* change this */
	struct sim_event events[SIM_TXN_EVENTS]; /* posted after the change is visible */
	uint32_t event_count;
	int lock_fd;
};

#define SIM_TXN_INIT          \
	{                     \
		.lock_fd = -1 \
	}

/*
 * begin, change txn->node, commit. Between them no other process writes. sim_txn_end() without a
 * commit drops the change; it is the cleanup function. Blocks while another writer works.
 */
int sim_txn_begin(struct sim_state *s, struct sim_txn *txn, struct error *err) MUST_USE;
void sim_txn_post(struct sim_txn *txn, struct sim_event event);
void sim_txn_commit(struct sim_txn *txn);

/*
 * The same where MIG instances of the GPU in @slot may have changed (SIM_ALL_SLOTS: of any), with
 * their files. On failure nothing has changed, and the transaction goes on.
 */
#define SIM_ALL_SLOTS UINT32_MAX
int sim_txn_commit_files(struct sim_txn *txn, uint32_t slot, struct error *err) MUST_USE;
void sim_txn_end(struct sim_txn *txn);

/* Events. */

/* The number of the next event to come. */
uint64_t sim_ring_head(const struct sim_state *s);

/*
 * Reads event *cursor and moves the cursor behind it; events that were overwritten are skipped.
 * False: none yet.
 */
bool sim_ring_next(const struct sim_state *s, uint64_t *cursor, struct sim_event *ret);

/* Sleeps until an event comes after number @head, or until @deadline_ns of the monotonic clock. */
void sim_ring_wait(const struct sim_state *s, uint64_t head, uint64_t deadline_ns);

/* Hanging. */

#define SIM_HANG_FOREVER UINT64_MAX
#define SIM_HANG_CALLS   UINT32_MAX

/*
 * From now on each call that touches the GPU in @slot blocks for @ns: the next @calls of them, and
 * for at most @for_ns from now. @ns 0 ends it, and wakes those who hang.
 */
void sim_hang_set(struct sim_state *s, uint32_t slot, uint64_t ns, uint32_t calls,
	uint64_t for_ns);

/* Blocks if the GPU hangs. No lock is held: other GPUs are not delayed. */
void sim_hang_wait(const struct sim_state *s, uint32_t slot);

/* How long a call would block now; 0: not at all. */
uint64_t sim_hang_ns(const struct sim_state *s, uint32_t slot);

/* Counting. */

enum sim_count {
	SIM_COUNT_CALLS, /* NVML calls after init that found a node */
	SIM_COUNT_CHANGES, /* of them: MIG mode set, instances made and destroyed, as far as they got */
	SIM_COUNT_KINDS
};

void sim_count(const struct sim_state *s, enum sim_count kind);
uint64_t sim_count_read(const struct sim_state *s, enum sim_count kind);

/* What CUDA holds. */

struct sim_usage {
	uint32_t pid;
	uint64_t bytes;
};

/*
 * From now on these processes of the GPU in @slot hold so much, and all of them with what is nobody's
 * @total. Readers see all of the old or all of the new rows. One writer only: the node's device daemon.
 */
void sim_usage_write(struct sim_state *s, uint32_t slot, const struct sim_usage *rows, size_t n,
	uint64_t total);

/* Reads them; returns how many, at most SIM_MAX_PROCESSES, which is the room of @rows (or NULL). */
size_t sim_usage_read(const struct sim_state *s, uint32_t slot, struct sim_usage *rows,
	uint64_t *total);

/* Room for what testbed/sim/load.h keeps of the GPU in @slot; it knows the form. */
#define SIM_STATE_LOAD_WORDS 904
_Atomic uint64_t *sim_state_load_cell(const struct sim_state *s, uint32_t slot);

/* Faults of CUDA. */

enum sim_cuda_fault {
	SIM_CUDA_OOM,   /* an allocation answers "no memory"; a context's counts as one */
	SIM_CUDA_ERROR, /* a kernel ends its context with error ->value */
	SIM_CUDA_HANG,  /* a kernel does not end */
	SIM_CUDA_FAULTS,
};

/*
 * Arms @kind on the GPU in @slot: from the @at-th allocation or kernel on (1: the next), for @times of
 * them; @times 0: never mind. Counted over all processes.
 */
void sim_cuda_fault_set(struct sim_state *s, uint32_t slot, enum sim_cuda_fault kind,
	uint64_t at, uint32_t times, uint32_t value);

/* Counts one; true: it is to fail, with *value. Called by the device daemon. */
bool sim_cuda_fault_hit(struct sim_state *s, uint32_t slot, enum sim_cuda_fault kind,
	uint32_t *value);

/* How many more will fail; 0: not armed. */
uint32_t sim_cuda_fault_armed(const struct sim_state *s, uint32_t slot,
	enum sim_cuda_fault kind, uint64_t *at, uint32_t *value);
