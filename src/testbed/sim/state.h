/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of a simulated node, outside of any process: one file that all processes map.
 *
 * Two copies of the node are in the file. The low bit of a generation counter selects the current copy.
 *
 * A writer:
 *
 *	1. takes a file lock and changes a private copy;
 *	2. stores that copy into the place that is not current;
 *	3. raises the counter. This one atomic store makes the whole change visible.
 *
 * A writer killed at any instruction leaves the old state whole. The kernel drops its lock.
 *
 * A reader takes no lock. The reader copies what it needs, and starts again if the counter has moved meanwhile.
 *
 * Outside the copies, used without the lock: the ring of events, which only grows; one "hang" cell for each GPU;
 * counters of NVML calls. For CUDA (sim/device): armed faults, the load, and the memory of each process. That
 * memory changes with each allocation, and a transaction copies the whole node.
 *
 * Files. The capability files of MIG instances (testbed/sim/fake-root/fake-root.h) follow the node. A writer that
 * changes instances:
 *
 *	1. sets a flag in the state;
 *	2. creates the new files, and recreates all if the flag was set before: a killed writer may have left
 *	   some incomplete;
 *	3. makes the change visible;
 *	4. removes the files of instances that the node does not have, also those that a killed writer left;
 *	5. clears the flag.
 *
 * So every visible instance has its files.
 *
 * Thread: any. Fork: a child keeps the mapping; it never inherits a lock.
 */
#include "testbed/sim/model.h"

#include <stdatomic.h>

#define SIM_STATE_MAGIC   UINT32_C(0x534C4753) /* "SGLS" */
#define SIM_STATE_VERSION 7
#define SIM_STATE_FILE    "state"
#define SIM_RING_EVENTS   256 /* a power of two; a slow reader misses the older ones */

/* An event that NVML does not have: the GPU disappeared. A waiter gets GPU_IS_LOST once. */
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
 * Creates @dir's state from @node. Returns 0; SIM_STATE_E_EXISTS if another process created the state first, from
 * its own node; < 0 with @err set. Readers see a whole file or none.
 */
#define SIM_STATE_E_EXISTS 2
int sim_state_create(const char *dir, const struct sim_node *node, struct error *err) MUST_USE;

/* The directory that sim_state_open() got. */
const char *sim_state_dir(const struct sim_state *s);

struct sim_state *sim_state_close(struct sim_state *s); /* returns NULL; NULL is fine */

/* Whether @s is still the file in @dir (a process may have removed and recreated it). */
bool sim_state_is_current(const struct sim_state *s, const char *dir);

/* The generation counter. It changes with each committed transaction. */
uint64_t sim_state_generation(const struct sim_state *s);

/* --- reading --- */

/* A piece of struct sim_node; offset and length in bytes, multiples of 8. */
struct sim_part {
	size_t offset, len;
	void *to;
};

/*
 * Copies all the parts as they were at one moment. sim_state_read() adds the memory that CUDA uses
 * (sim_usage_write()) to the rows of its processes and to the sum. sim_state_read_bare() does not, and a
 * transaction does not either.
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
	struct sim_event events[SIM_TXN_EVENTS]; /* sent after the change is visible */
	uint32_t event_count;
	int lock_fd;
};

#define SIM_TXN_INIT          \
	{                     \
		.lock_fd = -1 \
	}

/*
 * begin, change txn->node, commit. Between them no other process writes. sim_txn_end() without a commit drops the
 * change; it is the cleanup function. sim_txn_begin() blocks while another writer works.
 */
int sim_txn_begin(struct sim_state *s, struct sim_txn *txn, struct error *err) MUST_USE;
/* Adds an event. Events beyond SIM_TXN_EVENTS are dropped. */
void sim_txn_post(struct sim_txn *txn, struct sim_event event);
void sim_txn_commit(struct sim_txn *txn);

/*
 * As sim_txn_commit(), where MIG instances of the GPU in @slot may have changed (SIM_ALL_SLOTS: of any GPU), with
 * their files. On failure nothing has changed, and the transaction goes on.
 */
#define SIM_ALL_SLOTS UINT32_MAX
int sim_txn_commit_files(struct sim_txn *txn, uint32_t slot, struct error *err) MUST_USE;
void sim_txn_end(struct sim_txn *txn);

/* --- events --- */

/* The number of the next event. */
uint64_t sim_ring_head(const struct sim_state *s);

/*
 * Reads event *cursor and moves the cursor behind it; skips events that were overwritten. False: no event yet.
 */
bool sim_ring_next(const struct sim_state *s, uint64_t *cursor, struct sim_event *ret);

/* Sleeps until an event comes after number @head, or until @deadline_ns of the monotonic clock. The call may
 * return earlier. */
void sim_ring_wait(const struct sim_state *s, uint64_t head, uint64_t deadline_ns);

/* Hanging. */

#define SIM_HANG_FOREVER UINT64_MAX
#define SIM_HANG_CALLS   UINT32_MAX

/*
 * From now on each call that touches the GPU in @slot blocks for @ns: the next @calls calls, and for at most
 * @for_ns from now. @ns 0 ends the hang and wakes the blocked calls.
 */
void sim_hang_set(struct sim_state *s, uint32_t slot, uint64_t ns, uint32_t calls,
	uint64_t for_ns);

/* Blocks if the GPU hangs. No lock is held: other GPUs are not delayed. */
void sim_hang_wait(const struct sim_state *s, uint32_t slot);

/* How long a call would block now; 0: not at all. */
uint64_t sim_hang_ns(const struct sim_state *s, uint32_t slot);

/* --- counting --- */

enum sim_count {
	SIM_COUNT_CALLS,   /* NVML calls after init that found a node */
	SIM_COUNT_CHANGES, /* calls that change MIG and passed the checks, successful or not */
	SIM_COUNT_KINDS
};

/* Counters over all processes since the creation of the state. sim_count() adds one. */
void sim_count(const struct sim_state *s, enum sim_count kind);
uint64_t sim_count_read(const struct sim_state *s, enum sim_count kind);

/* --- memory that CUDA uses --- */

struct sim_usage {
	uint32_t pid;
	uint64_t bytes;
};

/*
 * Replaces the memory of each process of the GPU in @slot. @total: of all of them, with memory that belongs to no
 * process. Readers see all of the old or all of the new rows. One writer only: the node's device daemon.
 */
void sim_usage_write(struct sim_state *s, uint32_t slot, const struct sim_usage *rows, size_t n,
	uint64_t total);

/* Reads the rows. Returns their number. @rows has room for SIM_MAX_PROCESSES rows, or is NULL. */
size_t sim_usage_read(const struct sim_state *s, uint32_t slot, struct sim_usage *rows,
	uint64_t *total);

/* Room for the load of the GPU in @slot; testbed/sim/load.h has the format. */
#define SIM_STATE_LOAD_WORDS 904
_Atomic uint64_t *sim_state_load_cell(const struct sim_state *s, uint32_t slot);

/* --- faults of CUDA --- */

enum sim_cuda_fault {
	SIM_CUDA_OOM,   /* an allocation returns "no memory"; a context counts as one */
	SIM_CUDA_ERROR, /* a kernel ends its context with error @value */
	SIM_CUDA_HANG,  /* a kernel does not end */
	SIM_CUDA_FAULTS,
};

/*
 * Arms @kind on the GPU in @slot: the @at-th allocation or kernel from now (1: the next) and those after it,
 * @times in all. @times 0 disarms. SIM_HANG_CALLS: without limit. The count is over all processes.
 */
void sim_cuda_fault_set(struct sim_state *s, uint32_t slot, enum sim_cuda_fault kind,
	uint64_t at, uint32_t times, uint32_t value);

/* Counts one; true: it must fail, with *value. The device daemon calls it. */
bool sim_cuda_fault_hit(struct sim_state *s, uint32_t slot, enum sim_cuda_fault kind,
	uint32_t *value);

/* How many more will fail; 0: not armed. */
uint32_t sim_cuda_fault_armed(const struct sim_state *s, uint32_t slot,
	enum sim_cuda_fault kind, uint64_t *at, uint32_t *value);
