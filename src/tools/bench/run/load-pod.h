/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process of gpuslice-load, a pod of a benchmark or of an isolation test:
 *
 *	1. The process reports that it is ready, unless it calibrates.
 *	2. load_pod_begin() sends it the begin time.
 *	3. The process answers with one or more lines, and ends.
 *
 * Thread: loop.
 */
#include "lib/base/strv.h"
#include "lib/base/time.h"
#include "lib/proc/child.h"

#include <jansson.h>

#define LOAD_POD_LEAD_NS (20 * NS_PER_MS) /* time for all pods to receive the begin time */

struct load_pod;

struct load_pod_ops {
	/*
	 * Once, not for a pod that calibrates: the pod waits for load_pod_begin(). @report is valid during the call. If
	 * the first line is no such report, or the driver does not run the pod as .mps says, @report is NULL and @why
	 * has the reason; the pod ends.
	 */
	void (*ready)(void *arg, const json_t *report, const struct error *why);
	/* A later line, and each line of a pod that calibrates. < 0 with @err: ends the pod. */
	int (*answer)(void *arg, const char *line, size_t len, struct error *err);
	void (*ended)(void *arg, const struct child_end *end); /* once; the last callback */
};

struct load_pod_options {
	const struct strv *args, *env;
	bool mps;          /* the driver must run the pod under MPS; false: without MPS */
	bool calibrates;   /* answers without a begin time */
	uint64_t setup_ns; /* silence limit until the pod is ready, or has calibrated */
};

/* All of @what is copied, or not used after the start. Errors are those of proc_start(), and ERR_NOMEM. */
int load_pod_start(struct load_pod **ret, uv_loop_t *loop, const struct load_pod_options *what,
	const struct load_pod_ops *ops, void *arg, struct error *err) MUST_USE;

/*
 * Sends when the pod begins, and the window in which its units count: ns of the monotonic clock. @silence_ns: the
 * silence limit from now on. A pod that has ended gets nothing. If the send fails (ERR_NOMEM), the pod stays silent,
 * and the silence limit ends it.
 */
int load_pod_begin(struct load_pod *p, uint64_t begin_ns, uint64_t from_ns, uint64_t to_ns,
	uint64_t silence_ns, struct error *err) MUST_USE;

/* Sets how long the pod may be silent from now on; 0 ends it. A pod that has ended is fine. */
void load_pod_expect(struct load_pod *p, uint64_t silence_ns);

/* Kills the pod if it runs. Returns NULL. NULL is fine. */
struct load_pod *load_pod_free(struct load_pod *p);
