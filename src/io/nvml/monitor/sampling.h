/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request for the figures of all GPUs, from the request to the sample that is put together from the worker's
 * packets. For io/nvml/monitor/monitor.c only. Pure data, no clock. Thread: owner's.
 */
#include "io/nvml/monitor/probe-round.h"
#include "io/nvml/monitor/monitor.h"

/* Limit for all devices together; a packet of processes beyond it is dropped. */
#define SAMPLING_PROCESSES_MAX 65536

struct sampling {
	bool active, broken; /* broken: the worker has ended, no answer will come */
	uint32_t seq;        /* of the last request; never 0 while active */
	struct sample *sample;
	size_t room;          /* of .sample->devices */
	uint32_t n_mig;       /* MIG devices of the present GPU so far */
	uint32_t n_processes; /* of all devices */
	gpu_sample_done *done;
	void *arg;
};

/* Drops the request under way, without a callback. */
void sampling_fini(struct sampling *s);

/* Begins a request with another .seq, and drops the one before without a callback. The caller sets .done and
 * .arg. ERR_NOMEM: no request is under way. */
int sampling_begin(struct sampling *s, struct error *err) MUST_USE;

/*
 * Applies a DEVICE, VALUES, TEXTS or USERS that worker_msg_check() accepted; ignores a packet of another request.
 * < 0: no memory, or the worker violates the protocol.
 */
int sampling_apply(struct sampling *s, const union worker_msg *m, uint64_t now_ns,
	struct error *err) MUST_USE;

/* All packets have arrived: calls back. Devices of @inv that the worker left out are added, with the reason.
 * sampling_fail(): no answer will come, and the callback gets @err. Does nothing if no request is under way. */
void sampling_end(struct sampling *s, const struct worker_sample_end *m, uint64_t now_ns,
	const struct inventory *inv);
void sampling_fail(struct sampling *s, const struct error *err);
