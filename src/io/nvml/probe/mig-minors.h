/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kernel driver's list of capability nodes, /proc/driver/nvidia-caps/mig-minors. The list has a line for the
 * access to each possible GPU instance (GI) and compute instance (CI),
 *
 *	config 1
 *	monitor 2
 *	gpu0/gi7/access 66
 *	gpu0/gi7/ci0/access 67
 *
 * where gpu0 is /dev/nvidia0 and 66 is /dev/nvidia-caps/nvidia-cap66. A driver lists all possible instances of
 * 32 GPUs: some 4,000 lines.
 *
 * Thread: any (pure).
 */
#include "model/gpu/gpu.h"

#include <stddef.h>

#define MIG_MINORS_PATH      "driver/nvidia-caps/mig-minors" /* below /proc */
#define MIG_MINORS_MAX_BYTES (1U << 20)
#define MIG_MINOR_MAX        ((1U << 20) - 1) /* of a device number */

/*
 * Sets the minors of the @n devices in @mig, which belong to the GPU /dev/nvidia@gpu. A device needs both lines,
 * of its GI and of its CI. Keys of other things than instances are ignored. ERR_INVALID, with the number of the
 * first line that is not a key and a number: no device has minors then.
 */
int mig_minors_fill(const char *text, size_t len, uint32_t gpu, struct gpu_mig *mig, uint32_t n,
	struct error *err) MUST_USE;
