/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private to bench/isolation: one pod of a trial, a process of gpuslice-load.
 *
 *	1. The pod reports that it is ready.
 *	2. The trial sends the pod its begin time.
 *	3. The pod answers once, and ends.
 *
 * If a step fails, .error of the pod's facts has the reason. Thread: loop.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <jansson.h>
#include <stdint.h>
#include <uv.h>

/* Seconds after its deadline at which the trial ends a silent pod. */
#define ISOLATION_GRACE_S 10

struct isolation_pod;

struct isolation_pod_facts {
	bool ready;            /* the pod has reported ready */
	bool hung;             /* ended because it did not answer */
	double free, reserved; /* bytes: free at start, and allocated at start */
	double total;          /* bytes that the driver shows to the pod */
	json_t *answer;        /* counted or allocated; NULL: no answer */
	uint64_t dies_ns;      /* when the pod killed itself; 0: it did not */
	struct error error;    /* ERR_NONE: the pod did its work */
};

struct isolation_pod_ops {
	void (*ready)(void *arg);
	void (*answered)(void *arg);
	void (*ended)(void *arg); /* once; the last callback */
};

struct isolation_pod_options {
	const struct strv *args, *env;
	bool mps;        /* the driver must run the pod under MPS; false: without MPS */
	bool calibrates; /* answers without a begin time */
	uint64_t setup_ns;
};

int isolation_pod_start(struct isolation_pod **ret, uv_loop_t *loop,
	const struct isolation_pod_options *what, const struct isolation_pod_ops *ops,
	void *arg, struct error *err) MUST_USE;
/* When the pod begins, and the window in which units count; ns of the monotonic clock. */
void isolation_pod_begin(struct isolation_pod *p, uint64_t begin_ns, uint64_t from_ns,
	uint64_t to_ns);
/* The trial no longer needs the pod. The pod ends soon, without an error. */
void isolation_pod_end(struct isolation_pod *p);

/* Valid as long as the pod. */
const struct isolation_pod_facts *isolation_pod_facts(const struct isolation_pod *p);

/* Kills the pod if it runs. Returns NULL. */
struct isolation_pod *isolation_pod_free(struct isolation_pod *p);
