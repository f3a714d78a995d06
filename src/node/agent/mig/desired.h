/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When the MIG manager has something to do: pure decisions.
 *
 * A wish is the name of a layout and the text that says what the name means. It is followed once;
 * what failed is tried again ever more slowly; and what was reached is held only where the driver
 * itself lost it: a person who changes instances by hand is told, not corrected.
 * Thread: any.
 */
#include "model/gpu/gpu.h"

#include <stddef.h>

#define MIG_DESIRED_NAME_MAX 128

enum mig_desired_source {
	MIG_DESIRED_NONE,    /* leave MIG alone */
	MIG_DESIRED_UNKNOWN, /* the Node has not said its label yet */
	MIG_DESIRED_LABEL,
	MIG_DESIRED_DEFAULT,
};

struct mig_desired_input {
	bool label_needed; /* there is an API server, so that the label counts */
	bool label_known;
	const char *label;        /* NULL: none */
	const char *default_name; /* "": none */
	const struct inventory *inv;
};

/* *ret_name: borrowed from @in; "" for the first two. The default is for GPUs that have MIG. */
enum mig_desired_source mig_find_desired(const struct mig_desired_input *in,
	const char **ret_name);

/* "<name>-<16 hex digits>" of a wish, to compare and to stand in an annotation. @text may be NULL. */
#define MIG_DESIRED_KEY_MAX (MIG_DESIRED_NAME_MAX + 20)
void mig_desired_key(const char *name, const char *text, size_t len,
	char ret[MIG_DESIRED_KEY_MAX]);

/* --- trying again --- */

#define MIG_RETRY_MIN_NS (UINT64_C(10) * 1000000000)
#define MIG_RETRY_MAX_NS (UINT64_C(300) * 1000000000)

/* How long to wait after the @failures-th failure in a row, from 1. What is in use is asked again at
 * the same pace, for it only takes a look. */
uint64_t mig_retry_ns(uint32_t failures, bool in_use);

/* --- what became of it --- */

/* What can be seen of the layout, one line for each GPU that the wish is about. */
struct mig_basis_gpu {
	char uuid[GPU_UUID_MAX];
	bool enabled;
	uint32_t n;          /* MIG devices */
	uint64_t hash;       /* of their UUIDs */
	bool drift_reported; /* that it is another by now */
	uint64_t reported_hash;
};

struct mig_basis {
	uint32_t n;
	struct mig_basis_gpu *gpus;
	uint32_t n_known; /* GPUs that there were, also those that are left alone */
	char (*known)[GPU_UUID_MAX];
};

/* @uuids: of the GPUs in question. Fills a *ret that is empty or old. */
int mig_basis_record(struct mig_basis *ret, const struct inventory *inv,
	const char *const *uuids, size_t n, struct error *err) MUST_USE;
void mig_basis_fini(struct mig_basis *b);

/* Hash of what may decide whether a wish can be met: GPUs, modes, MIG devices. */
uint64_t mig_basis_hash(const struct inventory *inv);

enum mig_drift {
	MIG_DRIFT_NONE,
	MIG_DRIFT_MISSING, /* a GPU has lost its mode or all its instances, or there is a new one */
	MIG_DRIFT_OTHER, /* changed by hand; told once */
};

/* What has become of what was reached. *ret_gpu: which GPU, borrowed from @inv. */
enum mig_drift mig_basis_drift(struct mig_basis *b, const struct inventory *inv,
	const struct gpu **ret_gpu);
