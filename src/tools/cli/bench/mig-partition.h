/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Cuts one GPU for a benchmark, and gives it back as it was: the same instances at the same places, with new ids. What it
 * was is in a file meanwhile, from which `gpuslice mig restore -f` gives it back after a benchmark that was killed. No other
 * editor of MIG works on the node.
 * Thread: main. Blocks as long as the driver does, and up to half a minute while somebody uses the GPU.
 */
#include "lib/base/error.h"
#include "model/mig/profile.h"

#include <stdbool.h>

struct bench_mig_partition;

struct bench_mig_partition_options {
	const char *nvml;    /* NULL: the driver's */
	const char *run_dir; /* for the lock and the file */
	const char *uuid;    /* of the GPU */
	/* Whether it is to end early; asked between steps, but not while the GPU is given back. */
	bool (*stopped)(void *arg);
	void *arg;
};

/*
 * Nothing is changed yet. ERR_UNSUPPORTED: the GPU has no MIG; ERR_PERMISSION: we are not root; ERR_EXISTS: somebody else
 * edits, or a benchmark that was killed has left its file, and the text says what to do.
 */
int bench_mig_partition_begin(struct bench_mig_partition **ret,
	const struct bench_mig_partition_options *o, struct error *err) MUST_USE;

/* Switches MIG off, where it is on. Errors as of bench_mig_partition_create(). */
int bench_mig_partition_disable(struct bench_mig_partition *c, struct error *err) MUST_USE;

/*
 * Into @n equal devices, as large as they can be; @profile: what they are. ERR_LIMIT: there is no room for so many;
 * ERR_UNAVAILABLE: the GPU is in use; ERR_CANCELLED. What the GPU is then only bench_mig_partition_restore() makes good.
 */
int bench_mig_partition_create(struct bench_mig_partition *c, uint32_t n,
	char profile[MIG_PROFILE_NAME_MAX], struct error *err) MUST_USE;

/* Gives the GPU back, and frees @c, also on an error, which says how to do it by hand. */
int bench_mig_partition_restore(struct bench_mig_partition *c, struct error *err) MUST_USE;
