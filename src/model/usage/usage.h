/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who had how much of which GPU, counted from round to round: time, memory and money. All numbers are whole and
 * every part is taken from a whole, so the sums that node/view/view.h promises hold exactly after each round:
 *
 *	unit: present = uses' gpu + past + idle; busy = uses' + past + other; cost = uses' + past + idle
 *	node: cost = units' cost + other
 *
 * Time of rounds in which nobody knows who holds what is not counted: it is in none of these times.
 *
 * A unit is a GPU that is not in MIG mode, or a MIG device. What rounding leaves over goes to idle: less than a
 * nanosecond and a nano-unit for each use and round. The node's price is exact over time: what does
 * not come to a nano-unit is kept for the next round, and GPUs get equal parts, the odd units in turn.
 *
 * An account is one container of one pod on one unit with one resource. The kubelet lists pods without UID, so:
 *
 *	a listed pod without UID    goes on with the account of its name that is live, unless its seats were
 *	                            given out anew (.fresh); one that has ended is never continued
 *	one with an UID             goes on with the account of that UID, else the live one of its name that has none, which
 *	                            takes the UID (again unless .fresh), and never with that of another
 *
 * Accounts that have ended are kept for a while and then added to their unit's past. A unit that is gone takes its
 * accounts along; its cost becomes other cost of the node.
 * Thread: owner's (no I/O, no clock).
 */
#include "lib/base/cleanup.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACCOUNT_MILLION         UINT32_C(1000000)
#define ACCOUNT_ENDED_RETAIN_NS (UINT64_C(600) * 1000000000) /* of rounds */
#define ACCOUNT_ENDED_MAX       256 /* of one unit that are kept; the oldest goes first */
#define ACCOUNT_ROUND_MAX_NS    (UINT64_C(3600) * 1000000000)

enum account_mode {
	ACCOUNT_EXCLUSIVE, /* the order of enum view_mode */
	ACCOUNT_TIME_SLICING,
	ACCOUNT_MPS,
	ACCOUNT_SLICES,
};

/* Where a figure of a use is from. In the order of enum view_source. */
enum account_source {
	ACCOUNT_FROM_NOTHING,   /* not known; its number is 0 and means nothing */
	ACCOUNT_FROM_PROCESSES, /* NVML's figures of its processes; time is an estimate */
	ACCOUNT_FROM_DEVICE,    /* the unit's own figure: no other container holds it */
	ACCOUNT_FROM_SLICE,     /* the slice runtime; time is exact */
};

struct account_counts {
	uint64_t allocated_ns, gpu_ns, busy_ns, memory_byte_s, cost_nano;
};

/* What one container had of a unit in the round. The texts are borrowed for the call. */
struct account_use {
	const char *namespace_, *pod, *container, *resource;
	const char *uid; /* "" */
	enum account_mode mode;
	bool live;             /* holds it at the end; else it ended within the round */
	bool fresh;            /* its seats were given out since the round before */
	uint64_t allocated_ns; /* time of the round that it held any seat */
	uint64_t share_ns; /* sum over its seats of millionths of the unit times nanoseconds */
	uint32_t share;    /* millionths of the unit, of all its seats */
	enum account_source busy_from;
	uint64_t busy_ns;    /* since it was last known */
	uint64_t busy_of_ns; /* the time that it is of; 0: the round */
	enum account_source memory_from;
	uint64_t memory;
	bool sliced;     /* what it uses between two rounds, its slice's arbiter sees alone: */
	bool peak_known; /* that has said the most since its own start: */
	uint64_t peak;
	struct account *account; /* set by accounts_round(); valid until the next */
};

struct account_device_round {
	const char *uuid;
	uint32_t gpu;         /* 0 to n_gpus - 1 */
	uint32_t part;        /* millionths of that GPU; all of a GPU at most ACCOUNT_MILLION */
	bool priced;          /* else its cost is other cost of the node */
	bool busy_known;      /* then: */
	uint64_t busy_ns;     /* since it was last known */
	uint64_t busy_of_ns;  /* the time that it is of */
	bool has_other_users; /* somebody uses it who is none of .uses */
	uint32_t first_use, n_uses; /* in the round's uses */
};

struct account_round {
	uint64_t dt_ns;   /* of the round, at most ACCOUNT_ROUND_MAX_NS is counted */
	uint64_t wall_ns; /* its end */
	uint64_t price_nano_per_hour;
	uint32_t n_gpus;
	bool allocations_unknown; /* nobody knows who holds what: its time is neither held nor idle, its
				 cost is other cost of the node */
	bool complete; /* units that are not listed are gone; else they are not known now */
	struct account_device_round *devices;
	uint32_t n_devices;
	struct account_use *uses;
	uint32_t n_uses;
};

struct account {
	char *namespace_, *pod, *uid, *container, *resource; /* owned */
	enum account_mode mode;
	bool live;
	uint64_t began_wall_ns, ended_wall_ns;
	uint64_t ended_for_ns;                      /* of rounds, since it has ended */
	struct account_counts total, delta;         /* ever, and of the last round */
	uint32_t share;                             /* millionths of the unit, now */
	enum account_source busy_from, memory_from; /* of the last round */
	bool busy_unknown, memory_unknown;          /* of some round */
	bool busy_ever, memory_ever;                /* known of some round */
	uint64_t memory, memory_peak; /* the peak is the most that was ever seen or said */
	uint64_t memory_high; /* of that, what is of the last round; 0: nothing is known */
	bool peak_known;
	uint64_t memory_rest; /* byte-nanoseconds below a byte-second */
	bool matched;         /* in the round that is being counted */
};

struct account_device {
	char *uuid;
	struct account **uses;
	size_t n_uses;
	struct account_counts
		past; /* of accounts that are not kept any more; .allocated and .memory stay 0 */
	uint64_t present_ns, idle_gpu_ns, busy_ns, other_busy_ns, cost_nano, idle_cost_nano;
	struct {
		uint64_t present_ns, idle_gpu_ns, busy_ns, other_busy_ns, cost_nano,
			idle_cost_nano;
	} delta;
	uint64_t present_rest;
	uint32_t allocated; /* millionths that are held now */
	bool listed;        /* in the last round */
};

struct accounts {
	struct account_device **devices;
	size_t n_devices;
	uint64_t cost_nano, other_cost_nano;
	struct {
		uint64_t cost_nano, other_cost_nano;
	} delta;
	uint64_t *gpu_other; /* of the last round: other cost by GPU */
	size_t n_gpu_other;
	uint64_t price_rest; /* nano-units times nanoseconds, less than an hour's */
	uint32_t next_odd;   /* the GPU that gets the next odd nano-unit */
};

void accounts_init(struct accounts *a);
void accounts_fini(struct accounts *a);

/* Counts one round. On an error (no memory) nothing was counted, but some accounts may have begun. */
int accounts_round(struct accounts *a, const struct account_round *r,
	struct error *err) MUST_USE;

/* Borrowed; NULL: none. */
struct account_device *accounts_find_device(const struct accounts *a, const char *uuid);

/*
 * What was kept: first the units, then their accounts. accounts_settle() then finds the past of each unit as what
 * its parts lack of its whole; parts that come to more than the whole make the whole larger.
 */
int accounts_restore_device(struct accounts *a, const char *uuid, struct account_device **ret,
	struct error *err) MUST_USE;
int accounts_restore_account(struct account_device *u, const struct account_use *use,
	struct account **ret, struct error *err) MUST_USE;
void accounts_settle(struct accounts *a);
