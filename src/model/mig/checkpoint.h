/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The MIG state of a node as mig-parted's checkpoint keeps it: by UUID, with NVML's enumerators of
 * profiles, which mean the same on every product, and with places. io/config/mig/mig.h reads and writes
 * its JSON.
 * Thread: any (pure).
 */
#include "model/mig/config/config.h"

#define MIG_CHECKPOINT_GPUS_MAX 1024

struct mig_saved_ci {
	uint32_t profile, engine; /* enumerators */
};

struct mig_saved_gi {
	uint32_t profile; /* enumerator */
	uint32_t start, size;
	uint32_t n_ci;
	struct mig_saved_ci ci[MIG_CIS_MAX];
};

struct mig_saved_gpu {
	char uuid[96];
	bool enabled;
	uint32_t n;
	struct mig_saved_gi gi[MIG_GIS_MAX];
};

struct mig_checkpoint {
	size_t n;
	struct mig_saved_gpu *gpus;
};

struct mig_checkpoint *mig_checkpoint_free(struct mig_checkpoint *c); /* returns NULL */
DEFINE_CLEANUP(struct mig_checkpoint *, mig_checkpoint_free)

/* What @node is. GPUs without MIG are left out, and those that could not be read. */
int mig_checkpoint_make(struct mig_checkpoint **ret, const struct mig_node *node,
	struct error *err) MUST_USE;

/* The GPU @uuid; NULL: the checkpoint does not know it. Borrowed. */
const struct mig_saved_gpu *mig_checkpoint_find(const struct mig_checkpoint *c,
	const char *uuid);

/* What @s wants of @g. ERR_INVALID: a profile, a place or a CI that this GPU has not. */
int mig_checkpoint_want(const struct mig_saved_gpu *s, const struct mig_node_gpu *g,
	struct mig_desired *ret, struct error *err) MUST_USE;
