/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to bench/run: one pod of a step, as a process. Thread: loop. */
#include "tools/bench/stats/count.h"
#include "tools/bench/run/args.h"
#include "lib/proc/child.h"

#include <regex.h>

struct tenant;

struct tenant_ops {
	void (*ready)(void *arg); /* it waits for tenant_begin() */
	/* It has ended; tenant_blocks() says what it did, or tenant_error() why not. */
	void (*ended)(void *arg);
};

struct tenant_options {
	const struct suite_workload *workload;
	const char *load; /* gpuslice-load */
	const struct strv *env;
	const struct args_size *size;
	uint64_t seed;
	bool mps; /* the driver is to run it under MPS, or is not to */
};

int tenant_start(struct tenant **ret, uv_loop_t *loop, const struct tenant_options *what,
	const struct tenant_ops *ops, void *arg, struct error *err) MUST_USE;
/* When it begins, and from when to when units count; monotonic clock. */
void tenant_begin(struct tenant *p, uint64_t begin_ns, uint64_t from_ns, uint64_t to_ns);
/* The time is over: a program of the user's is ended now. */
void tenant_over(struct tenant *p);

/* It is not wanted any more: it ends soon. */
void tenant_kill(struct tenant *p);

/* A program of the user's that is not ready after @seconds is killed, with an error that says so and what it said last. */
void tenant_give_up(struct tenant *p, double seconds);

/* ARGS_PARTS of them; NULL: it failed. */
struct hist *tenant_blocks(struct tenant *p);
const struct error *tenant_error(const struct tenant *p);

/* Kills it if it runs. Returns NULL. */
struct tenant *tenant_free(struct tenant *p);
