/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Partitions one GPU by MIG for a benchmark, and restores the GPU afterwards: the same instances at
 * the same places, with new IDs.
 *
 * Crash safety. While the benchmark runs, a checkpoint file has the earlier state. `gpuslice mig
 * restore -f` restores the GPU from that file after a benchmark that was killed. The benchmark holds
 * the lock of the MIG editor, so no other editor changes the node.
 *
 * Thread: main. Blocks as long as the driver does, and up to 30 s more while a process uses the GPU.
 */
#include "lib/base/error.h"
#include "model/mig/profile.h"

#include <stdbool.h>

struct bench_mig_partition;

struct bench_mig_partition_options {
	const char *nvml;    /* NULL: the driver's library */
	const char *run_dir; /* directory of the lock and the checkpoint file */
	const char *uuid;    /* of the GPU */
	/* Whether to end early. Called between steps, but not while the GPU is restored. */
	bool (*stopped)(void *arg);
	void *arg;
};

/*
 * Takes the lock, waiting up to 10 s, and writes the checkpoint file. Changes nothing on the GPU.
 * ERR_UNSUPPORTED: the GPU has no MIG. ERR_PERMISSION: the process is not root. ERR_EXISTS: another
 * editor runs, or a benchmark that was killed has left its file; the text says what to do.
 */
int bench_mig_partition_begin(struct bench_mig_partition **ret,
	const struct bench_mig_partition_options *o, struct error *err) MUST_USE;

/* Switches MIG off if it is on. Errors as in bench_mig_partition_create(). */
int bench_mig_partition_disable(struct bench_mig_partition *partition,
	struct error *err) MUST_USE;

/*
 * Makes @n equal MIG devices, as large as possible. @profile: the name of their profile. ERR_LIMIT:
 * the GPU has no room for @n. ERR_UNAVAILABLE: the GPU is in use. ERR_CANCELLED: .stopped() returned
 * true. After an error only bench_mig_partition_restore() brings the GPU to a known state.
 */
int bench_mig_partition_create(struct bench_mig_partition *partition, uint32_t n,
	char profile[MIG_PROFILE_NAME_MAX], struct error *err) MUST_USE;

/* Restores the GPU and frees @partition, also on an error. The error says how to restore by hand. */
int bench_mig_partition_restore(struct bench_mig_partition *partition,
	struct error *err) MUST_USE;
