/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request for the processes on some GPUs, from the requested UUIDs to the worker's packets and back. For
 * io/nvml/monitor/monitor.c only. Pure data. Thread: owner's.
 */
#include "io/nvml/monitor/probe-round.h"
#include "io/nvml/monitor/monitor.h"

struct monitor_reading_gpu; /* what the worker sent of one GPU */

struct processes_read {
	bool active, broken; /* broken: the worker has ended, no answer will come */
	uint32_t seq;        /* of the last request; never 0 while active */
	char (*uuids)[GPU_UUID_MAX];
	uint32_t n;
	struct monitor_reading_gpu *gpus;
	uint32_t n_gpus;
	gpu_processes_done *done;
	void *arg;
};

/* Drops the request under way, without a callback. */
void reading_fini(struct processes_read *r);

/*
 * Begins a request. @ret_gpus (room for GPU_NODE_MAX) are the NVML indexes to send to the worker. UUIDs of a stuck
 * GPU, or of no GPU of the last probe, are answered as not known.
 */
int reading_begin(struct processes_read *r, const char *const *uuids, uint32_t n,
	const struct probe_round *round, uint16_t *ret_gpus, uint32_t *ret_n,
	struct error *err) MUST_USE;

/* Applies a packet; ignores a packet of another request. */
void reading_apply(struct processes_read *r, const struct worker_processes *m);

/* All packets of request @seq have arrived: calls back. @inv says which MIG instance has which UUID.
 * reading_fail(): no answer will come, and the callback gets @err. Does nothing if no request is under way. */
void reading_end(struct processes_read *r, uint32_t seq, const struct inventory *inv);
void reading_fail(struct processes_read *r, const struct error *err);
