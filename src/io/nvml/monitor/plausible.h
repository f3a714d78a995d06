/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bounds of a sample. Its figures come from a process with a foreign library in it, and end in metrics and bills.
 * So a figure that cannot be true becomes "not known":
 *
 *	- more than 2^50 bytes, or more memory used than there is;
 *	- an interval longer than PLAUSIBLE_INTERVAL_MAX, or a GPU that was busy for longer than the interval;
 *	- processes whose busy times sum up to more than that of their GPU;
 *	- percentages above 100 and ratios above 1 (a fan's speed: above 200 and 2);
 *	- temperatures and powers far out of range, and numbers that are NaN or infinite.
 *
 * Pure. Thread: any.
 */
#include "model/gpu/sample.h"

#define PLAUSIBLE_BYTES_MAX    (UINT64_C(1) << 50)
#define PLAUSIBLE_INTERVAL_MAX (UINT64_C(3600) * 1000000000) /* ns; an hour */

/* Makes @device plausible; @now_ns is the monotonic time of its arrival. */
void plausible_check_device(struct sample_device *device, uint64_t now_ns);

/* Whether the value is possible for the field at position @v->field. */
bool plausible_value(const struct sample_value *v);
