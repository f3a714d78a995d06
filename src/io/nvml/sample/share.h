/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How long each process of a GPU computed, from NVML's samples of process utilization. Pure: no calls.
 *
 * Samples. The driver polls about five times a second. Asked for the samples since a moment, it returns one for
 * each process that has computed since then and still exists: one percentage, of the time from that moment until
 * now, and the time of its last poll in which the process computed (driver 580, measured:
 * docs/results/2026-11-25-h100-metrics). So the sampler asks for the time since its last question, and the
 * percentages are of the interval. Where a driver returns several samples of a process, each is of the time since
 * the one before.
 *
 * Settlement. The GPU's busy time is known better (from GPM). Both are balanced over time, since the driver's polls
 * do not end where intervals do. Without GPM the busy time is a guess, and steps 2 to 4 do not apply.
 *
 *	1. If the samples exceed the GPU's time, the processes are owed the excess for later intervals.
 *	2. If the GPU's time exceeds the samples, processes that ended since the last interval come first. Each gets
 *	   at most twice its time in that interval, and what it is owed.
 *	3. Of the rest up to SHARE_RESERVE_NS is held back, as the end of the interval: its samples may come later.
 *	   That part of the GPU's time is reported later, too.
 *	4. What is left goes to the processes that computed, in proportion to their times, up to SHARE_MORE_NS.
 *	   Percentages are whole numbers, and changes between processes take time. Time beyond that goes to none.
 *	5. Debts above SHARE_OWED_NS are dropped, in proportion. So samples that are too high on the whole are scaled
 *	   to the GPU's time.
 *
 * Precision. While processes are time-sliced on the GPU, the samples are rough: each of the driver's polls
 * attributes the whole GPU to one process.
 *
 * Thread: any.
 */
#include "model/gpu/sample.h"
#include "abi/nvml-api.h"

#define SHARE_PIDS_MAX   1024                /* of one GPU; further ones have no .last */
#define SHARE_RESERVE_NS UINT64_C(500000000) /* limit: about two polls of the driver */
#define SHARE_OWED_NS    SHARE_RESERVE_NS    /* limit for all processes together */
#define SHARE_MORE_NS    UINT64_C(1000000000)

struct share_last {
	uint32_t pid;
	uint64_t rate_ns; /* time by its samples in the last interval */
	uint64_t owed_ns; /* time missing so far */
};

/* Zeroed: nothing is known. */
struct share_state {
	uint64_t reserved_ns; /* GPU time held back for late samples */
	uint32_t n;
	struct share_last last[SHARE_PIDS_MAX];
};

/*
 * Counts the @n samples in @v, which get sorted, for the interval from @from_us to @to_us, in wall-clock time like
 * the samples. @from_us is the moment that the driver was asked with; 0: no time is known. Each process of @list
 * gets .busy_ns, 0 without a sample. A process with samples that is not in @list is added, without memory, as long
 * as there is @room. Samples with times outside the interval, and percentages above 100, are ignored.
 */
void share_count(nvmlProcessUtilizationSample_t *v, uint32_t n, uint64_t from_us,
	uint64_t to_us, struct sample_process *list, uint32_t *n_list, uint32_t room);

/* The time that all known processes ask for: the times by their samples, and what they are owed. */
uint64_t share_wanted(struct share_state *s, const struct sample_process *list, uint32_t n);

struct share_time {
	uint64_t interval_ns, busy_ns; /* of the GPU; busy at most the interval */
	uint64_t reserve_ns;           /* SHARE_RESERVE_NS; 0: .busy_ns is a guess */
};

/*
 * Settles the known times of processes with the GPU's time. Returns how long the GPU was busy, for the report, at
 * most the interval. The times of the processes sum up to at most that. Processes that have ended are added, as by
 * share_count().
 */
uint64_t share_settle(struct share_state *s, struct sample_process *list, uint32_t *n,
	uint32_t room, const struct share_time *t);
