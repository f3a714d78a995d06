/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which devices leave the offer while the MIG manager changes the layout of their GPUs: all MIG devices of these
 * GPUs except those that stay, and a whole GPU that will be partitioned. UUIDs identify the devices, because a
 * new instance may get the numbers of an old one.
 * Thread: any (pure).
 */
#include "node/agent/mig/report.h"
#include "model/pods/pods.h"

struct mig_mask_gpu {
	char uuid[GPU_UUID_MAX];
	enum mig_mode_change mode;
	uint32_t n_remaining;
	char remaining[MIG_REMAINING_MAX][GPU_UUID_MAX]; /* UUIDs of MIG devices */
};

struct mig_mask {
	uint32_t n;
	struct mig_mask_gpu *gpus;
};

/* Makes the mask from the plan and the present inventory. Fills an empty *ret; mig_mask_fini(). */
int mig_mask_make(struct mig_mask *ret, const struct mig_report *plan,
	const struct inventory *inv, struct error *err) MUST_USE;
void mig_mask_fini(struct mig_mask *m); /* @m is empty again */

/*
 * The tool makes and deletes instances one by one. In between, the layout is neither the old nor the new one,
 * and the agent must not offer it. So the GPUs that change get in @seen what they had in @before: their MIG mode
 * and their MIG devices.
 */
int mig_mask_restore_masked(const struct mig_mask *m, const struct inventory *before,
	struct inventory *seen, struct error *err) MUST_USE;

/* Takes the devices from @inv and marks the GPUs as changing. Positions of GPUs stay. */
void mig_mask_apply(const struct mig_mask *m, struct inventory *inv);

/* Whether any device of @inv goes, or a GPU changes its mode. Then processes may have to stop. */
bool mig_mask_removes_any(const struct mig_mask *m, const struct inventory *inv);

/* Whether the device @id, or the device of the replica @id, goes. A GPU that changes goes as a whole. */
bool mig_mask_removes(const struct mig_mask *m, const struct inventory *inv, const char *id);

/* The first entry of @list whose pod has a device that goes; NULL: none. Borrowed. */
const struct pod_device *mig_mask_find_holder(const struct mig_mask *m,
	const struct inventory *inv, const struct pod_devices *list);
