/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the pods of a benchmark run: bare, in enforced slices of an arbiter of our own, under an MPS daemon of our own,
 * or on MIG devices that are there. One mode at a time. All that is made lies in one directory and ends with
 * this object; the GPU's settings are left alone.
 * Thread: loop.
 */
#include "tools/bench/environment/env-vars.h"
#include "tools/bench/environment/paths.h"
#include "tools/bench/result/result.h"

#include <limits.h>
#include <uv.h>

#define ENVIRONMENT_ID_MAX 33

struct environment;

struct environment_options {
	const char *dir;  /* for sockets: a short name; removed by who made it */
	const char *uuid; /* of the GPU */
	uint64_t memory;  /* bytes of it */
	const struct environment_paths *paths;
	const char *mps_control;      /* program; NULL: looked for in PATH */
	const char *const *mig_uuids; /* of MIG devices */
	size_t n_mig;
	bool simulated; /* pods load the simulator's libraries */
};

struct environment_pod {
	double weight;   /* of its slice: 1 to 10000, whole */
	bool latency;    /* class of its slice */
	double sm_share; /* BENCH_MPS_LIMITED; 0: no limit */
	uint64_t memory; /* the same, in bytes */
	/*
	 * It is looked at: in an enforced slice, also under MPS, without a limit of memory and with a log of its
	 * launches (abi/launch-log.h). All pods of a place are, or none.
	 */
	bool observed;
};

/* Once for each environment_prepare(); NULL: all is there. Not from within it. */
typedef void environment_done_fn(void *arg, const struct error *err);

/* @options must outlive it. */
int environment_new(struct environment **ret, uv_loop_t *loop,
	const struct environment_options *options, struct error *err) MUST_USE;

/* ERR_UNSUPPORTED says why this mode cannot be had here. */
int environment_can_run(const struct environment *p, enum bench_mode m, size_t pods,
	struct error *err) MUST_USE;

/* Makes the place for these pods, in which none runs any more. */
int environment_prepare(struct environment *p, enum bench_mode m,
	const struct environment_pod *pods, size_t n, environment_done_fn *done, void *arg,
	struct error *err) MUST_USE;

/* A slice's part of the memory where @n of them are made, in bytes. */
uint64_t environment_slice_memory(const struct environment_options *o, size_t n);

/* The environment of pod @i, until the next environment_prepare(). */
const struct strv *environment_get_env(const struct environment *p, size_t i);

/* Of an observed pod: its slice's directory, and the ID by which the arbiter knows it. ERR_LIMIT. */
int environment_get_slice(const struct environment *p, size_t i, char dir[static PATH_MAX],
	char id[static ENVIRONMENT_ID_MAX], struct error *err) MUST_USE;
/* The arbiter's control socket (abi/arbiter-control.h). ERR_LIMIT. */
int environment_get_control(const struct environment *p, char path[static PATH_MAX],
	struct error *err) MUST_USE;

/* Ends what it has started; the memory goes as the loop runs, ten seconds at most. Returns NULL. */
struct environment *environment_free(struct environment *p);
