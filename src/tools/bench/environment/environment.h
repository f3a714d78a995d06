/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Prepares where the pods of a benchmark run, for one mode at a time:
 *
 *	- without slices;
 *	- in enforced slices of the benchmark's own arbiter;
 *	- under the benchmark's own MPS daemon;
 *	- on existing MIG devices.
 *
 * All files are in .dir of the options. All started programs and all slices end with this object. The settings of
 * the GPU do not change. Thread: loop.
 */
#include "lib/base/strv.h"
#include "tools/bench/result/result.h"

#include <limits.h>
#include <uv.h>

/* The files of gpuslice relative to this program, installed or in a build tree. Thread: any. */
struct environment_paths {
	char load[PATH_MAX], arbiter[PATH_MAX];
	char cuda[PATH_MAX], nvml[PATH_MAX]; /* the interception libraries */
	char sim[2 * PATH_MAX]; /* directories of the simulator, for LD_LIBRARY_PATH; "" */
	char sim_mps[PATH_MAX]; /* MPS control program of the simulator */
};

/* ERR_NOT_FOUND. @simulated: the simulator's files are required too. */
int environment_paths_find(struct environment_paths *p, bool simulated,
	struct error *err) MUST_USE;

#define ENVIRONMENT_ID_MAX 33

struct environment;

struct environment_options {
	const char *dir;  /* for sockets, so a short name; its creator removes it */
	const char *uuid; /* of the GPU */
	uint64_t memory;  /* of the GPU, bytes */
	const struct environment_paths *paths;
	const char *mps_control;      /* program; NULL: from PATH, or the simulator's */
	const char *const *mig_uuids; /* of MIG devices */
	size_t n_mig;
	bool simulated; /* pods load the simulator's libraries */
};

struct environment_pod {
	double weight;   /* of its slice: 1 to 10000, an integer */
	bool latency;    /* the slice of the pod has class latency */
	double sm_share; /* BENCH_MPS_LIMITED: share of the multiprocessors; 0: no limit */
	uint64_t memory; /* BENCH_MPS_LIMITED: memory limit, bytes; 0: no limit */
	/*
	 * The pod runs in an enforced slice, also under MPS, without a memory limit. The slice has a log of
	 * launches (abi/launch-log.h). All pods of an environment are observed, or none.
	 */
	bool observed;
};

/* Once for each environment_prepare(), not from within it. @err NULL: everything is ready. */
typedef void environment_done_fn(void *arg, const struct error *err);

/* @options must outlive the environment. */
int environment_new(struct environment **ret, uv_loop_t *loop,
	const struct environment_options *options, struct error *err) MUST_USE;

/* ERR_UNSUPPORTED: the mode is unavailable here, with the reason. */
int environment_check_mode(const struct environment *env, enum bench_mode m, size_t pods,
	struct error *err) MUST_USE;

/* Prepares the environment for these pods. No pod of the previous environment may still run. */
int environment_prepare(struct environment *env, enum bench_mode m,
	const struct environment_pod *pods, size_t n, environment_done_fn *done, void *arg,
	struct error *err) MUST_USE;

/* The memory of one of @n slices, bytes. */
uint64_t environment_slice_memory(const struct environment_options *o, size_t n);

/* The environment variables of pod @i. Valid until the next environment_prepare(). */
const struct strv *environment_get_env(const struct environment *env, size_t i);

/* The slice directory of an observed pod, and the slice's ID at the arbiter. ERR_LIMIT. */
int environment_get_slice(const struct environment *env, size_t i, char dir[static PATH_MAX],
	char id[static ENVIRONMENT_ID_MAX], struct error *err) MUST_USE;
/* The arbiter's control socket (abi/arbiter-control.h). ERR_LIMIT. */
int environment_get_control(const struct environment *env, char path[static PATH_MAX],
	struct error *err) MUST_USE;

/* Ends all started programs. The memory is freed as the loop runs, within ten seconds. Returns NULL. */
struct environment *environment_free(struct environment *env);
