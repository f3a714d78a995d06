/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts from round to round which container had how much of which GPU: time, memory and money.
 *
 * Sums. All numbers are integers, and every part is taken from a whole. So the sums that node/view/view.h
 * promises hold exactly after each round:
 *
 *	device: present = accounts' gpu + past + idle; busy = accounts' + past + other; cost = accounts' + past + idle
 *	node: cost = devices' cost + other
 *
 * Rounds without known allocations are not counted: they are in none of these times.
 *
 * A device is a GPU that is not in MIG mode, or a MIG device. Idle gets what rounding leaves over: less than a
 * nanosecond and a nano-unit of money for each usage and round. The node's price is exact over time: what is
 * less than a nano-unit is kept for the next round. GPUs get equal parts, and the odd nano-units in rotation.
 *
 * Accounts. An account is one container of one pod on one device with one resource. The kubelet lists pods
 * without UID. So:
 *
 *	a listed pod without UID    continues the live account of its name, unless its replicas were allocated again
 *	                            (.fresh); an account that has ended is never continued
 *	a pod with a UID            continues the account of that UID, else the live account of its name without UID,
 *	                            which gets the UID (again unless .fresh); never the account of another UID
 *
 * Accounts that have ended are kept for a while and then added to the past of their device. A device that is
 * gone takes its accounts along. Its cost becomes other cost of the node.
 *
 * Thread: the owner's. No I/O, no clock.
 */
#include "lib/base/cleanup.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACCOUNT_MILLION         UINT32_C(1000000)
#define ACCOUNT_ENDED_RETAIN_NS (UINT64_C(600) * 1000000000) /* sum of rounds */
#define ACCOUNT_ENDED_MAX       256 /* ended accounts kept for a device; the oldest goes first */
#define ACCOUNT_ROUND_MAX_NS    (UINT64_C(3600) * 1000000000)

enum account_mode {
	ACCOUNT_EXCLUSIVE, /* the order of enum view_mode */
	ACCOUNT_TIME_SLICING,
	ACCOUNT_MPS,
	ACCOUNT_SLICES,
};

/* The source of a figure of a usage, in the order of enum view_source. */
enum account_source {
	ACCOUNT_FROM_NOTHING,   /* not known; the number is 0 and invalid */
	ACCOUNT_FROM_PROCESSES, /* NVML's figures of its processes; time is an estimate */
	ACCOUNT_FROM_DEVICE,    /* the device's own figure: no other container has the device */
	ACCOUNT_FROM_SLICE,     /* the slice runtime; time is exact */
};

struct account_counts {
	uint64_t allocated_ns, gpu_ns, busy_ns, memory_byte_s, cost_nano;
};

/* What one container had of a device in the round. The strings are borrowed for the call. */
struct account_use {
	const char *namespace_, *pod, *container, *resource;
	const char *uid; /* "": not known */
	enum account_mode mode;
	bool live;             /* has the device at the end; else it ended within the round */
	bool fresh;            /* its replicas were allocated since the round before */
	uint64_t allocated_ns; /* time of the round in which it had any replica */
	/* sum over its replicas of millionths of the device times nanoseconds */
	uint64_t share_ns;
	uint32_t share; /* millionths of the device, of all its replicas */
	enum account_source busy_from;
	uint64_t busy_ns;    /* busy time since it was last known */
	uint64_t busy_of_ns; /* the time that .busy_ns covers; 0: the round */
	enum account_source memory_from;
	uint64_t memory;
	/* only the arbiter sees its usage between two rounds */
	bool sliced;
	/* the arbiter has reported .peak, the maximum since the arbiter's start */
	bool peak_known;
	uint64_t peak;
	struct account *account;
};

struct account_device_round {
	const char *uuid;
	uint32_t gpu; /* 0 to n_gpus - 1 */
	/* millionths of that GPU; the sum for a GPU is at most ACCOUNT_MILLION */
	uint32_t part;
	bool priced;                /* false: its cost is other cost of the node */
	bool busy_known;            /* .busy_ns and .busy_of_ns are valid */
	uint64_t busy_ns;           /* busy time since it was last known */
	uint64_t busy_of_ns;        /* the time that .busy_ns covers */
	bool has_other_users;       /* a process that is in no usage uses the device */
	uint32_t first_use, n_uses; /* in the round's uses */
};

struct account_round {
	uint64_t dt_ns;   /* of the round; at most ACCOUNT_ROUND_MAX_NS is counted */
	uint64_t wall_ns; /* end of the round */
	uint64_t price_nano_per_hour;
	uint32_t n_gpus;
	/* the round's time is neither allocated nor idle, and its cost is other cost of the node */
	bool allocations_unknown;
	/* devices that are not listed are gone; false: they are not known now */
	bool complete;
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
	uint64_t ended_for_ns;                      /* sum of rounds since its end */
	struct account_counts total, delta;         /* since it began, and of the last round */
	uint32_t share;                             /* millionths of the device, now */
	enum account_source busy_from, memory_from; /* of the last round */
	bool busy_unknown, memory_unknown;          /* in some round */
	bool busy_ever, memory_ever;                /* known in some round */
	uint64_t memory, memory_peak; /* the peak is the highest ever sampled or reported */
	/* the highest of the last round; 0: not known */
	uint64_t memory_high;
	bool peak_known;
	uint64_t memory_rest; /* byte-nanoseconds below a byte-second */
	bool matched;         /* in the round that is being counted */
};

struct account_device {
	char *uuid;
	struct account **uses;
	size_t n_uses, room_uses;
	/* of accounts that are not kept any more; .allocated_ns and .memory_byte_s stay 0 */
	struct account_counts past;
	uint64_t present_ns, idle_gpu_ns, busy_ns, other_busy_ns, cost_nano, idle_cost_nano;
	struct {
		uint64_t present_ns, idle_gpu_ns, busy_ns, other_busy_ns, cost_nano,
			idle_cost_nano;
	} delta;
	uint64_t present_rest;
	uint32_t allocated; /* millionths that are allocated now */
	bool listed;        /* in the last round */
};

struct accounts {
	struct account_device **devices;
	size_t n_devices, room_devices;
	uint64_t cost_nano, other_cost_nano;
	struct {
		uint64_t cost_nano, other_cost_nano;
	} delta;
	uint64_t *gpu_other; /* of the last round: other cost by GPU */
	size_t n_gpu_other;
	uint64_t price_rest; /* nano-units times nanoseconds, less than an hour's */
	uint32_t next_odd;   /* the GPU that gets the next odd nano-unit */
};

/* Both leave @a empty and usable. accounts_fini() frees the devices with their accounts. */
void accounts_init(struct accounts *a);
void accounts_fini(struct accounts *a);

/* Counts one round. On an error (no memory) nothing was counted, but some accounts may have begun. */
int accounts_round(struct accounts *a, const struct account_round *r,
	struct error *err) MUST_USE;

/* The device with this UUID; NULL: none. Borrowed until the device is gone. */
struct account_device *accounts_find_device(const struct accounts *a, const char *uuid);

/*
 * Restore saved figures, before the first round:
 *
 * 1. accounts_restore_device() finds or adds the device of each UUID, and the caller sets its figures.
 * 2. accounts_restore_account() adds an account with the names and the mode of @use, and the caller sets
 *    its figures.
 * 3. accounts_settle() sets the past of each device to what its parts lack of its whole. Parts that exceed
 *    the whole enlarge it.
 *
 * Results are borrowed. ERR_NOMEM.
 */
int accounts_restore_device(struct accounts *a, const char *uuid, struct account_device **ret,
	struct error *err) MUST_USE;
int accounts_restore_account(struct account_device *device, const struct account_use *use,
	struct account **ret, struct error *err) MUST_USE;
void accounts_settle(struct accounts *a);
