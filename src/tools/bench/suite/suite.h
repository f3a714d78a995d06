/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a benchmark runs: workloads, which of them meet on the GPU (scenarios), in which modes, how often, and in which
 * order. Pure. Thread: any.
 */
#include "tools/bench/result/result.h"

#define SUITE_WORKLOADS_MAX 64
#define SUITE_SCENARIOS_MAX 128
#define SUITE_TENANTS_MAX   8 /* kinds of pods in a scenario */
#define SUITE_NAME_MAX      64

/* When units are launched: words of gpuslice-load. */
enum suite_flow {
	SUITE_PIPELINE, /* .depth of them are in flight */
	SUITE_CLOSED,   /* one after the other, .every_ns between them */
	SUITE_PERIODIC, /* requests arrive each .every_ns */
	SUITE_POISSON,  /* at random, so far apart on average */
	SUITE_LIST,     /* as in the file .arrivals */
};

struct suite_workload {
	const char *name, *what;
	/* A program of the user's, as a shell has it; NULL: gpuslice-load as follows. */
	const char *command;
	const char *
		pattern; /* of a line that the program prints at the end of each unit; extended regular expression */
	const char *kernel; /* "burn" or "stream" */
	uint32_t kernels;   /* of a unit */
	uint32_t blocks;    /* of a kernel; 0: all multiprocessors are full */
	uint64_t kernel_ns; /* alone; of "burn" */
	bool graph;
	enum suite_flow flow;
	uint32_t depth;
	uint64_t every_ns;
	const char *arrivals;
	bool waits;  /* somebody waits for its answers: class latency where there are classes */
	bool silent; /* what .command prints is not looked at: it is measured from outside */
};

#define SUITE_BUILTIN 6
extern const struct suite_workload suite_builtin[SUITE_BUILTIN];
extern const size_t suite_n_builtin;

/* Pods of one kind in a scenario. */
struct suite_tenants {
	uint32_t workload; /* position */
	uint32_t replicas;
};

struct suite_scenario {
	char name[SUITE_NAME_MAX]; /* "3 burn + latency" */
	uint32_t pods, n;
	double sm_share; /* of each pod, and only under MPS; 0: an equal part */
	struct suite_tenants tenants[SUITE_TENANTS_MAX];
};

struct suite {
	const struct suite_workload *workloads;
	size_t n_workloads, n_scenarios;
	struct suite_scenario scenarios[SUITE_SCENARIOS_MAX];
	unsigned int modes; /* bit: enum bench_mode */
	uint32_t mig_pods;  /* in BENCH_MIG, only scenarios of so many; 0: any number */
	uint32_t repetitions;
	double warmup_s, seconds;
	double startup_s; /* a program of the user's that has done no unit by then is given up */
	uint64_t seed;
	bool profile; /* one pod is measured alone in each of its modes */
};

/* The built-in scenarios: pods of one kind together, those that wait beside those that fill the GPU. */
void suite_defaults(struct suite *s);

/*
 * Adds the workload "command", and takes only that: four of it, until other scenarios are added. Both must outlive
 * the suite.
 */
void suite_command(struct suite *s, struct suite_workload room[static SUITE_BUILTIN + 1],
	const char *command, const char *pattern);

/*
 * Adds the workload "trace", whose requests arrive as the lines of the file @path say, and takes only that: two of it beside
 * two of "small", until other scenarios are added. Both must outlive the suite.
 */
void suite_trace(struct suite *s, struct suite_workload room[static SUITE_BUILTIN + 1],
	const char *path);

/*
 * Adds a scenario from its words: "4 burn", "latency + 3 burn". ERR_INVALID: names no workload, or too many pods;
 * ERR_LIMIT.
 */
int suite_add(struct suite *s, const char *text, struct error *err) MUST_USE;

/*
 * Makes it the suite of a profile: that one workload alone, bare and in a slice of its own, and where @shares are
 * given under MPS with each of these shares of the multiprocessors. ERR_LIMIT.
 */
int suite_profile(struct suite *s, uint32_t workload, const double *shares, size_t n,
	struct error *err) MUST_USE;

/* One pod of each workload that is in a scenario, for the mode exclusive. */
struct suite_step {
	enum bench_mode mode;
	uint32_t repetition;
	uint32_t scenario; /* BENCH_EXCLUSIVE: position of the workload */
};

/*
 * All steps in the order in which they are to run, in *ret, which the caller frees. Modes follow each other within a
 * repetition, each repetition begins with another one, and scenarios are mixed, so that what changes with time
 * falls on all alike. ERR_NOMEM.
 */
int suite_steps(struct suite_step **ret, size_t *n, const struct suite *s,
	struct error *err) MUST_USE;

/* The share of the GPU that pod @i of @n of them is entitled to by weights 1, 2, 3, ... */
double suite_weight(uint32_t i);

/* Whether a workload, by its position, is in any scenario. */
bool suite_uses(const struct suite *s, uint32_t workload);

/* Whether this scenario says anything in this mode: weights need two pods, classes one that waits. */
bool suite_has(const struct suite *s, const struct suite_scenario *sc, enum bench_mode m);
