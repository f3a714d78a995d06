/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One run of a suite and of isolation tests by a command: the directory, the node, progress on
 * standard error, Ctrl-C. Thread: main; blocks until the run ends.
 */
#include "lib/base/strv.h"
#include "tools/bench/profile/profile.h"
#include "tools/bench/suite/suite.h"
#include "model/gpu/gpu.h"

/* What was observed of the pods. */
struct bench_windows {
	size_t n;
	struct profile_window window[PROFILE_WINDOWS_MAX];
};

void bench_windows_fini(struct bench_windows *w);

struct bench_session {
	struct suite
		*suite; /* the run changes .modes and .mig_pods, and restores them at the end */
	const char *model;               /* model of the simulated node; NULL: a real node */
	const char *nvml;                /* NULL: the driver's */
	const char *procfs;              /* NULL: "/proc"; not for .model */
	const char *gpu;                 /* index or UUID; NULL: the first one */
	const char *mps_control;         /* NULL: the default */
	const char *run_dir;             /* run directory of the node, for .allow_mig */
	const struct bench_result *like; /* result that gives the kernel sizes; NULL: none */
	struct bench_windows
		*windows;    /* observations of pods, except in mode exclusive; NULL: none */
	unsigned int checks; /* bits of enum isolation_test; the tests follow the suite */
	bool allow_mig; /* for BENCH_MIG: partition the GPU for each scenario, then restore it */
};

/* Finds a GPU by index or UUID; NULL: index 0. ERR_NOT_FOUND; ERR_UNAVAILABLE: the GPU is faulty. */
int bench_find_gpu(const struct gpu **ret, const struct inventory *inv, const char *name,
	struct error *err) MUST_USE;

/* *ret has what was measured, also after an error; .interrupted is then true. Texts are stored in
 * @texts. */
int bench_session_run(struct bench_result *ret, struct strv *texts,
	const struct bench_session *s, struct error *err) MUST_USE;
