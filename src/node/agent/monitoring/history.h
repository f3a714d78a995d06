/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last hour of each unit and GPU, a point every VIEW_POINT_S seconds. Kept in memory only.
 * Thread: owner's.
 */
#include "model/gpu/gpu.h"
#include "node/view/view.h"

struct monitoring_history_track {
	char uuid[GPU_UUID_MAX];
	struct view_point points[VIEW_POINTS_MAX];
	uint32_t first, n; /* a ring */
	/* Of the point that is being made. */
	uint64_t ns;
	uint64_t allocated_ns,
		allocated_of_ns; /* millionths times nanoseconds; the time that it is known of */
	uint64_t busy_ns, busy_of_ns;
	uint64_t memory;     /* as last known; UINT64_MAX */
	uint64_t sampled_ns; /* monotonic: of the last figures; 0: there were none */
	bool present;
};

struct monitoring_history {
	struct monitoring_history_track **v;
	size_t n;
};

struct monitoring_history_sample {
	uint64_t dt_ns, wall_ns;
	bool allocated_known;
	uint32_t allocated; /* millionths */
	bool busy_known;
	uint64_t busy_ns, busy_of_ns;
	uint64_t memory;     /* UINT64_MAX: not known */
	uint64_t sampled_ns; /* when NVML was read; 0: it could not be */
};

void monitoring_history_begin(struct monitoring_history *h);
/* Without memory nothing is noted. */
void monitoring_history_add(struct monitoring_history *h, const char *uuid,
	const struct monitoring_history_sample *m);
void monitoring_history_end(
	struct monitoring_history *h); /* forgets those that had no moment */
void monitoring_history_fini(struct monitoring_history *h);

/* When there were figures of @uuid last, monotonic; 0: never. */
uint64_t monitoring_history_sampled(const struct monitoring_history *h, const char *uuid);

/* Copies the points of @uuid, old to new, into @v. */
void monitoring_history_copy(const struct monitoring_history *h, struct view *v,
	const char *uuid, uint32_t *ret_n, struct view_point **ret);
