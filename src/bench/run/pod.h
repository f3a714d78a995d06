/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to bench/run: one pod of a step, as a process. Thread: loop. */
#include "bench/load/count.h"
#include "bench/run/args.h"
#include "proc/child.h"

#include <regex.h>

struct pod;

struct pod_ops {
	void (*ready)(void *arg); /* it waits for pod_go() */
	/* It has ended; pod_blocks() says what it did, or pod_error() why not. */
	void (*ended)(void *arg);
};

struct pod_what {
	const struct suite_workload *workload;
	const char *load; /* gpuslice-load */
	const struct strv *env;
	uint64_t rounds, seed;
};

int pod_start(struct pod **ret, uv_loop_t *loop, const struct pod_what *what,
	const struct pod_ops *ops, void *arg, struct error *err) MUST_USE;
/* When it begins, and from when to when units count; monotonic clock. */
void pod_go(struct pod *p, uint64_t begin_ns, uint64_t from_ns, uint64_t to_ns);
/* The time is over: a program of the user's is ended now. */
void pod_over(struct pod *p);

/* It is not wanted any more: it ends soon. */
void pod_kill(struct pod *p);

/* ARGS_PARTS of them; NULL: it failed. */
struct hist *pod_blocks(struct pod *p);
const struct error *pod_error(const struct pod *p);

/* Kills it if it runs. Returns NULL. */
struct pod *pod_free(struct pod *p);
