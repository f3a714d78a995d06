/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The settings of one MPS control daemon: its devices, their memory limits, the share of threads and the compute mode.
 * A supervisor has two of them, the desired settings and the applied ones, and acts on the difference. For the files
 * of this folder only.
 *
 * Thread: any (pure).
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "model/gpu/gpu.h"
#include "model/mps/mps.h"

#include <stdbool.h>
#include <stdint.h>

struct mps_spec {
	struct strv uuids;             /* lost devices included */
	uint64_t limits[GPU_NODE_MAX]; /* MiB, by position in .uuids; 0: no limit */
	bool lost[GPU_NODE_MAX];       /* by position in .uuids */
	uint32_t percent;              /* 0: nothing applied yet */
	bool exclusive;
};

/* Takes devices and settings of @d of the plan. Returns < 0 with @err set if memory is short; then the settings are
 * incomplete. */
int mps_spec_set(struct mps_spec *s, const struct mps_daemon *d, struct error *err) MUST_USE;
void mps_spec_fini(struct mps_spec *s);

/* Whether the limits and the share of threads are the same. Which device is lost, and the compute mode, do not
 * count. */
bool mps_spec_same(const struct mps_spec *a, const struct mps_spec *b);

/* The limits and the share of @desired are applied now. If memory is short, they count as not applied. */
void mps_spec_set_applied(struct mps_spec *applied, const struct mps_spec *desired);

/*
 * Sets *@ret to the devices with which a daemon starts. CUDA ends its list of devices at the first unknown one. So
 * the list leaves lost devices out, unless all are lost.
 */
int mps_spec_list_devices(const struct mps_spec *s, struct strv *ret,
	struct error *err) MUST_USE;

/* Whether a device that is present now is not among @started, the devices with which the daemon started. */
bool mps_spec_lacks_device(const struct mps_spec *s, const struct strv *started);
