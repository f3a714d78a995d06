/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private to bench/isolation: one pod of a trial, as a process of gpuslice-load. It says when it is ready, is told when to
 * begin, answers once, and ends; or something of it goes wrong, and .error of its facts says what.
 * Thread: loop.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <jansson.h>
#include <stdint.h>
#include <uv.h>

/* A pod that does not answer so long after it should have is ended. */
#define ISOLATION_GRACE_S 10

struct isolation_pod;

struct isolation_pod_facts {
	bool ready;            /* it was, some time */
	bool hung;             /* it was ended, as it did not answer */
	double free, reserved; /* bytes that it found and took at first */
	double total;          /* that it is shown */
	json_t *answer;        /* what it counted or took; NULL: nothing */
	uint64_t dies_ns;      /* it killed itself then; 0: it did not */
	struct error error;    /* ERR_NONE: it did as it was told */
};

struct isolation_pod_ops {
	void (*ready)(void *arg);
	void (*answered)(void *arg);
	void (*ended)(void *arg); /* once, the last one */
};

struct isolation_pod_options {
	const struct strv *args, *env;
	bool mps;        /* the driver is to run it under MPS, or is not to */
	bool calibrates; /* it answers without being told anything */
	uint64_t setup_ns;
};

int isolation_pod_start(struct isolation_pod **ret, uv_loop_t *loop,
	const struct isolation_pod_options *what, const struct isolation_pod_ops *ops,
	void *arg, struct error *err) MUST_USE;
/* When it begins, and from when to when units count; monotonic clock. */
void isolation_pod_begin(struct isolation_pod *p, uint64_t begin_ns, uint64_t from_ns,
	uint64_t to_ns);
/* It is not wanted any more: it ends soon, and that is no error of it. */
void isolation_pod_end(struct isolation_pod *p);

/* Live as long as it does. */
const struct isolation_pod_facts *isolation_pod_facts(const struct isolation_pod *p);

/* Kills it if it runs. Returns NULL. */
struct isolation_pod *isolation_pod_free(struct isolation_pod *p);
