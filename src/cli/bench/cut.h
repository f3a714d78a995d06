/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Cuts one GPU for a benchmark, and gives it back as it was. What it was is also kept in a file, so that a benchmark
 * that is killed is made good by the next one, or by `gpuslice mig restore -f`. No other editor of MIG works on the
 * node in the meantime.
 * Thread: main. Blocks as long as the driver does. SIGINT and SIGTERM end a cut after the step that is being done, and
 * are without effect while the GPU is given back.
 */
#include "base/error.h"
#include "core/mig/profile.h"

struct bench_cut;

struct bench_cut_options {
	const char *nvml;    /* NULL: the driver's */
	const char *run_dir; /* for the lock and the file */
	const char *uuid;    /* of the GPU */
};

/* Nothing is changed yet. ERR_UNSUPPORTED: the GPU has no MIG; ERR_EXISTS: somebody else edits. */
int bench_cut_begin(struct bench_cut **ret, const struct bench_cut_options *o,
	struct error *err) MUST_USE;

/* Switches MIG off, where it is on. */
int bench_cut_off(struct bench_cut *c, struct error *err) MUST_USE;

/*
 * Into @n equal devices, as large as they can be; @profile: what they are. ERR_LIMIT: there is no room for so many;
 * ERR_UNAVAILABLE: the GPU is in use; ERR_CANCELLED. Then it is what it was before this call.
 */
int bench_cut_into(struct bench_cut *c, uint32_t n, char profile[MIG_PROFILE_NAME_MAX],
	struct error *err) MUST_USE;

/* Gives the GPU back, and frees @c, also on an error, which says how to do it by hand. */
int bench_cut_end(struct bench_cut *c, struct error *err) MUST_USE;
