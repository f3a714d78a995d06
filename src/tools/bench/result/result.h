/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The result of a benchmark: rows with repetitions. It is the full content of a result file. Tables, reports and
 * comparisons use only this data.
 *
 * A row is one kind of pods in one scenario and one sharing mode. For example, "3 burn + latency" under MPS has
 * two rows with the same runs of the GPU. Times are ns where the name says so, else seconds. An unknown number is
 * NaN.
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

/* How pods share the GPU. The names in bench_mode_names are part of the file format. */
enum bench_mode {
	BENCH_EXCLUSIVE,           /* one pod alone */
	BENCH_TIME_SLICING,        /* the driver's time-slicing */
	BENCH_FAIR_SHARE,          /* enforced slices of equal weights */
	BENCH_FAIR_SHARE_WEIGHTED, /* enforced slices with weights 1, 2, 3, ... */
	BENCH_FAIR_SHARE_LATENCY, /* equal weights; slices of pods that wait for answers have class latency */
	BENCH_MPS,                /* without limits */
	BENCH_MPS_LIMITED, /* each with an equal share of the multiprocessors */
	BENCH_MIG,         /* each on its own MIG device */
	BENCH_MODES
};
/* "exclusive", "time-slicing", ... */
extern const char *const bench_mode_names[BENCH_MODES];
/* BENCH_MODES: unknown name. */
enum bench_mode bench_mode_of(const char *name);
bool bench_mode_mps(enum bench_mode m);    /* under an MPS daemon */
bool bench_mode_slices(enum bench_mode m); /* in enforced slices */

/* What the whole GPU did during a run. NaN: the GPU does not report the value. */
struct bench_gpu {
	double busy, sm_active, dram_active; /* shares of the time, 0 to 1 */
	double mem_used_mib, power_w, sm_clock_mhz;
};

/* One repetition of a row. */
struct bench_run {
	uint32_t repetition;
	double seconds;
	struct bench_gpu gpu;
	size_t n_blocks, n_pods;
	struct estimate_block *blocks;
	uint64_t *units;   /* finished by each pod in each block: [pod * n_blocks + block] */
	uint64_t errors;   /* units or pods that failed */
	const char *error; /* text of the first error; "" */
	/* What disturbed the run and makes it inconclusive (tools/bench/run/doubt.h). "": no disturbance. */
	const char *doubt;
};

struct bench_row {
	const char *scenario; /* "3 burn + latency" */
	const char *workload; /* "burn" */
	const char *mode_name;
	enum bench_mode mode;
	uint32_t pods;     /* all pods on the GPU in this scenario */
	uint32_t replicas; /* pods of this row */
	double sm_share, weight, mem_limit_mib;
	double offered; /* units per second requested of each pod; NaN: as many as possible */
	/* The planner's prediction: mean time; units per second of all pods. */
	double planned_s, planned_rate;
	size_t n;
	struct bench_run *runs;
};

/* The outcome of an isolation test: memory, neighbor, fault or recovery. */
struct bench_isolation {
	const char *name, *mode_name;
	const char *what;   /* the outcome in words, with figures */
	bool passed, known; /* .known false: inconclusive, and .what has the reason */
	double value;       /* the figure that decides the verdict, in .unit */
	const char *unit;
};

/* Work of a kernel of a workload. The same in all modes, and in a result that another result is compared
 * with. */
struct bench_size {
	const char *workload;
	uint64_t rounds;
	uint32_t multiprocessors; /* number for which GPU-filling kernels were sized */
};

struct bench_head {
	const char *made;    /* RFC 3339 */
	const char *version; /* of gpuslice */
	const char *command;
	const char *kernel, *driver, *cuda, *gpu, *uuid, *compute_mode, *cpu;
	bool simulated;
	bool interrupted;  /* ended early; the present rows are complete */
	bool inconclusive; /* some runs have a .doubt */
	bool mig;
	double power_limit_w, memory_mib, multiprocessors;
	double seconds, warmup_s; /* of each repetition */
	uint32_t repetitions;     /* requested number */
	uint64_t seed;
	double usd_per_hour; /* price of the GPU, from .price_source */
	const char *price_source;
};

struct bench_result {
	struct bench_head head;
	size_t n_rows, n_checks, n_notes, n_sizes, room_rows;
	struct bench_row *rows;
	struct bench_isolation *checks;
	const char **notes;
	struct bench_size *sizes;
	json_t *document; /* owns the texts of a result that was read; NULL: the creator owns them */
};

/* Frees everything but the creator's texts. */
void bench_result_fini(struct bench_result *r);

/* @json has @len bytes. @path is for messages. ERR_INVALID with the location of the fault, ERR_LIMIT,
 * ERR_NOMEM. After an error, *@ret is empty. Thread: any. */
int bench_result_read(struct bench_result *ret, const char *json, size_t len, const char *path,
	struct error *err) MUST_USE;
/* New reference. ERR_NOMEM, also for a text that is not UTF-8. */
int bench_result_write(json_t **ret, const struct bench_result *r, struct error *err) MUST_USE;

/*
 * Stores a copy of a text in @texts. Programs and drivers can print anything, so invalid UTF-8 and control
 * characters become '?'. Without memory, returns "out of memory".
 */
const char *bench_store_text(struct strv *texts, const char *text);

/* Adds a note, unless the result already has it, is full, or memory is out. @text must outlive the result. */
void bench_add_note(struct bench_result *r, const char *text);

/* NULL: the result has no size for the workload. */
const struct bench_size *bench_size_of(const struct bench_result *r, const char *workload);

/* The measured row of one pod of the workload alone. NULL: not measured. */
const struct bench_row *bench_row_find_exclusive(const struct bench_result *r,
	const char *workload);

/* Whether @row has only errors: no pod finished a unit, so the row has no figure. */
bool bench_row_failed(const struct bench_row *row);
/* The first error, if bench_row_failed() is true of all rows. NULL: a unit was done, or there is no row. */
const char *bench_all_failed(const struct bench_result *r);

/* Number of runs of @row with a .doubt. *@first: the first doubt, "" if none. */
size_t bench_row_doubts(const struct bench_row *row, const char **first);
/* The first doubt of all rows. "": nothing was disturbed. */
const char *bench_first_doubt(const struct bench_result *r);

/* Units per second of one pod. */
double bench_pod_rate(const struct bench_run *r, size_t pod);

/* Estimate over all runs of a row. The row has at least one run. ERR_NOMEM. */
int bench_row_estimate(struct estimate *ret, const struct bench_row *row, enum estimate_of what,
	struct error *err) MUST_USE;
