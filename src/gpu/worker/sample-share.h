/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How long each process of a GPU computed, from NVML's samples of process utilization: pure, no calls.
 *
 * A sample says what percentage a process had of the time since the sample before, in whole percents, and NVML
 * takes one about every second, at moments of its own. So a sample counts for the time since the process's
 * previous one. A first one counts since the interval or the process began, whichever is later; where the
 * next one is known, for no longer than there is between the two; and for a second at most of a
 * process that has ended, of which nobody knows any more when it began. (Driver 580 tells but the
 * newest sample of each process, so a call every second would see more of them than one every 30 s.)
 *
 * The samples do not end where the interval does. How long the GPU was busy is known better (GPM); so the
 * times are made to fit that: smaller as far as needed, longer by a second at most. What the GPU was busy beyond
 * that is nobody's. In an interval without any sample, those who computed in the last one do so still.
 * The error of a process's part is then half a percent, and once the time between two samples where others
 * begin or end.
 * Thread: any.
 */
#include "core/sample.h"
#include "gpu/nvml-api.h"

#define SHARE_PIDS_MAX 1024 /* of one GPU; of more, the figures are not known */

struct share_last {
	uint32_t pid;
	uint64_t at_us;
	uint64_t busy_ns; /* in the last interval that had samples */
};

/* Zeroed: nothing is known. */
struct share_state {
	uint64_t last_seen_us; /* newest sample, as NVML wants to hear it */
	uint32_t n;
	struct share_last last[SHARE_PIDS_MAX];
};

/* When a process began, in us of the wall clock; 0: not known. */
typedef uint64_t share_began(void *arg, uint32_t pid);

/*
 * Counts the @n samples in @v (which get sorted) for the interval from @from_us to @to_us, wall clock as the
 * samples have it; @from_us 0: only notes where they end, and no time is known. All processes of @list get
 * their .busy_ns, 0 without a sample; one that has samples and is not in @list any more is added,
 * without memory, as long as there is @room. Times from another year, and percentages above 100, are
 * passed over.
 */
void share_count(struct share_state *s, nvmlProcessUtilizationSample_t *v, uint32_t n,
	uint64_t from_us, uint64_t to_us, struct sample_process *list, uint32_t *n_list,
	uint32_t room, share_began *began, void *arg);

#define SHARE_RAISE_NS UINT64_C(1000000000) /* NVML's period between two samples, at most */

/*
 * Makes the known times fit: all in the same ratio, so that their sum is at most @most_ns; if it is less, it
 * is raised to that, but by @raise_ns at most.
 */
void share_fit(struct sample_process *list, uint32_t n, uint64_t most_ns, uint64_t raise_ns);

/* The sum of the known times. */
uint64_t share_sum(const struct sample_process *list, uint32_t n);
