/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One run of a suite from a command: directory, node, progress on standard error, Ctrl-C. Thread: main; blocks until
 * it is over. */
#include "base/strv.h"
#include "bench/suite/suite.h"

struct bench_session {
	const struct suite *suite;
	const char *model;               /* of a simulated node; NULL */
	const char *nvml;                /* NULL */
	const char *gpu;                 /* index or UUID; NULL: the first one */
	const char *mps_control;         /* NULL */
	const struct bench_result *like; /* whose kernels are taken; NULL */
};

/* What was measured is in *ret also where it ends with an error; .interrupted then. Texts are kept in @texts. */
int bench_session_run(struct bench_result *ret, struct strv *texts,
	const struct bench_session *s, struct error *err) MUST_USE;
