/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One run of a suite and of isolation tests from a command: directory, node, progress on standard error, Ctrl-C. Thread: main; blocks until
 * it is over. */
#include "lib/base/strv.h"
#include "tools/bench/profile/profile.h"
#include "tools/bench/suite/suite.h"
#include "model/gpu/gpu.h"

/* What was seen of pods that were looked at. */
struct bench_windows {
	size_t n;
	struct profile_window window[PROFILE_WINDOWS_MAX];
};

void bench_windows_fini(struct bench_windows *w);

struct bench_session {
	struct suite
		*suite; /* .modes and .mig_pods are changed while it runs, and as before then */
	const char *model;               /* of a simulated node; NULL */
	const char *nvml;                /* NULL */
	const char *procfs;              /* NULL: "/proc"; not for .model */
	const char *gpu;                 /* index or UUID; NULL: the first one */
	const char *mps_control;         /* NULL */
	const char *run_dir;             /* of the node, for .allow_mig */
	const struct bench_result *like; /* whose kernels are taken; NULL */
	struct bench_windows
		*windows;    /* pods are looked at, but in mode exclusive; NULL: they are not */
	unsigned int checks; /* bits: enum isolation_test, after the suite */
	bool allow_mig; /* for BENCH_MIG the GPU is cut as each scenario wants, and given back as it was */
};

/* By index or UUID; NULL: the first one. ERR_NOT_FOUND, ERR_UNAVAILABLE: it is out of order. */
int bench_find_gpu(const struct gpu **ret, const struct inventory *inv, const char *name,
	struct error *err) MUST_USE;

/* What was measured is in *ret also where it ends with an error; .interrupted then. Texts are kept in @texts. */
int bench_session_run(struct bench_result *ret, struct strv *texts,
	const struct bench_session *s, struct error *err) MUST_USE;
