/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The MIG state of a node in the form of mig-parted's checkpoint. GPUs have their UUID, instances their
 * place and NVML's enumerator of the profile, which means the same on every product. io/config/mig/mig.h
 * reads and writes the JSON form.
 * Thread: any (pure).
 */
#include "model/mig/config/config.h"

#define MIG_CHECKPOINT_GPUS_MAX 1024

struct mig_saved_ci {
	uint32_t profile, engine; /* NVML's enumerators */
};

struct mig_saved_gi {
	uint32_t profile; /* NVML's enumerator */
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

/* The checkpoint of @node. Leaves out GPUs without MIG and unreadable GPUs. */
int mig_checkpoint_make(struct mig_checkpoint **ret, const struct mig_node *node,
	struct error *err) MUST_USE;

/* The GPU @uuid; NULL: not in the checkpoint. Borrowed. */
const struct mig_saved_gpu *mig_checkpoint_find(const struct mig_checkpoint *c,
	const char *uuid);

/* The layout that @s requires of @g. ERR_INVALID: @g does not have such a profile, place or CI.
 * ERR_UNSUPPORTED: @g has no MIG. */
int mig_checkpoint_want(const struct mig_saved_gpu *s, const struct mig_node_gpu *g,
	struct mig_desired *ret, struct error *err) MUST_USE;
