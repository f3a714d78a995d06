/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What ties a benchmark to the planner: prices, predictions, and what was measured as calibration. Thread: main. */
#include "lib/base/buf.h"
#include "lib/base/strv.h"
#include "tools/bench/suite/suite.h"

/*
 * What the GPU costs: @price is an amount an hour ("2.15"), or an instance type, whose price is parted among its GPUs.
 * @files and @region as of gpuslice plan; @region may be NULL. Texts are kept in @texts. ERR_INVALID, ERR_NOT_FOUND.
 */
int bench_price(struct bench_head *h, struct strv *texts, const char *price,
	const struct strv *files, const char *region, struct error *err) MUST_USE;

/* Plan files with profiles of workloads of the suite, by their names. Returns NULL when freed. */
struct bench_profiles;
int bench_profiles_read(struct bench_profiles **ret, const struct strv *files,
	struct error *err) MUST_USE;
struct bench_profiles *bench_profiles_free(struct bench_profiles *p);
DEFINE_CLEANUP(struct bench_profiles *, bench_profiles_free)

/*
 * What the planner would have said of each row whose pods all have a profile, into .planned_s and .planned_rate. A single
 * profile is that of --command, whatever its name. Why nothing is said of a row comes as a note on standard error.
 */
int bench_predict(struct bench_result *r, const struct suite *s, const struct bench_profiles *p,
	struct error *err) MUST_USE;

/* How far off the predictions are, by mode; nothing if there are none. ERR_NOMEM. */
int bench_print_errors(struct buf *b, const struct bench_result *r, struct error *err) MUST_USE;

/* A plan file with what was measured; ERR_UNAVAILABLE: nothing that would tell was measured. */
int bench_write_calibration(struct buf *b, const struct bench_result *r,
	struct error *err) MUST_USE;
