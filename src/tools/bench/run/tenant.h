/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to bench/run: one pod of a step, a process. Thread: loop. */
#include "tools/bench/stats/hist.h"
#include "tools/bench/run/load-io.h"
#include "lib/proc/child.h"

#include <regex.h>

struct tenant;

struct tenant_ops {
	void (*ready)(void *arg); /* waits for tenant_begin(); a command has done a unit */
	/* The pod has ended. tenant_blocks() has its units, or tenant_error() the reason for the failure. */
	void (*ended)(void *arg);
};

struct tenant_options {
	const struct suite_workload *workload;
	const char *load; /* gpuslice-load */
	const struct strv *env;
	const struct args_size *size;
	uint64_t seed;
	bool mps; /* the driver must run the pod under MPS; false: without MPS */
};

int tenant_start(struct tenant **ret, uv_loop_t *loop, const struct tenant_options *what,
	const struct tenant_ops *ops, void *arg, struct error *err) MUST_USE;
/* When the pod begins, and the window in which units count; ns of the monotonic clock. */
void tenant_begin(struct tenant *tenant, uint64_t begin_ns, uint64_t from_ns, uint64_t to_ns);
/* The window is over. A user's command is ended now. */
void tenant_over(struct tenant *tenant);

/* The pod is no longer needed, and ends soon. */
void tenant_kill(struct tenant *tenant);

/* Kills a user's command that is not ready after @seconds. The error has the command's last line. */
void tenant_give_up(struct tenant *tenant, double seconds);

/* ARGS_PARTS blocks. NULL: the pod failed. */
struct hist *tenant_blocks(struct tenant *tenant);
const struct error *tenant_error(const struct tenant *tenant);

/* Kills the pod if it runs. Returns NULL. */
struct tenant *tenant_free(struct tenant *tenant);
