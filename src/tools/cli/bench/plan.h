/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Connects a benchmark with the planner: prices, predictions, calibration. Thread: main. */
#include "lib/base/buf.h"
#include "lib/base/strv.h"
#include "tools/bench/suite/suite.h"

/*
 * Sets the price of the GPU. @price is an amount per hour ("2.15"), or an instance type; the type's
 * price is divided by its number of GPUs. @files and @region: as in gpuslice plan. @region may be
 * NULL. Texts are stored in @texts. ERR_INVALID, ERR_NOT_FOUND.
 */
int bench_price(struct bench_head *h, struct strv *texts, const char *price,
	const struct strv *files, const char *region, struct error *err) MUST_USE;

/* Plan files with profiles of the suite's workloads, found by name. bench_profiles_free() returns
 * NULL. */
struct bench_profiles;
int bench_profiles_read(struct bench_profiles **ret, const struct strv *files,
	struct error *err) MUST_USE;
struct bench_profiles *bench_profiles_free(struct bench_profiles *p);
DEFINE_CLEANUP(struct bench_profiles *, bench_profiles_free)

/*
 * Writes the planner's prediction into .planned_s and .planned_rate of each row whose pods all have a
 * profile. With --command, a single profile is that of the command, whatever its name. For other rows
 * a note on standard error gives the reason, except where a profile is missing or the planner has no
 * model of the mode. ERR_NOT_FOUND: the planner does not know the GPU.
 */
int bench_predict(struct bench_result *r, const struct suite *s, const struct bench_profiles *p,
	struct error *err) MUST_USE;

/* A table of prediction errors by mode; nothing if there are no predictions. ERR_NOMEM. */
int bench_print_errors(struct buf *b, const struct bench_result *r, struct error *err) MUST_USE;

/* A plan file with the measured calibration. ERR_UNAVAILABLE: the planner does not know the GPU, or
 * no conclusive row measures the cost of sharing. */
int bench_write_calibration(struct buf *b, const struct bench_result *r,
	struct error *err) MUST_USE;
