/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When the MIG manager has something to do: pure decisions.
 *
 * The desired layout is a name and the text that defines the name. The manager applies it once. After a failure,
 * it retries after ever longer waits. After a success, it restores the layout only if the driver itself lost it.
 * If a person changes instances by hand, the manager reports this and leaves the layout.
 * Thread: any.
 */
#include "model/gpu/gpu.h"

#include <stddef.h>

#define MIG_DESIRED_NAME_MAX 128

enum mig_desired_source {
	MIG_DESIRED_NONE,    /* leave MIG alone */
	MIG_DESIRED_UNKNOWN, /* the Node's label is not known yet */
	MIG_DESIRED_LABEL,
	MIG_DESIRED_DEFAULT,
};

struct mig_desired_input {
	bool label_needed; /* there is an API server, so the label counts */
	bool label_known;
	const char *label;        /* NULL: none */
	const char *default_name; /* "": none */
	const struct inventory *inv;
};

/* *ret_name: borrowed from @in; "" for the first two. The default needs a GPU that supports MIG. */
enum mig_desired_source mig_find_desired(const struct mig_desired_input *in,
	const char **ret_name);

/* "<name>-<16 hex digits>" of a desired layout, to compare and to store in an annotation. @text may be NULL. */
#define MIG_DESIRED_KEY_MAX (MIG_DESIRED_NAME_MAX + 20)
void mig_desired_key(const char *name, const char *text, size_t len,
	char ret[MIG_DESIRED_KEY_MAX]);

/* --- retries --- */

#define MIG_RETRY_MIN_NS (UINT64_C(10) * 1000000000)
#define MIG_RETRY_MAX_NS (UINT64_C(300) * 1000000000)

/*
 * How long to wait after the @failures-th failure in a row, counted from 1; ns. If GPUs are in use, the wait does
 * not grow, because a retry only asks.
 */
uint64_t mig_retry_ns(uint32_t failures, bool in_use);

/* --- the outcome --- */

/* The visible part of the layout: one entry for each GPU that the desired layout is about. */
struct mig_basis_gpu {
	char uuid[GPU_UUID_MAX];
	bool enabled;
	uint32_t n;    /* MIG devices */
	uint64_t hash; /* of their UUIDs and profiles */
	bool drift_reported;
	uint64_t reported_hash; /* .hash of the drift that was reported, if .drift_reported */
};

struct mig_basis {
	uint32_t n;
	struct mig_basis_gpu *gpus;
	uint32_t n_known; /* all GPUs then, including those that are left alone */
	char (*known)[GPU_UUID_MAX];
};

/* @uuids: the GPUs that the layout is about. Fills a *ret that is empty or old. */
int mig_basis_record(struct mig_basis *ret, const struct inventory *inv,
	const char *const *uuids, size_t n, struct error *err) MUST_USE;
void mig_basis_fini(struct mig_basis *b);

/* Hash of what may decide whether a layout can be applied: GPUs, modes, faults, MIG devices. */
uint64_t mig_basis_hash(const struct inventory *inv);

enum mig_drift {
	MIG_DRIFT_NONE,
	MIG_DRIFT_MISSING, /* a GPU lost its mode or all instances, or is new */
	MIG_DRIFT_OTHER,   /* changed by hand; reported once */
};

/* What has become of the applied layout. *ret_gpu: the GPU, borrowed from @inv. */
enum mig_drift mig_basis_drift(struct mig_basis *b, const struct inventory *inv,
	const struct gpu **ret_gpu);
