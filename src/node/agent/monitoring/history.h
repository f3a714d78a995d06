/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The last hour of each unit and GPU, a point every VIEW_POINT_S seconds. Kept in memory only.
 * Thread: owner's.
 */
#include "model/gpu/gpu.h"
#include "node/view/view.h"

struct see_track {
	char uuid[GPU_UUID_MAX];
	struct view_point points[VIEW_POINTS_MAX];
	uint32_t first, n; /* a ring */
	/* Of the point that is being made. */
	uint64_t ns;
	uint64_t held_ns,
		held_of_ns; /* millionths times nanoseconds; the time that it is known of */
	uint64_t busy_ns, busy_of_ns;
	uint64_t memory;     /* as last known; UINT64_MAX */
	uint64_t sampled_ns; /* monotonic: of the last figures; 0: there were none */
	bool here;
};

struct see_history {
	struct see_track **v;
	size_t n;
};

struct see_moment {
	uint64_t dt_ns, wall_ns;
	bool held_known;
	uint32_t held; /* millionths */
	bool busy_known;
	uint64_t busy_ns, busy_of_ns;
	uint64_t memory;     /* UINT64_MAX: not known */
	uint64_t sampled_ns; /* when NVML was read; 0: it could not be */
};

void see_history_begin(struct see_history *h);
/* Without memory nothing is noted. */
void see_history_add(struct see_history *h, const char *uuid, const struct see_moment *m);
void see_history_end(struct see_history *h); /* forgets those that had no moment */
void see_history_fini(struct see_history *h);

/* When there were figures of @uuid last, monotonic; 0: never. */
uint64_t see_history_sampled(const struct see_history *h, const char *uuid);

/* Copies the points of @uuid, old to new, into @v. */
void see_history_copy(const struct see_history *h, struct view *v, const char *uuid,
	uint32_t *ret_n, struct view_point **ret);
