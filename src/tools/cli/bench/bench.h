/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of `gpuslice bench`; `gpuslice profile` uses some of them. Thread: main. */
#include "lib/base/buf.h"
#include "lib/base/option.h"
#include "lib/base/strv.h"
#include "model/gpu/gpu.h"
#include "tools/bench/profile/profile.h"
#include "tools/bench/report/figures.h"
#include "tools/bench/suite/suite.h"
#include "tools/cli/cmd.h"

/* --- subcommands --- */

/* The commands "bench compare" and "bench report". */
extern const struct cmd cmd_bench_compare;
extern const struct cmd cmd_bench_report;

/* --- options that `bench` and `profile` share --- */

/* Rows of both option tables. */
#define BENCH_OPTION_MPS_CONTROL                                                              \
	{                                                                                     \
		.name = "mps-control", .type = OPTION_STR, .env = { "GPUSLICE_MPS_CONTROL" }, \
		.arg = "PATH", .help = "the MPS control program"                              \
	}
#define BENCH_OPTION_NODE                                                       \
	{                                                                       \
		.name = "node", .type = OPTION_STR, .arg = "MODEL",             \
		.help = "run on a simulated node of this model, such as h100-1" \
	}
#define BENCH_OPTION_NVML                                                                      \
	{                                                                                      \
		.name = "nvml", .type = OPTION_STR, .env = { "GPUSLICE_NVML" }, .arg = "PATH", \
		.help = "the NVML library to ask, instead of the driver's"                     \
	}

/* The seconds of option @name, from @min to 3600. If the option is not given, *ret stays.
 * ERR_INVALID. */
int bench_read_seconds(double *ret, const struct options *o, const char *name, double min,
	struct error *err) MUST_USE;

/* Checks, before any measurement, that the directory of @path can be written. @option: the option
 * that names @path, for the error. NULL @path is valid. */
int bench_check_save(const char *option, const char *path, struct error *err) MUST_USE;

/* --- the session --- */

/*
 * One run of a suite and of isolation tests by a command: the directory, the node, progress on
 * standard error, Ctrl-C. Blocks until the run ends.
 */

/* What was observed of the pods. */
struct bench_windows {
	size_t n;
	struct profile_window window[PROFILE_WINDOWS_MAX];
};

/* Frees the facts of all windows; @w itself stays, empty. */
void bench_windows_fini(struct bench_windows *w);

struct bench_session {
	/* The run changes .modes and .mig_pods, and restores them at the end. */
	struct suite *suite;
	const char *model;               /* model of the simulated node; NULL: a real node */
	const char *nvml;                /* NULL: the driver's */
	const char *procfs;              /* NULL: "/proc"; not for .model */
	const char *gpu;                 /* index or UUID; NULL: the first one */
	const char *mps_control;         /* NULL: the default */
	const char *run_dir;             /* run directory of the node, for .allow_mig */
	const struct bench_result *like; /* result that gives the kernel sizes; NULL: none */
	/* Receives the observations of pods, except in mode exclusive. NULL: no observation. */
	struct bench_windows *windows;
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

/* --- results --- */

/* A result as text and as CSV. */
int bench_print_text(struct buf *b, const struct bench_result *r, struct error *err) MUST_USE;
int bench_print_csv(struct buf *b, const struct bench_result *r, struct error *err) MUST_USE;

/* Reads @path. ERR_NOT_FOUND, ERR_IO, and as bench_result_read(). */
int bench_file_read(struct bench_result *ret, const char *path, struct error *err) MUST_USE;

/* Writes the report of @r to @path; NULL: standard output. @before: an earlier result to compare
 * with; NULL: none. Errors as in bench_report(), and ERR_IO. */
int bench_report_write(const char *path, const struct bench_result *r,
	const struct bench_result *before, struct error *err) MUST_USE;

/* --- what connects a benchmark with the planner: prices, predictions, calibration --- */

/*
 * Sets the price of the GPU. @price is an amount per hour ("2.15"), or an instance type; the type's
 * price is divided by its number of GPUs. @files and @region: as in gpuslice plan. @region may be
 * NULL. Texts are stored in @texts. ERR_INVALID, ERR_NOT_FOUND.
 */
int bench_price(struct bench_head *h, struct strv *texts, const char *price,
	const struct strv *files, const char *region, struct error *err) MUST_USE;

/* Plan files with profiles of the suite's workloads, found by name. */
struct bench_profiles;
/* Reads all @files. Errors as in plan_input_read() and plan_input_end(). The caller frees *@ret. */
int bench_profiles_read(struct bench_profiles **ret, const struct strv *files,
	struct error *err) MUST_USE;
/* Accepts NULL. Returns NULL. */
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
