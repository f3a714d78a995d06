/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a benchmark runs: workloads, which of them share the GPU (scenarios), the modes, the number of repetitions,
 * and the order of steps. Pure. Thread: any.
 */
#include "tools/bench/result/result.h"

#define SUITE_WORKLOADS_MAX 64
#define SUITE_SCENARIOS_MAX 128
#define SUITE_TENANTS_MAX   8 /* kinds of pods in a scenario */
#define SUITE_NAME_MAX      64

/* When gpuslice-load launches units; the same words as its options. */
enum suite_flow {
	SUITE_PIPELINE, /* .depth units are in flight */
	SUITE_CLOSED,   /* one unit after another, .every_ns between them */
	SUITE_PERIODIC, /* a request arrives every .every_ns */
	SUITE_POISSON,  /* requests arrive at random, .every_ns apart on average */
	SUITE_LIST,     /* requests arrive as in the file .arrivals */
};

struct suite_workload {
	const char *name, *what;
	/* A shell command of the user. NULL: gpuslice-load with the members below. */
	const char *command;
	/* Extended regular expression of the line that .command prints at the end of each unit. */
	const char *pattern;
	const char *kernel; /* "burn" or "stream" */
	uint32_t kernels;   /* in each unit */
	uint32_t blocks;    /* in each kernel; 0: enough to fill all multiprocessors */
	uint64_t kernel_ns; /* duration on an otherwise idle GPU; of "burn" */
	bool graph;
	enum suite_flow flow;
	uint32_t depth;
	uint64_t every_ns;
	const char *arrivals;
	bool waits;  /* a client waits for the answers; class latency in modes with classes */
	bool silent; /* output of .command is ignored; only measured from outside */
};

#define SUITE_BUILTIN 6
/* The workloads of gpuslice-load that `gpuslice bench` runs without a command of the user. */
extern const struct suite_workload suite_builtin[SUITE_BUILTIN];

/* The pods of one kind in a scenario. */
struct suite_tenants {
	uint32_t workload; /* index in the workloads */
	uint32_t replicas;
};

struct suite_scenario {
	char name[SUITE_NAME_MAX]; /* "3 burn + latency" */
	uint32_t pods, n;
	double sm_share; /* share of the multiprocessors of each pod, only under MPS; 0: an equal share */
	struct suite_tenants tenants[SUITE_TENANTS_MAX];
};

struct suite {
	const struct suite_workload *workloads;
	size_t n_workloads, n_scenarios;
	struct suite_scenario scenarios[SUITE_SCENARIOS_MAX];
	unsigned int modes; /* bits: enum bench_mode */
	uint32_t mig_pods;  /* BENCH_MIG runs only scenarios with so many pods; 0: any number */
	uint32_t repetitions;
	double warmup_s, seconds;
	double startup_s; /* limit until a user's command has done its first unit; then the run gives it up */
	uint64_t seed;
	bool profile; /* measures one pod alone in each mode */
};

/* The built-in scenarios: pods of one kind together, and pods that wait for answers beside pods that fill
 * the GPU. */
void suite_defaults(struct suite *s);

/*
 * Adds the workload "command" and replaces all scenarios by four pods of it. @room, @command and @pattern must
 * outlive the suite.
 */
void suite_command(struct suite *s, struct suite_workload room[static SUITE_BUILTIN + 1],
	const char *command, const char *pattern);

/*
 * Adds the workload "trace", with requests that arrive as in the file @path. Replaces all scenarios by two pods of
 * "trace" beside two pods of "small". @room and @path must outlive the suite.
 */
void suite_trace(struct suite *s, struct suite_workload room[static SUITE_BUILTIN + 1],
	const char *path);

/*
 * Adds a scenario from its words: "4 burn", "latency + 3 burn". ERR_INVALID: unknown workload, or a number of pods
 * out of range. ERR_LIMIT.
 */
int suite_add(struct suite *s, const char *text, struct error *err) MUST_USE;

/*
 * Makes @s the suite of a profile: one workload alone, without a slice and in its own slice. With @shares, the
 * workload also runs under MPS with each of these shares of the multiprocessors. ERR_LIMIT.
 */
int suite_profile(struct suite *s, uint32_t workload, const double *shares, size_t n,
	struct error *err) MUST_USE;

/* One scenario in one mode. In mode exclusive: one pod of a workload that is in a scenario. */
struct suite_step {
	enum bench_mode mode;
	uint32_t repetition;
	uint32_t scenario; /* BENCH_EXCLUSIVE: index of the workload */
};

/*
 * All steps in the order of execution. The caller frees *@ret. Modes follow each other within a repetition, and
 * each repetition begins with a different mode. Scenarios are shuffled. So an effect that changes with time
 * affects all steps alike. ERR_NOMEM.
 */
int suite_steps(struct suite_step **ret, size_t *n, const struct suite *s,
	struct error *err) MUST_USE;

/* Weight of pod @i. Pods have the weights 1, 2, 3, ... */
double suite_weight(uint32_t i);

/* Whether a scenario contains the workload with this index. */
bool suite_uses(const struct suite *s, uint32_t workload);

/*
 * Whether the scenario is meaningful in the mode. Weights need two pods, and none that waits for answers. Classes
 * need a pod that waits beside a pod that does not.
 */
bool suite_has(const struct suite *s, const struct suite_scenario *sc, enum bench_mode m);
