/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the pods of a benchmark run: bare, in enforced slices of an arbiter of our own, under an MPS daemon of our own,
 * or on MIG devices that are there. One mode at a time. All that is made lies in one directory and ends with
 * this object; the GPU's settings are left alone.
 * Thread: loop.
 */
#include "tools/bench/place/env.h"
#include "tools/bench/place/paths.h"
#include "tools/bench/result/result.h"

#include <limits.h>
#include <uv.h>

#define PLACE_ID_MAX 33

struct place;

struct place_options {
	const char *dir;  /* for sockets: a short name; removed by who made it */
	const char *uuid; /* of the GPU */
	uint64_t memory;  /* bytes of it */
	const struct place_paths *paths;
	const char *mps_control;      /* program; NULL: looked for in PATH */
	const char *const *mig_uuids; /* of MIG devices */
	size_t n_mig;
	bool simulated; /* pods load the simulator's libraries */
};

struct place_pod {
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

/* Once for each place_prepare(); NULL: all is there. Not from within it. */
typedef void place_done(void *arg, const struct error *err);

/* @options must outlive it. */
int place_new(struct place **ret, uv_loop_t *loop, const struct place_options *options,
	struct error *err) MUST_USE;

/* ERR_UNSUPPORTED says why this mode cannot be had here. */
int place_can(const struct place *p, enum bench_mode m, size_t pods,
	struct error *err) MUST_USE;

/* Makes the place for these pods, in which none runs any more. */
int place_prepare(struct place *p, enum bench_mode m, const struct place_pod *pods, size_t n,
	place_done *done, void *arg, struct error *err) MUST_USE;

/* A slice's part of the memory where @n of them are made, in bytes. */
uint64_t place_slice_memory(const struct place_options *o, size_t n);

/* The environment of pod @i, until the next place_prepare(). */
const struct strv *place_env(const struct place *p, size_t i);

/* Of an observed pod: its slice's directory, and the ID by which the arbiter knows it. ERR_LIMIT. */
int place_slice(const struct place *p, size_t i, char dir[static PATH_MAX],
	char id[static PLACE_ID_MAX], struct error *err) MUST_USE;
/* The arbiter's control socket (abi/arbiter-control.h). ERR_LIMIT. */
int place_control(const struct place *p, char path[static PATH_MAX],
	struct error *err) MUST_USE;

/* Ends what it has started; the memory goes as the loop runs, ten seconds at most. Returns NULL. */
struct place *place_free(struct place *p);
