/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a benchmark measured: rows, each with some repetitions. This is the whole of a result's file; tables and
 * reports are made of it, and two of them are compared.
 *
 * A row is one kind of pods in one scenario and one mode of sharing: of "3 burn + latency" under MPS there are two
 * rows, with the same runs of the GPU behind them. Times are nanoseconds where the name says so, else seconds;
 * a number that is not known is NaN.
 */
#include "lib/base/strv.h"
#include "tools/bench/stats/estimate.h"

#include <jansson.h>
#include <stdbool.h>

#define BENCH_FORMAT "gpuslice/bench/v1"

#define BENCH_ROWS_MAX   4096
#define BENCH_RUNS_MAX   1000 /* repetitions of a row */
#define BENCH_BLOCKS_MAX 1000 /* of a repetition */
#define BENCH_PODS_MAX   128
#define BENCH_CHECKS_MAX 256
#define BENCH_NOTES_MAX  256
#define BENCH_SIZES_MAX  64
#define BENCH_FILE_MAX   (256U << 20)

/* How pods share the GPU. The names of bench_mode_names are part of the format. */
enum bench_mode {
	BENCH_EXCLUSIVE,           /* one pod alone */
	BENCH_TIME_SLICING,        /* the driver's own */
	BENCH_FAIR_SHARE,          /* enforced slices, of equal weights */
	BENCH_FAIR_SHARE_WEIGHTED, /* the same with weights 1, 2, 3, ... */
	BENCH_FAIR_SHARE_LATENCY, /* the same, of which those that wait for answers are of the class latency */
	BENCH_MPS,                /* without limits */
	BENCH_MPS_LIMITED, /* with an equal share of the multiprocessors each */
	BENCH_MIG,         /* each on a MIG device of its own */
	BENCH_MODES
};
extern const char *const bench_mode_names[BENCH_MODES];
/* BENCH_MODES: no mode is called so. */
enum bench_mode bench_mode_of(const char *name);
bool bench_mode_mps(enum bench_mode m);    /* under a daemon of MPS */
bool bench_mode_slices(enum bench_mode m); /* in enforced slices */

/* What the whole GPU did in the meantime, as far as it says. */
struct bench_gpu {
	double busy, sm_active, dram_active; /* shares, 0 to 1 */
	double mem_used_mib, power_w, sm_clock_mhz;
};

/* One repetition of a row. */
struct bench_run {
	uint32_t repetition;
	double seconds;
	struct bench_gpu gpu;
	size_t n_blocks, n_pods;
	struct estimate_block *blocks;
	uint64_t *units;   /* that each pod has ended in each block: [pod * n_blocks + block] */
	uint64_t errors;   /* units or pods that failed */
	const char *error; /* what the first one said; "" */
	const char *
		doubt; /* what disturbed it, so that it judges nothing (tools/bench/run/doubt.h); "" */
};

struct bench_row {
	const char *scenario; /* "3 burn + latency" */
	const char *workload; /* "burn" */
	const char *mode_name;
	enum bench_mode mode;
	uint32_t pods;     /* on the GPU in this scenario */
	uint32_t replicas; /* of these */
	double sm_share, weight, mem_limit_mib;
	double offered; /* units per second that are asked of each pod; NaN: as many as it can */
	double planned_s,
		planned_rate; /* what the planner said: mean time, units per second of all */
	size_t n;
	struct bench_run *runs;
};

/* A property that holds or does not: a limit, a neighbour, a fault, a recovery. */
struct bench_isolation {
	const char *name, *mode_name;
	const char *what;   /* in words, with figures */
	bool passed, known; /* .known false: it could not be found out, .what says why */
	double value;       /* the figure that it is judged by, in .unit */
	const char *unit;
};

/* How much work the kernels of a workload are: the same in all modes, and in a result that is to be compared. */
struct bench_size {
	const char *workload;
	uint64_t rounds;
	uint32_t multiprocessors; /* that kernels that fill the GPU were made for */
};

struct bench_head {
	const char *made;    /* RFC 3339 */
	const char *version; /* of gpuslice */
	const char *command;
	const char *kernel, *driver, *cuda, *gpu, *uuid, *compute_mode, *cpu;
	bool simulated;
	bool interrupted;  /* ended before its time; what is there is whole */
	bool inconclusive; /* some runs have a .doubt */
	bool mig;
	double power_limit_w, memory_mib, multiprocessors;
	double seconds, warmup_s; /* of each repetition */
	uint32_t repetitions;     /* that were asked for */
	uint64_t seed;
	double usd_per_hour; /* of the GPU, with .price_source */
	const char *price_source;
};

struct bench_result {
	struct bench_head head;
	size_t n_rows, n_checks, n_notes, n_sizes;
	struct bench_row *rows;
	struct bench_isolation *checks;
	const char **notes;
	struct bench_size *sizes;
	json_t *document; /* has the texts of what was read; NULL: they are the maker's */
};

/* All of it but the maker's texts. */
void bench_result_fini(struct bench_result *r);

/* @json is @len bytes, @path is for messages. ERR_INVALID with the place of what is wrong, ERR_LIMIT, ERR_NOMEM;
 * then *ret is empty. Thread: any. */
int bench_result_read(struct bench_result *ret, const char *json, size_t len, const char *path,
	struct error *err) MUST_USE;
/* New reference. ERR_NOMEM, also for text that is no UTF-8. */
int bench_result_write(json_t **ret, const struct bench_result *r, struct error *err) MUST_USE;

/*
 * A copy of a text, kept in @texts: as programs and drivers say what they like, what is no UTF-8 or a control character
 * becomes '?'. Without memory "out of memory".
 */
const char *bench_store_text(struct strv *texts, const char *text);

/* Adds a note, once, if there is room and memory for one. @text must outlive the result. */
void bench_add_note(struct bench_result *r, const char *text);

/* NULL: it is not said. */
const struct bench_size *bench_size_of(const struct bench_result *r, const char *workload);

/* One pod of that workload alone, measured; NULL: nobody did. */
const struct bench_row *bench_row_find_exclusive(const struct bench_result *r,
	const char *workload);

/* Whether all that came of @row is errors: no pod of it did a unit of work, so there is no figure. */
bool bench_row_failed(const struct bench_row *row);
/* The first error where that is so of all rows; NULL: some unit was done, or there is no row. */
const char *bench_all_failed(const struct bench_result *r);

/* Runs of @row that have a .doubt; *first is the first of these reasons, "" if there is none. */
size_t bench_row_doubts(const struct bench_row *row, const char **first);
/* The first of all rows; "": nothing was disturbed. */
const char *bench_first_doubt(const struct bench_result *r);

/* Units per second of one pod. */
double bench_pod_rate(const struct bench_run *r, size_t pod);

/* Of all runs of a row; the row has at least one. ERR_NOMEM. */
int bench_row_estimate(struct estimate *ret, const struct bench_row *row, enum estimate_of what,
	struct error *err) MUST_USE;
