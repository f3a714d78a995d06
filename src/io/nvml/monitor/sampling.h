/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One question for the figures of all GPUs, from the request to the sample that is put together from the
 * worker's packets. For io/nvml/monitor/monitor.c only. Pure data, no clock. Thread: owner's.
 */
#include "io/nvml/monitor/probe-round.h"
#include "io/nvml/monitor/monitor.h"

/* Of all units together; of a node with more, the rest has no processes. */
#define SAMPLING_PROCESSES_MAX 65536

struct sampling {
	bool active, broken; /* broken: nothing more will come of it */
	uint32_t seq;        /* of the last one; never 0 while active */
	struct sample *sample;
	uint32_t cap;         /* units that there is memory for */
	uint32_t n_mig;       /* MIG devices of the present GPU */
	uint32_t n_processes; /* of all units */
	gpu_sample_done *done;
	void *arg;
};

/* Lets go of what is under way, without a word. */
void sampling_fini(struct sampling *s);

int sampling_begin(struct sampling *s, struct error *err) MUST_USE;

/*
 * Takes a UNIT, VALUES, TEXTS or USERS that worker_msg_check() has passed; one of another question is
 * left. < 0: no memory, or the worker does not keep to the protocol.
 */
int sampling_apply(struct sampling *s, const union worker_msg *m, uint64_t now_ns,
	struct error *err) MUST_USE;

/* All packets are there: calls back. Units of @inv that the worker has left out are added, with the reason. */
void sampling_end(struct sampling *s, const struct worker_sample_end *m, uint64_t now_ns,
	const struct inventory *inv);
void sampling_fail(struct sampling *s, const struct error *err);
