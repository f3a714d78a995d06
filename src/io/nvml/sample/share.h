/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How long each process of a GPU computed, from NVML's samples of process utilization: pure, no calls.
 *
 * The driver looks some five times a second. Asked for what was since a moment, it says of each process that has computed
 * since then and still is there one percentage, of the time from then until now, and the time of the last look in which it did
 * (driver 580, measured: docs/results/2026-11-25-h100-metrics). So one is asked for what was since the last question, and
 * its percentages are of the interval. Where a driver has several samples of a process, each is of the time since the one
 * before.
 *
 * How long the GPU was busy is known better (GPM), and both are settled over time. Looks do not end where intervals do: what
 * the samples say beyond the GPU's time is owed, and of what it was busy beyond the samples the end of the
 * interval is held back, SHARE_RESERVE_NS at most: the GPU's time is told so much later. Of the rest, those who have
 * ended since the last interval get twice as much as they did in that at most; what then is left, as percentages are whole
 * and changes between processes take time, is of those who computed, by how much they did, a second at most. Beyond that
 * it is nobody's. More than SHARE_OWED_NS is forgiven, in the same ratio: samples that say too much on the whole are
 * scaled to the GPU's time.
 *
 * What the driver says is rough while processes take turns on the GPU: of each look one of them is said to have all of it.
 * Thread: any.
 */
#include "model/gpu/sample.h"
#include "abi/nvml-api.h"

#define SHARE_PIDS_MAX   1024 /* of one GPU; of more, the figures are not settled */
#define SHARE_RESERVE_NS UINT64_C(500000000) /* two of the driver's looks, at most */
#define SHARE_OWED_NS    SHARE_RESERVE_NS    /* to all processes together */
#define SHARE_MORE_NS    UINT64_C(1000000000)

struct share_last {
	uint32_t pid;
	uint64_t rate_ns; /* what its samples said of the last interval */
	uint64_t owed_ns; /* what it has had too little so far */
};

/* Zeroed: nothing is known. */
struct share_state {
	uint64_t reserved_ns; /* of the GPU's time, for samples that may come */
	uint32_t n;
	struct share_last last[SHARE_PIDS_MAX];
};

/*
 * Counts the @n samples in @v (which get sorted) for the interval from @from_us to @to_us, wall clock as the
 * samples have it: @from_us is what the driver was asked with, 0: no time is known. All processes of @list get
 * their .busy_ns, 0 without a sample; one that has samples and is not in @list is added, without memory, as long as there
 * is @room. Times from another year, and percentages above 100, are passed over.
 */
void share_count(nvmlProcessUtilizationSample_t *v, uint32_t n, uint64_t from_us,
	uint64_t to_us, struct sample_process *list, uint32_t *n_list, uint32_t room);

/* What the known processes are to have in all: what their samples say, and what they are owed. */
uint64_t share_wanted(struct share_state *s, const struct sample_process *list, uint32_t n);

struct share_time {
	uint64_t interval_ns, busy_ns; /* of the GPU, at most the interval */
	uint64_t
		reserve_ns; /* SHARE_RESERVE_NS; 0: .busy_ns says no more than the samples do */
};

/*
 * Settles the known times with the GPU's; their sum is at most what is returned: how long the GPU was busy, at most
 * the interval, as it is to be told. Who has ended is added, as by share_count().
 */
uint64_t share_settle(struct share_state *s, struct sample_process *list, uint32_t *n,
	uint32_t room, const struct share_time *t);
