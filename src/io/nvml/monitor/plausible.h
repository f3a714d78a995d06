/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a sample may say. Figures come from a process with a foreign library in it, and end in metrics and
 * bills; so what cannot be is made "not known": more than 2^50 bytes, more memory used than there is, an
 * interval of a day, a GPU that was busy for longer than the interval, processes that were so in sum for
 * longer than their GPU, percentages above 100, ratios above 1, temperatures and powers of another world,
 * numbers that are none.
 * Pure. Thread: any.
 */
#include "model/gpu/sample.h"

#define PLAUSIBLE_BYTES_MAX    (UINT64_C(1) << 50)
#define PLAUSIBLE_INTERVAL_MAX (UINT64_C(3600) * 1000000000) /* ns; an hour */

/* Makes @u plausible; @now_ns is the monotonic time at which it came. */
void plausible_check_device(struct sample_device *u, uint64_t now_ns);

/* Whether a value of the field at position @v->field can be. */
bool plausible_value(const struct sample_value *v);
