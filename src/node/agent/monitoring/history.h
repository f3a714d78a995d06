/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last hour of each device and GPU, one point every VIEW_POINT_S seconds. In memory only.
 * Thread: owner's.
 */
#include "model/gpu/gpu.h"
#include "node/view/view.h"

struct monitoring_history_track {
	char uuid[GPU_UUID_MAX];
	struct view_point points[VIEW_POINTS_MAX];
	uint32_t first, n; /* a ring */
	/* Of the unfinished point. */
	uint64_t ns;
	uint64_t allocated_ns;    /* in millionths of the device, times nanoseconds */
	uint64_t allocated_of_ns; /* the time for which the allocations are known */
	uint64_t busy_ns, busy_of_ns;
	uint64_t memory;     /* last known value; UINT64_MAX: none */
	uint64_t sampled_ns; /* of the last sample, monotonic; 0: none */
	bool present;
};

struct monitoring_history {
	struct monitoring_history_track **v;
	size_t n, room;
};

struct monitoring_history_sample {
	uint64_t dt_ns, wall_ns;
	bool allocated_known;
	uint32_t allocated; /* millionths */
	bool busy_known;
	uint64_t busy_ns, busy_of_ns;
	uint64_t memory;     /* UINT64_MAX: not known */
	uint64_t sampled_ns; /* when NVML was read; 0: not read */
};

/* Begins a round. */
void monitoring_history_begin(struct monitoring_history *h);
/* Adds what the device or GPU @uuid did in the round. Does nothing if out of memory. */
void monitoring_history_add(struct monitoring_history *h, const char *uuid,
	const struct monitoring_history_sample *m);
/* Ends the round: drops tracks that monitoring_history_add() did not name. */
void monitoring_history_end(struct monitoring_history *h);
void monitoring_history_fini(struct monitoring_history *h);

/* The time of the last sample of @uuid, monotonic; 0: never. */
uint64_t monitoring_history_sampled(const struct monitoring_history *h, const char *uuid);

/* Copies the points of @uuid, old to new, into @v. */
void monitoring_history_copy(const struct monitoring_history *h, struct view *v,
	const char *uuid, uint32_t *ret_n, struct view_point **ret);
